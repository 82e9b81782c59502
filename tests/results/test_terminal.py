"""What a result prints: the tables of its command, with all their cells, and its notes."""

from collections.abc import Callable

import pytest
from made_alignment import alignment
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.results import Result, TerminalTable, print_shown


def model() -> tuple[object, object]:
    return random_models.gpt2(), tokenizer()


RESULTS: dict[str, Callable[[], Result]] = {
    "analyze": lambda: attnlab.analyze(model(), sentences=SENTENCES),
    "inspect": lambda: attnlab.inspect(model(), SENTENCES[0]),
    "check": lambda: attnlab.check(random_models.gpt2(), tokens=8),
    "align": alignment,
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_shown_as_its_command_prints_it(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = RESULTS[name]()
    capsys.readouterr()
    result.show()
    shown = capsys.readouterr().out
    for table in result.terminal():
        print_shown(table)
    tables = capsys.readouterr().out
    assert shown == tables + "".join(f"Note: {note}\n" for note in map(str, result.notes))
    words = " ".join(tables.split())
    for table in result.terminal():
        for row in table.rows:
            # Cells of prose are wrapped beside each other.
            whole = [
                cell
                for heading, cell in zip(table.headings, row, strict=True)
                if heading not in table.prose
            ]
            assert all(line.strip() in tables for cell in whole for line in cell.splitlines())
        assert " ".join((table.caption or "").split()) in words


def test_text_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor what a terminal would obey."""
    print_shown(TerminalTable(("[red]word", "n"), (("[bold]a :smile:\x1b[31m", "1"),), ("n",)))
    shown = capsys.readouterr().out
    assert "[red]word" in shown
    assert "[bold]a :smile:" in shown
    assert "\x1b" not in shown
