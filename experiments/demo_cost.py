"""What `attnlab demo` costs: time, peak memory, and the BLEU that it reaches.

    python experiments/demo_cost.py

writes results/demo_cost/. The demo runs in a process of its own, whose largest resident set is read
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
from readme_parts import markdown, provenance

from attnlab.files import write_table, write_text

OUT = Path(__file__).resolve().parents[1] / "results" / "demo_cost"
MOST_SECONDS, MOST_GIB, LEAST_BLEU = 120, 2.0, 70.0


def main() -> None:
    """Runs the demo once and writes what it cost."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "attnlab", "demo", str(Path(folder) / "demo")],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = time.perf_counter() - begin
    summary = json.loads(done.stdout.splitlines()[-1])
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
    write_text(OUT / "README.md", report(table))


def report(table: pd.DataFrame) -> str:
    """The README of the result."""
    row = table.iloc[0]
    wanted = {
        f"under {MOST_SECONDS} s": row["seconds"] < MOST_SECONDS,
        f"under {MOST_GIB:g} GiB": row["peak_gib"] < MOST_GIB,
        f"BLEU at least {LEAST_BLEU:g}": row["test_bleu"] >= LEAST_BLEU,
    }
    verdicts = ", ".join(
        f"{what}: {'reached' if met else 'missed'}" for what, met in wanted.items()
    )
    return f"""# What the demo costs

One run of `attnlab demo` on {os.cpu_count()} cores ({torch.get_num_threads()} threads), from the start of
the program to its end: corpus, tokenizer, training, scoring, analysis, figures, page. Load of the
machine over the last minute, the demo counted: {os.getloadavg()[0]:.1f}.

{markdown(table)}

Wanted: {verdicts}. BLEU is greedy, on the held-out test part of the embedded grammar, seed 0.

Command: `python experiments/demo_cost.py`. {provenance("torch", "transformers", "sacrebleu")}
"""


if __name__ == "__main__":
    main()
