"""How many processors this process may use, and how busy other processes keep them; changes nothing."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROC = Path("/proc")
# Below it a count of clock ticks says nothing.
SHORTEST_LOOK_SECONDS = 0.05
BUSY_SHARE = 0.25
# Each of them decides on its own how threads of OpenMP wait for each other.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def usable_processors(proc: str | Path = PROC) -> int:
    """Processors that this process may use at once, by its affinity and the quota of its cgroups.

    The quota is the least over all ancestors, rounded down; at least 1.
    """
    quota = processor_quota(proc)
    allowed = len(_allowed())
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def processor_quota(proc: str | Path = PROC) -> float | None:
    """The least quota of this process's cgroups and their ancestors, in processors; None without one."""
    quotas = [quota for folder in _cgroup_folders(proc) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


@dataclass(frozen=True)
class ProcessorTimes:
    """Seconds since the machine started, over the processors that this process may use.

    Attributes:
        passed: on all of them together, idle or not.
        busy: of these, with some process at work, this one among them.
        ours: of this process and of those that it waited for.
    """

    passed: float
    busy: float
    ours: float


def processor_times(proc: str | Path = PROC) -> ProcessorTimes | None:
    """The times until now; None where the system does not say."""
    try:
        lines = (Path(proc) / "stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    names, rows = {f"cpu{number}" for number in _allowed()}, []
    for line in lines:
        name, *ticks = line.split()
        if name in names:
            # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
            rows.append([int(tick) for tick in ticks[:8]])
    second = os.sysconf("SC_CLK_TCK")
    passed = sum(map(sum, rows)) / second
    idle = sum(row[3] + row[4] for row in rows) / second
    return ProcessorTimes(passed, passed - idle, sum(os.times()[:4]))


def others_share(before: ProcessorTimes | None, now: ProcessorTimes | None) -> float:
    """Share of the processors' time between two looks that other processes had, from 0 to 1.

    0 where nothing is known or the looks lie too near each other.
    """
    if before is None or now is None or now.passed - before.passed < SHORTEST_LOOK_SECONDS:
        return 0.0
    others = (now.busy - before.busy) - (now.ours - before.ours)
    return min(1.0, max(0.0, others / (now.passed - before.passed)))


def thread_variables(
    count: int | None, *, busy: bool, given: Mapping[str, str], proc: str | Path = PROC
) -> dict[str, str]:
    """Environment variables with which libraries of threads are to be loaded.

    Threads of OpenMP spin while they wait, which takes time from the processes that they wait for where
    others have the processors; there they sleep. What the user has set stays.

    Args:
        count: number of threads; None: that of the variables given, else one per usable processor.
        busy: whether other processes keep the processors busy.
        given: the environment as the user left it.
        proc: where the system tells of its processes.
    """
    made: dict[str, str] = {}
    if count is not None or not any(name in given for name in COUNTS):
        made = dict.fromkeys(COUNTS, str(count or usable_processors(proc)))
    if busy and not any(name in given for name in WAITING):
        made["OMP_WAIT_POLICY"] = "PASSIVE"
    return made


def variables_to_set(*, busy: bool, proc: str | Path = PROC) -> dict[str, str]:
    """What is to be set before torch is loaded, where no command does: libraries know no quota.

    Args:
        busy: whether other processes keep the processors busy.
        proc: where the system tells of its processes.
    """
    variables = thread_variables(None, busy=busy, given={}, proc=proc)
    if usable_processors(proc) < len(_allowed()):
        return variables
    return {name: value for name, value in variables.items() if name not in COUNTS}


def _allowed() -> set[int]:
    # Only Linux says.
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _cgroup_folders(proc: str | Path) -> Iterator[Path]:
    """Folders of the cgroups that limit this process's processors, each with its ancestors."""
    try:
        memberships = (Path(proc) / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (Path(proc) / "self" / "mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    paths: dict[str, str] = {}
    for line in memberships:
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    for line in mounts:
        place, _, filesystem = line.partition(" - ")
        root, mount = place.split()[3:5]
        kind, *_, options = filesystem.split()
        # Of version 2 there is one hierarchy, without names of controllers.
        path_in_hierarchy = paths.get("") if kind == "cgroup2" else paths.get("cpu")
        if path_in_hierarchy is None or not (
            kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(","))
        ):
            continue
        # In a container the mount may begin below the root, or the path be of another namespace.
        inside = PurePosixPath(path_in_hierarchy).is_relative_to(root)
        below = PurePosixPath(path_in_hierarchy).relative_to(root) if inside else PurePosixPath()
        folder = Path(mount) / below
        yield folder
        yield from (Path(mount) / parent for parent in below.parents if parent != below)


def _quota_of(folder: Path) -> float | None:
    """The quota that a cgroup sets itself, in processors."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip()
                for name in ("quota", "period")
            )
    except (OSError, ValueError):
        return None
    if quota in {"max", "-1"} or int(period) <= 0:
        return None
    return int(quota) / int(period)
