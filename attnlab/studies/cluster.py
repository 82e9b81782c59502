"""Computes cells on a Dask cluster: local processes, or whatever stands behind a scheduler's address.

Dask moves text: cells to workers, rows back. How often a cell was begun is counted at the scheduler
by the workers themselves, because Dask counts a worker's death against every cell that it had been
given, begun or not, and a cluster's own limit of deaths may be any number.
"""

import json
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

from attnlab.core import AttnlabError, InputError, check_installed, fitting, parse_json
from attnlab.studies.computing import ATTEMPTS, Outcome, compute
from attnlab.studies.study import Cell

LOOPBACK = "127.0.0.1"
# A cell that was never begun, because workers die before they begin, is not handed out for ever.
MOST_SUBMISSIONS = 10
# How many attempts at a cell did not end with rows, and the outcome of the last if its worker outlived it.
NEVER_BEGUN = (0, None)
SECONDS_TO_ANSWER = 10
# Ctrl-C and the end of a terminal reach workers too, whose client ends them in order; what a worker that is
# ended in the middle of a cell cannot put away is no matter for the terminal. Dask runs this in each.
LEAVE_QUIETLY = (
    "import signal, sys; [signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGHUP)]; "
    "sys.unraisablehook = lambda _: None"
)
# Dask has workers give freed memory back at once, so that every tensor is paid for in page faults.
KEEP_FREED_MEMORY = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}
ENDED = ("finished", "error", "cancelled")
GONE = "The cluster went away; what was finished is kept: give the command again to go on."
# What computes shares global state, so that cells take turns where a worker has several threads.
_TURN = threading.Lock()


def compute_on_cluster(
    cells: Sequence[Cell],
    *,
    jobs: int | None,
    cluster: str | None,
    connected: Callable[[Any], None] | None,
) -> Generator[tuple[Outcome, int], None, None]:
    """Computes cells on `jobs` processes of this machine, or on the workers of `cluster`.

    Yields the outcome of each cell as it ends, and how many run at a time. A cell that failed or whose
    worker died is handed out again until it was begun `ATTEMPTS` times.

    Args:
        cells: what to compute.
        jobs: number of processes, one torch thread each, reached through loopback alone.
        cluster: address of a scheduler instead, such as `tcp://host:8786`.
        connected: called with Dask's client once the cluster answers.

    Raises:
        InputError: Dask is not installed, or no scheduler answers.
        AttnlabError: the scheduler went away.
    """
    with _client(jobs, cluster) as client:
        if connected is not None:
            connected(client)
        try:
            yield from _compute(client, cells)
        except OSError as error:
            raise AttnlabError(GONE) from error


def compute_on_worker(run: str, cell: str) -> str | None:
    """`compute`, on a worker of Dask; None for a cell whose workers died each time it was begun.

    Args:
        run: what tells this run of a study from all others that the scheduler knows.
        cell: as JSON.
    """
    from distributed import get_client

    with _TURN:
        client, wanted = get_client(), fitting(Cell, parse_json(cell))
        counted = _count_key(run, wanted)
        before, failed = client.get_metadata(counted, NEVER_BEGUN)
        if before >= ATTEMPTS:
            # It is handed out again when its worker died after the last attempt, with what it had to tell.
            return failed
        client.set_metadata(counted, (before + 1, None))
        outcome = compute(wanted)
        text = json.dumps(asdict(outcome))
        # Should its worker die before the rows are fetched, it is no attempt that failed.
        client.set_metadata(counted, (before + 1, text) if outcome.failure else (before, None))
        return text


def _compute(client: Any, cells: Sequence[Cell]) -> Iterator[tuple[Outcome, int]]:
    from distributed import as_completed

    run = secrets.token_hex(8)
    waiting: dict[Any, Cell] = {}
    submitted: Counter[str] = Counter()

    def submit(cell: Cell) -> Any:
        submitted[cell.address] += 1
        key = (f"{cell.kind}-{run}", cell.address, submitted[cell.address])
        waiting[key] = cell
        return client.submit(compute_on_worker, run, json.dumps(asdict(cell)), key=key)

    futures = [submit(cell) for cell in cells]
    queue = as_completed(futures, loop=client.loop, raise_errors=False)
    del futures
    for future in queue:
        if future.status not in ENDED:
            # Its worker died with the rows, before they were fetched: Dask has them computed again.
            queue.add(future)
            continue
        cell = waiting.pop(future.key)
        outcome = _outcome_of(cell, future)
        # Rows of a future that is held are computed again when the worker that has them dies.
        future.release()
        failures, _ = client.get_metadata(_count_key(run, cell), NEVER_BEGUN)
        is_last = failures >= ATTEMPTS or submitted[cell.address] >= MOST_SUBMISSIONS
        if outcome.rows is None and not is_last:
            queue.add(submit(cell))
            continue
        begun, workers = failures + (outcome.rows is not None), len(client.nthreads())
        yield replace(outcome, attempts=begun, concurrent=workers > 1), workers


def _count_key(run: str, cell: Cell) -> list[str]:
    return ["attnlab", run, cell.address]


def _outcome_of(cell: Cell, future: Any) -> Outcome:
    """What the future of a cell has to say, which ended.

    Raises:
        AttnlabError: nothing, because the scheduler is gone.
    """
    if future.status == "cancelled":
        raise AttnlabError(GONE)
    try:
        outcome = future.result()
    except Exception as error:  # noqa: BLE001 - workers that died, or cannot import what they need
        return Outcome(cell, failure=f"The worker ended or could not begin: {error}\n")
    if outcome is None:
        failure = f"The worker died {ATTEMPTS} times while it computed this cell.\n"
        return Outcome(cell, failure=failure)
    return fitting(Outcome, parse_json(outcome))


@contextmanager
def _client(jobs: int | None, cluster: str | None) -> Iterator[Any]:
    check_installed("distributed")
    from dask import config
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        if cluster is None:
            stack.enter_context(config.set(KEEP_FREED_MEMORY))
            address = stack.enter_context(
                LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    host=LOOPBACK,
                    dashboard_address=f"{LOOPBACK}:0",
                    # Rows are small, so that a large process has nothing that Dask could put elsewhere.
                    memory_limit=None,
                    preload=[LEAVE_QUIETLY],
                    silence_logs=logging.CRITICAL,
                )
            )
        else:
            address = cluster
        try:
            client = stack.enter_context(
                Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False)
            )
        except (OSError, ValueError, TypeError) as error:
            msg = (
                f"No Dask scheduler answers at {cluster} ({error}); start one with: dask scheduler"
            )
            raise InputError(msg) from error
        yield client
