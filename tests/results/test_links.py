"""Below the folder that a user names nothing is written or deleted behind a link."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grids import first
from matplotlib.figure import Figure
from planted_layers import stochastic
from planted_links import assert_nothing_gets_outside
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.core.files import write_text
from attnlab.core.folders import check_no_links, replacing_result
from attnlab.models import exporting
from attnlab.questions.approximate.approximation import approximate
from attnlab.results.page import result_page
from attnlab.results.question import own_questions, question_named
from attnlab.results.report import write_report
from attnlab.results.result import Result
from attnlab.results.result_files import check_free, files_of
from attnlab.studies.running import FAILED, FINISHED, collect, run_study, write_cell
from attnlab.studies.study_results import write_study

# Of a process with threads: the child leaves them alone.
pytestmark = pytest.mark.filterwarnings("ignore:This process")
PAIRS = dict.fromkeys(("train", "validation", "test"), 0)
RUN = {"format": 1, "settings": {}, "corpus": {"name": "embedded", "checksum": "", "pairs": PAIRS}}
STUDY: dict[str, Any] = {"structures": ["band"], "tokens": 8, "attempts": [1], "seeds": 1}


@pytest.fixture(autouse=True)
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of figures without the figures."""

    def written(_: object, folder: Path, name: str) -> str:
        for ending in ("svg", "png"):
            write_text(folder / f"{name}.{ending}", "<svg></svg>")
        return "<svg></svg>"

    contents = result_page.Contents([result_page.DrawnFigure("fit", Figure(), "")], {}, [])
    monkeypatch.setattr(result_page, "write_figure", written)
    monkeypatch.setattr(Result, "contents", lambda _: contents)


def write_result(folder: Path) -> None:
    np.save(folder.parent / "heads.npy", stochastic(2, 5, 5))
    approximate(folder.parent / "heads.npy").save(folder)


def write_pruning(folder: Path) -> None:
    """As a pruning is saved, with a model, of which a tokenizer lies in a folder in it."""
    files, model = files_of(question_named("prune")), Path("models", "penalty_1")
    check_free(folder, files, [str(model)], overwrite=True)
    with replacing_result(folder, files.last, files.older) as aside:
        for name in (
            *files.all,
            "figures/curve.svg",
            model / "source_tokenizer" / "tokenizer.json",
        ):
            write_text(aside / name, '{"result": "pruning"}')
        write_text(aside / model / "settings.json", json.dumps(RUN | {"pruned": {}}))


def write_model(folder: Path) -> None:
    """As a model is exported whose tokenizer has templates in a folder."""
    exporting.check_export_free(folder, overwrite=True, inputs={})
    with replacing_result(folder, "model.safetensors", exporting._older) as aside:
        for name in ("result.json", "model.safetensors", "templates/chat.jinja"):
            write_text(aside / name, '{"result": "export"}')


def compute_study(folder: Path) -> None:
    """Cells that are computed, of which one was there and damaged, and tables and a page of them."""
    found = run_study("random_search", folder=folder, options=STUDY)
    for cell in found.outcomes:
        write_cell(folder, cell)
    write_study(collect(folder), folder, question="")


ACTIONS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object], int]] = {
    "save": (write_result, lambda folder: Result.load(folder).save(folder, overwrite=True), 8),
    "report": (write_result, write_report, 4),
    "prune": (write_pruning, write_pruning, 10),
    "export": (write_model, write_model, 4),
    "study": (compute_study, compute_study, 12),
}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", first(ACTIONS, but={"prune", "export"}))
def test_no_link_is_followed(tmp_path: Path, name: str, every: bool) -> None:
    first, again, fewest = ACTIONS[name]
    folder = tmp_path / "one" / "folder"
    folder.mkdir(parents=True)
    first(folder)
    assert_nothing_gets_outside(folder, again, fewest=fewest, every=every)


@pytest.mark.parametrize("name", sorted(own_questions()))
def test_a_link_in_the_place_of_a_default_output_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In a run and in the working folder, before anything is read; a link that is typed is followed."""
    folder = own_questions()[name].folder
    if folder is None:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / folder).symlink_to(tmp_path / "victim")
    (tmp_path / "run").mkdir()
    for name_of_file in ("settings.json", "config.json"):
        (tmp_path / "run" / name_of_file).write_text("[]", encoding="utf-8")
    (tmp_path / "run" / folder).symlink_to(tmp_path / "victim")
    for source, place in (("run", f"run/{folder}"), ("model", folder), ("some/model", folder)):
        more = ["a"] if name in {"neighbours", "inspect", "rollout"} else []
        done = CliRunner().invoke(app, [name, source, *more])
        assert isinstance(done.exception, InputError)
        assert str(done.exception).startswith(f"{place} is a link to")
    assert not list((tmp_path / "victim").iterdir())


def test_no_figures_are_drawn_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write_result(tmp_path / "folder")
    for name in ("victim", "page"):
        (tmp_path / name).mkdir()
    (tmp_path / "page" / "figures").symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="figures is a link to"):
        Result.load(tmp_path / "folder").report(tmp_path / "page")
    assert not list((tmp_path / "victim").iterdir())
    assert [one.name for one in (tmp_path / "page").iterdir()] == ["figures"]


def test_a_link_that_a_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "link").symlink_to("victim")
    write_result(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "victim" / "result.json").exists()
    check_no_links(tmp_path / "link", ["file", "figures/*"])
    with pytest.raises(InputError, match="link is a link to victim"):
        check_no_links(tmp_path, ["link/deep/file"])


@pytest.mark.parametrize("name", [FINISHED, FAILED])
def test_a_link_in_a_study_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / name).symlink_to(tmp_path / "victim")
    done = CliRunner().invoke(
        app, ["study", "run", "random_search", "--out", str(tmp_path / "study")]
    )
    assert isinstance(done.exception, InputError)
    assert f"{name} is a link to" in str(done.exception)
    assert not (tmp_path / "victim").exists()
