"""Signals that ask a process to end: one message and one exit status for all, results whole."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from attnlab.cli import app as program
from attnlab.cli.app import app
from attnlab.cli.command_classes import Command
from attnlab.core.errors import AttnlabError
from attnlab.core.files import write_text
from attnlab.core.folders import replacing_result
from attnlab.core.signals import SIGNALS, answering, stopped_by_signals, undisturbed

NAMES = [one.name for one in SIGNALS]


def sends(number: signal.Signals) -> Callable[..., None]:
    return lambda *_, **__: os.kill(os.getpid(), number)


def approximate(folder: Path, *words: object) -> tuple[int, str]:
    np.save(folder / "heads.npy", np.full((1, 3, 3), 1 / 3))
    command = ["approximate", str(folder / "heads.npy"), *map(str, words)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    return done.exit_code, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_command_says_that_nothing_was_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "attnlab.questions.approximate.approximation._approximated"
    monkeypatch.setattr(path, sends(signal.Signals[name]))
    before = [signal.getsignal(one) for one in SIGNALS]
    status, told = approximate(tmp_path, "--out", tmp_path / "out")
    assert status == 130
    assert told == "Interrupted before anything was finished; nothing that existed changed.\n"
    assert not (tmp_path / "out").exists()
    assert [signal.getsignal(one) for one in SIGNALS] == before


@pytest.mark.parametrize("name", NAMES)
def test_a_command_says_what_was_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "attnlab.cli.commands.questions.print_result"
    monkeypatch.setattr(path, sends(signal.Signals[name]))
    status, told = approximate(tmp_path, "--out", tmp_path / "out")
    assert status == 130
    assert told.replace("\n", "").endswith(f"Interrupted; finished before: {tmp_path / 'out'}.")
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("name", NAMES)
def test_cells_that_are_finished_are_kept_and_said_to_be(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnlab.studies import running

    write = running.write_cell

    def written(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.Signals[name])

    monkeypatch.setattr(running, "write_cell", written)
    words = ["--structure", "band", "--attempts", "1", "--tokens", "8", "--seeds", "3"]
    command = ["study", "run", "random_search", "--out", str(tmp_path), *words]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 130
    assert "Interrupted; finished cells are kept in" in done.stderr
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_every_command_is_of_the_class_that_hears_signals() -> None:
    commands = dict(typer.main.get_command(app).commands)
    commands |= commands.pop("study").commands
    kinds = {name: type(one) for name, one in commands.items() if name not in {"run", "plan"}}
    assert len(kinds) > 20
    assert {name for name, kind in kinds.items() if not issubclass(kind, Command)} == set()


@pytest.mark.parametrize("name", NAMES)
def test_signals_wait_while_a_result_is_put_in_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        os.kill(os.getpid(), signal.Signals[name])
        return rename(path, target)

    @stopped_by_signals()
    def write() -> None:
        with replacing_result(tmp_path, "page.html") as aside:
            for file in ("a.csv", "b.csv", "page.html"):
                write_text(aside / file, "new")
            monkeypatch.setattr(Path, "rename", interrupted)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "page.html"]


@pytest.mark.parametrize("inner", [nullcontext, stopped_by_signals])
def test_a_second_end_of_the_terminal_does_not_stop_the_tidying_up(
    inner: Callable[[], AbstractContextManager[None]],
) -> None:
    tidied = []

    @stopped_by_signals()
    def work() -> None:
        try:
            # A study that is run by a command hears signals in both.
            with inner():
                os.kill(os.getpid(), signal.SIGHUP)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            tidied.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert tidied


def test_a_later_signal_is_heard_where_a_library_swallowed_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("attnlab.core.signals.time", clock)
    now, heard = 0.0, []
    with stopped_by_signals() as was_stopped:
        assert not was_stopped()
        # Beside the first comes another of the same request; the third is a new one, and so is the last.
        for now in (10.0, 10.5, 12.0, 12.9, 30.0):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except KeyboardInterrupt:
                heard.append(now)
            assert was_stopped()
    assert heard == [10.0, 12.0, 30.0]


def swallowing(number: signal.Signals, error: Exception | None) -> Callable[..., None]:
    """Work of a library that takes a signal for nothing, and then fails or goes on."""

    def work(*_: object, **__: object) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        if error is not None:
            raise error

    return work


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("error", [ModuleNotFoundError("half a module"), OSError("gone")], ids=str)
def test_what_fails_because_of_a_signal_is_an_interruption(
    name: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "attnlab.questions.approximate.approximation._approximated"
    monkeypatch.setattr(path, swallowing(signal.Signals[name], error))
    status, told = approximate(tmp_path)
    assert status == 130
    assert told == "Interrupted before anything was finished; nothing that existed changed.\n"


def test_a_sentence_about_an_interruption_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "attnlab.questions.approximate.approximation._approximated"
    said = AttnlabError("Training was interrupted; the replaced run is kept.")
    monkeypatch.setattr(path, swallowing(signal.SIGTERM, said))
    with pytest.raises(AttnlabError, match="replaced run is kept"):
        approximate(tmp_path)


def test_an_error_without_a_signal_is_no_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "attnlab.questions.approximate.approximation._approximated"
    monkeypatch.setattr(path, lambda *_, **__: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        approximate(tmp_path)


def test_a_signal_is_heard_after_what_it_waited_for_failed() -> None:
    @stopped_by_signals()
    @undisturbed()
    def fail() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise OSError

    with pytest.raises(KeyboardInterrupt):
        fail()


def test_a_closed_terminal_that_nohup_has_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard: list[int] = []
    try:
        with stopped_by_signals(), undisturbed(), answering(heard.append):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == []


def test_a_command_goes_on_when_its_terminal_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = os.openpty()
    said = []

    def closed() -> None:
        print("before")
        said.append(os.read(ours, 100))
        os.close(ours)
        for stream in (sys.stdout, sys.stderr):
            print("after", file=stream, flush=True)
        Console(file=sys.stderr).print("after")

    with os.fdopen(its, "w") as terminal:
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, terminal)
        monkeypatch.setattr(program, "app", closed)
        program.main()
        with pytest.raises(OSError, match="Input/output error"):
            os.write(its, b"after")
    assert said == [b"before\r\n"]


def test_a_command_runs_where_its_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    ran = []
    monkeypatch.setattr(program, "app", lambda: ran.append(True))
    program.main()
    sys.stderr.close()
    assert ran
