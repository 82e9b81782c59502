"""Pairs of sentences with gold links, and models and heads that align them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from transformers import MarianMTModel
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.questions.align.aligning import align

QUICK: dict[str, Any] = {"quick": True}

marian = partial(random_models.marian, encoder_layers=1, decoder_layers=2, heads=3)


def gold_file(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    """XL-WA: words at the same place are linked."""
    lines = [
        f"{source}\t{target}\t"
        + " ".join(f"{n}-{n}" for n in range(min(len(source.split()), len(target.split()))))
        for source, target in pairs
    ]
    path = folder / "gold.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def aer_of(shown: list[dict[str, Any]], name: str) -> float:
    agreed = total = 0
    for one in shown:
        found, sure, possible = (
            {tuple(link) for link in links}
            for links in (one["links"][name], one["sure"], one["possible"])
        )
        agreed += len(found & sure) + len(found & possible)
        total += len(found) + len(sure)
    return 1 - agreed / total


def saved_model(folder: Path, build: Callable[[], Any] = marian) -> Path:
    build().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def links_in_file(path: Path) -> list[set[tuple[int, int]]]:
    return [
        {(int(source), int(target)) for source, target in (one.split("-") for one in line.split())}
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def jsonl_file(path: Path, pairs: list[tuple[str, str]], languages: tuple[str, str]) -> Path:
    rows = [{"translation": dict(zip(languages, pair, strict=True))} for pair in pairs]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def chosen_heads(folder: Path) -> tuple[Any, Path]:
    # Read from a folder, since Marian's positions stand in no file, and the random model has others.
    saved = saved_model(folder / "random")
    model = MarianMTModel.from_pretrained(saved), tokenizer()
    align(model, gold=gold_file(folder, PAIRS), **QUICK).save(folder / "found")
    return model, folder / "found" / "heads.json"


MULTILINGUAL = {
    "nllb": (random_models.nllb, random_models.nllb_tokenizer, "eng_Latn", "ita_Latn"),
    "mbart": (random_models.mbart, random_models.mbart_tokenizer, "en_XX", "it_IT"),
}
