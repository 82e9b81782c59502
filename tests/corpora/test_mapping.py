"""Several processes make the rows that one makes, none outlives a signal or an error, and errors are told."""

import errno
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import datasets
import psutil
import pytest
import torch
from datasets.utils import tqdm

from attnlab.core.errors import AttnlabError
from attnlab.core.signals import SIGNALS, stopped_by_signals
from attnlab.corpora import mapping
from attnlab.corpora.mapping import mapped
from attnlab.corpora.rows import Storage

FEATURES = datasets.Features({"double": datasets.Value("int64"), "row": datasets.Value("int64")})
ROWS = datasets.Dataset.from_dict({"number": list(range(100, 150))})

Columns = Mapping[str, list[int]]


def doubled(columns: Columns, indices: list[int]) -> dict[str, list[int]]:
    """The first half of the rows is left out."""
    both = zip(columns["number"], indices, strict=True)
    kept = [(2 * number, row) for number, row in both if row >= 25]
    return {"double": [double for double, _ in kept], "row": [row for _, row in kept]}


def made(make: mapping.Make, threads: int, monkeypatch: pytest.MonkeyPatch) -> datasets.Dataset:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    return mapped(ROWS, make, FEATURES, storage=Storage(in_memory=10), description="Doubling")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_processes_make_the_rows_that_one_makes(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = mapped(ROWS, doubled, FEATURES, storage=Storage(), description="")
    assert wanted["row"][:] == list(range(25, 50))
    found = made(doubled, threads, monkeypatch)
    assert found[:] == wanted[:]
    assert found.features == wanted.features


def test_a_daemon_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert len(made(doubled, 2, monkeypatch)) == 25


@pytest.mark.parametrize("name", [one.name for one in SIGNALS])
def test_a_signal_to_all_ends_them_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getpid()

    def signalled(_: Columns, indices: list[int]) -> dict[str, list[int]]:
        time.sleep(0.5)  # all have begun
        os.kill(os.getpid(), signal.Signals[name])
        if indices[0] == 0:
            os.kill(own, signal.Signals[name])
        time.sleep(60)
        raise AssertionError

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        made(signalled, 2, monkeypatch)
    assert time.monotonic() - begun < 30
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_disk_is_told_by_each(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Columns, indices: list[int]) -> dict[str, list[int]]:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(AttnlabError, match="No space left on device.*set TMPDIR"):
        made(full, threads, monkeypatch)
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(columns: Columns, indices: list[int]) -> dict[str, list[int]]:
        if indices[0] > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return doubled(columns, indices)

    with pytest.raises(AttnlabError, match=r"was killed.*set_num_threads\(1\)"):
        made(killed, 2, monkeypatch)


def test_the_lock_of_progress_bars_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tqdm.get_lock().mp_lock

    def killed(columns: Columns, indices: list[int]) -> dict[str, list[int]]:
        if indices[0] > 0:
            tqdm.get_lock().acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        return doubled(columns, indices)

    with pytest.raises(AttnlabError, match="was killed"):
        made(killed, 2, monkeypatch)
    assert lock.acquire(timeout=10), "the killed process holds it"
    try:
        # As a thread of the parent may, which shows bars too.
        assert len(made(doubled, 2, monkeypatch)) == 25
    finally:
        lock.release()


def test_none_outlives_the_one_that_began_them(monkeypatch: pytest.MonkeyPatch) -> None:
    receiving, sending = multiprocessing.get_context("fork").Pipe(duplex=False)

    def waiting(_: Columns, indices: list[int]) -> dict[str, list[int]]:
        sending.send(os.getpid())
        time.sleep(60)
        raise AssertionError

    def work() -> None:
        made(waiting, 2, monkeypatch)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    begun = [receiving.recv() for _ in range(2)]
    process.kill()
    process.join()
    end = time.monotonic() + 30
    while any(map(is_alive, begun)):
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(number: int) -> bool:
    """False also for a process whose end nobody has asked for."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    return False


def test_nothing_is_left_of_what_a_process_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = made(doubled, 2, monkeypatch)
    assert len(found) == 25
    assert not list(tmp_path.iterdir())
