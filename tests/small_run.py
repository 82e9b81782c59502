"""A run directory small enough to train in a test."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from attnlab.core.files import write_json
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel
from attnlab.models.run import corpus_of, new_record
from attnlab.models.run_folder import SETTINGS as RECORD
from attnlab.models.tokenizer import train_tokenizers
from attnlab.models.training_settings import (
    SECTIONS,
    CorpusSettings,
    ModelSettings,
    RunSettings,
    settings_from,
)

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


def untrained_run(folder: Path, *, pairs: int, heads: int, attention: str) -> Path:
    """What training on the embedded corpus would leave, with random weights and separate vocabularies."""
    sizes = {"dim": 15, "heads": heads, "feed_forward": 11}
    settings = RunSettings(corpus=CorpusSettings(size=pairs), model=ModelSettings(**sizes))
    corpus = corpus_of(settings)
    tokenizers = train_tokenizers(corpus, kind="word", shared=False)
    config = TranslationConfig(
        len(tokenizers.target), len(tokenizers.source), **sizes, attention={"encoder": attention}
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        TranslationModel(config).save_pretrained(folder)
    tokenizers.save(folder)
    write_json(folder / RECORD, new_record(settings, corpus, {}, "attnlab train"))
    return folder


def exchanged_run(folder: Path, copy: Path) -> Path:
    """A copy of a run that says of itself to translate in the other direction."""
    shutil.copytree(folder, copy)
    record = json.loads((copy / RECORD).read_text())
    languages = record["settings"]["corpus"]["pair"].split("-")
    record["settings"]["corpus"]["pair"] = "-".join(reversed(languages))
    write_json(copy / RECORD, record)
    return copy
