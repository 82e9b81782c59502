"""Computes cells on a Dask cluster: local processes, or whatever stands behind a scheduler's address.

Dask moves text: cells to workers, rows back. How often a cell was begun is counted at the scheduler
by the workers themselves, because Dask counts a worker's death against every cell that it had been
given, begun or not, and a cluster's own limit of deaths may be any number.
"""

import json
import logging
import secrets
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from ipaddress import ip_address
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.core import AttnlabError, InputError, check_installed, fitting, parse_json, reason
from attnlab.studies.computing import ATTEMPTS, Outcome, compute
from attnlab.studies.study import Cell, RunningSettings

LOOPBACK = "127.0.0.1"
# A cell that was never begun, because workers die before they begin, is not handed out for ever.
MOST_SUBMISSIONS = 10
# How many attempts at a cell did not end with rows, and the outcome of the last if its worker outlived it.
NEVER_BEGUN = (0, None)
SECONDS_TO_ANSWER = 10
# Dask has workers give freed memory back at once, so that every tensor is paid for in page faults.
KEEP_FREED_MEMORY = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}
ENDED = ("finished", "error", "cancelled")
# What Dask encrypts, or keeps within this process.
SAFE_SCHEMES = ("tls", "wss", "inproc")
# Of each HTTP server that Dask opens; any user of the machine could read tasks and logs.
NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
GONE = "The cluster went away; what was finished is kept: give the command again to go on."
# What computes shares global state, so that cells take turns where a worker has several threads.
_TURN = threading.Lock()


def check_cluster(settings: RunningSettings) -> None:
    """Raises where cells cannot be computed on other processes, or whoever reads along could take part.

    Raises:
        InputError: a part is not installed, the address is none or neither encrypted nor on loopback, or
            Dask's configuration has no certificates for TLS.
    """
    if settings.jobs is None and settings.cluster is None:
        return
    check_installed("distributed", *(["cryptography"] if settings.cluster is None else []))
    if settings.dashboard:
        check_installed("bokeh")
    if settings.cluster is not None:
        _check_address(settings.cluster)


def _check_address(address: str) -> None:
    from distributed import Security
    from distributed.comm.addressing import parse_address, parse_host_port

    try:
        scheme, location = parse_address(address)
        host = "" if scheme == "inproc" else parse_host_port(location)[0]
    except (ValueError, TypeError) as error:
        msg = f"{address} is no address of a Dask scheduler; write one such as tls://host:8786."
        raise InputError(msg) from error
    if scheme not in SAFE_SCHEMES and not _is_loopback(host):
        msg = (
            f"Whoever reaches {address} can run code there, since nothing encrypts it; start the scheduler "
            "with TLS and name tls://HOST:PORT, or forward its port to 127.0.0.1, for example with ssh -L."
        )
        raise InputError(msg)
    if scheme == "inproc":
        return
    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        msg = f"The certificates of Dask's configuration cannot be used ({reason(error)}); check them."
        raise InputError(msg) from error
    if context is None and scheme in SAFE_SCHEMES:
        msg = (
            f"{address} needs certificates; set ca-file, client.cert and client.key below "
            "distributed.comm.tls in Dask's configuration, such as ~/.config/dask/tls.yaml."
        )
        raise InputError(msg)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def dask_setup(worker: Any) -> None:  # noqa: ARG001 - Dask calls it in each worker that preloads this module
    """Has a worker leave quietly, whose client ends it in order.

    Ctrl-C and the end of a terminal reach workers too; what a worker that is ended in the middle of a cell
    cannot put away is no matter for the terminal.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.unraisablehook = lambda _: None


def compute_on_cluster(
    cells: Sequence[Cell], settings: RunningSettings
) -> Generator[tuple[Outcome, int], None, None]:
    """Computes cells on `jobs` processes of this machine, or on the workers of `cluster`.

    Yields the outcome of each cell as it ends, and how many run at a time. A cell that failed or whose
    worker died is handed out again until it was begun `ATTEMPTS` times.

    Args:
        cells: what to compute.
        settings: `jobs` have one torch thread each, and are reached through loopback with certificates that
            this process alone has; `connected` is called once the cluster answers.

    Raises:
        InputError: no scheduler answers.
        AttnlabError: the scheduler went away.
    """
    with _client(settings) as client:
        if settings.connected is not None:
            settings.connected(client)
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
        client, cell_to_compute = get_client(), fitting(Cell, parse_json(cell))
        counted = _count_key(run, cell_to_compute)
        before, failed = client.get_metadata(counted, NEVER_BEGUN)
        if before >= ATTEMPTS:
            # It is handed out again when its worker died after the last attempt, with what it had to tell.
            return failed
        client.set_metadata(counted, (before + 1, None))
        outcome = compute(cell_to_compute)
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
    """The outcome of a cell, from its future, which ended.

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
def _client(settings: RunningSettings) -> Iterator[Any]:
    from dask import config
    from distributed import Client, LocalCluster, Security

    with ExitStack() as stack:
        if settings.cluster is None:
            # Dask imports from this folder, so that nobody else may write to it.
            private = stack.enter_context(TemporaryDirectory(prefix="attnlab-"))
            pages = {} if settings.dashboard else NO_PAGES
            stack.enter_context(
                config.set({**KEEP_FREED_MEMORY, **pages, "temporary-directory": private})
            )
            address = stack.enter_context(
                LocalCluster(
                    n_workers=settings.jobs,
                    threads_per_worker=1,
                    host=LOOPBACK,
                    # Whoever reaches a scheduler or worker has it run code.
                    security=Security.temporary(),
                    dashboard_address=f"{LOOPBACK}:0",
                    scheduler_kwargs={"dashboard": settings.dashboard},
                    # Rows are small, so that a large process has nothing that Dask could put elsewhere.
                    memory_limit=None,
                    preload=[__name__],
                    silence_logs=logging.CRITICAL,
                )
            )
        else:
            address = settings.cluster
        try:
            client = stack.enter_context(
                Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False)
            )
        except (OSError, ValueError, TypeError) as error:
            msg = (
                f"No Dask scheduler answers at {settings.cluster} ({error}); start one with: "
                "dask scheduler"
            )
            raise InputError(msg) from error
        yield client
