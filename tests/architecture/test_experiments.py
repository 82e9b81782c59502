"""The scripts behind results/ fit the package as it is now."""

import importlib
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
SCRIPTS = sorted(path.stem for path in EXPERIMENTS.glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_everything_a_script_imports_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXPERIMENTS)
    importlib.import_module(name)
    assert Path(sys.modules[name].__file__ or "").parent == EXPERIMENTS
