"""Rows of a first screen: few columns, decimals that intervals carry, marks, a legend of what is shown."""

import math

import pandas as pd
import pytest

from attnlab.core import BLEU_CHANGE, HEAD, HEAD_COUNT, LOSS_CHANGE, Column
from attnlab.results import first_rows, readable
from attnlab.results.terminal_tables import narrowed

SHAPE = Column("shape", "shape", "The family. Of matrices.")
COLUMNS = [HEAD[-1], SHAPE, HEAD_COUNT, LOSS_CHANGE.column, BLEU_CHANGE.column]


def frame(rows: int = 3) -> pd.DataFrame:
    heads = pd.DataFrame({"site": "encoder", "layer": 0, "head": range(rows)})
    heads = heads.assign(
        shape=["band", "column", "band"][:rows], head_count=8, bleu_change=math.nan
    )
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
    both = frame().assign(bleu_change=-2.0, bleu_change_low=-2.5, bleu_change_high=-1.5)
    shown = first_rows(both, COLUMNS, file="heads.csv", leading="bleu_change")
    assert shown.rows[0][-2:] == ("+0.123*", "-2.0 [-2.5, -1.5]")


def test_where_the_leading_figure_is_empty_the_first_one_has_its_interval() -> None:
    for leading in ("", "bleu_change"):
        shown = first_rows(frame(), COLUMNS, file="heads.csv", leading=leading)
        assert shown.rows[0][-1] == "+0.123* [+0.083, +0.163]"


@pytest.mark.parametrize(
    ("longest", "wrapped"),
    [
        ("column", False),
        ("word offset -1", False),
        ("x" * 30, False),
        ("column + band + rest", True),
    ],
)
def test_cells_of_a_word_or_a_few_are_not_wrapped(longest: str, *, wrapped: bool) -> None:
    words = frame().assign(shape=[longest, "band", "column"])
    assert first_rows(words, COLUMNS, file="heads.csv").prose == (("shape",) if wrapped else ())


def test_untested_figures_have_no_mark() -> None:
    untested = frame().drop(columns="loss_change_significant")
    shown = first_rows(untested, COLUMNS, file="heads.csv", leading="loss_change")
    assert shown.rows[0][-1] == "+0.123 [+0.083, +0.163]"
    of_few = first_rows(frame().assign(loss_change_significant=None), COLUMNS, file="heads.csv")
    assert not shown.marked
    assert not of_few.marked
    assert "Holm" not in str(of_few.legend)


def test_of_many_rows_the_first_are_shown() -> None:
    shown = first_rows(frame(), COLUMNS, file="heads.csv", most=2)
    assert [row[0] for row in shown.rows] == ["encoder.0.0", "encoder.0.1"]
    assert shown.caption == "and 1 more row in heads.csv"


def test_a_value_beside_missing_ones_is_shown() -> None:
    some = frame().assign(head_count=[8, None, None])
    assert "heads" in first_rows(some, COLUMNS, file="heads.csv").headings


def test_columns_of_one_heading_stay_apart() -> None:
    twice = [*COLUMNS[:2], Column("head_count", "shape", "Number.", 0)]
    shown = first_rows(frame().assign(head_count=[1, 2, 3]), twice, file="heads.csv")
    assert shown.headings == ("head", "shape", "shape")
    assert shown.rows[1] == ("encoder.0.1", "column", "2")


def test_what_else_cells_mean_ends_the_legend() -> None:
    shown = first_rows(frame(), COLUMNS, file="heads.csv", legend=["of 3 sentences"])
    assert "; of 3 sentences; *" in str(shown.legend)


def test_one_row_has_all_its_columns_and_none_has_headings() -> None:
    shown = first_rows(frame(1), COLUMNS, file="heads.csv")
    assert shown.headings == ("head", "shape", "heads", "loss")
    empty = first_rows(frame()[:0], COLUMNS, file="heads.csv")
    assert empty.rows == ()
    assert empty.headings[:2] == ("head", "shape")


def test_decimals_are_kept_where_nothing_says_which_are_carried() -> None:
    column = LOSS_CHANGE.column
    for values in ([0.0, 0.0], [math.nan], [math.inf]):
        assert readable(column, pd.DataFrame({column.name: values})) == column


def test_figures_above_controls_have_a_mark_that_says_so() -> None:
    above = frame().drop(columns="loss_change_significant")
    above = above.assign(loss_change_above_controls=[True, False, None])
    shown = first_rows(above, COLUMNS, file="heads.csv", leading="loss_change")
    assert shown.rows[0][-1] == "+0.123* [+0.083, +0.163]"
    assert shown.rows[1][-1] == "-0.500  [-0.540, -0.460]"
    assert str(shown.legend).endswith("* above controls, by however little.")


def test_a_narrow_terminal_leaves_out_the_last_columns_whole() -> None:
    both = frame().assign(bleu_change=-2.0, bleu_change_low=-2.5, bleu_change_high=-1.5)
    table = first_rows(both, COLUMNS, file="heads.csv", leading="bleu_change")
    assert narrowed(table, 80) == table
    few = narrowed(table, 40)
    assert few.headings == ("head", "shape", "BLEU"), "the figure with its interval stays"
    assert few.caption == "left out at this width: loss; a file or a pipe gets all"
    assert [row[-1] for row in few.rows] == [row[-1] for row in table.rows]
    assert "loss:" not in str(few.legend)
    assert narrowed(table, 10).headings == ("head", "BLEU")
