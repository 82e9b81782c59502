"""Who may have a cluster run code: whoever holds the certificates of the study, and nobody else."""

import os
import re
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from urllib.error import HTTPError

import dask
import pytest
from distributed import Client, LocalCluster, Security
from engine_cluster import ENVIRONMENT

from attnlab.core import InputError
from attnlab.studies import run_study
from attnlab.studies.study import RunningSettings

# With certificates and without, as somebody who has none of the study's.
ATTACK = """
import asyncio, os, sys
import distributed.protocol.pickle, distributed.comm.tcp, ssl
from distributed import Security, rpc
from distributed.protocol import to_serialize, Serialize
uid, ports = int(sys.argv[1]), sys.argv[2:]
if uid:
    os.setgid(uid), os.setuid(uid)

async def run_at(address, **security):
    # Each of Dask's servers has the handler `identity`; a scheduler and a worker run functions beside it.
    connection = rpc(address, timeout=2, **security)
    try:
        print("reached", address, (await asyncio.wait_for(connection.identity(), 4))["type"])
    except Exception as error:
        print("refused", address, type(error).__name__)
    finally:
        await connection.close_rpc()

async def attack():
    temporary = Security.temporary().get_connection_args("client")
    for port in ports:
        await run_at(f"tcp://127.0.0.1:{port}")
        await run_at(f"tls://127.0.0.1:{port}", connection_args=temporary)

asyncio.run(attack())
"""
NOBODY = 65534


def attacked(client: Client) -> str:
    """What somebody else who tries each of the client's servers reads, as another user where that can be."""
    addresses = [client.scheduler.address]
    for worker, about in client.scheduler_info()["workers"].items():
        addresses += [worker, about["nanny"]]
    ports = [str(one).rpartition(":")[2] for one in addresses if one]
    uid = NOBODY if os.getuid() == 0 else 0
    command = [sys.executable, "-c", ATTACK, str(uid), *ports]
    told = subprocess.run(
        command, check=True, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert len(told.stdout.splitlines()) == 2 * len(ports)
    return told.stdout


def page(client: Client, path: str) -> int:
    link = str(client.dashboard_link).removesuffix("/status")
    assert link.startswith("http://127.0.0.1:")
    try:
        with urllib.request.urlopen(link + path, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.slow
def test_other_users_reach_no_process_of_a_study(tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    def connected(client: Client) -> None:
        told["attack"] = attacked(client)
        told["pages"] = {
            page(client, path)
            for path in ("/status", "/info/main/workers.html", "/json/counts.json")
        }
        folders = [*client.run(_local_directory).values(), *filter(_is_dasks, sys.path)]
        told["tops"] = {
            Path(gettempdir(), Path(one).relative_to(gettempdir()).parts[0]) for one in folders
        }
        told["modes"] = {stat.S_IMODE(one.stat().st_mode) for one in told["tops"]}

    found = run_study("toy", folder=tmp_path, jobs=1, connected=connected, options={"count": 1})
    assert found.missing == 0
    assert told["attack"].count("refused") == 6
    assert "reached" not in told["attack"]
    assert told["pages"] == {404}
    # Dask imports from where it works.
    assert told["modes"] == {0o700}
    assert not any(folder.exists() for folder in told["tops"])


def _is_dasks(path: str) -> bool:
    return "dask-scratch-space" in path


def _local_directory(dask_worker: Any) -> str:
    return str(dask_worker.local_directory)


@pytest.fixture
def plain() -> Iterator[Client]:
    """The client of a cluster as Dask starts it unless told otherwise."""
    with (
        LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.slow
def test_the_attack_reaches_what_is_open(plain: Client) -> None:
    reached = re.findall(r"reached tcp://\S+ (\w+)", attacked(plain))
    assert sorted(reached) == ["Nanny", "Scheduler", "Worker"]


@pytest.mark.slow
def test_the_dashboard_opens_when_asked_for(tmp_path: Path) -> None:
    seen = []
    run_study(
        "toy", folder=tmp_path, jobs=1, dashboard=True, options={"count": 1},
        connected=lambda client: seen.append(page(client, "/status")),
    )  # fmt: skip
    assert seen == [200]
    with pytest.raises(InputError, match="dashboard is that of the processes of jobs"):
        RunningSettings(cluster="tls://host:1", dashboard=True)


@pytest.mark.parametrize(
    "address",
    [
        "tcp://node1:8786", "node1:8786", "tcp://10.0.0.1:8786", "tcp://[::2]:8786", "tcp://0.0.0.0:1",
        "ws://node1:8786", "ucx://10.0.0.1:1", "tcp://127.0.0.1.example.org:1", "tcp://:8786", "",
        "tls://node1:8786", "wss://node1:8786", "tcp://localhost", "tcp://a b:c",
    ],
)  # fmt: skip
def test_what_others_could_reach_is_refused_before_work(tmp_path: Path, address: str) -> None:
    folder = tmp_path / "study"
    with pytest.raises(InputError) as told:
        run_study("toy", folder=folder, cluster=address)
    expected = "needs certificates" if address.startswith(("tls:", "wss:")) else "address|encrypts"
    assert re.search(expected, str(told.value))
    assert not folder.exists()


def test_certificates_are_those_of_dasks_configuration(tmp_path: Path) -> None:
    made = Security.temporary()
    (tmp_path / "ca.pem").write_text(made.tls_ca_file)
    (tmp_path / "key.pem").write_text(made.tls_client_key)
    paths = {"cert": str(tmp_path / "ca.pem"), "key": str(tmp_path / "key.pem")}
    named = {"distributed.comm.tls.ca-file": paths["cert"]}
    named |= {
        f"distributed.comm.tls.{role}.{kind}": path
        for role in ("client", "scheduler", "worker")
        for kind, path in paths.items()
    }
    with dask.config.set(named):
        with LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tls",
            security=Security(), dashboard_address="127.0.0.1:0",
        ) as cluster:  # fmt: skip
            assert cluster.scheduler_address.startswith("tls://")
            found = run_study(
                "toy",
                folder=tmp_path / "s",
                cluster=cluster.scheduler_address,
                options={"count": 2},
            )
            assert found.missing == 0
        (tmp_path / "key.pem").unlink()
        with pytest.raises(InputError, match="certificates of Dask's configuration cannot"):
            run_study("toy", folder=tmp_path / "t", cluster="tls://node1:8786")
