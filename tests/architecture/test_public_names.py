"""The names that users import from the top: listed, typed, and free of what takes seconds to load."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import attnlab

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "attnlab": {
        "Result", "__version__", "across", "align", "analyze", "approximate", "assert_attends", "attention",
        "capture", "check", "claim", "compare",
        "detect", "embed", "export", "importance", "inspect", "load", "matrices", "neighbours",
        "plan", "plot", "prune", "resume", "rollout",
        "run_study", "score", "show", "size", "train", "translate",
    },
    "attnlab.attention": {
        "AttentionPlan", "Mechanism", "cache_bytes", "calibrate", "install", "install_written",
        "load_frequencies", "load_plan", "load_with_plan", "model_with_layer_types", "make", "plan_of",
        "streaming_cache", "use", "write_plan",
    },
}  # fmt: skip


@pytest.mark.parametrize("package", NAMES)
def test_dir_lists_the_names_without_loading_anything(package: str) -> None:
    code = f"""
import importlib, sys
names = dir(importlib.import_module({package!r}))
heavy = {{"torch", "transformers", "pandas", "matplotlib", "numpy", "datasets"}} & set(sys.modules)
assert not heavy, heavy
assert names == {sorted(NAMES[package])!r}, names
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", NAMES)
def test_every_name_resolves_to_what_bears_it(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) == NAMES[package]
    for name in module.__all__:
        found = getattr(module, name)
        if name in {"attention", "matrices", "plot"}:
            assert found is sys.modules[f"attnlab.{name}"]
        elif name != "__version__":
            assert callable(found), f"{name} is a module or a value"
            assert found.__name__ == name
    with pytest.raises(AttributeError, match="attribute .?absent"):
        _ = module.absent


@pytest.mark.parametrize("package", NAMES)
def test_type_checkers_see_what_is_looked_up(package: str) -> None:
    module = import_module(package)
    source = Path(str(module.__file__))
    stub = source.with_suffix(".pyi")
    body = ast.parse((stub if stub.exists() else source).read_text(encoding="utf-8")).body
    blocks = (
        body
        if stub.exists()
        else [one for node in body if isinstance(node, ast.If) for one in node.body]
    )
    typed = {
        alias.name: f"{package}.{node.module}" if node.level else str(node.module)
        for node in blocks
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(typed) >= NAMES[package] - {"__version__"}
    for name, home in typed.items():
        assert getattr(module, name) is getattr(import_module(home), name)


def test_names_stay_functions_after_their_modules_were_imported() -> None:
    for home in ("attnlab.reading.capture", "attnlab.questions.importance.importance"):
        import_module(home)
    assert attnlab.capture is sys.modules["attnlab.reading.capture"].capture
    assert attnlab.importance is sys.modules["attnlab.questions.importance.importance"].importance


@pytest.mark.slow
def test_looking_up_capture_imports_no_more_than_analyze_does() -> None:
    code = (
        "import attnlab, sys; attnlab.analyze; before = set(sys.modules); attnlab.capture; "
        "assert 'scipy.signal' not in before; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == ["attnlab.reading.capture"]


@pytest.mark.slow
def test_what_is_imported_within_a_question_leaves_python_s_random_numbers_as_they_are() -> None:
    code = (
        "import attnlab, random; random.seed(0); before = random.getstate(); "
        "import attnlab.core.terminal, attnlab.models, attnlab.plot; "
        "from rich.progress import Progress; assert random.getstate() == before"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
