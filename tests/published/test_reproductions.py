"""The page of reproductions comes out of the tables again, and its verdicts out of its rule."""

import math
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from experiments.reproductions.measured import MEASURES
from experiments.reproductions.run import (
    FAILURES_FIRST,
    NOT_SHOWN,
    OTHER,
    PAGE,
    SAME,
    Row,
    page,
    rows_of,
    verdict,
)
from experiments.shared.readme import RESULTS

ROOT = RESULTS.parent
WORDS = 700


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return rows_of(RESULTS)


def test_the_page_is_what_the_tables_say(rows: list[Row]) -> None:
    assert page(rows) == PAGE.read_text("utf-8")


def test_every_row_has_a_place_an_interval_and_a_result_that_is_there(rows: list[Row]) -> None:
    assert {row["key"] for row in rows} == set(MEASURES)
    assert len(rows) == len(MEASURES) >= 20
    for row in rows:
        ours = row["ours"]
        assert row["place"], row
        assert all(map(math.isfinite, ours.figure)), row
        assert list((RESULTS / ours.folder).rglob("*.csv")), row
        assert (ROOT / shlex.split(ours.command)[1]).is_file(), row


def test_failures_stand_first_and_the_first_sentence_counts_them(rows: list[Row]) -> None:
    verdicts = [row["verdict"] for row in rows]
    assert verdicts == sorted(verdicts, key=FAILURES_FIRST.index)
    same = verdicts.count(SAME)
    text = PAGE.read_text("utf-8")
    assert text.split("\n\n")[1].startswith(f"**{same} of {len(rows)}** rows agree in direction")
    prose = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    assert len(prose.split()) <= WORDS


@pytest.mark.parametrize(
    ("low", "high", "side", "expected"),
    [
        (1.5, 2.0, "above", SAME),
        (1.5, 2.0, "below", OTHER),
        (0.0, 0.5, "above", OTHER),
        (0.0, 0.5, "below", SAME),
        (0.5, 1.5, "above", NOT_SHOWN),
        (1.0, 1.5, "above", NOT_SHOWN),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, side: str, expected: str) -> None:
    assert verdict(((low + high) / 2, low, high), side, 1.0) == expected


@pytest.mark.parametrize(("loss_without", "comparable"), [(1.2, True), (1.0, False)])
def test_arms_are_taken_from_the_study_of_queries_and_keys_where_its_models_need_attention(
    tmp_path: Path, loss_without: float, comparable: bool
) -> None:
    table = [
        {"pair": "en-de", "layers": layers, "seed": seed, "arm": arm, "loss": loss, "bleu": bleu}
        for seed in range(3)
        for layers in (1, 3)
        for arm, loss, bleu in (
            ("full", 1.0, 40.0),
            ("none", loss_without + seed / 100, 38.0),
            ("synthesizer, frozen", 1.1, 35.0 + seed / 10 - layers),
        )
    ]
    (tmp_path / "queries_and_keys").mkdir()
    pd.DataFrame(table).to_csv(tmp_path / "queries_and_keys" / "table.csv", index=False)
    measured = MEASURES["tay frozen"](tmp_path)
    assert measured.folder == "queries_and_keys"
    assert measured.figure[0] == pytest.approx(-5.9)
    assert (not measured.incomparable) == comparable
