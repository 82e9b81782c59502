"""Toy studies that this process and workers can import, and a cluster started by hand."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_cluster import ENVIRONMENT, TOYS, wait_until

from attnlab.core.installed import plugins
from attnlab.studies.computing import studies


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution of toy studies is installed during a test."""
    monkeypatch.syspath_prepend(TOYS)
    for table in (plugins, studies):
        table.cache_clear()
    yield
    for table in (plugins, studies):
        table.cache_clear()


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a scheduler with two workers, three processes that know nothing of the client."""
    folder = tmp_path_factory.mktemp("cluster")
    loopback = ["--host", "127.0.0.1"]
    file = folder / "scheduler.json"
    words = [
        ["scheduler", *loopback, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
        *[
            [
                "worker", *loopback, "--scheduler-file", str(file), "--nthreads", "1",
                "--no-dashboard", "--memory-limit", "0", "--local-directory", str(folder / name),
            ]
            for name in ("a", "b")
        ],
    ]  # fmt: skip
    started = []
    with (folder / "log").open("w") as log:
        for line in words:
            command = [sys.executable, "-m", "dask", *line]
            # In sessions of their own, which end with all their processes.
            process = subprocess.Popen(
                command, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
            )
            started.append(process)
            wait_until(file.exists)
        yield json.loads(file.read_text())["address"]
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGKILL)
        for process in started:
            process.wait(30)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where toy cells leave a file whenever they are begun."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder
