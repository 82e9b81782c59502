"""Encoded corpora: what the columns hold, and that what is too long is dropped and counted."""

from pathlib import Path

import numpy as np
import pytest

from attnlab.core.errors import InputError
from attnlab.corpora.corpus import ParallelCorpus, build_corpus, load_corpus
from attnlab.models.tokenizer import train_tokenizers
from attnlab.models.training_batches import encode_corpus


def corpus_of_lengths() -> ParallelCorpus:
    """Rows with 1 to 13 words on the source side and 13 to 1 on the other."""
    rows = [(" ".join(["a"] * n), " ".join(["b"] * (14 - n))) for n in range(1, 14)]
    splits = {"train": rows, "validation": rows[3:10], "test": rows[6:7]}
    return build_corpus("lengths", ("en", "it"), splits)


@pytest.mark.parametrize("shared", [True, False])
def test_columns(shared: bool, untouched_randomness: None) -> None:
    corpus = corpus_of_lengths()
    tokenizers = train_tokenizers(corpus, kind="word", shared=shared)
    # beartype draws from Python's own generator in tests, so that one cannot be compared here.
    before = np.random.get_state()[1].copy()
    encoded = encode_corpus(corpus, tokenizers, max_tokens=15)
    assert (np.random.get_state()[1] == before).all()
    assert encoded.dropped == {"train": 0, "validation": 0, "test": 0}
    for split in ("train", "validation", "test"):
        original, coded = getattr(corpus, split), getattr(encoded, split)
        assert coded.column_names == ["input_ids", "labels", "row"]
        for row, ids in zip(original, coded, strict=True):
            assert ids["input_ids"] == tokenizers.source(row["source"])["input_ids"]
            assert [2, *ids["labels"]] == tokenizers.target(row["target"])["input_ids"]


@pytest.mark.parametrize("max_tokens", [9, 10, 14, 15])
def test_too_long_rows_are_dropped_and_counted(max_tokens: int) -> None:
    corpus = corpus_of_lengths()
    tokenizers = train_tokenizers(corpus, kind="word")
    encoded = encode_corpus(corpus, tokenizers, max_tokens=max_tokens)
    for split, dropped in encoded.dropped.items():
        rows = getattr(corpus, split)
        kept = [
            row
            for row in rows
            if all(len(row[side].split()) + 2 <= max_tokens for side in ("source", "target"))
        ]
        sources = tokenizers.source.batch_decode(
            getattr(encoded, split)["input_ids"][:], skip_special_tokens=True
        )
        assert sources == [row["source"] for row in kept]
        assert dropped == len(rows) - len(kept)


def test_nothing_short_enough() -> None:
    corpus = corpus_of_lengths()
    tokenizers = train_tokenizers(corpus, kind="word")
    with pytest.raises(InputError, match="None of the 13 pairs in the train part of lengths has"):
        encode_corpus(corpus, tokenizers, max_tokens=8)


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    corpus = corpus_of_lengths()
    encoded = encode_corpus(corpus, train_tokenizers(corpus, kind="word"), max_tokens=20)
    assert not encoded.train.cache_files
    assert not list(tmp_path.iterdir())


def test_real_text(shared_data: Path) -> None:
    corpus = load_corpus(str(shared_data / "multi30k"), pair="en-de", limit=2003, lowercase=True)
    tokenizers = train_tokenizers(corpus, vocabulary=1500)
    encoded = encode_corpus(corpus, tokenizers, max_tokens=40)
    assert len(encoded.train) + encoded.dropped["train"] == 2003
    first = tokenizers.target.decode(encoded.train[0]["labels"], skip_special_tokens=True)
    assert first == corpus.train[0]["target"]
    unknown = sum(ids.count(1) for ids in encoded.train["input_ids"])
    assert unknown == 0
