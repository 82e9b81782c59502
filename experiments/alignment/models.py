"""The models whose heads are to align: trained once, and found again by settings and text."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnlab.cli.commands.demo import DEMO_SETTINGS
from attnlab.core import file_checksum
from attnlab.models import Run, RunSettings, settings_from
from experiments.shared.runs import trained_run

DIM, HEADS = 128, 4
OPTIMIZER: dict[str, Any] = {
    "epochs": 3,
    "batch_tokens": 1024,
    "learning_rate": 1.5e-3,
    "warmup": 300,
    "schedule": "cosine",
    "validation_sentences": 300,
}


def settings_of(file: Path, layers: int, seed: int) -> RunSettings:
    """How a model of so many layers is trained on a text."""
    return settings_from(
        {
            "corpus": {"name": str(file), "lowercase": True, "max_tokens": 64},
            "tokenizer": {"vocabulary": 6000},
            "model": {
                "dim": DIM,
                "heads": HEADS,
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


def trained(name: str, settings: RunSettings, runs: Path) -> Run:
    """The model of these settings and this text, trained where it is not in the folder of runs yet."""
    return trained_run(runs / f"{name}-{_digest(settings)}", settings)


def _digest(settings: RunSettings) -> str:
    """Of all settings, and of what the corpus holds in place of where it lies."""
    values = asdict(settings)
    file = Path(settings.corpus.name)
    if file.is_file():
        values["corpus"]["name"] = file_checksum(file)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]
