"""Notebooks run to their end, their files are made of their text, and their exercises can be solved."""

import ast
import json
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import attnlab
from attnlab import plot
from attnlab.attention.registry import MECHANISMS
from attnlab.core import InputError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SCRIPT = runpy.run_path(str(DOCS / "notebook_files.py"))
PAGES = SCRIPT["pages"]()
COURSE = [page for page in PAGES if page.parent.name == "course"]
OTHERS = [page for page in PAGES if page not in COURSE]
GALLERY = DOCS / "gallery.md"
EXERCISE = re.compile(r"^(answer_\d+) = \.\.\.$", re.MULTILINE)


def code_of(page: Path) -> list[str]:
    """The cells of code, without what only a notebook understands."""
    codes = (text for kind, text, _ in SCRIPT["cells"](page) if kind == "code")
    return [re.sub(r"^%.*\n", "", code, flags=re.MULTILINE) for code in codes]


def cell_with(text: str, page: Path) -> str:
    """The only cell of code that has this text."""
    (code,) = (code for code in code_of(page) if text in code)
    return code


def filled_in(code: str) -> str:
    """The cell that hands in, with a name and sentences; any other cell as it is."""
    if not code.startswith("hand_in("):
        return code
    return code.replace('"..."', '"Zoë O\'Hara"').replace("...", "it")


def run(code: str, session: dict[str, Any], page: Path) -> None:
    """Runs a cell as a notebook does: its last expression is shown."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, page.name, "exec"), session)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), page.name, "eval"), session)
        getattr(value, "_repr_html_", value.__repr__)()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of them run, so that a model of several is trained once."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture
def notebook_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTNLAB_REPOSITORY", str(ROOT))
    monkeypatch.chdir(folder)
    return folder


def solutions() -> dict[str, dict[str, str]]:
    """Solutions in the teacher's notes, by notebook and exercise."""
    notes = (DOCS / "course" / "teachers").with_suffix(".md").read_text(encoding="utf-8")
    parts = re.findall(
        r"^## \[.*?\]\((\w+)\.md\)$(.*?)(?=^## |\Z)", notes, re.DOTALL | re.MULTILINE
    )
    return {
        name: dict(re.findall(r"^(answer_\d+) = (.+)$", text, re.MULTILINE)) for name, text in parts
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_file_is_made_of_its_text(page: Path) -> None:
    text = page.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert text == SCRIPT["notebook"](page), "make notebooks"
    cells = json.loads(text)["cells"]
    assert ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"] == [
        code for kind, code, _ in SCRIPT["cells"](page) if kind == "code"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_link_to_files_that_jupyter_opens(page: Path) -> None:
    cells = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for link in re.findall(r"\]\(([\w./]+\.\w+)\)", text):
        assert (page.parent / link).is_file(), link
        assert (page.parent / link).resolve() not in PAGES, link


def test_every_file_has_a_text() -> None:
    assert sorted(DOCS.rglob("*.ipynb")) == sorted(page.with_suffix(".ipynb") for page in PAGES)


@pytest.mark.slow
@pytest.mark.usefixtures("notebook_folder")
@pytest.mark.parametrize("page", [*OTHERS, GALLERY], ids=lambda page: page.stem)
def test_every_cell_runs(page: Path) -> None:
    session: dict[str, Any] = {}
    for code in code_of(page):
        run(code, session, page)


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute of a processor that is not shared
@pytest.mark.parametrize("page", COURSE, ids=lambda page: page.stem)
def test_every_exercise_is_open_and_takes_its_solution_alone(
    page: Path, notebook_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session: dict[str, Any] = {}
    solved = solutions()[page.stem]
    for code in code_of(page):
        found = EXERCISE.search(code)
        if found is None:
            run(filled_in(code), session, page)
            continue
        tried = {"...": "not answered", "None": "not yet", solved.pop(found[1]): "right"}
        for answer, verdict in tried.items():
            capsys.readouterr()
            run(code.replace(found[0], f"{found[1]} = {answer}"), session, page)
            said = f"Exercise {found[1].removeprefix('answer_')}: {verdict}"
            assert said in capsys.readouterr().out
    assert solved == {}
    handed_in = notebook_folder / f"runs/hand_in_{page.stem}_Zoë_O_Hara.md"
    assert handed_in.read_text("utf-8").count(": right.") == len(solutions()[page.stem])
    assert handed_in.with_suffix(".html").exists() == ("result=" in code)


def test_the_course_checks_answers_in_one_way() -> None:
    helpers = {code for page in COURSE for code in code_of(page) if "def check(" in code}
    assert len(COURSE) == 4
    assert len(helpers) == 1


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the cell that checks answers defines, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    session: dict[str, Any] = {}
    exec(cell_with("def check(", COURSE[0]), session)
    return session


@pytest.mark.parametrize("answer", [0.67, "0.67", "0,67", " 0.665 ", torch.tensor(0.6652)])
def test_a_number_can_be_written_in_many_ways(course: dict[str, Any], answer: object) -> None:
    course["check"](1, answer, course["near"](0.6652), "divide")
    assert course["checked"][1].startswith("Exercise 1: right.")


@pytest.mark.parametrize("answer", ["1.3", 1.3, "decoder.1.3", " Decoder.1.3"])
def test_a_head_can_be_written_in_many_ways(course: dict[str, Any], answer: object) -> None:
    course["check"](1, answer, course["same"]("1.3"), "compare")
    assert course["checked"][1].startswith("Exercise 1: right.")


@pytest.mark.parametrize("answer", [0.68, "much", None, [0.67], ""])
def test_a_wrong_number_gets_the_hint(course: dict[str, Any], answer: object) -> None:
    course["check"](1, answer, course["near"](0.67), "divide")
    assert course["checked"][1].startswith("Exercise 1: not yet; divide.")


def test_a_refusal_of_attnlab_takes_the_place_of_the_hint(course: dict[str, Any]) -> None:
    def refuse(_: object) -> bool:
        raise InputError("There is no head decoder.5.0; choose another.")

    course["check"](1, "5.0: offset -1", refuse, "look")
    assert course["checked"][1].startswith(
        "Exercise 1: not yet; There is no head decoder.5.0; choose another. Answer"
    )


def test_an_error_of_the_notebook_is_shown(course: dict[str, Any]) -> None:
    with pytest.raises(NameError):
        course["check"](1, "1.3", lambda _: share, "compare")  # type: ignore[name-defined]


@pytest.mark.parametrize(
    ("name", "sentence"), [("...", "I saw it."), ("Zoë", "I saw that ..."), ("?!", "I saw it.")]
)
def test_dots_are_not_handed_in(
    course: dict[str, Any], name: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    course["hand_in"]("see", name, sentence)
    assert "Nothing is handed in yet" in capsys.readouterr().out
    assert list(Path("runs").iterdir()) == []


@pytest.mark.parametrize("page", COURSE, ids=lambda page: page.stem)
def test_nothing_is_handed_in_as_the_page_is(
    course: dict[str, Any], page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = dict.fromkeys(("checked_claims", "needed", "aligned"))
    exec(code_of(page)[-1], course | results)
    assert "Nothing is handed in yet" in capsys.readouterr().out


def test_the_page_to_hand_in_is_named_after_the_student(course: dict[str, Any]) -> None:
    course["hand_in"]("see", "../Zoë O'Hara", "I saw it.")
    assert [path.name for path in Path("runs").iterdir()] == ["hand_in_see_Zoë_O_Hara.md"]


@pytest.mark.parametrize("page", COURSE, ids=lambda page: page.stem)
def test_an_interrupted_training_goes_on_when_its_cell_runs_again(
    page: Path, course: dict[str, Any], small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[Callable[[Path], object]] = []
    calls: list[str] = []

    def training(name: str) -> Callable[..., object]:
        def train(folder: Path, *_: object) -> object:
            calls.append(name)
            return ends.pop(0)(folder)

        return train

    def is_killed(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(small_run / "settings.json", folder)
        raise SystemExit

    def is_stopped(_: Path) -> object:
        return SimpleNamespace(interrupted=True)

    def ends_well(folder: Path) -> object:
        shutil.copytree(small_run, folder, dirs_exist_ok=True)
        return SimpleNamespace(interrupted=False)

    ends += [is_killed, is_stopped, ends_well]
    monkeypatch.setattr(attnlab, "train", training("train"))
    monkeypatch.setattr(attnlab, "resume", training("resume"))
    code = cell_with("attnlab.train(", page)
    with pytest.raises(SystemExit):
        exec(code, course)
    with pytest.raises(KeyboardInterrupt, match=r"Run this cell again"):
        exec(code, course)
    exec(code, course)
    exec(code, course)
    assert calls == ["train", "resume", "resume"]
    assert [path.name for path in Path("runs").iterdir()] == [course["folder"].name]


def test_the_gallery_shows_every_function_mechanism_and_family() -> None:
    text = GALLERY.read_text(encoding="utf-8")
    functions = {*plot.__all__} - {"COLUMN", "PAGE", "save"}
    assert {name for name in functions if f"plot.{name}(" not in text} == set()
    patterns = text.split("plot.mechanism(")[1].split("```")[0]
    assert {*re.findall(r'^        "(\w+)', patterns, re.MULTILINE)} == {*MECHANISMS}
    assert "for name in FITTED" in text
