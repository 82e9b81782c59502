"""What surrounds the program: its streams, the variables of its environment, links in place of folders."""

import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from errno import ENAMETOOLONG
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from attnlab.cli import app as app_module
from attnlab.cli.app import app
from attnlab.core import processes
from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import check_writable
from attnlab.core.processes import launched_processes
from attnlab.corpora.corpus import load_corpus

COMMAND = [sys.executable, "-m", "attnlab"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    return path


def in_shell(line: str, **variables: str) -> tuple[int, str]:
    found = subprocess.run(
        ["bash", "-c", line, "bash", *COMMAND],
        env=os.environ | variables, text=True, stderr=subprocess.PIPE, check=False, timeout=120,
    )  # fmt: skip
    return found.returncode, found.stderr


def test_a_closed_standard_output_is_an_error() -> None:
    status, said = in_shell('"$@" corpora >&-')
    assert (status, said.count("\n")) == (2, 1)
    assert "Standard output is closed" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_an_error(unbuffered: str) -> None:
    status, said = in_shell('"$@" corpora >/dev/full', PYTHONUNBUFFERED=unbuffered)
    assert (status, said) == (
        1,
        "Error: Could not write to standard output: No space left on device.\n",
    )


def test_a_closed_standard_error_changes_nothing() -> None:
    assert in_shell('"$@" corpora >/dev/null 2>&-') == (0, "")


@pytest.mark.slow
def test_variables_of_launchers_and_of_matplotlib_are_no_matter_of_a_table(table: Path) -> None:
    """Nor of figures, which are drawn whatever the backend for windows."""
    code = (
        f"import sys; from attnlab.cli.app import main; sys.argv = ['attnlab', 'table', {str(table)!r}]\n"
        "try: main()\n"
        "finally: import attnlab.figures.canvas\n"
    )
    strange = {"WORLD_SIZE": "abc", "MPLBACKEND": "nonsense"}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | strange, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, b"")


@pytest.mark.slow
def test_a_process_whose_others_never_come_ends_at_the_first_signal(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(5))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    waiting = subprocess.Popen(
        [*COMMAND, "analyze", str(tmp_path / "a.npy"), "--out", str(tmp_path / "out")],
        env=os.environ | told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while waiting.poll() is None and not _listens(int(port)):
            time.sleep(0.1)
        time.sleep(1)
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(60) != 0
    finally:
        waiting.kill()


@pytest.mark.slow
@pytest.mark.parametrize("source", ["RUN", "a.npy"])
def test_a_process_that_nobody_answers_ends_at_the_first_signal(
    source: str, small_run: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.eye(5))
    path = small_run if source == "RUN" else tmp_path / source
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        port = str(silent.getsockname()[1])
        told = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        waiting = subprocess.Popen(
            [*COMMAND, "analyze", str(path), "--out", str(tmp_path / "out")],
            env=os.environ | told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            asked, _ = silent.accept()
            with asked:
                waiting.send_signal(signal.SIGTERM)
                assert waiting.wait(60) != 0
        finally:
            waiting.kill()


# The words of a batch system, and of no launcher of several processes.
PARTIAL = ({"WORLD_SIZE": "2", "MASTER_PORT": "1"}, {"WORLD_SIZE": "abc"})
COMPLETE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
# All but analyze and train, whose work several processes share.
ALONE = {
    "across": "across RUN RUN",
    "align": "align RUN --out OUT",
    "approximate": "approximate a.npy",
    "check": "check RUN",
    "claim": "claim RUN 0.0:first",
    "compare": "compare RUN --out OUT",
    "corpora": "corpora",
    "demo": "demo OUT",
    "detect": "detect RUN",
    "doctor": "doctor",
    "embed": "embed OUT",
    "export": "export PLAN RUN --out OUT",
    "generate": "generate RUN",
    "importance": "importance RUN --out OUT",
    "inspect": "inspect RUN cat",
    "mechanisms": "mechanisms",
    "neighbours": "neighbours RUN cat",
    "plan": "plan RUN --budget 5",
    "prune": "prune RUN --out OUT",
    "report": "report OUT",
    "rollout": "rollout RUN cat",
    "score": "score RUN",
    "show": "show RUN cat --out OUT",
    "size": "size RUN",
    "table": "table a.csv",
    "translate": "translate RUN -",
}
# Those that are quick enough to be run to their end.
QUICK = (
    "approximate a.npy", "mechanisms", "corpora", "table a.csv", "analyze a.npy --out OUT",
    "translate RUN -", "neighbours RUN the", "inspect RUN The",
)  # fmt: skip


@pytest.fixture
def words_of(
    small_run: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """The words of a command, with a run, matrices, a table and a folder to write to."""
    np.save(tmp_path / "a.npy", np.eye(5))
    named = {"RUN": small_run, "OUT": tmp_path / "out", "a.npy": tmp_path / "a.npy", "a.csv": table}
    for name in {*COMPLETE, "LOCAL_RANK"}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Maria sleeps.\n")))
    return lambda line: [str(named.get(word, word)) for word in line.split()]


@pytest.mark.slow
@pytest.mark.parametrize("told", PARTIAL, ids=str)
@pytest.mark.parametrize("line", QUICK)
def test_a_command_takes_no_notice_of_half_a_launcher(
    attnlab, words_of, monkeypatch: pytest.MonkeyPatch, line: str, told: dict[str, str]
) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    status, shown, said = attnlab(*words_of(line))
    assert status == 0, said
    assert shown


@pytest.mark.parametrize("line", ALONE.values(), ids=list(ALONE))
def test_a_command_for_one_process_refuses_a_launcher_at_once(
    attnlab, words_of, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    for name, value in COMPLETE.items():
        monkeypatch.setenv(name, value)
    words = words_of(line)
    told = f"Error: '{words[0]}' runs in one process; start it without torchrun or accelerate launch.\n"
    assert attnlab(*words) == (2, "", told)
    monkeypatch.setenv("WORLD_SIZE", "abc")
    told = "Error: The environment variable WORLD_SIZE is 'abc' and no number; unset it.\n"
    assert attnlab(*words) == (2, "", told)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["analyze RUN --out OUT", "analyze a.npy --out OUT", "train OUT"])
def test_a_shared_command_refuses_a_launcher_that_counts_nothing(
    attnlab, words_of, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    for name, value in (COMPLETE | {"WORLD_SIZE": "abc"}).items():
        monkeypatch.setenv(name, value)
    status, _, said = attnlab(*words_of(line))
    assert (status, said) == (
        2,
        "Error: The environment variable WORLD_SIZE is 'abc' and no number; unset it.\n",
    )
    assert not (tmp_path / "out").exists()


def test_the_commands_for_one_process_are_all_but_two() -> None:
    shared = {"analyze", "train"}
    names = set(typer.main.get_command(app).commands) - {"study"}
    assert names == {*ALONE, *shared}


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_numbers_of_processes_that_cannot_be_are_refused(
    attnlab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    status, _, said = attnlab("analyze", tmp_path)
    assert (status, said.count("\n")) == (2, 1)
    assert "RANK is 2, and WORLD_SIZE counts 2 from 0" in said


class PanicException(BaseException):
    """No `Exception`, and of no module that could be imported."""


MEMORY = "There was not enough memory for this work"
RAISED = {
    "memory": (MemoryError("Unable to allocate 7 GiB"), 1, MEMORY),
    "memory of torch": (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), 1, MEMORY),
    "memory of a GPU": (torch.OutOfMemoryError("CUDA out of memory"), 1, MEMORY),
    "a panic": (PanicException("retry-limit over\nand more"), 1, "PanicException: retry-limit over)"),
    "a long name": (OSError(ENAMETOOLONG, "Name too long", "a" * 5000), 1, "aaaaa': Name too"),
    "many lines": (ValueError("one\n" * 99), 1, "ValueError: one)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", RAISED)
def test_whatever_is_raised_is_one_sentence(
    kind: str, attnlab, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, expected, words = RAISED[kind]

    def fail() -> None:
        raise error

    monkeypatch.setattr(app_module, "app", fail)
    status, _, said = attnlab("corpora")
    assert (status, said.count("\n")) == (expected, 1)
    assert words in said
    assert len(said) < 400


@pytest.mark.parametrize("raised", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_what_ends_a_program_is_never_caught(
    raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end() -> None:
        raise raised

    monkeypatch.setattr(app_module, "app", end)
    monkeypatch.setattr(sys, "argv", ["attnlab"])
    with pytest.raises(raised):
        app_module.main()


def test_a_closed_standard_input_is_a_sentence(small_run: Path) -> None:
    status, said = in_shell(f'"$@" translate {small_run} <&-')
    assert (status, said) == (
        2, "Error: Give a sentence, or a file with --input, or pipe sentences in.\n"
    )  # fmt: skip


def test_a_deleted_working_folder_is_a_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    status, said = in_shell(f'cd {gone} && rmdir {gone} && "$@" corpora')
    assert (status, said.count("\n")) == (2, 1)
    assert "The working folder is gone" in said


@pytest.mark.slow
def test_others_that_never_come_are_waited_for_less_without_a_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = _free_port()
    told = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert timedelta(minutes=1) > processes.MEETING_WITHOUT_LAUNCHER
    monkeypatch.setattr(processes, "MEETING_WITHOUT_LAUNCHER", timedelta(seconds=1))
    monkeypatch.setattr(processes, "MEETING", None)
    with (
        pytest.raises(
            AttnlabError, match=r"of 2 by WORLD_SIZE, cannot be met; .* unset RANK, WORLD_SIZE"
        ),
        launched_processes().together(),
    ):
        pass


def _free_port() -> str:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return str(tried.getsockname()[1])


def test_a_number_beyond_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match="--document is 10+, beyond 64 bits"):
        load_corpus("embedded", document=10**20)


def test_a_link_to_nothing_as_a_folder_to_write_to(attnlab, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(5))
    (tmp_path / "out").symlink_to("nothing")
    for command in ("approximate", "analyze"):
        status, _, said = attnlab(command, tmp_path / "a.npy", "--out", tmp_path / "out")
        assert status == 2
        assert f"{tmp_path / 'out'} is a link to nothing, where nothing is; delete the link" in said


@pytest.mark.parametrize("name", ["out", "out/inner"])
def test_a_link_to_nothing_is_found_before_work_starts(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").symlink_to("nothing")
    with pytest.raises(InputError, match="is a link to nothing, where nothing is"):
        check_writable(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
