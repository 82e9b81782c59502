"""Notebooks run to their end, their files are made of their text, and their exercises can be solved."""

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from attnlab import plot
from attnlab.attention.registry import MECHANISMS

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
            run(code, session, page)
            continue
        tried = {"...": "not answered", "None": "not yet", solved.pop(found[1]): "right"}
        for answer, verdict in tried.items():
            capsys.readouterr()
            run(code.replace(found[0], f"{found[1]} = {answer}"), session, page)
            said = f"Exercise {found[1].removeprefix('answer_')}: {verdict}"
            assert said in capsys.readouterr().out
    assert solved == {}
    handed_in = (notebook_folder / f"runs/hand_in_{page.stem}.md").read_text("utf-8")
    assert handed_in.count(": right.") == len(solutions()[page.stem])


def test_the_course_checks_answers_in_one_way() -> None:
    helpers = {code for page in COURSE for code in code_of(page) if "def check(" in code}
    assert len(COURSE) == 4
    assert len(helpers) == 1


def test_the_gallery_shows_every_function_mechanism_and_family() -> None:
    text = GALLERY.read_text(encoding="utf-8")
    functions = {*plot.__all__} - {"COLUMN", "PAGE", "save"}
    assert {name for name in functions if f"plot.{name}(" not in text} == set()
    patterns = text.split("plot.mechanism(")[1].split("```")[0]
    assert {*re.findall(r'^        "(\w+)', patterns, re.MULTILINE)} == {*MECHANISMS}
    assert "for name in FITTED" in text
