"""The JavaScript of the page: whole, small, of one name each, and packed with the library."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import attnlab
from attnlab.results.page.rendering import SCRIPTS, bundled_script

FOLDER = Path(attnlab.__file__).parent / "results" / "page" / "viewer"
ROOT = FOLDER.parents[3]
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)


def source(name: str) -> str:
    return (FOLDER / f"{name}.js").read_text(encoding="utf-8")


def test_every_module_is_in_the_page() -> None:
    assert {path.stem for path in FOLDER.glob("*.js")} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_module_imports_what_stands_before_it(name: str) -> None:
    text = source(name)
    assert len(IMPORTED.findall(text)) == text.count("\nimport ") + text.startswith("import ")
    for names, module in IMPORTED.findall(text):
        assert SCRIPTS.index(module) < SCRIPTS.index(name)
        exported = re.findall(
            r"^export (?:async )?(?:function|class|const) (\w+)", source(module), re.MULTILINE
        )
        assert {one.strip() for one in names.split(",")} <= set(exported)


def test_names_of_all_modules_differ() -> None:
    """They share one scope in the page."""
    names = [name for module in SCRIPTS for name in DECLARED.findall(source(module))]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


def test_modules_are_short() -> None:
    for name in SCRIPTS:
        assert source(name).count("\n") < 350


def test_the_script_cannot_end_its_element() -> None:
    script = bundled_script()
    assert "</" not in script
    assert "<!--" not in script
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_text_from_data_is_never_markup() -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", bundled_script()
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to check JavaScript with")
def test_node_can_read_the_script(tmp_path: Path) -> None:
    (tmp_path / "page.mjs").write_text(bundled_script(), encoding="utf-8")
    done = subprocess.run(
        ["node", "--check", tmp_path / "page.mjs"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_the_files_of_the_page() -> None:
    """hatch packs all files of the package that git does not ignore."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
        "build"
    ]
    assert build["targets"]["wheel"]["packages"] == ["attnlab"]
    assert not {"exclude", "only-include"} & {*build, *build["targets"]["wheel"]}
    files = [*FOLDER.iterdir(), FOLDER.parent / "templates" / "report.html.j2"]
    assert {path.suffix for path in files} == {".js", ".css", ".j2"}
    ignored = subprocess.run(
        ["git", "check-ignore", *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ignored.stdout == ""
