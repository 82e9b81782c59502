"""Every column of every table that is written is declared, and every declared one is written somewhere."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlab.core.columns import Column, Table
from attnlab.questions.analyze import QUESTION as ANALYZE
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.fits import BITS, RELATIVE, summarise
from attnlab.questions.analyze.summary import structure_of_heads
from attnlab.questions.approximate import QUESTION as APPROXIMATE
from attnlab.questions.approximate.approximation import approximate
from attnlab.questions.compare import QUESTION as COMPARE
from attnlab.questions.compare.comparison import compare
from attnlab.questions.detect import QUESTION as DETECT
from attnlab.questions.detect.detecting import detect
from attnlab.questions.detect.question import NEEDLE
from attnlab.questions.importance import QUESTION as IMPORTANCE
from attnlab.questions.importance.importance import importance
from attnlab.questions.inspect import QUESTION as INSPECT
from attnlab.questions.inspect.inspection import inspect
from attnlab.questions.plan.planning import plan
from attnlab.questions.plan.question import QUESTION as PLAN
from attnlab.questions.prune import QUESTION as PRUNE
from attnlab.questions.prune.pruning import prune
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
        run, labels=True, sentences=60, keep_matrices=0, fit_sentences=4, generation=True
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


def test_one_name_is_one_table_of_heads() -> None:
    tables = {table for tables, _ in STUDIES.values() for table in tables}
    assert [table.file for table in tables].count("heads.csv") == 1


def test_a_column_that_is_not_declared_is_refused() -> None:
    table = Table("t.csv", "row", (Column("a", "a", "First."),))
    assert table["a"].narrow == "a"
    with pytest.raises(KeyError):
        table["b"]
