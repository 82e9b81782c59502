"""Two processes never write to one folder at once."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_run import small_settings

from attnlab.core.errors import InputError
from attnlab.core.folders import is_locked, locked
from attnlab.models.training import resume, train

HOLD = """
import sys, time
from pathlib import Path
from attnlab.core.folders import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_folder_in_which_another_process_trains_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    root = str(Path(__file__).resolve().parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        for call in (lambda: train(folder, small_settings()), lambda: resume(folder)):
            with pytest.raises(InputError, match=rf"Another process \({other.pid}\) is writing to"):
                call()
        other.send_signal(signal.SIGKILL)
    with locked(folder):
        assert list(folder.iterdir()) == []


def test_a_refused_training_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        resume(tmp_path / "deep" / "run")
    with locked(tmp_path / "deep" / "run"):
        assert (tmp_path / "deep" / "run").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_deleted_while_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rmdir, seen = tmp_path / "run", Path.rmdir, []

    def watched(path: Path) -> None:
        seen.append(is_locked(path))
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", watched)
    with locked(folder):
        pass
    assert seen == [True]
    assert not folder.exists()


@pytest.fixture
def once_before(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets another process do something before the first call of a function."""

    def arrange(module: object, name: str, other: Callable[[], object]) -> None:
        function = getattr(module, name)

        def called(*arguments: object) -> object:
            monkeypatch.setattr(module, name, function)
            other()
            return function(*arguments)

        monkeypatch.setattr(module, name, called)

    return arrange


@pytest.mark.parametrize(("module", "name"), [(os, "open"), (fcntl, "flock")])
@pytest.mark.parametrize("remade", [False, True])
def test_a_folder_that_another_process_deletes_meanwhile_is_made_and_locked_again(
    tmp_path: Path, once_before: Callable[..., None], module: object, name: str, *, remade: bool
) -> None:
    folder = tmp_path / "run"

    def delete() -> None:
        folder.rmdir()
        if remade:
            folder.mkdir()

    once_before(module, name, delete)
    with locked(folder):
        assert is_locked(folder)
    assert list(tmp_path.iterdir()) == []


def test_who_is_refused_leaves_the_folder_that_another_process_trains_in(
    tmp_path: Path, once_before: Callable[..., None]
) -> None:
    folder, handles = tmp_path / "run", []

    def lock() -> None:
        handles.append(os.open(folder, os.O_RDONLY))
        fcntl.flock(handles[0], fcntl.LOCK_EX)

    once_before(fcntl, "flock", lock)
    with pytest.raises(InputError, match="Another process"), locked(folder):
        pass
    assert is_locked(folder)
    os.close(handles[0])


def test_a_folder_is_locked_until_the_block_ends(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "none")
    with locked(tmp_path):
        assert is_locked(tmp_path)
        assert is_locked(tmp_path), "looking takes no lock away"
    assert not is_locked(tmp_path)


def test_a_link_to_nothing_is_no_folder_to_lock(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("nothing")
    with pytest.raises(InputError, match="out is a link to nothing, where nothing is"):
        locked(tmp_path / "out").__enter__()


def test_a_file_system_without_locks_refuses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with locked(tmp_path / "run"), locked(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()
        assert not is_locked(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
