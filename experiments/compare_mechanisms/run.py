"""Compare mechanisms at equal budgets at every site of a trained run, and write what came out.

    python experiments/compare_mechanisms/run.py multi30k runs/multi30k

writes results/compare_NAME/.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.budget import refusals
from attnlab.core import quiet
from attnlab.figures import save_figure
from attnlab.models import Run, load
from attnlab.questions.compare.comparison import compare
from attnlab.results import Result
from experiments.shared.readme import (
    RESULTS,
    estimate,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.rounded import write_rounded

BUDGETS = (5, 9, 13)
SENTENCES, CALIBRATION = 200, 500
SEED = 0


def main() -> None:
    """Compares and writes tables, figure and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the results go to results/compare_NAME")
    parser.add_argument("run", type=Path, help="a run directory")
    chosen = parser.parse_args()
    out = RESULTS / f"compare_{chosen.name}"
    begin = time.process_time()
    with quiet():
        found = compare(
            chosen.run, BUDGETS, sentences=SENTENCES, calibration=CALIBRATION, seed=SEED, quick=True
        )
        run = load(chosen.run)
    seconds = time.process_time() - begin
    for name, table in found.tables.items():
        write_rounded(out / f"{name}.csv", table)
    for site in found.details["mean_tokens"]:
        name = f"mechanisms_{site}"
        save_figure(found.plot(name), out / "figures" / f"{name}.svg")
    corpus = run.record["corpus"]
    write_facts(
        out, __file__, "torch", "transformers",
        name=chosen.name, pair=run.settings.corpus.pair, sentences=found.about["Held-out sentences"],
        validation=found.about["Validation sentences"],
        calibration=found.about["Training sentences"], checksum=corpus["checksum"],
        processor_seconds=round(seconds), weighted_by="rows",
        sites={site: about_site(site, run, found) for site in found.details["mean_tokens"]},
    )  # fmt: skip
    write_readme(out, readme(out))
    print(found.summary.to_string(index=False))


def with_interval(table: pd.DataFrame, name: str) -> pd.Series:
    """Mean and interval as text; a dash where there is no mean."""
    return table.apply(
        lambda row: estimate(row, name, ".3f") if pd.notna(row[name]) else "-", axis=1
    )


def table_of(summary: pd.DataFrame) -> pd.DataFrame:
    """The summary of one site as a table with intervals."""
    summary = summary.dropna(subset=["budget"])
    over = summary["visible_keys"] - summary["budget"]
    return (
        summary[["budget", "mechanism", "level"]]
        .astype({"budget": int})
        .assign(
            **{
                "attention captured": with_interval(summary, "mass_fraction"),
                "output error": with_interval(summary, "output_error"),
                "keys a row": summary["visible_keys"].map(
                    lambda keys: f"{keys:.2f}" if pd.notna(keys) else "-"
                ),
                "over budget": over.map(lambda keys: f"{keys:+.2f}" if pd.notna(keys) else "-"),
                "multiply-adds": summary["multiply_adds"].map(
                    lambda work: f"{work:,.0f}" if pd.notna(work) else "-"
                ),
            }
        )
    )


def about_site(site: str, run: Run, found: Result) -> dict[str, Any]:
    """Size of the model and of its matrices at one site, and which mechanisms it does not allow."""
    model = run.settings.model
    queries, keys = found.details["mean_tokens"][site]
    return {
        "layers": model.encoder_layers if site == "encoder" else model.decoder_layers,
        "heads": model.heads,
        "queries": queries,
        "keys": keys,
        "left_out": refusals(site),
    }


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    facts, summary = read_facts(folder), read_table(folder, "summary")
    sites = list(facts["sites"])
    return render(
        __file__, facts, budgets=BUDGETS,
        figures={site: f"figures/mechanisms_{site}" for site in sites},
        tables={site: table_of(summary[summary["sites"] == site]) for site in sites},
    )  # fmt: skip


if __name__ == "__main__":
    main()
