"""How many processors may be used: affinity, quotas of cgroups of both versions; and who is busy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.core import (
    ProcessorTimes,
    others_share,
    processor_times,
    thread_variables,
    usable_processors,
    variables_to_set,
)
from attnlab.core.processors import processor_quota

V1, V2 = ("cgroup", "rw,cpu,cpuacct"), ("cgroup2", "rw")


def written(
    folder: Path, quotas: dict[str, str], *, version: tuple[str, str], root: str, path: str
) -> Path:
    """A /proc whose process is in the cgroup `path`; quotas by folder below the mount, of /`root`."""
    mount, proc = folder / "mount", folder / "proc"
    (proc / "self").mkdir(parents=True)
    kind, options = version
    entry = "0::" if version == V2 else "3:cpu,cpuacct:"
    (proc / "self" / "cgroup").write_text(f"9:memory:/elsewhere\n{entry}{path}\n")
    (proc / "self" / "mountinfo").write_text(
        f"20 1 0:1 / / rw - ext4 disk rw\n30 20 0:2 {root} {mount} rw,nosuid - {kind} none {options}\n"
    )
    for name, quota in quotas.items():
        own = mount / name
        own.mkdir(parents=True, exist_ok=True)
        if version == V2:
            (own / "cpu.max").write_text(quota + "\n")
        else:
            limit, period = quota.replace("max", "-1").split()
            (own / "cpu.cfs_quota_us").write_text(limit + "\n")
            (own / "cpu.cfs_period_us").write_text(period + "\n")
    return proc


@pytest.mark.parametrize("version", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("quotas", "root", "path", "expected"),
    [
        ({"a/b": "max 100000"}, "/", "/a/b", None),
        ({"a/b": "150000 100000"}, "/", "/a/b", 1.5),
        ({"a/b": "max 100000", "a": "50000 100000"}, "/", "/a/b", 0.5),
        ({"a/b": "300000 100000", "a": "50000 20000", ".": "max 100000"}, "/", "/a/b", 2.5),
        # The mount of a container begins at its own cgroup.
        ({".": "70000 100000", "c": "max 100000"}, "/box", "/box/c", 0.7),
        ({".": "200000 100000"}, "/", "/", 2.0),
        # The path is of the namespace outside.
        ({".": "200000 100000"}, "/box", "/", 2.0),
        ({"elsewhere": "10000 100000"}, "/", "/a", None),
    ],
)
def test_the_quota_is_the_least_of_all_ancestors(
    tmp_path: Path,
    version: tuple[str, str],
    quotas: dict[str, str],
    root: str,
    path: str,
    expected: float | None,
) -> None:
    proc = written(tmp_path, quotas, version=version, root=root, path=path)
    assert processor_quota(proc) == expected


@pytest.mark.parametrize(
    ("quota", "allowed", "expected"),
    [("50000", 8, 1), ("190000", 8, 1), ("200000", 8, 2), ("900000", 2, 2), ("max", 3, 3)],
)
def test_processors_are_rounded_down_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, allowed: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(allowed)))
    proc = written(tmp_path, {"a": f"{quota} 100000"}, version=V2, root="/", path="/a")
    assert usable_processors(proc) == expected
    assert thread_variables(None, busy=False, given={}, proc=proc) == dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(expected)
    )


@pytest.mark.parametrize(
    ("quota", "busy", "expected"),
    [
        ("50000", False, {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}),
        ("50000", True, {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY"}),
        ("max", True, {"OMP_WAIT_POLICY"}),
        ("max", False, set()),
    ],
)
def test_in_python_only_what_libraries_do_not_know_is_to_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, busy: bool, expected: set[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    proc = written(tmp_path, {"a": f"{quota} 100000"}, version=V2, root="/", path="/a")
    assert set(variables_to_set(busy=busy, proc=proc)) == expected


def test_a_system_that_says_nothing_has_no_quota(tmp_path: Path) -> None:
    assert processor_quota(tmp_path) is None
    assert processor_times(tmp_path) is None
    assert others_share(None, processor_times()) == 0


def test_a_quota_of_this_machine() -> None:
    """A process in a cgroup with half a processor may use one."""
    group = Path("/sys/fs/cgroup/cpu/attnlab_test")
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("50000")
    except OSError:
        pytest.skip("no cgroup can be made here")
    code = (
        "import os, pathlib; pathlib.Path('/sys/fs/cgroup/cpu/attnlab_test/cgroup.procs')"
        ".write_text(str(os.getpid()));"
        "from attnlab.core.processors import *; print(processor_quota(), usable_processors())"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
    finally:
        group.rmdir()
    assert done.stdout.split() == ["0.5", "1"]


@pytest.mark.parametrize(
    ("passed", "busy", "ours", "expected"),
    [
        (10, 10, 10, 0.0),
        (10, 10, 2.5, 0.75),
        (10, 4, 4, 0.0),
        (10, 4, 5, 0.0),
        (10, 0, 0, 0.0),
        (0.01, 0.01, 0, 0.0),
    ],
)
def test_the_share_of_others_leaves_this_process_out(
    passed: float, busy: float, ours: float, expected: float
) -> None:
    before = ProcessorTimes(100.0, 50.0, 7.0)
    now = ProcessorTimes(100.0 + passed, 50.0 + busy, 7.0 + ours)
    assert others_share(before, now) == pytest.approx(expected)


def test_times_are_of_the_processors_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 12})
    (tmp_path / "stat").write_text(
        "cpu 900 0 0 0 0 0 0 0 0 0\ncpu0 800 0 0 0 0 0 0 0 0 0\n"
        "cpu1 10 20 30 400 500 60 70 80 10 0\ncpu12 1 0 0 2 0 0 0 0 0 0\nintr 5\n"
    )
    times, second = processor_times(tmp_path), os.sysconf("SC_CLK_TCK")
    assert times is not None
    assert times.passed * second == pytest.approx(1170 + 3)
    assert times.busy * second == pytest.approx(270 + 1)


def test_time_of_children_is_ours() -> None:
    before = processor_times()
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    now = processor_times()
    if before is None or now is None:
        pytest.skip("no /proc/stat")
    # Told in hundredths of a second.
    assert now.ours - before.ours >= 0.28


@pytest.mark.parametrize(
    ("count", "busy", "given", "expected"),
    [
        (3, False, {}, {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}),
        (3, False, {"OMP_NUM_THREADS": "8"}, {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}),
        (None, False, {"OMP_NUM_THREADS": "8"}, {}),
        (None, True, {"MKL_NUM_THREADS": "8"}, {"OMP_WAIT_POLICY": "PASSIVE"}),
        (None, True, {"OMP_NUM_THREADS": "8", "GOMP_SPINCOUNT": "9"}, {}),
        (None, True, {"OMP_NUM_THREADS": "8", "OMP_WAIT_POLICY": "active"}, {}),
    ],
)
def test_what_the_user_set_stays(
    count: int | None, busy: bool, given: dict[str, str], expected: dict[str, str]
) -> None:
    assert thread_variables(count, busy=busy, given=given) == expected


def test_importing_attnlab_changes_no_variable_and_loads_no_torch() -> None:
    code = (
        "import os, sys; before = dict(os.environ); import attnlab, attnlab.cli.app;"
        "assert dict(os.environ) == before; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
