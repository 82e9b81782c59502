"""Pages made again: of facts that were stored, the same to the last byte, without a model."""

import ast
import dataclasses
import io
import json
import math
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from browser.planted_page import planted_analysis
from rich.console import Console
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.cli.commands.train import _tell_older_results
from attnlab.core.errors import InputError
from attnlab.core.files import file_checksum
from attnlab.core.folders import EXPORT, UNFINISHED
from attnlab.questions.analyze.analysis_notes import NoTrees, TooLittleCounted, UndecidedLabel
from attnlab.reading.reading_notes import RowsNotNormalized, SentencesDropped
from attnlab.results import result
from attnlab.results.question import question_named
from attnlab.results.records import (
    ResultRecord,
    older_results,
    read_record,
    read_tables,
    write_record,
)
from attnlab.results.report import write_report
from attnlab.results.result_files import RECORD, check_not_taken, files_of
from attnlab.studies import study_results as study_folder

PLANNING = files_of(question_named("plan"))
WRITERS = (
    result, study_folder,
)  # fmt: skip
NOTES = (
    SentencesDropped(2, 9, 64, "test"),
    RowsNotNormalized(0.5, 1.5),
    NoTrees(),
    TooLittleCounted((UndecidedLabel("sink", ("encoder", "cross"), 1000, "rows"),), 900, None, False, True),
)  # fmt: skip
TABLE = pd.DataFrame(
    {
        "name": ["a", "", 'say "b",\nc'],
        "count": [1, 2, 3],
        "some": pd.Series([5, None, 7], dtype=object),
        "figure": [0.1 + 0.2, math.nan, math.inf],
        "sure": [True, False, True],
        "never": pd.Series([None, None, None], dtype=object),
    }
)
WEIGHTS = b"as analyzed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "analysis"
    (weights := folder.with_name("weights")).write_bytes(WEIGHTS)
    analysis = dataclasses.replace(
        planted_analysis(), title="Heads of <b>a model</b>", weights=file_checksum(weights)
    )
    return analysis.save(folder)


def copied(folder: Path, copy: Path) -> Path:
    """The facts of a result, without its page and figures."""
    copy.mkdir()
    for path in folder.iterdir():
        if path.is_file() and path.name != "report.html":
            (copy / path.name).write_bytes(path.read_bytes())
    return copy


def test_only_what_the_tables_say_is_on_the_page(folder: Path, tmp_path: Path) -> None:
    """Made again of them alone it is the same; made of others it is another."""
    copy = copied(folder, tmp_path / "copy")
    page = copy / "report.html"
    told = CliRunner().invoke(app, ["report", str(copy)], catch_exceptions=False)
    assert told.exit_code == 0
    assert told.stdout == f"Report: {page}\n"
    assert page.read_bytes() == (folder / "report.html").read_bytes()
    labels = (copy / "labels.csv").read_text(encoding="utf-8")
    (copy / "labels.csv").write_text(labels.replace("argmax_rate,0.95", "argmax_rate,0.61"))
    write_report(copy)
    assert page.read_bytes() != (folder / "report.html").read_bytes()


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    record = ResultRecord("analysis", "T", {"Model": "m", "n": 3}, NOTES, {"views": ["all"]})
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    write_record(tmp_path, record, {"t.csv": TABLE})
    found = read_record(tmp_path)
    assert dataclasses.replace(found, tables={}, rows={}) == record
    assert found.rows == {"t.csv": len(TABLE)}
    pd.testing.assert_frame_equal(
        read_tables(tmp_path, found)["t.csv"],
        TABLE.assign(never=math.nan, name=TABLE["name"].astype(object)),
        check_exact=True,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "attnlab result 0"}, "is not a result of this version"),
        ({"more": 1}, "is not a result of this version"),
        ({"notes": [{"note": "Unheard"}]}, "is not a result of this version"),
        ({"notes": [{"note": "NoTrees", "count": 1}]}, "is not a result of this version"),
        (
            {"tables": {"t.csv": {"integer": ["name"]}}},
            "has the column 'count', which was not written",
        ),
        ({"tables": {"u.csv": {"integer": ["name"]}}}, "cannot be read"),
        ({"result": "dream"}, "which this version of attnlab has no page for"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    write_record(tmp_path, ResultRecord("comparison", "T"), {"t.csv": TABLE})
    values = json.loads((tmp_path / RECORD).read_text(encoding="utf-8"))
    (tmp_path / RECORD).write_text(json.dumps(values | change), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        write_report(tmp_path)


def test_a_folder_without_a_record_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("older")
    with pytest.raises(InputError, match=r"older attnlab must be made again by its command\.$"):
        write_report(tmp_path)
    with pytest.raises(InputError, match="There is no folder"):
        write_report(tmp_path / "absent")
    (tmp_path / "analysis").mkdir()
    write_record(tmp_path / "analysis", ResultRecord("analysis", "T"), {})
    with pytest.raises(InputError, match="name one of the results in it: .*analysis"):
        write_report(tmp_path)
    (tmp_path / RECORD).write_text(json.dumps({"result": EXPORT}))
    with pytest.raises(InputError, match="holds a model that attnlab exported, not a result"):
        write_report(tmp_path)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_result_of_another_question_is_never_replaced_in_part(
    tmp_path: Path, overwrite: bool
) -> None:
    (tmp_path / "report.html").write_text("done")
    write_record(tmp_path, ResultRecord("analysis", "T"), {})
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"holds another result \(analysis\).* of the plan search"):
        check_not_taken(tmp_path, PLANNING, overwrite=overwrite)
    assert snapshot(tmp_path) == before


def test_files_without_a_record_are_named_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("done")
    (tmp_path / "result.json").write_text("no record")
    (tmp_path / UNFINISHED).mkdir()
    for overwrite in (False, True):
        with pytest.raises(
            InputError, match=r"holds result\.json, report\.html and no result\.json of"
        ):
            check_not_taken(tmp_path, PLANNING, overwrite=overwrite)
    # As a writer leaves it that was killed.
    write_record(tmp_path / UNFINISHED, ResultRecord(PLANNING.what, "T"), {})
    with pytest.raises(
        InputError, match=r"already holds result\.json, report\.html, which the plan"
    ):
        check_not_taken(tmp_path, PLANNING, overwrite=False)
    check_not_taken(tmp_path, PLANNING, overwrite=True)
    write_record(tmp_path / UNFINISHED, ResultRecord("analysis", "T"), {})
    with pytest.raises(InputError, match=r"holds another result \(analysis\).* of the plan search"):
        check_not_taken(tmp_path, PLANNING, overwrite=True)


def test_a_finished_result_of_the_question_is_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("done")
    write_record(tmp_path, ResultRecord(PLANNING.what, "T"), {})
    with pytest.raises(InputError, match="holds a finished plan search"):
        check_not_taken(tmp_path, PLANNING, overwrite=False)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_analysis_that_is_broken_off_leaves_the_older_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(folder)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlab.results.result.write_contents", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dataclasses.replace(planted_analysis(), title="Another").save(folder, overwrite=True)
    assert snapshot(folder) == before


@pytest.mark.parametrize("module", WRITERS, ids=lambda module: module.__name__)
def test_every_result_is_put_in_place_whole(module: ModuleType) -> None:
    """Of each writer: what it writes goes to the folder that `replacing_result` gives."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    writers = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(call, ast.Call) and getattr(call.func, "id", "") == "write_record"
            for call in ast.walk(node)
        )
    ]
    assert writers
    for writer in writers:
        blocks = [node for node in writer.body if isinstance(node, ast.With)]
        assert [ast.unparse(block.items[0].context_expr.func) for block in blocks] == [
            "replacing_result"
        ]
        outside = [node for node in writer.body if not isinstance(node, ast.With)]
        written = {
            getattr(call.func, "id", "")
            for node in outside
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        }
        assert not {name for name in written if name.startswith("write")}


def test_results_tell_of_which_weights_they_are_and_when_these_changed(
    folder: Path, tmp_path: Path
) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(WEIGHTS)
    copied(folder, tmp_path / "analysis")
    (tmp_path / "unknown").mkdir()
    write_record(tmp_path / "unknown", ResultRecord("analysis", "T"), {})
    record = read_record(tmp_path / "analysis")
    assert record.weights == file_checksum(weights)
    assert record.notes == planted_analysis().notes
    assert older_results(tmp_path) == []

    weights.write_bytes(b"trained on")
    assert older_results(tmp_path) == [tmp_path / "analysis"]
    _tell_older_results(tmp_path, console := Console(file=io.StringIO(), width=500))
    assert "are: analysis; make them again with --overwrite" in console.file.getvalue()
    said = CliRunner().invoke(app, ["report", str(tmp_path / "analysis")])
    assert said.exit_code == 0
    assert "of an older state of the model" in said.stderr
    assert b"of an older state of the model" in (tmp_path / "analysis" / "report.html").read_bytes()
    table = CliRunner().invoke(app, ["table", str(tmp_path / "analysis" / "heads.csv")])
    assert "of an older state of the model" in table.stderr

    weights.write_bytes(WEIGHTS)
    write_report(tmp_path / "analysis")
    page = (tmp_path / "analysis" / "report.html").read_bytes()
    assert page == (folder / "report.html").read_bytes()


@pytest.mark.slow
def test_pruned_heads_are_on_the_page_that_is_made_again(tmp_path: Path) -> None:
    analysis = planted_analysis()
    output = ["pruned"] + [""] * (len(analysis.summary) - 1)
    tables = {**analysis.tables, "summary": analysis.summary.assign(output=output)}
    dataclasses.replace(analysis, tables=tables).save(tmp_path)
    page = tmp_path / "report.html"
    assert ">pruned<" in page.read_text(encoding="utf-8")
    page.unlink()
    write_report(tmp_path)
    assert ">pruned<" in page.read_text(encoding="utf-8")


def test_a_page_can_be_one_file(folder: Path, tmp_path: Path) -> None:
    found = result.Result.load(folder)
    page = found.report(tmp_path / "new" / "heads.html")
    assert [*tmp_path.rglob("*.*")] == [page] == [tmp_path / "new" / "heads.html"]
    assert page.read_bytes() == (folder / "report.html").read_bytes()
    # What is inside a file ending so that is a folder is found where it was looked for.
    (tmp_path / "kept.html").mkdir()
    assert found.report(tmp_path / "kept.html") == tmp_path / "kept.html" / "report.html"
