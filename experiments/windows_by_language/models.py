"""The models of the study: every source language with every target, on the same verses, words cut alike."""

from collections import Counter
from pathlib import Path
from typing import Any

from attnlab.corpora import ParallelCorpus, load_corpus
from attnlab.models import Run, RunSettings, blank_subwords, settings_from, train_one
from experiments.shared.runs import kept_run

LANGUAGES = ("en", "it", "fr", "es", "de")
# Each round holds every language once as source and once as target, so that the first rounds are balanced.
PAIRS = [
    (source, LANGUAGES[(place + shift) % len(LANGUAGES)])
    for shift in range(1, len(LANGUAGES))
    for place, source in enumerate(LANGUAGES)
]
VERSES, MAX_TOKENS, SEED = 10_000, 128, 0
# Pieces per source word of the training verses, punctuation left out; sizes of vocabulary that are tried.
FERTILITY, SIZES, STEP = 1.17, (2_000, 14_000), 25
MODEL: dict[str, Any] = {
    "dim": 128, "heads": 8, "feed_forward": 512, "encoder_layers": 1, "decoder_layers": 1,
    "dropout": 0.2, "norm": "post",
}  # fmt: skip
# The weights with the least validation loss are kept; to translate more verses each epoch takes time.
OPTIMIZER: dict[str, Any] = {
    "epochs": 6, "batch_tokens": 2048, "learning_rate": 2e-3, "warmup": 400, "schedule": "cosine",
    "best": "loss", "validation_sentences": 100, "precision": "fp32",
}  # fmt: skip


def model_of(source: str, target: str, data: Path, runs: Path) -> Run:
    """The model of a pair, trained where the folder of runs does not hold it yet."""
    return kept_run(f"{source}-{target}", settings_of(source, target, data), runs)


def settings_of(source: str, target: str, data: Path) -> RunSettings:
    """How the model of a pair is trained; `data` is the folder of the verses."""
    pair = f"{source}-{target}"
    corpus = load_corpus(str(data), pair=pair, lowercase=True, limit=VERSES)
    return settings_from(
        {
            "corpus": {
                "name": str(data), "pair": pair, "lowercase": True, "limit": VERSES,
                "max_tokens": MAX_TOKENS,
            },
            "tokenizer": {"vocabulary": vocabulary_of(corpus)},
            "model": MODEL,
            "optimizer": OPTIMIZER | {"seed": SEED},
        }
    )  # fmt: skip


def vocabulary_of(corpus: ParallelCorpus) -> int:
    """The least size of a joint vocabulary that cuts source words into at most `FERTILITY` pieces.

    By bisection, to `STEP` types; a larger vocabulary cuts words into fewer pieces.
    """
    texts = [text for side in ("source", "target") for text in corpus.train[side]]
    words = words_of(corpus.train["source"])
    low, high = SIZES
    while high - low > STEP:
        middle = (low + high) // 2
        if fertility(train_one(texts, "bpe", middle), words) > FERTILITY:
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
