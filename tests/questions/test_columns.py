"""Columns mean one thing in all tables, and say which rows belong together."""

from collections.abc import Callable
from itertools import combinations

import pandas as pd
import pytest
from answered import Answered

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.core.columns import Column, Table
from attnlab.questions.analyze.fits import BITS, RELATIVE, summarise
from attnlab.questions.analyze.summary import structure_of_heads
from attnlab.results.question import own_questions

# Tables whose rows no choice of columns tells apart.
REPEATED_ROWS = {
    ("analyze", "relations.csv"), ("compare", "summary.csv"), ("neighbours", "neighbours.csv"),
    ("neighbours", "map.csv"), ("plan", "summary.csv"), ("prune", "curve.csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", own_questions())
def test_declarations_are_whole(name: str) -> None:
    for table in own_questions()[name].tables:
        names = list(table)
        assert len(names) == len(set(names)), table.file
        for column in table.columns:
            assert column.heading
            assert column.meaning.endswith((".", "?"))
            assert f"- `{column.name}`: {column.meaning}" in table.explained()


@pytest.mark.parametrize("name", own_questions())
def test_tables_say_in_which_columns_no_two_rows_are_alike(name: str) -> None:
    for table in own_questions()[name].tables:
        assert set(table.keys) <= set(table), table.file
        assert bool(table.keys) == ((name, table.file) not in REPEATED_ROWS), table.file


def test_a_name_of_a_column_means_one_thing() -> None:
    meanings: dict[str, set[str]] = {}
    for question in own_questions().values():
        for table in question.tables:
            for column in table.columns:
                meanings.setdefault(column.name, set()).add(column.meaning)
    assert not {name for name, said in meanings.items() if len(said) > 1}


# On the same sentences; see tests/answered.py.
OF_HEADS = ("analyze", "detect", "importance")


def test_questions_with_a_row_per_head_are_known() -> None:
    first = {name: question.tables[0].keys for name, question in own_questions().items()}
    assert {name for name, keys in first.items() if keys == tuple(HEAD_COLUMNS)} == set(OF_HEADS)


@pytest.mark.parametrize("on", [None, HEAD_COLUMNS], ids=["by defaults", "on heads"])
@pytest.mark.parametrize(("one", "other"), list(combinations(OF_HEADS, 2)))
def test_tables_of_heads_join(
    one: str, other: str, on: list[str] | None, answer: Callable[[str, str], Answered]
) -> None:
    first, second = (answer(name, "run").result.table for name in (one, other))
    both = pd.merge(first, second, on=on, validate="one_to_one")
    assert len(both) == len(first) == len(second) == 6
    assert set(both) == {*first, *second}
    if {one, other} == {"analyze", "importance"}:
        assert both["ablation_loss_change"].tolist() == pytest.approx(both["loss_change"], abs=1e-6)


def test_scores_of_alignment_join_heads_of_an_analysis(
    answer: Callable[[str, str], Answered],
) -> None:
    aligned = answer("align", "run").result.heads
    alone = aligned[aligned["row"] == aligned["row"].iloc[0]]
    for first in (answer("analyze", "run").result.table, answer("importance", "run").result.table):
        assert len(alone) == (first["site"] == "cross").sum() == len(pd.merge(first, alone))


def test_columns_that_are_made_of_fits_and_structure_are_the_declared_ones(
    answer: Callable[[str, str], Answered],
) -> None:
    found = answer("analyze", "run").result
    shown = summarise(found.fits).drop(columns=HEAD_COLUMNS)
    assert set(shown) == {column.name for column in RELATIVE}
    described = structure_of_heads(found.structure[found.structure["keys"] == "all"])
    bits = {name for name in described if name.startswith("bits_")}
    assert bits == {column.name for column in BITS}


def test_one_name_is_one_table_of_heads() -> None:
    others = (question for name, question in own_questions().items() if name != "align")
    tables = {table for question in others for table in question.tables}
    assert [table.file for table in tables].count("heads.csv") == 1


def test_a_column_that_is_not_declared_is_refused() -> None:
    table = Table("t.csv", "row", (Column("a", "a", "First."),))
    assert table["a"].narrow == "a"
    with pytest.raises(KeyError):
        table["b"]
