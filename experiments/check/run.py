"""What the text architectures of the installed transformers attend to, beside what they are configured to.

Every architecture is built small with random weights and checked in a process of its own.

    OMP_NUM_THREADS=1 python experiments/check/run.py

writes results/check/.
"""

import argparse
import multiprocessing
import resource
import signal
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import quiet, write_table
from attnlab.questions.check.checking import check
from attnlab.questions.check.question import MISMATCH, SinglePrecision
from experiments.check.reduced import DEFECT, PACKED, cause_of, change_of, modules_across
from experiments.check.small_models import architectures, small_model
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

SECONDS = 60
SEED = 0


def checked(name: str) -> dict[str, Any]:
    """A row of the table of architectures, and the rows of both tables of its check."""
    began = time.process_time()
    try:
        model = small_model(name, SEED)
    except ValueError as error:
        return {"built": False, "reason": str(error)[:200]}
    row: dict[str, Any] = {"built": True, "class": type(model).__name__}
    try:
        found = check(model)
    except Exception as error:  # noqa: BLE001 - one that cannot be checked is counted as such
        lines = str(error).strip().splitlines() or [""]
        return row | {"checked": False, "reason": f"{type(error).__name__}: {lines[0]}"[:200]}
    return row | {
        "checked": True,
        "single": SinglePrecision() in found.notes,
        "seconds": round(time.process_time() - began, 1),
        "properties": found.properties.to_dict("records"),
        "abilities": found.abilities.to_dict("records"),
    }


def _answer(name: str, pipe: Connection, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    warnings.simplefilter("ignore")
    with quiet():
        pipe.send(checked(name))


def in_own_process(name: str, seconds: int = SECONDS) -> dict[str, Any]:
    """What `checked` says, or that it took more processor time or ended the process."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(name, sending, seconds))
    process.start()
    sending.close()
    try:
        answer: dict[str, Any] = receiving.recv()
    except EOFError:
        process.join()
        late = process.exitcode == -signal.SIGXCPU
        return {
            "built": False,
            "reason": f"took longer than {seconds} seconds" if late else "ended its process",
        }
    else:
        return answer
    finally:
        process.kill()
        process.join()


def main() -> None:
    """Checks all and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "check")
    parser.add_argument("--only", nargs="*", help="names of architectures, for a quick try")
    parser.add_argument(
        "--again", action="store_true", help="only mismatches.csv and the README, from the tables"
    )
    options = parser.parse_args()
    if options.again:
        finish(options.out)
        return
    rows, properties, abilities = [], [], []
    for name in options.only or architectures():
        row = {"architecture": name, **in_own_process(name)}
        properties += [{"architecture": name, **one} for one in row.pop("properties", ())]
        abilities += [{"architecture": name, **one} for one in row.pop("abilities", ())]
        rows.append(row)
        wrong = sum(p["outcome"] == "mismatch" for p in properties if p["architecture"] == name)
        print(
            name,
            "built" if row["built"] else "not built",
            row.get("reason", ""),
            wrong,
            "mismatches",
            flush=True,
        )
    columns = ["architecture", "class", "built", "checked", "single", "reason", "seconds"]
    write_table(options.out / "architectures.csv", pd.DataFrame(rows, columns=columns))
    write_table(options.out / "properties.csv", pd.DataFrame(properties))
    write_table(options.out / "abilities.csv", by_site(pd.DataFrame(abilities)))
    write_facts(options.out, __file__, "torch", "transformers", seed=SEED, seconds=SECONDS)
    finish(options.out)


def by_site(abilities: pd.DataFrame) -> pd.DataFrame:
    """A row for the layers of a site of which the same is true, in place of one a layer."""
    others = [name for name in abilities if name != "layer"]
    layers = abilities.groupby(others, sort=False, dropna=False)["layer"]
    table = layers.agg(lambda numbers: " ".join(map(str, numbers))).rename("layers").reset_index()
    return table[["architecture", "site", "layers", *others[2:]]]


def finish(folder: Path) -> None:
    """Reduces every mismatch, and writes the README."""
    with quiet():
        write_table(folder / "mismatches.csv", mismatches_of(read_table(folder, "properties")))
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    every = read_table(folder, "architectures")
    properties, abilities = read_table(folder, "properties"), read_table(folder, "abilities")
    built, done = every["built"], every["checked"].fillna(value=False).astype(bool)
    more = every["reason"] == "reads more than text"
    compared = properties[properties["expected"] == "the same"]
    outcomes = properties.groupby(["property", "outcome"], sort=False)["architecture"].nunique()
    counts = outcomes.unstack(fill_value=0).reset_index()
    wrong = read_table(folder, "mismatches")
    shown = wrong.assign(
        modules=wrong["modules"].fillna(""),
        change=["" if pd.isna(one) else f"{one:.2g}" for one in wrong["change"]],
    )
    able = abilities.groupby("architecture")[["captured", "ablated", "replaced"]].all()
    return render(
        __file__, read_facts(folder), total=len(every), more=int(more.sum()),
        unbuilt=every[~built & ~more][["architecture", "reason"]], built=int(built.sum()),
        stopped=every[built & ~done][["architecture", "reason"]], checked=int(done.sum()),
        wrong=wrong["architecture"].nunique(), mismatches=shown, counts=counts, able=able.sum(),
        with_layers=len(able), defects=int((wrong["kind"] == DEFECT).sum()),
        rounding=compared.loc[compared["outcome"] == "ok", "change"].max(),
        smallest=compared.loc[compared["outcome"] == MISMATCH, "change"].min(),
        single=int(every["single"].fillna(value=False).astype(bool).sum()),
    )  # fmt: skip


def mismatches_of(properties: pd.DataFrame) -> pd.DataFrame:
    """A row per architecture and property that is not as expected, with its cause and its reduction."""
    wrong = properties[properties["outcome"] == MISMATCH]
    rows = []
    for pair, own in wrong.groupby(["architecture", "property"], sort=False):
        name, what = map(str, pair)
        cause = cause_of(name, what)
        rows.append(
            {
                "architecture": name,
                "property": what,
                "found": own["found"].iloc[0],
                "change": own["change"].max(),
                "kind": "not looked into" if cause is None else cause.kind,
                "cause": "" if cause is None else cause.said,
                "modules": ", ".join(modules_across(name)) if what == PACKED else "",
                "reduced_change": None if cause is None else change_of(name, what),
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
