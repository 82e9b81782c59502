"""Sending plain values between processes, and what happens when one of them fails."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from attnlab.core.launcher import launched, one_of_several
from attnlab.core.processes import Processes, launched_processes, unwrapped, wrapped

SCRIPT = """
import os

from attnlab.core.errors import InputError
from attnlab.core.processes import launched_processes

processes = launched_processes()


def meet(failing):
    try:
        with processes.together():
            found = processes.gather({("a", processes.index): processes.index})
            assert found == [{("a", 0): 0}, {("a", 1): 1}]
            if processes.index in failing:
                raise InputError(f"process {processes.index} cannot go on")
            processes.gather(None)
        print("done")
    except Exception as error:
        print(type(error).__name__, error, error.exit_status)


# A port each: a launcher's own port outlives a meeting, one that process 0 opens does not.
ports = os.environ["PORTS"].split()
for failing, port in zip(([], [1], [0, 1], []), ports, strict=True):
    os.environ["MASTER_PORT"] = port
    meet(failing)
"""


@dataclass(frozen=True)
class Point:
    index: torch.Tensor
    name: str | None


def test_a_parcel_comes_back_as_it_was() -> None:
    shared = torch.arange(6)
    value = {
        ("encoder", 2): [Point(shared[2:], None), Point(shared[2:], "x")],
        "rest": (1, 0.1, True, None, float("inf"), {"a", "b"}, frozenset({3}), torch.zeros(0, 3)),
        "exact": (torch.tensor(1 / 3, dtype=torch.float64), torch.tensor([True, False])),
    }
    back = unwrapped(wrapped(value))
    assert list(back) == list(value)
    assert [point.name for point in back["encoder", 2]] == [None, "x"]
    torch.testing.assert_close(back["encoder", 2][1].index, shared[2:], rtol=0, atol=0)
    assert back["rest"][:7] == value["rest"][:7]
    assert back["rest"][7].shape == (0, 3)
    for mine, theirs in zip(back["exact"], value["exact"], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    assert unwrapped(wrapped(None)) is None


def test_what_no_parcel_holds_is_refused() -> None:
    with pytest.raises(TypeError, match="Path cannot be sent"):
        wrapped([Path()])

    @dataclass(frozen=True)
    class Local:
        index: int

    with pytest.raises(TypeError, match="Local cannot be received"):
        unwrapped(wrapped(Local(1)))


def test_one_process_alone_meets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    alone = launched_processes()
    assert alone == Processes()
    with alone.together():
        assert alone.gather([Path()]) == [[Path()]]
    assert alone.first


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_process_has_others_from_two_on(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", str(count))
    assert not one_of_several()
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert launched() is None
    assert one_of_several() is (count > 1)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    assert launched() == (0, count, 0)
    assert one_of_several() is (count > 1)


def free_ports(count: int) -> list[str]:
    """Different ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in sockets]


@pytest.mark.slow
def test_nobody_waits_for_one_that_failed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    ports = free_ports(4)
    rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0], "WORLD_SIZE": "2"}
    rendezvous["PORTS"] = " ".join(ports)
    root = str(Path(__file__).resolve().parents[1])
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={
                **os.environ,
                **rendezvous,
                "RANK": rank,
                "PYTHONPATH": root,
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        first, second = (one.communicate(timeout=240)[0].splitlines() for one in started)
    finally:
        for one in started:
            one.kill()
            one.communicate()
    assert first == [
        "done",
        "AttnlabError process 1 cannot go on 2",
        "InputError process 0 cannot go on 2",
        "done",
    ]
    assert second == [
        "done",
        "ReportedElsewhereError process 1 cannot go on 2",
        "ReportedElsewhereError process 0 cannot go on 2",
        "done",
    ]
