"""Every column of every table that is written is declared, and every declared one is written somewhere."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.core.columns import Column, Table
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.fits import BITS, RELATIVE, summarise
from attnlab.questions.analyze.question import QUESTION as ANALYZE
from attnlab.questions.analyze.summary import structure_of_heads
from attnlab.questions.approximate.approximation import approximate
from attnlab.questions.approximate.question import QUESTION as APPROXIMATE
from attnlab.questions.compare.comparison import compare
from attnlab.questions.compare.question import QUESTION as COMPARE
from attnlab.questions.detect.detecting import detect
from attnlab.questions.detect.question import NEEDLE
from attnlab.questions.detect.question import QUESTION as DETECT
from attnlab.questions.importance.importance import importance
from attnlab.questions.importance.question import QUESTION as IMPORTANCE
from attnlab.questions.inspect.inspection import inspect
from attnlab.questions.inspect.question import QUESTION as INSPECT
from attnlab.questions.plan.planning import plan
from attnlab.questions.plan.question import QUESTION as PLAN
from attnlab.questions.prune.pruning import prune
from attnlab.questions.prune.question import QUESTION as PRUNE
from attnlab.results.question import own_questions
from attnlab.results.report import write_report

REPLACEMENTS = ("zero", "mean", "uniform")
# A learned logit beside the keys (tests/reading/test_statistics.py), heads without output
# (tests/questions/test_heads_without_output.py), language models (tests/questions/detect/test_detect.py).
OF_SOME_MODELS = {
    "mass_on_sink_logit", "output", "learned_gate", "learned_gate_untrained",
    *(column.name for column in NEEDLE),
}  # fmt: skip


def write_analysis_tables(run: Path, folder: Path) -> None:
    found = analyze(
        run,
        labels=True,
        sentences=60,
        keep_matrices=0,
        fit_sentences=4,
        keep_fits=True,
        generation=True,
    )
    found.save(folder)
    shown = summarise(found.fits).drop(columns=["site", "layer", "head"])
    assert set(shown) == {column.name for column in RELATIVE}
    described = structure_of_heads(found.structure[found.structure["keys"] == "all"])
    bits = {name for name in described if name.startswith("bits_")}
    assert bits == {column.name for column in BITS}


def write_comparison_tables(run: Path, folder: Path) -> None:
    compare(
        run,
        (5,),
        sentences=4,
        calibration=4,
        validation=4,
        mechanisms=["band", "top-k"],
        against="band",
        per_head=True,
    ).save(folder)


def write_detection_tables(run: Path, folder: Path) -> None:
    detect(run, sentences=20, sequences=2, context=40).save(folder)


def write_importance_tables(run: Path, folder: Path) -> None:
    importance(run, sentences=10, replacements=REPLACEMENTS, bleu=REPLACEMENTS).save(folder)


def write_inspection_tables(run: Path, folder: Path) -> None:
    inspect(run, "the old cat sleeps", "a cat runs").save(folder)


def write_pruning_tables(run: Path, folder: Path) -> None:
    prune(run, (0.1,), steps=1, sentences=4).save(folder)


def write_planning_tables(run: Path, folder: Path) -> None:
    plan(run, (5,), sentences=4, validation=4, calibration=4).save(folder)


def write_approximation_tables(_: Path, folder: Path) -> None:
    H = torch.rand(2, 6, 6, dtype=torch.float64).softmax(-1)
    approximate(H).save(folder)


# Tables whose rows no choice of columns tells apart.
REPEATED_ROWS = {
    ("analysis", "relations.csv"), ("comparison", "summary.csv"), ("planning", "summary.csv"),
    ("pruning", "curve.csv"),
}  # fmt: skip
STUDIES = {
    "approximation": (APPROXIMATE.tables, write_approximation_tables),
    "analysis": (ANALYZE.tables, write_analysis_tables),
    "comparison": (COMPARE.tables, write_comparison_tables),
    "detection": (DETECT.tables, write_detection_tables),
    "importance": (IMPORTANCE.tables, write_importance_tables),
    "inspection": (INSPECT.tables, write_inspection_tables),
    "planning": (PLAN.tables, write_planning_tables),
    "pruning": (PRUNE.tables, write_pruning_tables),
}


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_written_columns_are_the_declared_ones(study: str, small_run: Path, tmp_path: Path) -> None:
    tables: tuple[Table, ...]
    write: Callable[[Path, Path], None]
    tables, write = STUDIES[study]
    write(small_run, tmp_path)
    assert {path.name for path in tmp_path.glob("*.csv")} == {table.file for table in tables}
    different = {
        table.file: set(pd.read_csv(tmp_path / table.file)) ^ (set(table) - OF_SOME_MODELS)
        for table in tables
    }
    assert not any(different.values()), different
    for table in tables:
        if table.keys:
            assert not pd.read_csv(tmp_path / table.file).duplicated(list(table.keys)).any(), (
                table.file
            )
    page = tmp_path / "report.html"
    before = page.read_bytes()
    assert write_report(tmp_path) == page
    assert page.read_bytes() == before


@pytest.mark.parametrize("study", STUDIES)
def test_declarations_are_whole(study: str) -> None:
    for table in STUDIES[study][0]:
        names = list(table)
        assert len(names) == len(set(names)), table.file
        for column in table.columns:
            assert column.heading
            assert column.meaning.endswith((".", "?"))
            assert f"- `{column.name}`: {column.meaning}" in table.explained()


@pytest.mark.parametrize("study", STUDIES)
def test_tables_say_in_which_columns_no_two_rows_are_alike(study: str) -> None:
    for table in STUDIES[study][0]:
        assert set(table.keys) <= set(table), table.file
        assert bool(table.keys) == ((study, table.file) not in REPEATED_ROWS), table.file


# Names that tables of different questions still use for different things; only to be shortened.
AMBIGUOUS = set(
    """
    aer aer_high aer_low budget chosen confidence family heads keys kind label layer links pairs position rows
    significant step words
    """.split()  # noqa: SIM905 - as a list it would have twenty lines
)


def test_a_name_of_a_column_means_one_thing() -> None:
    meanings: dict[str, set[str]] = {}
    for question in own_questions().values():
        for table in question.tables:
            for column in table.columns:
                meanings.setdefault(column.name, set()).add(column.meaning)
    assert {name for name, said in meanings.items() if len(said) > 1} == AMBIGUOUS


OF_HEADS = {
    "analyze": lambda run: analyze(
        run, labels=True, ablation=True, sentences=12, keep_matrices=0, fit_sentences=0
    ),
    "detect": lambda run: detect(run, sentences=12, sequences=2, context=40),
    "importance": lambda run: importance(run, sentences=12, replacements=["zero"], bleu=()),
}


@pytest.fixture(scope="module")
def tables_of_heads(small_run: Path) -> dict[str, pd.DataFrame]:
    return {name: ask(small_run).table for name, ask in OF_HEADS.items()}


def test_questions_with_a_row_per_head_are_known() -> None:
    first = {name: question.tables[0].keys for name, question in own_questions().items()}
    assert {name for name, keys in first.items() if keys == tuple(HEAD_COLUMNS)} == set(OF_HEADS)


@pytest.mark.parametrize(("one", "other"), list(combinations(OF_HEADS, 2)))
def test_tables_of_heads_join(
    one: str, other: str, tables_of_heads: dict[str, pd.DataFrame]
) -> None:
    first, second = tables_of_heads[one], tables_of_heads[other]
    both = first.merge(second, on=HEAD_COLUMNS, validate="one_to_one")
    assert len(both) == len(first) == len(second) == 6
    if {one, other} == {"analyze", "importance"}:
        assert both["loss_change_x"].tolist() == pytest.approx(both["loss_change_y"], abs=1e-6)


def test_one_name_is_one_table_of_heads() -> None:
    tables = {table for tables, _ in STUDIES.values() for table in tables}
    assert [table.file for table in tables].count("heads.csv") == 1


def test_a_column_that_is_not_declared_is_refused() -> None:
    table = Table("t.csv", "row", (Column("a", "a", "First."),))
    assert table["a"].narrow == "a"
    with pytest.raises(KeyError):
        table["b"]
