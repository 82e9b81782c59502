"""The thesis's models, English to Italian: one layer, 1 or 8 heads, two ways to start the projections."""

from pathlib import Path

from attnlab.models import Run, RunSettings, settings_from
from experiments.shared.runs import kept_run

HEADS, STARTS, SEEDS = (1, 8), ("default", "identity"), 3
DIM, VOCABULARY, EPOCHS = 128, 4000, 10
CORPUS = {"pair": "en-it", "lowercase": True, "max_tokens": 32}


def settings_of(corpus: str | Path, heads: int, init: str, seed: int) -> RunSettings:
    """As the thesis trains: words as tokens, dropout of attention weights, sums normalised behind parts."""
    return settings_from(
        {
            "corpus": CORPUS | {"name": str(corpus)},
            "tokenizer": {"kind": "word", "vocabulary": VOCABULARY, "shared": False},
            "model": {
                "dim": DIM,
                "heads": heads,
                "feed_forward": 2 * DIM,
                "dropout": 0.1,
                "attention_dropout": 0.1,
                "init": init,
            },
            "optimizer": {
                "epochs": EPOCHS,
                "batch_tokens": 768,
                "schedule": "cosine",
                "validation_sentences": 200,
                "seed": seed,
            },
        }
    )


def model_of(corpus: str | Path, heads: int, init: str, seed: int, runs: Path) -> Run:
    """The model, trained where the folder of runs does not hold it yet."""
    name = f"{heads}-heads-{init}-seed-{seed}"
    return kept_run(name, settings_of(corpus, heads, init, seed), runs)
