"""Rows of a first screen: few columns, decimals that intervals carry, marks, a legend of what is shown."""

import math

import pandas as pd

from attnlab.core import BLEU_CHANGE, HEAD, HEAD_COUNT, LOSS_CHANGE, Column
from attnlab.results import first_rows, readable

SHAPE = Column("shape", "shape", "The family. Of matrices.")
COLUMNS = [HEAD[-1], SHAPE, HEAD_COUNT, LOSS_CHANGE.column, BLEU_CHANGE.column]


def frame(rows: int = 3) -> pd.DataFrame:
    heads = pd.DataFrame({"site": "encoder", "layer": 0, "head": range(rows)})
    heads = heads.assign(shape=["band", "column", "band"][:rows], heads=8, bleu_change=math.nan)
    changes = [0.1234567, -0.5, math.nan][:rows]
    heads = heads.assign(
        loss_change=changes, loss_change_low=[one - 0.04 for one in changes],
        loss_change_high=[one + 0.04 for one in changes],
    )  # fmt: skip
    return heads.assign(loss_change_significant=[True, False, None][:rows])


def test_a_figure_has_a_sign_a_mark_and_the_decimals_of_its_interval() -> None:
    shown = first_rows(frame(), COLUMNS, file="heads.csv", leading="loss_change")
    assert shown.headings == ("head", "shape", "loss"), (
        "what is empty or always the same is left out"
    )
    assert shown.rows == (
        ("encoder.0.0", "band", "+0.123* [+0.083, +0.163]"),
        ("encoder.0.1", "column", "-0.500  [-0.540, -0.460]"),
        ("encoder.0.2", "band", ""),
    )
    assert shown.numbers == ("loss",)
    assert shown.caption is None
    assert shown.marked in str(shown.legend)
    assert str(shown.legend).startswith("loss: rise of the loss per token, in nats")
    assert "shape" not in str(shown.legend), "words say themselves what they are"


def test_a_figure_that_does_not_lead_has_no_interval() -> None:
    shown = first_rows(frame(), COLUMNS, file="heads.csv")
    assert [row[-1] for row in shown.rows] == ["+0.123*", "-0.500 ", ""]


def test_untested_figures_have_no_mark() -> None:
    untested = frame().drop(columns="loss_change_significant")
    shown = first_rows(untested, COLUMNS, file="heads.csv", leading="loss_change")
    assert shown.rows[0][-1] == "+0.123 [+0.083, +0.163]"
    assert not shown.marked


def test_of_many_rows_those_that_lead_are_shown() -> None:
    shown = first_rows(frame(), COLUMNS, file="heads.csv", leading="loss_change", most=1)
    assert [row[0] for row in shown.rows] == ["encoder.0.0"]
    assert shown.caption == "and 2 more rows in heads.csv"
    assert [row[0] for row in first_rows(frame(), COLUMNS, file="", most=2).rows] == [
        "encoder.0.0", "encoder.0.1",
    ]  # fmt: skip


def test_one_row_has_all_its_columns_and_none_has_headings() -> None:
    shown = first_rows(frame(1), COLUMNS, file="heads.csv")
    assert shown.headings == ("head", "shape", "heads", "loss")
    assert first_rows(frame()[:0], COLUMNS, file="heads.csv").rows == ()


def test_decimals_are_kept_where_nothing_says_which_are_carried() -> None:
    column = LOSS_CHANGE.column
    for values in ([0.0, 0.0], [math.nan], [math.inf]):
        assert readable(column, pd.DataFrame({column.name: values})) == column
