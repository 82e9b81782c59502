"""The table of heads that an analysis ends with."""

import pandas as pd
import pytest

from attnlab.addresses import Head
from attnlab.studies.analysis.summary import summarise_heads

HEADS = pd.DataFrame({"site": ["encoder"] * 3, "layer": [0] * 3, "head": [0, 1, 2]})
COUNTED = HEADS.assign(rows=9, empty_rows=[0, 3, 0])
LABELS = HEADS.assign(
    labels=["positional; sink", "positional", "undecided"],
    standing=["sink", "unknown", "undecided"],
    function=["positional", "positional", "sink"],
    detail=["offset +1", "offset +0", "token ."],
)


def fits() -> pd.DataFrame:
    distances = {
        "diagonal": (0.5, 0.1, 0.9), "kept_band": (0.4, 0.3, 0.9), "rare_columns": (0.6, 0.5, 0.2),
        "union": (0.4, 0.1, 0.2), "uniform": (0.7,) * 3, "zero": (1.0,) * 3,
    }  # fmt: skip
    return pd.concat(
        HEADS.assign(sentence=0, approximation=name, window=pd.NA, relative=relative)
        for name, relative in distances.items()
    ).astype({"window": "Int64"})


def summary(labels: pd.DataFrame | None = None, **tables: pd.DataFrame) -> pd.DataFrame:
    none = {"structure": pd.DataFrame(), "fits": pd.DataFrame()}
    return summarise_heads(COUNTED, labels=labels, **(none | tables))


def test_what_stands_is_what_a_head_does() -> None:
    found = summary(LABELS)
    assert list(found["function"]) == ["sink", "unknown", "undecided"]
    assert list(found["function_status"]) == ["stands", "none", "none"]
    assert list(found["function_detail"]) == ["", "", ""], "the detail belongs to another label"


def test_without_controls_it_is_what_holds() -> None:
    found = summary(LABELS.assign(standing="not compared"))
    assert list(found["function"]) == ["positional; sink", "positional", "undecided"]
    assert list(found["function_status"]) == ["holds", "holds", "none"]
    assert list(found["function_detail"]) == ["offset +1", "offset +0", ""]


def test_the_nearest_of_the_three_families_stands_with_its_distance() -> None:
    found = summary(fits=fits())
    assert list(found["nearest_family"]) == ["kept_band", "diagonal", "rare_columns"]
    assert list(found["nearest_relative"]) == pytest.approx([0.4, 0.1, 0.2])
    assert list(found["uniform_relative"]) == pytest.approx([0.7] * 3)
    assert (found["zero_relative"] == 1).all()


def test_what_was_not_measured_has_no_columns() -> None:
    assert list(summary()) == ["site", "layer", "head"]


def test_heads_without_output_are_marked_and_look_like_nothing_without_weight() -> None:
    counted = COUNTED.assign(empty_rows=[9, 3, 0])
    found = summarise_heads(
        counted,
        structure=pd.DataFrame(),
        fits=fits(),
        labels=LABELS,
        closed=[Head("encoder", 0, 2)],
    )
    assert list(found["output"]) == ["none", "", "closed"]
    assert list(found["nearest_family"]) == ["", "diagonal", "rare_columns"]
    assert "output" not in summary(LABELS), "all heads are whole"
