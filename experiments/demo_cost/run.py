"""What `attnlab demo` costs: time, peak memory, and the BLEU that it reaches.

    python experiments/demo_cost/run.py

writes benchmarks/demo_cost/. The demo runs in a process of its own, whose largest resident set is read
from the operating system.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch

from attnlab.core import write_table
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "demo_cost"
MOST_SECONDS, MOST_GIB, LEAST_BLEU = 120, 2.0, 70.0


def main() -> None:
    """Runs the demo once and writes what it cost."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "attnlab", "demo", str(Path(folder) / "demo"), "--json"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = time.perf_counter() - begin
    summary = json.loads(done.stdout)["scores"]
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = {
        "seconds": round(seconds, 1),
        "processor_seconds": round(children.ru_utime + children.ru_stime, 1),
        "peak_gib": round(children.ru_maxrss / 2**20, 2),
        "test_bleu": summary["bleu"],
        "test_chrf": summary["chrf"],
        "test_sentences": summary["sentences"],
    }
    table = pd.DataFrame([row])
    print(table.to_string(index=False))
    write_table(OUT / "table.csv", table)
    write_facts(
        OUT, __file__, "torch", "transformers", "sacrebleu",
        cores=os.cpu_count(), threads=torch.get_num_threads(), load=round(os.getloadavg()[0], 1),
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    return render(
        __file__, read_facts(folder), table=table, row=table.iloc[0],
        most_seconds=MOST_SECONDS, most_gib=MOST_GIB, least_bleu=LEAST_BLEU,
    )  # fmt: skip


if __name__ == "__main__":
    main()
