"""The models of the study: each source language with each target, on the same sentences, words cut alike."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.corpora import ParallelCorpus, load_corpus
from attnlab.models import Run, RunSettings, blank_subwords, settings_from, train_tokenizer
from experiments.shared.runs import kept_run


@dataclass(frozen=True)
class Collection:
    """The same sentences in several languages, and how its models are trained.

    Attributes:
        languages: each is a source of all others.
        limit: number of training sentences; all where it is None.
        max_tokens: of a sentence.
        optimizer: what differs from `OPTIMIZER`.
    """

    languages: tuple[str, ...]
    limit: int | None
    max_tokens: int
    optimizer: Mapping[str, Any] = field(default_factory=dict)

    def pairs(self) -> list[tuple[str, str]]:
        """Source and target of each model.

        Each round holds every language once on each side, so that the first rounds are balanced.
        """
        return [
            (source, self.languages[(place + shift) % len(self.languages)])
            for shift in range(1, len(self.languages))
            for place, source in enumerate(self.languages)
        ]


COLLECTIONS = {
    "multi30k": Collection(("en", "de", "fr", "cs"), None, 64, {"epochs": 8}),
    # The weights with the least validation loss are kept: to translate verses each epoch takes time.
    "bible": Collection(
        ("en", "it", "fr", "es", "de"), 10_000, 128, {"best": "loss", "validation_sentences": 100}
    ),
    # Read by the study of kinds of text.
    "tatoeba": Collection(("en", "it", "fr"), 10_000, 64),
    "europarl": Collection(("en", "it", "sv"), 10_000, 64),
}
SEED = 0
# Pieces per source word of the training text, punctuation left out; sizes of vocabulary that are tried.
FERTILITY, SIZES, STEP = 1.17, (2_000, 14_000), 25
MODEL: dict[str, Any] = {
    "dim": 128, "heads": 8, "feed_forward": 512, "encoder_layers": 1, "decoder_layers": 1,
    "dropout": 0.2, "norm": "post",
}  # fmt: skip
OPTIMIZER: dict[str, Any] = {
    "epochs": 6, "batch_tokens": 2048, "learning_rate": 2e-3, "warmup": 400, "schedule": "cosine",
    "precision": "fp32",
}  # fmt: skip
# Of models of several layers, which other studies read: sums that are normalised behind each part would
# need a far longer warmup, and more weights more epochs.
DEEP_MODEL: dict[str, Any] = {"norm": "pre"}
DEEP_OPTIMIZER: dict[str, Any] = {"epochs": 10, "learning_rate": 1e-3}


def model_of(
    name: str, source: str, target: str, data: Path, runs: Path, *, layers: int = 1
) -> Run:
    """The model of a pair, trained where the folder of runs does not hold it yet."""
    folder = f"{name}-{source}-{target}" + f"-{layers}-layers" * (layers > 1)
    return kept_run(folder, settings_of(name, source, target, data, layers=layers), runs)


def settings_of(name: str, source: str, target: str, data: Path, *, layers: int = 1) -> RunSettings:
    """How the model of a pair of a collection is trained; `data` is the folder of the collections."""
    chosen = COLLECTIONS[name]
    depth = {"encoder_layers": layers, "decoder_layers": layers}
    deep = layers > 1
    text: dict[str, Any] = {
        "name": str(data / name), "pair": f"{source}-{target}", "lowercase": True,
        "limit": chosen.limit,
    }  # fmt: skip
    return settings_from(
        {
            "corpus": text | {"max_tokens": chosen.max_tokens},
            "tokenizer": {"vocabulary": vocabulary_of(load_corpus(**text))},
            "model": MODEL | depth | (DEEP_MODEL if deep else {}),
            "optimizer": OPTIMIZER
            | {**chosen.optimizer, "seed": SEED}
            | (DEEP_OPTIMIZER if deep else {}),
        }
    )


def vocabulary_of(corpus: ParallelCorpus) -> int:
    """The least size of a joint vocabulary that cuts source words into at most `FERTILITY` pieces.

    By bisection, to `STEP` types; a larger vocabulary cuts words into fewer pieces.
    """
    texts = [text for side in ("source", "target") for text in corpus.train[side]]
    words = words_of(corpus.train["source"])
    low, high = SIZES
    while high - low > STEP:
        middle = (low + high) // 2
        if fertility(train_tokenizer(texts, "bpe", middle), words) > FERTILITY:
            low = middle
        else:
            high = middle
    return high


def words_of(texts: list[str]) -> "Counter[str]":
    """How often each word stands in the texts, as the tokenizer splits them, without punctuation."""
    blank = blank_subwords()
    return Counter(
        word
        for text in texts
        for word, _ in blank.pre_tokenizer.pre_tokenize_str(blank.normalizer.normalize_str(text))
        if any(map(str.isalnum, word))
    )


def fertility(tokenizer: Any, words: "Counter[str]") -> float:
    """Mean pieces of a word."""
    model = tokenizer.backend_tokenizer.model
    pieces = sum(count * len(model.tokenize(word)) for word, count in words.items())
    return pieces / words.total()
