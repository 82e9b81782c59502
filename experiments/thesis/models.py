"""The thesis's models, English to Italian: one layer, 1 or 8 heads, two ways to start the projections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.models import Run, RunSettings, settings_from
from experiments.shared.runs import kept_run

HEADS, STARTS = (1, 8), ("default", "identity")
DIM, VOCABULARY = 128, 4000


@dataclass(frozen=True)
class Texts:
    """What the models read, and which of it is fitted.

    Attributes:
        corpus: its folder.
        result: the folder of the result.
        read: settings of the corpus.
        least: encoder matrices of at least so many tokens are fitted; the thesis's have 16.
        searched: one of so many tokens is searched.
        sentences: how many test sentences are read; all where it is None.
        optimizer: what differs from that of the short sentences.
    """

    corpus: str
    result: str
    read: Mapping[str, Any]
    least: int
    searched: int
    sentences: int | None = None
    optimizer: Mapping[str, Any] = field(default_factory=dict)


SHORT = Texts("tatoeba", "thesis", {"max_tokens": 32}, least=12, searched=16)
# A window of 10 to each side holds all of the short sentences and not of these. The weights with the least
# validation loss are kept: to translate verses each epoch takes time.
LONG = Texts(
    "bible", "thesis_verses", {"max_tokens": 64, "limit": 4_000}, least=24, searched=27, sentences=300,
    optimizer={"epochs": 6, "best": "loss", "validation_sentences": 50},
)  # fmt: skip
TEXTS = {texts.corpus: texts for texts in (SHORT, LONG)}


def settings_of(corpus: str | Path, heads: int, init: str, seed: int) -> RunSettings:
    """As the thesis trains: words as tokens, dropout of attention weights, sums normalised behind parts."""
    texts = TEXTS[Path(corpus).name]
    return settings_from(
        {
            "corpus": {"pair": "en-it", "lowercase": True, "name": str(corpus)} | {**texts.read},
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
                "epochs": 10,
                "batch_tokens": 768,
                "schedule": "cosine",
                "validation_sentences": 200,
                "seed": seed,
            }
            | {**texts.optimizer},
        }
    )


def model_of(corpus: str | Path, heads: int, init: str, seed: int, runs: Path) -> Run:
    """The model, trained where the folder of runs does not hold it yet."""
    name = f"{Path(corpus).name}-{heads}-heads-{init}-seed-{seed}"
    return kept_run(name, settings_of(corpus, heads, init, seed), runs)
