"""What `pip install attnlab` brings, what an extra brings, and where the package may import it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import requires
from pathlib import Path

import pytest

from attnlab.core import OPTIONAL

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Whose objects that distribution takes or returns, so that it always brings this one.
COMES_WITH = {"huggingface_hub": "transformers", "markupsafe": "jinja2", "dask": "distributed"}


def modules(requirements: list[str]) -> set[str]:
    names = (re.split(r"[^\w.-]", requirement)[0] for requirement in requirements)
    return {name.replace("-", "_") for name in names}


def imports(tree: ast.AST, *, now: bool) -> Iterator[str]:
    """Modules that are imported with the file (`now`), or when a function of it is called."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import) and now:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and now and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.FunctionDef):
            if not now:
                yield from imports(node, now=True)
        else:
            yield from imports(node, now=now)


@cache
def trees() -> dict[str, ast.Module]:
    paths = (ROOT / "attnlab").rglob("*.py")
    return {str(path): ast.parse(path.read_text("utf-8")) for path in paths}


def foreign(*, now: bool) -> dict[str, str]:
    """By module of other distributions a file of the package that imports it."""
    names = (
        (module.split(".")[0], file)
        for file, tree in trees().items()
        for module in imports(tree, now=now)
    )
    return {name: file for name, file in names if name not in sys.stdlib_module_names}


def test_one_install_trains_translates_scores_and_analyzes() -> None:
    needed = {"accelerate", "datasets", "pyarrow", "sacrebleu", "tokenizers"}
    assert needed <= modules(PROJECT["dependencies"])
    assert set(EXTRAS) == {"treebanks", "embeddings", "cluster", "docs", "dev"}


def test_what_comes_with_another_is_required_by_it() -> None:
    for module, other in COMES_WITH.items():
        required = modules([one for one in requires(other) or () if "extra ==" not in one])
        assert module in {one.lower() for one in required}


@pytest.mark.slow
def test_what_is_imported_is_declared_and_what_is_optional_only_when_needed() -> None:
    required = modules(PROJECT["dependencies"]) | {"attnlab", *COMES_WITH}
    at_once = foreign(now=True)
    assert {"numpy", "torch"} <= set(at_once)
    assert {one: file for one, file in at_once.items() if one not in required} == {}
    used = modules(
        [part for extra in ("treebanks", "embeddings", "cluster") for part in EXTRAS[extra]]
    )
    later = {one: file for one, file in foreign(now=False).items() if one not in required}
    assert {one: file for one, file in later.items() if one not in used} == {}
    assert used - set(later) == {"bokeh", "cryptography"}


def test_the_extra_of_a_part_holds_it() -> None:
    for part in OPTIONAL:
        assert part.name in modules(EXTRAS[part.extra])
