"""The translation models that the studies share: corpora, sizes, how each is trained."""

from pathlib import Path
from typing import Any

from attnlab.models import Run, RunSettings, settings_from
from experiments.shared.runs import kept_run

LAYERS = (1, 3, 6)
# A corpus: its folder in the shared data, its pair, and what differs from the settings below.
CORPORA: dict[str, dict[str, Any]] = {
    "multi30k-en-de": {"folder": "multi30k", "pair": "en-de"},
    "multi30k-en-fr": {"folder": "multi30k", "pair": "en-fr"},
    "multi30k-en-cs": {"folder": "multi30k", "pair": "en-cs"},
    "tatoeba-en-de": {"folder": "tatoeba", "pair": "en-de", "epochs": 6},
    "tatoeba-en-es": {"folder": "tatoeba", "pair": "en-es", "epochs": 8},
    "europarl-en-it": {"folder": "europarl", "pair": "en-it", "vocabulary": 8000, "epochs": 10},
    "europarl-en-sv": {"folder": "europarl", "pair": "en-sv", "vocabulary": 8000, "epochs": 10},
    "bible-en-it": {"folder": "bible", "pair": "en-it", "epochs": 12},
}
DIM, HEADS, VOCABULARY, EPOCHS, MAX_TOKENS = 256, 8, 6000, 14, 64


def settings_of(corpus: str, layers: int, seed: int, data: Path) -> RunSettings:
    """How the model of a corpus is trained; `data` is the folder of the corpora."""
    chosen = CORPORA[corpus]
    return settings_from(
        {
            "corpus": {
                "name": str(data / chosen["folder"]),
                "pair": chosen["pair"],
                "lowercase": True,
                "max_tokens": MAX_TOKENS,
            },
            "tokenizer": {"vocabulary": chosen.get("vocabulary", VOCABULARY)},
            "model": {
                "dim": DIM,
                "heads": HEADS,
                "feed_forward": 4 * DIM,
                "encoder_layers": layers,
                "decoder_layers": layers,
                "dropout": 0.2,
                # Deep models whose sums are normalised behind each part need a far longer warmup.
                "norm": "post" if layers == 1 else "pre",
            },
            "optimizer": {
                "epochs": chosen.get("epochs", EPOCHS),
                "batch_tokens": 2048,
                "learning_rate": learning_rate(layers),
                "warmup": 400,
                "schedule": "cosine",
                "seed": seed,
            },
        }
    )


def learning_rate(layers: int) -> float:
    """The highest one of a training."""
    return 2e-3 if layers == 1 else 1e-3


def model_of(corpus: str, layers: int, seed: int, data: Path, runs: Path) -> Run:
    """The model, trained where the folder of runs does not hold it yet."""
    name = f"{corpus}-{layers}-layers-seed-{seed}"
    return kept_run(name, settings_of(corpus, layers, seed, data), runs)
