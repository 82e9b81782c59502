"""What holds of every question, on one small answer of each kind of model."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from answered import ASKED, NEEDED, Answered
from markupsafe import escape
from typer.testing import CliRunner

import attnlab
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.core.files import file_checksum
from attnlab.evaluation.shared_settings import StudySettings
from attnlab.questions.across.question import FORMATION
from attnlab.questions.align.question import START_CHANGE, START_ERROR, WORDS
from attnlab.results import Result, own_questions, print_shown
from attnlab.results.page.result_page import Contents
from attnlab.results.records import read_record

QUESTIONS = sorted(own_questions())
# Of files that name their matrices (tests/questions/approximate/test_approximate.py), of a learned logit
# beside the keys (tests/reading/test_statistics.py), of heads without output
# (tests/questions/test_heads_without_output.py), of learned gates (tests/questions/detect/test_detect.py),
# and of relations between words (tests/questions/claim/test_claim.py).
OF_SOME_MODELS = {
    "sentence", "site", "mass_on_sink_logit", "output", "learned_gate", "learned_gate_untrained",
    "shuffled_hit",
}  # fmt: skip
# Of contributions in place of weights (tests/questions/test_contributions.py).
OF_CONTRIBUTIONS = {
    "contribution", "weight_on_first", "mass_on_first", "weight_on_special", "weight_on_punctuation",
}  # fmt: skip
# Of checkpoints (tests/questions/across/test_checkpoints.py).
OF_CHECKPOINTS = {"training_step", *FORMATION}
# Of audio (tests/questions/align/test_word_times.py).
OF_AUDIO = {column.name for one in (START_ERROR, START_CHANGE) for column in one} | {
    *WORDS,
    "words",
}
# Of each question the first kind of model that it is asked of.
FIRST = set({name: (name, kind) for name, kind in reversed(ASKED)}.values())
# For what takes as long as asking itself.
OF_ONE_KIND = pytest.mark.parametrize(
    "asked",
    [
        pytest.param(one, id="-".join(one), marks=[] if one in FIRST else pytest.mark.slow)
        for one in ASKED
    ],
    indirect=True,
)
# What is asked of embeddings, or of sizes.
OF_NO_WEIGHTS = {"neighbours", "size"}
# What is measured by a clock.
TIMED = re.compile(r"time|seconds|speed")


# Their answers for other kinds of models take long; tests/questions/test_studies_*.py look at these too.
DEAR = {"analyze", "compare", "plan"}


@pytest.fixture(
    params=[
        pytest.param(one, marks=[pytest.mark.slow] if one[0] in DEAR and one not in FIRST else [])
        for one in ASKED
    ],
    ids="-".join,
    scope="module",
)
def asked(request: pytest.FixtureRequest, answer: Callable[[str, str], Answered]) -> Answered:
    return answer(*request.param)


def assert_same_tables(found: Result, expected: Result) -> None:
    assert list(found.tables) == list(expected.tables)
    for name, table in expected.tables.items():
        timed = [column for column in table if TIMED.search(column)]
        both = (one.drop(columns=timed).astype(object) for one in (found.tables[name], table))
        # Missing values of any kind are alike.
        both = (one.where(one.notna() & (one != ""), None) for one in both)
        pd.testing.assert_frame_equal(*both, check_dtype=False)
    for name, array in expected.arrays.items():
        torch.testing.assert_close(found.arrays[name], array, rtol=0, atol=0, equal_nan=True)


def test_every_question_is_asked() -> None:
    assert sorted({question for question, _ in ASKED}) == QUESTIONS


def test_what_is_saved_is_loaded(asked: Answered) -> None:
    found, saved = asked.result, Result.load(asked.folder)
    assert [table.rows for table in saved.terminal()] == [table.rows for table in found.terminal()]
    assert_same_tables(saved, found)
    assert (saved.notes, saved.title, saved.weights) == (found.notes, found.title, found.weights)
    assert saved.about == json.loads(json.dumps(found.about, default=str))
    assert saved.details == json.loads(json.dumps(found.details, default=str))
    assert saved.matrices.matrices.keys() == found.matrices.matrices.keys()
    assert saved.extra.keys() == found.extra.keys()


def test_columns_are_the_declared_ones(asked: Answered) -> None:
    for name, table in asked.result.tables.items():
        declared = asked.question.table(name)
        assert set(table) <= set(declared), name
        if declared.keys:
            assert not table.duplicated(list(declared.keys)).any(), name


def test_the_files_are_the_declared_ones(asked: Answered) -> None:
    written = {path.name for path in asked.folder.iterdir() if path.is_file()}
    assert {f"{name}.csv" for name in asked.result.tables} <= written
    assert {name for name in written if name.endswith((".csv", ".safetensors"))} <= set(
        asked.question.files
    )
    for figure in asked.folder.glob("figures/*"):
        assert any(Path(figure.stem).match(name) for name in asked.question.figures), figure


def test_asking_changes_nothing(asked: Answered) -> None:
    """Neither model nor files nor random numbers."""
    assert asked.changed == []


def test_the_result_is_of_the_weights_of_its_run(asked: Answered) -> None:
    weights = asked.source / "model.safetensors"
    a_run = (asked.source / "settings.json").exists() and asked.question.name not in OF_NO_WEIGHTS
    assert asked.result.weights == (file_checksum(weights) if a_run else None)


@pytest.mark.parametrize("name", ["importance", "inspect", "rollout"])
def test_a_result_is_made_again_of_its_own_record(
    name: str, answer: Callable[[str, str], Answered]
) -> None:
    asked = answer(name, "run")
    call = read_record(asked.folder).call
    again = getattr(attnlab, call["question"])(asked.source, **call["options"])
    assert again.call == call == asked.result.call
    assert call["files"]["model.safetensors"] == {"sha256": asked.result.weights}
    assert_same_tables(again, asked.result)
    page = (asked.folder / "report.html").read_text(encoding="utf-8")
    assert call["command"].startswith(f"attnlab {name} ")
    assert str(escape(call["command"])) in page


def test_progress_goes_up_to_the_end(asked: Answered) -> None:
    of_step: dict[str, list[tuple[int, int]]] = {}
    for what, done, total in asked.steps:
        assert 0 <= done <= total, what
        of_step.setdefault(what, []).append((done, total))
    for what, counts in of_step.items():
        done, total = counts[-1]
        assert done == total, what


def test_notes_are_sentences(asked: Answered) -> None:
    for note in map(str, asked.result.notes):
        assert re.fullmatch(r"([A-Z0-9']|encoder|decoder|cross).*[.)]", note, re.DOTALL), note


def test_the_page_is_one_file_that_asks_nobody(asked: Answered) -> None:
    page = (asked.folder / "report.html").read_text(encoding="utf-8")
    assert page.endswith("</html>")
    loaded = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s>)]+)""", page)
    assert all(one.startswith(("#", "data:")) for one in loaded), loaded


@OF_ONE_KIND
def test_the_page_is_made_again_of_the_folder(asked: Answered) -> None:
    page = asked.folder / "report.html"
    before = page.read_bytes()
    done = CliRunner().invoke(app, ["report", str(asked.folder)], catch_exceptions=False)
    assert done.stdout == f"Report: {page}\n"
    assert page.read_bytes() == before


@OF_ONE_KIND
def test_the_command_answers_the_same(
    asked: Answered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the path, with the tables in a folder and the first of them as JSON."""
    monkeypatch.setattr(Result, "contents", lambda _: Contents((), {}, ()))
    monkeypatch.chdir(asked.source.parent)
    words = [*asked.words(), "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    again = Result.load(tmp_path)
    assert_same_tables(again, asked.result)
    assert again.notes == asked.result.notes
    printed = json.loads(done.stdout)
    first = {table.name for table in asked.question.tables[: asked.question.printed]}
    for name in first & set(again.tables):
        assert len(printed[name]) == len(again.tables[name])
    assert printed["notes"] == list(map(str, again.notes))


def test_its_table_is_printed_in_any_form(asked: Answered) -> None:
    name = asked.result.declared[0].file
    words = ["table", str(asked.folder / name), "--format", "csv"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].split(",") == list(asked.result.table)
    assert asked.result.to_latex().count(r"\\") > len(asked.result.table)


def test_a_result_is_shown_as_its_command_prints_it(
    asked: Answered, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked.result.show()
    shown = capsys.readouterr().out
    for table in asked.result.terminal():
        print_shown(table)
    tables = capsys.readouterr().out
    assert shown == tables + "".join(f"Note: {note}\n" for note in asked.result.notes)
    words = " ".join(tables.split())
    for table in asked.result.terminal():
        for row in table.rows:
            # Cells of prose are wrapped beside each other.
            whole = [
                cell
                for heading, cell in zip(table.headings, row, strict=True)
                if heading not in table.prose
            ]
            assert all(line.strip() in tables for cell in whole for line in cell.splitlines())
        assert " ".join((table.caption or "").split()) in words


def test_columns_are_explained_beside_their_tables(asked: Answered) -> None:
    explained = (asked.folder / "tables.md").read_text(encoding="utf-8")
    told = {line.split("`")[1] for line in explained.splitlines() if line.startswith("- `")}
    written = {column for table in asked.result.tables.values() for column in table}
    assert told == written | set(asked.result.arrays)


def test_a_result_that_is_there_is_replaced_only_when_asked(asked: Answered) -> None:
    before = {path: path.stat().st_mtime_ns for path in asked.folder.rglob("*")}
    with pytest.raises(InputError, match=f"holds a finished {asked.question.what}"):
        asked.result.save(asked.folder)
    assert {path: path.stat().st_mtime_ns for path in asked.folder.rglob("*")} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_declared_column_is_in_some_answer(
    name: str, answer: Callable[[str, str], Answered]
) -> None:
    written: dict[str, set[str]] = {}
    for question, kind in ASKED:
        if question == name:
            for table, rows in answer(question, kind).result.tables.items():
                written.setdefault(table, set()).update(rows)
    lacking = {
        table.name: set(table)
        - written.get(table.name, set())
        - OF_SOME_MODELS
        - OF_AUDIO
        - OF_CONTRIBUTIONS
        - OF_CHECKPOINTS
        for table in own_questions()[name].tables
    }
    assert not any(lacking.values()), lacking


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_site_that_there_is_not_is_refused(name: str) -> None:
    settings = own_questions()[name].settings
    if not issubclass(settings, StudySettings):
        assert "sites" not in {field.name for field in dataclasses.fields(settings)}
        return
    with pytest.raises(InputError, match=r"^There is no site 'middle'; choose from: "):
        settings(**NEEDED.get(name, {}), sites=["middle"])


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("kind", ["missing", "empty folder", "text"])
def test_a_source_that_is_none_is_refused_in_one_sentence(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the function, before a model is loaded; tests/cli/test_early_refusals.py asks the command."""
    question = own_questions()[name]
    source = tmp_path / "source"
    if kind == "empty folder":
        source.mkdir()
    elif kind == "text":
        source = source.with_suffix(".doc")
        source.write_text("no model")
    with pytest.raises(InputError) as refused:
        question.verb(source, **NEEDED.get(name, {}))
    told = str(refused.value)
    assert "\n" not in told
    assert str(source) in told
    assert told.endswith(".")
