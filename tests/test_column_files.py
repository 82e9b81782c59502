"""Columns are declared in text tables beside what computes them: each row whole, and used."""

import re
from pathlib import Path

import pytest

import attnlab
from attnlab.core.columns import SHARED_COLUMNS, Column, read_columns

ROOT = Path(attnlab.__file__).parent
FILES = sorted(ROOT.rglob("columns.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_every_row_is_whole_and_used(path: Path) -> None:
    heading, *rows = path.read_text(encoding="utf-8").splitlines()
    assert re.split(r" *\| *", heading) == ["name", "heading", "short", "digits", "meaning"]
    columns = read_columns(str(path.with_name("any.py")))
    assert len(columns) == len(rows), "a name stands there twice"
    modules = ROOT.rglob("*.py") if path.parent.name == "core" else path.parent.glob("*.py")
    code = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    for name, column in columns.items():
        assert name.strip() == name == column.name
        assert column.heading
        assert column.meaning.endswith(".")
        assert re.search(rf'["\s]{re.escape(name)}["\s]', code), f"nothing uses {name}"


def test_what_several_tables_share_is_declared_once() -> None:
    shared = set(SHARED_COLUMNS)
    for path in FILES:
        if path.parent.name != "core":
            assert not shared & set(read_columns(str(path.with_name("any.py")))), path


def test_what_a_row_says(tmp_path: Path) -> None:
    table = "name | heading | short | digits | meaning\nl1 | l1 (nats) | far\\noff | 3 | |X| / |H|, as in\n"
    (tmp_path / "columns.txt").write_text(table)
    (column,) = read_columns(str(tmp_path / "question.py")).of("l1")
    assert column == Column("l1", "l1 (nats)", "|X| / |H|, as in", 3, "far\noff")
