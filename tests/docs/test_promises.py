"""Every promise of the documentation names tests that there are."""

import ast
import importlib
import re
from pathlib import Path

import attnlab

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")


def test_the_tests_that_hold_the_promises_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 25
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_every_promise_names_a_test() -> None:
    tables = PAGE.split("| promise | tests |\n|---|---|\n")[1:]
    promises = [row for table in tables for row in table.split("\n\n")[0].splitlines()]
    assert len(promises) > 25
    assert [row for row in promises if "`tests/" not in row.split(" | ")[-1]] == []


def test_the_reference_names_what_exists_and_every_public_function() -> None:
    pages = (ROOT / "docs" / "api").glob("*.md")
    texts = [page.read_text(encoding="utf-8") for page in pages]
    names = [name for text in texts for name in re.findall(r"auto(?:class|function):: (\S+)", text)]
    assert len(names) > 10
    for name in names:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
    public = {name for name in attnlab.__all__ if callable(getattr(attnlab, name))}
    assert {f"attnlab.{name}" for name in public} <= {*names}
