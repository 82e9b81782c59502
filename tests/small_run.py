"""A run directory small enough to train in a test."""

from pathlib import Path
from typing import Any

from attnlab.translation.settings import RunSettings, settings_from

SETTINGS: dict[str, Any] = {
    "corpus": {"size": 200, "max_tokens": 40},
    "tokenizer": {"vocabulary": 200},
    "model": {"dim": 16, "heads": 2, "feed_forward": 24, "dropout": 0.1},
    "optimizer": {
        "epochs": 2,
        "batch_tokens": 400,
        "warmup": 10,
        "validation_sentences": 4,
        "precision": "fp32",
    },
}


def small_settings(**sections: dict[str, Any]) -> RunSettings:
    """The settings of the small run with some keys replaced, section by section."""
    merged = {name: SETTINGS[name] | sections.get(name, {}) for name in SETTINGS}
    return settings_from(merged)


def write_pairs(path: Path, rows: list[tuple[str, str]]) -> Path:
    """A .tsv file with these sentence pairs."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path
