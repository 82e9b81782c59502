"""What surrounds the program: its streams, the variables of its environment, links in place of folders."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attnlab.corpora.corpus import load_corpus
from attnlab.errors import InputError

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


def test_a_closed_standard_output_is_an_error(table: Path) -> None:
    status, said = in_shell(f'"$@" table {table} >&-')
    assert (status, said.count("\n")) == (2, 1)
    assert "Standard output is closed" in said


def test_a_full_disk_behind_standard_output_is_an_error(table: Path) -> None:
    status, said = in_shell(f'"$@" table {table} >/dev/full')
    assert (status, said) == (
        1,
        "Error: Could not write to standard output: No space left on device.\n",
    )


def test_a_closed_standard_error_changes_nothing(table: Path) -> None:
    assert in_shell(f'"$@" table {table} >/dev/null 2>&-') == (0, "")


def test_variables_of_launchers_and_of_matplotlib_are_no_matter_of_a_table(table: Path) -> None:
    strange = {"WORLD_SIZE": "abc", "MPLBACKEND": "nonsense"}
    assert in_shell(f'"$@" table {table} >/dev/null', **strange) == (0, "")


def test_figures_are_drawn_whatever_the_backend_for_windows() -> None:
    code = (
        "import sys; from attnlab.cli.app import main; sys.argv = ['attnlab', 'mechanisms']\n"
        "try: main()\n"
        "finally: import attnlab.reporting.canvas\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"MPLBACKEND": "nonsense"}, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, b"")


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
