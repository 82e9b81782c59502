"""Time and memory of every attention mechanism against the number of tokens, and ratios to others' code.

    python experiments/scaling/run.py

writes benchmarks/scaling/. Every number comes from a process of its own (worker.py); times are
the least of several, since the machine is shared. About a quarter of an hour.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.core import write_table
from attnlab.figures import crossover, draw_scaling, save_figure
from experiments.scaling.worker import HEAD_DIM, HEADS, SEED, SUM_OF_INPUTS, THREADS
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "scaling"
TOKENS = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
# Exponents and memory are taken from these lengths.
LONG = [2048, 4096, 8192, 16384]
SHORT = [64, 256]
TIME_TARGET, MEMORY_TARGET, SHORT_TARGET = 1.15, 1.1, 1.5
# For memory, what is freed goes back to the system at once, so that each length starts from the same.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}
# For time, what is freed is kept: else every tensor above 32 MiB is fetched page by page at each use,
# and the exponent would be that of the allocator.
KEEP = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
# What is quadratic stops earlier.
LONGEST = {"full": 8192, "topk(k=64)": 2048}
# What the caches alone make of longer tensors.
REFERENCE = (SUM_OF_INPUTS, False)
MECHANISMS = [
    ("full", False),
    ("topk(k=64)", False),
    ("band(window=64)", False),
    ("band(window=64)", True),
    ("longformer(window=64, global_tokens=[0])", False),
    ("bigbird(block=64, random=3)", False),
    ("sigma(window=16, num_pos=8, columns='first')", False),
    ("sigma(window=16, num_pos=8, columns='random', extra=2)", True),
    ("linear(feature='elu')", False),
    ("linear(feature='elu')", True),
    ("linear(feature='favor')", False),
    ("linformer(k=128, max_length=16384)", False),
    ("scatterbrain(window=16)", False),
    ("fixed(pattern='left')", True),
]
PAIRS = [
    ("band_dense", "forward", 8.0, "SDPA with the band as a dense mask"),
    ("band_dense", "both", 8.0, "SDPA with the band as a dense mask"),
    ("longformer", "both", 1.2, "transformers' Longformer local attention"),
    ("bigbird", "both", 1.0, "transformers' block-sparse BigBird, training mode"),
]


def main() -> None:
    """Measures, then writes tables, figure and README."""
    table = pd.concat([measured(*case) for case in [*MECHANISMS, REFERENCE]], ignore_index=True)
    by_mechanism = table.groupby("mechanism", sort=False)
    exponents = pd.DataFrame(
        {"mechanism": name} | exponents_of(rows) for name, rows in by_mechanism
    )
    ratios = pd.DataFrame(pairs())
    short = pd.DataFrame([row for case in MECHANISMS for row in shorts(*case)])
    write_table(OUT / "table.csv", table)
    write_table(OUT / "exponents.csv", exponents)
    write_table(OUT / "ratios.csv", ratios)
    write_table(OUT / "short.csv", short)
    save_figure(draw_scaling(table), OUT / "figure.svg")
    write_facts(OUT, __file__, "torch", "transformers")
    write_readme(OUT, readme(OUT))


def worker(*, keep: bool = True, **asked: Any) -> Any:
    """What one process measures; `keep` freed memory, or leave that to the C library."""
    environment = GIVE_BACK if asked["task"] == "memory" else KEEP if keep else {}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("worker.py")), json.dumps(asked)],
        capture_output=True,
        text=True,
        check=True,
        cwd=BENCHMARKS.parent,
        env=os.environ | environment,
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(spec: str, causal: bool) -> pd.DataFrame:
    """Seconds at every length and bytes at the long ones."""
    print(spec, "causal" if causal else "", flush=True)
    tokens = [length for length in TOKENS if length <= LONGEST.get(spec, TOKENS[-1])]
    table = pd.DataFrame(worker(task="time", spec=spec, tokens=tokens, causal=causal))
    long = [length for length in tokens if length >= LONG[0]]
    bytes_at = worker(task="memory", spec=spec, tokens=long, causal=causal)
    table = table.merge(pd.DataFrame(bytes_at), on="tokens", how="left")
    table.insert(0, "mechanism", f"{spec}, causal" if causal else spec)
    return table


def exponents_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Slopes of log seconds and log bytes in log tokens, by least squares over the long lengths."""
    rows = rows[rows["tokens"] >= LONG[0]]
    found: dict[str, Any] = {
        "lengths": len(rows),
        "time_forward": slope(rows, "seconds_forward"),
        "time_both": slope(rows, "seconds_both"),
        "memory": slope(rows, "peak_bytes"),
    }
    times_met = max(found["time_forward"], found["time_both"]) <= TIME_TARGET
    found["met"] = bool(times_met and found["memory"] <= MEMORY_TARGET)
    return found


def slope(rows: pd.DataFrame, column: str) -> float:
    """Least-squares slope in log-log."""
    if len(rows) < 2:
        return math.nan
    x, y = (torch.tensor(rows[name].to_numpy(float)).log() for name in ("tokens", column))
    x = x - x.mean()
    return round(float((x * (y - y.mean())).sum() / x.square().sum()), 3)


def pairs() -> list[dict[str, Any]]:
    """Ratios to other implementations at 4096 tokens."""
    names = dict.fromkeys(name for name, *_ in PAIRS)
    found = {
        (name, keep): worker(task="pair", name=name, keep=keep)
        for name in names
        for keep in (True, False)
    }
    return [
        {
            "against": other,
            "pass": "forward" if what == "forward" else "forward + backward",
            "freed_memory": "kept" if keep else "as the C library likes",
            "times_faster": round(found[name, keep][what], 2),
            "target": target,
            "met": found[name, keep][what] >= target,
        }
        for name, what, target, other in PAIRS
        for keep in (True, False)
    ]


def shorts(spec: str, causal: bool) -> list[dict[str, Any]]:
    """Time over that of the dense form for short sentences."""
    return [
        {
            "mechanism": f"{spec}, causal" if causal else spec,
            "tokens": found["tokens"],
            "forward": round(found["forward"], 2),
            "both": round(found["both"], 2),
            "met": max(found["forward"], found["both"]) <= SHORT_TARGET,
        }
        for found in worker(task="short", spec=spec, tokens=SHORT, causal=causal)
    ]


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, exponents, ratios, short = (
        read_table(folder, name) for name in ("table", "exponents", "ratios", "short")
    )
    names = [name for name in exponents["mechanism"] if name not in {"full", SUM_OF_INPUTS}]
    starts = {name: crossover(table, name) for name in names}
    overtaken = pd.DataFrame(
        [
            {"mechanism": name, "from_tokens": "never" if math.isnan(start) else int(start)}
            for name, start in starts.items()
        ]
    )
    return render(
        __file__, read_facts(folder), exponents=exponents, ratios=ratios,
        short=short, missed=short[~short["met"]],
        linear=exponents[~exponents["mechanism"].isin([*LONGEST, SUM_OF_INPUTS])],
        overtaken=overtaken, heads=HEADS, head_dim=HEAD_DIM, threads=THREADS, long=LONG, seed=SEED,
        time_target=TIME_TARGET, memory_target=MEMORY_TARGET, short_target=SHORT_TARGET,
    )  # fmt: skip


if __name__ == "__main__":
    main()
