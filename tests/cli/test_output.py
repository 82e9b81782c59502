"""What all commands share: results on standard output, all else on standard error, JSON, threads."""

import io
import json
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rich.progress
import torch
import typer.main
from rich.console import Console
from rich.table import Table
from small_run import write_pairs

from attnlab.cli import progress
from attnlab.cli.app import app
from attnlab.cli.commands import catalogues as doctor
from attnlab.cli.commands.table_commands import distinct_headings
from attnlab.cli.output import Output, Terminal, print_json
from attnlab.cli.progress import Announced, Lines
from attnlab.evaluation.shared_settings import Steps
from attnlab.results import declared_tables
from attnlab.studies import TABLES

NO_TABLES = {"train", "embed", "translate", "generate", "show", "export"}
ON_A_DEVICE = {
    "demo", "train", "translate", "score", "analyze", "importance", "compare", "plan",
    "prune", "inspect", "rollout", "generate", "across", "align", "check", "claim", "detect", "show",
}  # fmt: skip


def every_command() -> list[tuple[str, object]]:
    commands = typer.main.get_command(app).commands
    study = commands["study"].commands
    named = [(f"study {name}", study[name]) for name in ("list", "status", "collect")]
    runs = [(f"study {n} random_search", study[n].get_command(None, "random_search"))
            for n in ("run", "plan")]  # fmt: skip
    return [(name, one) for name, one in commands.items() if name != "study"] + named + runs


@pytest.mark.parametrize(("name", "command"), every_command(), ids=str)
def test_all_commands_have_one_vocabulary(name: str, command: object) -> None:
    flags = {flag for option in command.params for flag in option.opts}
    assert {"--quiet", "--threads"} <= flags
    assert ("--json" in flags) == (name not in NO_TABLES)
    assert ("--device" in flags) == (name in ON_A_DEVICE)


def test_an_option_of_several_commands_says_the_same_in_each() -> None:
    said: dict[str, set[str]] = {}
    for _, command in every_command():
        for option in command.params:
            said.setdefault(option.opts[0], set()).add(str(option.help).partition(" (default")[0])
    shared = (
        "--device", "--sites", "--threads", "--quiet", "--json", "--batch-size",
        "--ignore-special",
    )  # fmt: skip
    assert {name: len(said[name]) for name in shared} == dict.fromkeys(shared, 1)
    seeds = "of a training, of vectors, of sampling, and of a study of what was trained"
    assert len(said["--seed"]) == 4, seeds


@pytest.mark.parametrize(
    "words",
    ["mechanisms", "mechanisms band(window=3)", "corpora", "corpora pairs.en-it.tsv", "doctor", "study list",
     "approximate heads.npy", "study plan random_search"],
)  # fmt: skip
def test_json_is_one_object(
    attnlab, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("heads.npy", np.full((2, 4, 4), 0.25))
    write_pairs(Path("pairs.en-it.tsv"), [(f"a {n}", f"b {n}") for n in range(40)])
    status, out, _ = attnlab(*words.split(), "--json")
    assert status == 0
    assert isinstance(json.loads(out), dict)


def test_messages_go_to_standard_error_and_quiet_leaves_them_out(attnlab, tmp_path: Path) -> None:
    np.save(tmp_path / "heads.npy", np.full((2, 4, 4), 0.5))
    words = ("approximate", tmp_path / "heads.npy", "--out", tmp_path / "out", "--overwrite")
    _, out, err = attnlab(*words)
    assert "Wrote" in err
    assert "Note" in err
    assert "Wrote" not in out
    assert attnlab(*words, "--quiet")[1:] == (out, "")


@pytest.mark.parametrize(
    ("part", "purpose"), [("conllu", "treebanks"), ("gensim", "skip-gram vectors")]
)
def test_the_doctor_says_how_to_install_what_is_missing(
    attnlab, part: str, purpose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name == part else "1.0")
    _, out, _ = attnlab("doctor")
    assert f"by its name, such as: pip install {part}" in out
    assert "make install" not in out
    assert purpose in out
    assert "cpu" in out


def test_threads_are_those_of_torch(attnlab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    before = torch.get_num_threads()
    try:
        attnlab("mechanisms", "--threads", 3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    status, _, err = attnlab("mechanisms", "--threads", 0)
    assert (status, err) == (2, "Error: threads must be at least 1 and at most 1024, not 0.\n")


def test_the_help_names_the_exit_statuses_and_completion(attnlab) -> None:
    said = " ".join(attnlab("--help")[1].split())
    assert "0 done, 1 failed, 2 something given cannot be used, 130 interrupted" in said
    assert "--install-completion" in said


def test_progress_is_lines_where_there_is_no_terminal() -> None:
    now = 0.0
    file = io.StringIO()
    tell = Lines(Console(file=file), clock=lambda: now)
    for done in range(31):
        tell("Looking", done, 30)
        now += 1.0
    tell("Short", 0, 1)
    tell("Short", 1, 1)
    assert file.getvalue().splitlines() == [
        "Looking: 2 of 30, about 28 s left",
        "Looking: 12 of 30, about 18 s left",
        "Looking: 22 of 30, about 8 s left",
        "Looking: 30 of 30, 30 s",
    ]


def test_the_time_left_is_told_from_the_first_of_equal_steps_on() -> None:
    now = 0.0
    file = io.StringIO()
    steps = Steps("Scoring", 5, Lines(Console(file=file), clock=lambda: now))

    def work() -> None:
        nonlocal now
        now += 30.0

    for _ in range(2):
        steps.of(work)()
    tell = Lines(Console(file=file), clock=lambda: now)
    for _ in range(2):
        tell("Waiting", 3, 5)
        now += 30.0
    assert file.getvalue().splitlines() == [
        "Scoring: 1 of 5, about 2 min 0 s left",
        "Scoring: 2 of 5, about 1 min 30 s left",
        "Waiting: 3 of 5",
    ]


def test_long_work_is_announced_before_its_first_step_and_estimated_after_it() -> None:
    now = 0.0
    file = io.StringIO()
    tell = Announced(
        Lines(Console(quiet=True)), Console(file=file), clock=lambda: now, busy=lambda: "; busy",
        at=" at 5 keys",
    )  # fmt: skip
    steps = Steps("Scoring plans", 24, tell)

    def work() -> None:
        nonlocal now
        if not now:
            assert file.getvalue() == "Scoring plans: 24 to do at 5 keys\n"
        now += 10.0

    for _ in range(3):
        steps.of(work)()
    tell("Begun before", 3, 5)
    tell("Begun before", 4, 5)
    for done in range(3):
        tell("Short", done, 2)
    assert file.getvalue().splitlines() == [
        "Scoring plans: 24 to do at 5 keys",
        "Scoring plans: about 4 min 0 s for all 24; busy",
        "Short: 2 to do",
    ]


def test_the_time_of_short_steps_is_told_after_several() -> None:
    now, announced = 0.0, io.StringIO()
    tell = Announced(
        Lines(Console(quiet=True)), Console(file=announced), clock=lambda: now, busy=lambda: ""
    )
    for done, seconds in enumerate((0.75, 0.25, 0.25, 0.25)):
        tell("Trying", done, 40)
        now += seconds
    assert announced.getvalue().splitlines() == [
        "Trying: 40 to do",
        "Trying: about 20 s for all 40",
    ]


def test_the_same_work_once_more_has_a_time_of_its_own() -> None:
    now = 0.0
    shown, announced = io.StringIO(), io.StringIO()
    lines = Lines(Console(file=shown), clock=lambda: now)
    tell = Announced(lines, Console(file=announced), clock=lambda: now, busy=lambda: "")
    for total, seconds in ((2, 100.0), (4, 3.0)):
        for done in range(total + 1):
            tell("Trying", done, total)
            now += seconds
        now += 1000.0
    assert shown.getvalue().splitlines() == [
        "Trying: 1 of 2, about 1 min 40 s left",
        "Trying: 2 of 2, 3 min 20 s",
        "Trying: 1 of 4, about 9 s left",
        "Trying: 4 of 4, 12 s",
    ]
    assert announced.getvalue().splitlines() == [
        "Trying: 2 to do",
        "Trying: about 3 min 20 s for all 2",
        "Trying: 4 to do",
        "Trying: about 12 s for all 4",
    ]


def test_a_bar_begins_anew_when_its_work_does() -> None:
    now = 0.0
    bars = rich.progress.Progress(get_time=lambda: now, disable=True)
    tell = progress.Bars(bars)
    tell.name("Loading")
    for total, seconds in ((2, 100.0), (4, 3.0)):
        for done in range(total):
            tell("Trying", done, total)
            now += seconds
        (task,) = (one for one in bars.tasks if one.description == "Trying")
        assert (task.completed, task.total, task.elapsed) == (total - 1, total, total * seconds)
        assert [one.description for one in bars.tasks if one.visible] == ["Trying"]
        tell("Trying", total, total)
        now += 1000.0


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    ("how", "announced", "told"),
    [
        (Output(), True, True), (Output(), False, False), (Output(as_json=True), True, False),
        (Output(quiet=True), True, False),
    ],
)  # fmt: skip
def test_work_is_announced_where_it_is_asked_for_and_never_beside_json(
    monkeypatch: pytest.MonkeyPatch, how: Output, *, announced: bool, told: bool, terminal: bool
) -> None:
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=terminal, quiet=how.quiet)
    monkeypatch.setattr(progress, "messages", lambda: console)
    monkeypatch.setattr(progress, "output", lambda: how)
    with progress.progress_bars(announced=announced) as tell:
        tell("Scoring", 0, 3)
        tell.name("Cell 1 of 2")
        tell("Scoring", 3, 3)
    assert ("Scoring: 3 to do" in file.getvalue()) is told


def test_what_is_done_now_has_its_name() -> None:
    now = 0.0
    file = io.StringIO()
    tell = Lines(Console(file=file), clock=lambda: now)
    tell("Cells", 0, 2)
    tell.name("Cell 1 of 2 (seed 0)")
    now = 3.0
    tell.wait()
    assert file.getvalue().splitlines() == ["Cell 1 of 2 (seed 0): 3 s so far"]


def test_progress_is_printed_though_nothing_is_told() -> None:
    now = 0.0
    file = io.StringIO()
    tell = Lines(Console(file=file), clock=lambda: now)
    for second in range(45):
        now = float(second)
        if second in {15, 25}:
            tell("Looking", second - 15, 10)
        tell.wait()
    assert file.getvalue().splitlines() == [
        "Reading: 2 s so far",
        "Looking: 2 s so far",
        "Looking: 10 of 10, 10 s",
        "Working: 15 s so far",
    ]


def test_a_pipe_gets_lines_while_a_command_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    for name, seconds in (("FIRST_LINE", 0.05), ("BETWEEN_LINES", 0.1), ("BEAT", 0.01)):
        monkeypatch.setattr(progress, name, seconds)
    monkeypatch.setattr(progress, "messages", lambda: Terminal(file=file))
    threads = threading.active_count()
    with progress.progress_bars():
        limit = time.monotonic() + 60
        while len(file.getvalue().splitlines()) < 2 and time.monotonic() < limit:
            time.sleep(0.01)
    assert threading.active_count() == threads
    lines = file.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("Reading: ") and line.endswith(" s so far") for line in lines)


TABLE = pd.DataFrame(
    {"site": ["encoder"] * 2, "layer": [0, 0], "head": [0, 1], "entropy_nats": [1.23456, 2.0],
     **{f"column_number_{n}": [f"value_{n}_of_a_row"] * 2 for n in range(8)}}
)  # fmt: skip


def test_a_budget_stays_whole_and_a_word_stays_a_word(attnlab, tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("budget,detail,share\n3,None,0.1\n,NA,0.3333333333333333\n", encoding="utf-8")
    rows = json.loads(attnlab("table", file, "--json")[1])["table"]
    assert rows == [
        {"budget": 3, "detail": "None", "share": 0.1},
        {"budget": None, "detail": "NA", "share": 1 / 3},
    ]
    assert "3.0" not in attnlab("table", file)[1]


def test_what_is_no_number_in_json_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(table=pd.DataFrame({"far": [np.inf, 0.5]}), alone=float("nan"), tiny=1e-12 / 3)
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"table": [{"far": None}, {"far": 0.5}], "alone": None, "tiny": 1e-12 / 3}


def test_columns_of_one_short_heading_are_all_printed(attnlab, tmp_path: Path) -> None:
    for table in (*declared_tables(), *TABLES):
        headings = distinct_headings(table.columns)
        assert len({*headings}) == len(headings), table.file
    file = tmp_path / "summary.csv"
    file.write_text("mechanism,loss,loss_change\nband,1.2345,0.6789\n", encoding="utf-8")
    assert attnlab("table", file)[1].splitlines()[-1].split() == ["band", "1.2345", "0.6789"]


def test_a_table_without_rows_is_printed_in_every_form(attnlab, tmp_path: Path) -> None:
    file = tmp_path / "heads.csv"
    TABLE.head(0).to_csv(file, index=False)
    for form in ("text", "csv", "markdown", "latex"):
        assert "head" in attnlab("table", file, "--format", form)[1]


def test_a_table_is_printed_in_every_form(attnlab, tmp_path: Path) -> None:
    file = tmp_path / "heads.csv"
    TABLE.to_csv(file, index=False)
    _, text, _ = attnlab("table", file)
    assert all(f"value_{n}_of_a_row" in text for n in range(8)), "no cell is cut or wrapped"
    assert max(map(len, text.splitlines())) <= 80
    assert "1.23" in text
    assert "1.23456" not in text
    _, latex, _ = attnlab("table", file, "--format", "latex", "--columns", "head, entropy_nats")
    assert r"\begin{tabular}{rr}" in latex
    assert "1.23456" in attnlab("table", file, "--format", "csv")[1]
    assert attnlab("table", file, "--format", "markdown")[1].startswith("| site | layer |")
    assert len(json.loads(attnlab("table", file, "--json")[1])["table"]) == 2
    for words, told in {
        (file, "--format", "xml"): "no format 'xml'; choose from: text, csv, markdown, latex",
        (file, "--columns", "nothing"): "There is no column 'nothing'; choose from: site",
        (tmp_path / "none.csv",): "commands write their tables to folders such as RUN/analysis",
    }.items():
        status, _, err = attnlab("table", *words)
        assert status == 2
        assert told in err


NAME = "[bold]a[/] :smile: \x1b[31mred\x07\u202e"
PRINTED = r"[bold]a[/] :smile: \x1b[31mred\x07\u202e"


def test_names_from_data_are_printed_literally_and_without_control_characters(
    attnlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    np.savez("heads.npz", **{NAME: np.full((2, 4, 4), 0.25), "b": np.full((2, 4, 4), 0.25)})
    pd.DataFrame({"site": [NAME], NAME: [1]}).to_csv("table.csv", index=False)
    Path("notes[b].csv").write_text("a\n\x1b[2J\n", encoding="utf-8")
    write_pairs(Path("[i]pairs.en-it.tsv"), [(f"a {n}", f"b {n}") for n in range(40)])
    said = [
        attnlab("approximate", "heads.npz"),
        attnlab("approximate", "heads.npz", "--array", NAME + "x"),
        attnlab("table", "table.csv"),
        attnlab("table", "notes[b].csv"),
        attnlab("corpora", "[i]pairs.en-it.tsv"),
        attnlab("analyze", f"./{NAME}"),
    ]
    for _, out, err in said:
        assert "\x1b" not in out + err
        assert "\x07" not in out + err
        assert "\u202e" not in out + err
    assert [status for status, _, _ in said] == [2, 2, 0, 0, 0, 2]
    assert PRINTED in said[0][2]
    assert f"{PRINTED}x" in said[1][2]
    assert said[2][1].count(PRINTED) == 2
    assert r"\x1b[2J" in said[3][1]
    assert "[i]pairs.en-it.tsv" in said[4][1]
    assert PRINTED in said[5][2]


def test_the_terminal_prints_text_as_it_is_in_messages_tables_and_titles() -> None:
    file = io.StringIO()
    table = Table(title=NAME, caption=NAME)
    table.add_column(NAME)
    table.add_row(NAME)
    terminal = Terminal(file=file, width=200, force_terminal=True, color_system=None)
    terminal.print(NAME, style="red")
    terminal.print(table)
    assert file.getvalue().count(PRINTED) == 5
    assert "\x07" not in file.getvalue()


def test_a_latex_table_that_is_too_wide_is_told_with_columns_that_fit(
    attnlab, tmp_path: Path
) -> None:
    file = tmp_path / "wide.csv"
    names = [f"column_{index}" for index in range(12)]
    pd.DataFrame([range(12)], columns=names).to_csv(file, index=False)
    _, _, said = attnlab("table", file, "--format", "latex")
    assert "pt wide, and the text of a LaTeX article 345" in " ".join(said.split())
    fitting = " ".join(said.split()).partition("--columns ")[2].rstrip(".").replace(" ", "")
    # Eight letters and the space around them: 49 points each.
    assert fitting.split(",") == names[:7]
    _, _, said = attnlab("table", file, "--format", "latex", "--columns", fitting)
    assert "wide" not in said
