"""What comes before the first step is told while it lasts, through a pipe too, and makes no long lists."""

import io
import time

import datasets
import numpy as np
import pytest
from rich.console import Console

from attnlab.models import training_batches as batches
from attnlab.models.preparing import stage
from attnlab.models.training_batches import TokenPairs


def told(seconds: float, **times: float) -> list[str]:
    written = io.StringIO()
    with stage("Reading", Console(file=written), **times):
        time.sleep(seconds)
    return written.getvalue().splitlines()


def test_a_long_stage_prints_lines_and_a_short_one_none() -> None:
    lines = told(0.5, first=0.05, between=0.1)
    assert 3 <= len(lines) <= 6
    assert set(lines[:-1]) <= {"Reading: 0 s so far", "Reading: 1 s so far"}
    assert lines[-1] in {"Reading: 0 s", "Reading: 1 s"}
    assert told(0.0) == []


def test_an_error_ends_the_lines() -> None:
    with pytest.raises(ValueError, match="x"), stage("Reading", Console(file=io.StringIO())):
        raise ValueError("x")


@pytest.mark.parametrize("chosen", [None, [4, 0, 3], range(2, 5)])
def test_pairs_are_the_rows_of_any_selection(
    monkeypatch: pytest.MonkeyPatch, chosen: list[int] | range | None
) -> None:
    monkeypatch.setattr(batches, "_ROWS_AT_ONCE", 2)
    rows = [list(range(length)) for length in (3, 1, 5, 2, 7)]
    encoded = datasets.Dataset.from_dict({"input_ids": rows, "labels": rows[::-1]})
    if chosen is not None:
        encoded = encoded.select(chosen)
    pairs = TokenPairs(encoded)
    assert len(pairs) == len(encoded)
    for row, (source, labels) in zip(encoded, pairs, strict=True):
        assert (source.tolist(), labels.tolist()) == (row["input_ids"], row["labels"])
    assert pairs.source_lengths.dtype == np.int64
