"""The table of the source documents names what exists, and has no empty row."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest
import typer.main

from attnlab.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "sources.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [TRBSK]\b", line)
]


def exists(name: str) -> bool:
    """Whether a name is a command, a folder of an experiment, or something that can be imported."""
    program, *words = name.split()
    if program == "attnlab":
        command = typer.main.get_command(app).commands[words[0]]
        known = {
            option
            for parameter in command.params
            for option in parameter.opts + parameter.secondary_opts
        }
        return all(word in known for word in words[1:] if word.startswith("--"))
    if name.startswith("experiments/"):
        return (ROOT / name / "run.py").exists()
    return callable(pkgutil.resolve_name(name))


def is_test(path: str, name: str) -> bool:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_every_name_of_a_row_exists(row: list[str]) -> None:
    source, what, place, shown, _erratum = row
    assert source
    assert what
    for name in re.findall(r"`([^`]+)`", place):
        assert exists(name), name
    tests, pages = re.findall(r"`([\w/]+\.py)::(\w+)`", shown), re.findall(r"\]\(([^)]+)\)", shown)
    assert tests or pages, f"nothing shows: {what}"
    for path, name in tests:
        assert is_test(path, name), name
    for page in pages:
        assert (PAGE.parent / page).exists(), page


def test_every_source_has_rows() -> None:
    assert {row[0][0] for row in ROWS} == set("TRBSK")
    assert len({row[1] for row in ROWS}) == len(ROWS)
