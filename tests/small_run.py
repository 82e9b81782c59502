"""A run directory small enough to train in a test."""

from pathlib import Path
from typing import Any

from attnlab.translation.settings import SECTIONS, RunSettings, settings_from

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
# Of `model`: what a transformer has and a recurrent model has not is taken back.
RECURRENT: dict[str, Any] = {"kind": "recurrent", "feed_forward": 512, "heads": None}


def small_settings(**sections: dict[str, Any]) -> RunSettings:
    """The settings of the small run with some keys replaced, section by section."""
    merged = {name: SETTINGS.get(name, {}) | sections.get(name, {}) for name in SECTIONS}
    return settings_from(merged)


def write_pairs(path: Path, rows: list[tuple[str, str]]) -> Path:
    """A .tsv file with these sentence pairs."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below the folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def bleu_of(*scores: float) -> object:
    """A scorer whose evaluations have these BLEU scores, one after another."""
    left = iter(scores)
    rest = {"chrf": 0.0, "sentences": 4, "bleu_signature": "", "chrf_signature": ""}
    return lambda *_: lambda _: {"bleu": next(left), **rest}
