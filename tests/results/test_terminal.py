"""What a result prints; tests/questions/test_contract.py asks it of every question."""

import pytest

from attnlab.results import TerminalTable, print_shown


def test_text_is_printed_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor what a terminal would obey."""
    print_shown(TerminalTable(("[red]word", "n"), (("[bold]a :smile:\x1b[31m", "1"),), ("n",)))
    shown = capsys.readouterr().out
    assert "[red]word" in shown
    assert "[bold]a :smile:" in shown
    assert "\x1b" not in shown
