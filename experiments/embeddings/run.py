"""Skip-gram embeddings: near words, and small translation models that start from them.

    python experiments/embeddings/run.py ../shared/data/tatoeba

writes results/embeddings/. Embeddings and models go to runs/embeddings/; those that are there are not
trained again.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import quiet, write_table
from attnlab.figures import write_figure
from attnlab.models import (
    SKIP_GRAM,
    CorpusSettings,
    SkipGramSettings,
    TokenizerSettings,
    embed,
    holds_embeddings,
    load_embeddings,
    read_metrics,
    settings_from,
)
from attnlab.questions.neighbours.neighbours import neighbours
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_run

OUT = RESULTS / "embeddings"
DIM, WINDOW = 64, 3
LARGE, SMALL = 60_000, 1000
WORDS = ("dog", "red", "she", "bread", "boston", "yesterday", "italian", "three")
COUNT = 6
SEEDS = (0, 1)
EPOCHS = 6
VOCABULARY = 20_000
STARTS = ("drawn", "skip-gram of the training pairs", "skip-gram of more pairs")


def main() -> None:
    """Trains what is not there yet, and writes tables, the map and the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "embeddings")
    chosen = parser.parse_args()
    vectors = chosen.runs / "vectors"
    with quiet():
        if not holds_embeddings(vectors):
            embed(
                vectors,
                SkipGramSettings(dim=DIM, window=WINDOW),
                corpus=CorpusSettings(name=str(chosen.corpus), limit=LARGE, lowercase=True),
                tokenizer=TokenizerSettings(kind="word", vocabulary=VOCABULARY),
            )
        found = neighbours(vectors, WORDS, count=COUNT)
    rows = [
        started(chosen.runs, chosen.corpus, vectors, start, frozen=frozen, seed=seed)
        for seed in SEEDS
        for start in STARTS
        for frozen in (False, True)
    ]
    write_table(OUT / "neighbours.csv", found.neighbours)
    write_table(OUT / "map.csv", found.map)
    write_figure(found.plot("map"), OUT, "map")
    write_table(OUT / "table.csv", pd.DataFrame(rows))
    write_facts(
        OUT, __file__, "torch", "transformers", "gensim", words=len(load_embeddings(vectors).words)
    )
    write_readme(OUT, readme(OUT))


def started(
    runs: Path, corpus: Path, vectors: Path, start: str, *, frozen: bool, seed: int
) -> dict[str, Any]:
    """One row: what the kept checkpoint of a model with this start reaches on validation pairs."""
    paths = dict(zip(STARTS, (None, SKIP_GRAM, str(vectors)), strict=True))
    folder = runs / f"{STARTS.index(start)}_{'frozen' if frozen else 'trained'}_{seed}"
    settings = settings_from(
        {
            "corpus": {"name": str(corpus), "limit": SMALL, "lowercase": True},
            "tokenizer": {"kind": "word", "vocabulary": VOCABULARY},
            "model": {"dim": DIM, "heads": 4, "feed_forward": 256},
            "embeddings": {"start": paths[start], "frozen": frozen},
            "optimizer": {
                "epochs": EPOCHS,
                "validation_sentences": 150,
                "best": "loss",
                "batch_tokens": 512,
                "seed": seed,
            },
        }
    )
    run = trained_run(folder, settings)
    kept = min(read_metrics(folder), key=lambda line: float(line["validation_loss"]))
    row = {
        "start": start,
        "vectors": "frozen" if frozen else "trained",
        "seed": seed,
        "kept_epoch": kept["epoch"],
        "validation_loss": kept["validation_loss"],
        "validation_bleu": kept["validation_bleu"],
        "generalisation_gap_on_validation": kept["generalisation_gap_on_validation"],
        "types": len(run.tokenizers.source),
    }
    print(row, flush=True)
    return row


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table")
    measures = ["validation_loss", "validation_bleu", "generalisation_gap_on_validation"]
    keys = ["start", "vectors"]
    means = table.groupby(keys, sort=False)[measures].mean()
    spread = table.groupby(keys, sort=False)["validation_loss"].agg(lambda x: x.max() - x.min())
    near = read_table(folder, "neighbours").groupby("word", sort=False)["neighbour"].agg(list)
    return render(
        __file__,
        read_facts(folder),
        means=means.assign(seeds_apart=spread).reset_index(),
        loss=table.groupby(keys)["validation_loss"].agg(["mean", "min", "max"]).to_dict("index"),
        apart=float(spread.max()),
        bleu=float(table["validation_bleu"].max()),
        near=near.to_dict(),
        starts=STARTS,
        sizes={
            "dim": DIM,
            "window": WINDOW,
            "large": LARGE,
            "small": SMALL,
            "seeds": len(SEEDS),
            "epochs": EPOCHS,
        },
    )


if __name__ == "__main__":
    main()
