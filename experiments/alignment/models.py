"""How the models whose heads are to align are trained."""

from pathlib import Path
from typing import Any

from attnlab.cli.commands.demo import DEMO_SETTINGS
from attnlab.models import RunSettings, settings_from

DIM, HEADS = 128, 4
OPTIMIZER: dict[str, Any] = {
    "epochs": 6,
    "batch_tokens": 1024,
    "learning_rate": 1.5e-3,
    "warmup": 600,
    "schedule": "cosine",
    "validation_sentences": 300,
}


def settings_of(file: Path, pair: str, layers: int, seed: int) -> RunSettings:
    """How a model of so many layers is trained on a text of these languages, `en-it`."""
    return settings_from(
        {
            "corpus": {"name": str(file), "pair": pair, "lowercase": True, "max_tokens": 64},
            "tokenizer": {"vocabulary": 6000},
            "model": {
                "dim": DIM,
                "heads": HEADS,
                "norm": "pre",
                "feed_forward": 4 * DIM,
                "encoder_layers": layers,
                "decoder_layers": layers,
            },
            "optimizer": OPTIMIZER | {"seed": seed},
        }
    )


def demo_settings(seed: int) -> RunSettings:
    """Those of `attnlab demo`; the seed also draws the corpus."""
    return settings_from(DEMO_SETTINGS | {"optimizer": DEMO_SETTINGS["optimizer"] | {"seed": seed}})
