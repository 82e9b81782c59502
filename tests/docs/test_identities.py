"""The index of identities names functions and tests that exist."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "identities.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("| statement", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_functions_and_tests_exist(row: list[str]) -> None:
    _, _, function, test = row
    for name in re.findall(r"`([^`]+)`", function):
        assert callable(pkgutil.resolve_name(name))
    path, name = re.fullmatch(r"`([\w/]+\.py)::(\w+)`", test).groups()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_identities_are_all_in_the_index() -> None:
    named = {row[3].strip("`").split("::")[1] for row in ROWS}
    for path in (ROOT / "tests" / "identities").glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name for name in tests if name.startswith("test_")} <= named
