"""Rows of a dataset made into others: in memory, or by several processes into files, memory-mapped."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attnlab.core import SIGNALS, AttnlabError
from attnlab.corpora.rows import Storage, reporting_full_disk

if TYPE_CHECKING:
    import datasets

# PR_SET_PDEATHSIG of prctl(2).
_SET_SIGNAL_OF_PARENTS_DEATH = 1
# From the columns of some rows and their indices to the columns of others.
Make: TypeAlias = Callable[[Mapping[str, list[Any]], list[int]], dict[str, list[Any]]]


def mapped(
    rows: "datasets.Dataset",
    make: Make,
    features: "datasets.Features",
    *,
    storage: Storage,
    description: str,
) -> "datasets.Dataset":
    """The rows that `make` makes of others, in their order.

    More rows than `storage.in_memory` are shared among as many processes as torch has threads, each of
    which writes a file of the storage.

    Raises:
        AttnlabError: the disk of the storage is full, or a process was killed.
    """
    import datasets

    if len(rows) <= storage.in_memory:
        return _mapped(rows, make, features, None, description)
    count = _most_processes()
    bounds = [len(rows) * number // count for number in range(count + 1)]
    files = [storage.new_file() for _ in range(count)]
    jobs = [
        partial(
            _write, rows.select(range(start, end)), partial(_later, make, start), features, path,
            description,
        )
        for (start, end), path in zip(pairwise(bounds), files, strict=True)
    ]  # fmt: skip
    if count == 1:
        jobs[0]()
    else:
        _run_jobs(jobs)
    return datasets.concatenate_datasets([datasets.Dataset.from_file(str(path)) for path in files])


def _most_processes() -> int:
    import torch

    # Elsewhere a process begins with nothing that this one holds; what a daemon starts would outlive it.
    can_fork = sys.platform == "linux" and not multiprocessing.current_process().daemon
    return torch.get_num_threads() if can_fork else 1


def _mapped(
    rows: "datasets.Dataset",
    make: Make,
    features: "datasets.Features",
    path: Path | None,
    description: str,
) -> "datasets.Dataset":
    from datasets.fingerprint import generate_random_fingerprint

    # With a fingerprint datasets does not pickle what `make` holds to find one.
    return rows.map(
        make,
        batched=True,
        with_indices=True,
        remove_columns=rows.column_names,
        features=features,
        keep_in_memory=path is None,
        cache_file_name=None if path is None else str(path),
        load_from_cache_file=False,
        new_fingerprint=generate_random_fingerprint(),
        desc=description,
    )


def _write(
    rows: "datasets.Dataset",
    make: Make,
    features: "datasets.Features",
    path: Path,
    description: str,
) -> None:
    with reporting_full_disk(path.parent):
        _mapped(rows, make, features, path, description)


def _later(
    make: Make, first: int, columns: Mapping[str, list[Any]], indices: list[int]
) -> dict[str, list[Any]]:
    """The rows that `make` makes of others, which are counted from row `first`."""
    return make(columns, [first + index for index in indices])


def _run_jobs(jobs: Sequence[Callable[[], None]]) -> None:
    """Does each job in a process of its own.

    Nothing is shared among them that one could hold when it is killed. None outlives this call.

    Raises:
        AttnlabError: a process was killed.
        Exception: what a job raised.
    """
    context = multiprocessing.get_context("fork")
    with _ended() as started:
        answers = []
        for job in jobs:
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(job, sending, os.getpid()), daemon=True)
            process.start()
            started.append(process)
            sending.close()
            answers.append(receiving)
        for receiving in answers:
            try:
                error = receiving.recv()
            except EOFError:
                msg = (
                    "A process that encodes the corpus was killed, perhaps for its memory; fewer "
                    "threads take less: torch.set_num_threads(1), or threads of the command line."
                )
                raise AttnlabError(msg) from None
            if error is not None:
                raise error


@contextmanager
def _ended() -> Iterator[list[Any]]:
    """Yields a list of processes, of which none goes on after the block."""
    started: list[Any] = []
    try:
        yield started
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.join()


def _work(job: Callable[[], None], sending: Connection, parent: int) -> None:
    from datasets.utils import tqdm as progress_bars

    _end_with(parent)
    # The process that began this one hears them, and ends it.
    for kind in SIGNALS:
        signal.signal(kind, signal.SIG_IGN)
    # Threads of each would only be in each other's way, and are not safe after a fork.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # The lock of progress bars is one for parent and children: a thread of the parent may have held it when
    # this process was forked, and this one could hold it when it is killed.
    progress_bars.set_lock(threading.RLock())
    try:
        job()
    except Exception as error:  # noqa: BLE001 - raised where the process was begun
        sending.send(error)
    else:
        with suppress(BrokenPipeError):  # it was killed
            sending.send(None)


def _end_with(parent: int) -> None:
    """Has the system kill this process when the one that began it is killed, which then cannot."""
    ctypes.CDLL(None).prctl(_SET_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
