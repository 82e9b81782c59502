"""How much sooner a study is done on two processes than on one: 24 equal cells.

    python experiments/study_engine/run.py

writes benchmarks/study_engine/, with the cells of the one process in benchmarks/study_engine/study/. Run it
on a machine that does nothing else.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import pandas as pd

from attnlab.core import write_table
from attnlab.studies import Collected, run_study
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "study_engine"
STUDY = "random_search"
ATTEMPTS = 60
OPTIONS = {"structures": ("band",), "attempts": (ATTEMPTS,), "seeds": 24}
PROCESSES = (1, 2)


def main() -> None:
    """Runs the study on one and on two processes, and writes both times."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    load = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as made:
        folders = {count: Path(made) / str(count) for count in PROCESSES}
        table = pd.DataFrame([measure(count, folders[count]) for count in PROCESSES])
        print(table.to_string(index=False))
        same = rows_of(folders[1]) == rows_of(folders[2])
        shutil.rmtree(OUT / "study", ignore_errors=True)
        shutil.copytree(folders[1], OUT / "study", ignore=shutil.ignore_patterns(".*"))
    write_table(OUT / "table.csv", table)
    write_facts(
        OUT, __file__, "torch", "distributed", cores=os.cpu_count(), load=load, same_rows=same
    )
    write_readme(OUT, readme(OUT))


def measure(processes: int, folder: Path) -> dict[str, float]:
    """Seconds from the call to the collected table, and those until processes were there."""
    begin = time.perf_counter()
    started = [begin]
    found: Collected = run_study(
        STUDY,
        folder=folder,
        options=OPTIONS,
        jobs=None if processes == 1 else processes,
        connected=lambda _: started.append(time.perf_counter()),
    )
    seconds = time.perf_counter() - begin
    if found.missing:
        msg = f"{found.missing} cells are missing"
        raise RuntimeError(msg)
    return {
        "processes": processes,
        "cells": len(found.cells),
        "seconds": round(seconds, 1),
        "seconds_to_start": round(started[-1] - begin, 1),
        "seconds_per_cell": round(found.cells["seconds"].mean(), 2),
    }


def rows_of(folder: Path) -> dict[str, bytes]:
    """The rows of each cell by its address."""
    return {path.parent.name: path.read_bytes() for path in folder.glob("cells/*/rows.csv")}


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    by_count = table.set_index("processes")
    seconds = by_count["seconds"]
    started = seconds - by_count["seconds_to_start"]
    return render(
        __file__, read_facts(folder), table=table, ratio=seconds[1] / seconds[2],
        ratio_once_started=started[1] / started[2],
        slower=by_count["seconds_per_cell"][2] / by_count["seconds_per_cell"][1],
        cells=int(table["cells"].iloc[0]), attempts=ATTEMPTS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
