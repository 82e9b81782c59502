"""The scripts behind results/ and benchmarks/ fit the package, and the READMEs there are what they write."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "experiments").rglob("*.py")
)
FOLDERS = sorted(path.parent.relative_to(ROOT) for path in ROOT.glob("*/*/facts.json"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_everything_a_script_imports_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert Path(module.__file__ or "").is_relative_to(ROOT / "experiments")


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS, ids=str)
def test_a_readme_comes_out_again_from_the_tables_of_its_folder(name: Path) -> None:
    readme = importlib.import_module("experiments.shared.readme")
    folder = ROOT / name
    script = importlib.import_module(f"experiments.{readme.read_facts(folder)['experiment']}.run")
    assert script.readme(folder) == (folder / "README.md").read_text(encoding="utf-8")


def test_every_experiment_has_its_template() -> None:
    scripts = [path.parent for path in (ROOT / "experiments").glob("*/run.py")]
    assert scripts
    assert all((folder / "README.md.jinja").exists() for folder in scripts)
