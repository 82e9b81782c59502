"""Training speed by how threads wait, on a quiet and on a busy machine and under quotas.

    python experiments/busy_machine/run.py

writes benchmarks/busy_machine/. Each training is a process of its own, which is told nothing, or to wait
as libraries of threads do by default, or to use one thread; the three alternate. Quotas need a cgroup of
version 1 that may be made here.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import others_share, processor_times, usable_processors, write_table
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "busy_machine"
CGROUP = Path("/sys/fs/cgroup/cpu/attnlab_busy_machine")
PERIOD = 100_000
# How often libgomp looks before it sleeps, where nothing is said.
LOOKS = "300000"
ROUNDS = 2
PAIRS = 4000
# A training that has not ended by then makes no steps, so to say.
MOST_SECONDS = 300
MOST_DISTURBED, MOST_TRIES = 0.15, 3
# What else is on the machine: busy processes, or a quota in processors.
BUSY, QUOTAS = (0, 3), (1.0, 0.5)
LEAST_QUIET, LEAST_FAIR = 0.97, 0.75


def main() -> None:
    """Trains in every surrounding in every way, and writes the speeds."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    surroundings = [*((busy, None) for busy in BUSY), *((0, quota) for quota in QUOTAS)]
    rows: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        for busy, quota in surroundings:
            for threads, variables in ways().items():
                row: dict[str, Any] = {
                    "round": number,
                    "busy_processes": busy,
                    "quota": quota,
                    "threads": threads,
                }
                rows.append(row | measure_undisturbed(variables, busy, quota))
                print(rows[-1], flush=True)
    write_table(OUT / "table.csv", pd.DataFrame(rows))
    write_facts(OUT, __file__, "torch", "transformers", processors=usable_processors())
    write_readme(OUT, readme(OUT))


def ways() -> dict[str, dict[str, str]]:
    """Environment variables of each way."""
    every = str(len(os.sched_getaffinity(0)))
    return {
        "chosen": {},
        "default": {"OMP_NUM_THREADS": every, "GOMP_SPINCOUNT": LOOKS},
        "one": {"OMP_NUM_THREADS": "1"},
    }


def measure_undisturbed(
    variables: dict[str, str], busy: int, quota: float | None
) -> dict[str, float]:
    """Measures again where something else took part of a machine that was to be quiet."""
    for _ in range(MOST_TRIES):
        measured = measure(variables, busy, quota)
        if busy or measured["others_share"] <= MOST_DISTURBED:
            break
    return measured


def measure(variables: dict[str, str], busy: int, quota: float | None) -> dict[str, float]:
    """Steps a minute of one training, and the share of the processors that others had meanwhile."""
    with tempfile.TemporaryDirectory() as made, busy_processes(busy), cgroup(quota) as joined:
        before, metrics = processor_times(), {"step": 0, "training_seconds": MOST_SECONDS}
        command = [
            sys.executable, "-c", f"{joined}from attnlab.cli.app import main; main()",
            "train", f"{made}/run", "--quiet", "--size", str(PAIRS), "--epochs", "1",
            "--batch-tokens", "2048", "--vocabulary", "3000", "--max-tokens", "64",
            "--validation-sentences", "20",
        ]  # fmt: skip
        with suppress(subprocess.TimeoutExpired):
            environment = os.environ | variables
            subprocess.run(command, check=True, env=environment, timeout=MOST_SECONDS)
            metrics = json.loads((Path(made) / "run" / "metrics.jsonl").read_text(encoding="utf-8"))
        others = others_share(before, processor_times())
    return {
        "steps_per_minute": round(metrics["step"] / metrics["training_seconds"] * 60, 1),
        "others_share": round(others, 2),
    }


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Runs processes that never wait, for as long as the block."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def cgroup(quota: float | None) -> Iterator[str]:
    """Yields code with which a process joins a cgroup of the quota; empty without one."""
    if quota is None:
        yield ""
        return
    CGROUP.mkdir()
    (CGROUP / "cpu.cfs_period_us").write_text(str(PERIOD), encoding="ascii")
    (CGROUP / "cpu.cfs_quota_us").write_text(str(int(quota * PERIOD)), encoding="ascii")
    try:
        yield f"import os; open('{CGROUP}/cgroup.procs', 'w').write(str(os.getpid())); "
    finally:
        CGROUP.rmdir()


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table, facts = read_table(folder, "table"), read_facts(folder)
    table["quota"] = table["quota"].astype(object).fillna("none")
    keys = ["busy_processes", "quota", "threads"]
    medians = table.groupby(keys, sort=False)[["steps_per_minute", "others_share"]].median()

    def ratio(surroundings: tuple[int, float | str], way: str, other: float) -> float:
        return (
            float(medians["steps_per_minute"][(*surroundings, way)]) / other if other else math.inf
        )

    def speed(surroundings: tuple[int, float | str], way: str) -> float:
        return ratio(surroundings, way, 1.0)

    quiet, three = (0, "none"), (3, "none")
    # Processors are shared evenly among threads that never wait.
    fair = facts["processors"] / (facts["processors"] + 3)
    return render(
        __file__, facts, medians=medians.reset_index(), rounds=table["round"].nunique(), fair=fair,
        quiet=ratio(quiet, "chosen", speed(quiet, "default")),
        of_fair=ratio(three, "chosen", speed(quiet, "chosen") * fair),
        of_one={quota: ratio((0, quota), "chosen", speed((0, quota), "one")) for quota in QUOTAS},
        least_quiet=LEAST_QUIET, least_fair=LEAST_FAIR, most_seconds=MOST_SECONDS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
