import pytest
from typer.testing import CliRunner

from attnlab.attention.registry import MECHANISMS, catalogue
from attnlab.cli.app import app
from attnlab.core.errors import InputError

run = CliRunner(env={"COLUMNS": "200"}).invoke


def test_every_mechanism_is_listed_with_its_options() -> None:
    printed = run(app, ["mechanisms"])
    assert printed.exit_code == 0
    for name in MECHANISMS:
        assert f"\n{name} " in printed.output
    assert "window, dilation=1, global_tokens=(0,)" in printed.output
    assert "arXiv 2004.05150" in printed.output
    assert "pattern: self, previous, next, left, right, start, end" in printed.output


def test_nothing_is_cut_on_a_terminal_of_80_columns() -> None:
    for words in (["mechanisms"], ["mechanisms", "band(window=3)"]):
        printed = run(app, words, env={"COLUMNS": "80"}).output
        assert "…" not in printed
        assert max(len(line) for line in printed.splitlines()) <= 80
        if len(words) == 1:
            whole = " ".join(printed.split())
            for entry in catalogue():
                assert f"{entry.name}({entry.options})" in whole or not entry.options
                assert " ".join(entry.summary.split()) in whole


def test_the_cost_of_one_is_shown_against_full_attention() -> None:
    printed = run(app, ["mechanisms", "band( window=3 )"])
    assert printed.exit_code == 0
    assert "band(window=3), one head of 64" in printed.output
    assert f"{7 / 512:.1%}" in printed.output


@pytest.mark.parametrize(
    ("text", "message"),
    [("bund", "choose from: full, band"), ("band", "needs the option 'window'")],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    refused = run(app, ["mechanisms", text])
    assert isinstance(refused.exception, InputError)
    assert message in str(refused.exception)
