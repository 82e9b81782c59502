"""Rows on the disk are the rows in memory: parts, checksum and token ids; the folder goes with them."""

import errno
import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.core.addresses import SIDES, Side
from attnlab.core.errors import AttnlabError
from attnlab.corpora import rows
from attnlab.corpora.corpus import ParallelCorpus, load_corpus
from attnlab.corpora.rows import SPLITS, Storage, dataset_of, filtered, pairs_of
from attnlab.models.tokenizer import token_ids, train_tokenizers
from attnlab.models.training_batches import TokenPairs, encode_corpus, with_counts

PAIRS = [(f"s{n % 83} {'some ' * (n % 4)}{n % 7}", f"t{n} of è {n % 5}") for n in range(211)]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which storages are made; few rows are written at once."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(rows, "ROWS_AT_ONCE", 16)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), "utf-8")
    return path


def parts(corpus: ParallelCorpus) -> dict[str, list[tuple[str, str]]]:
    return {name: list(pairs_of(corpus.part(name))) for name in SPLITS}


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "options", [{}, {"limit": 50}, {"document": 3, "lowercase": True}, {"limit": 10**6}]
)
def test_a_corpus_on_the_disk_is_the_one_in_memory(
    table: Path, temporary: Path, options: dict[str, int]
) -> None:
    plain = load_corpus(str(table), **options)
    assert not files(temporary)
    mapped = load_corpus(str(table), **options, in_memory=20)
    assert files(temporary)
    assert mapped.train.cache_files
    assert parts(mapped) == parts(plain)
    assert mapped.checksum == plain.checksum


def test_a_file_is_there_once_and_only_as_long_as_its_corpus(table: Path, temporary: Path) -> None:
    corpus = load_corpus(str(table), in_memory=20)
    assert len(files(temporary)) == 1, "the rows that were read are deleted when they are in parts"
    kept = corpus.train.select(range(3))
    del corpus
    gc.collect()
    assert not list(temporary.iterdir())
    assert len(list(pairs_of(kept))) == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_ids_on_the_disk_are_those_in_memory(
    table: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    plain, mapped = load_corpus(str(table)), load_corpus(str(table), in_memory=20)
    tokenizers = train_tokenizers(mapped, vocabulary=90)
    wanted, found = (encode_corpus(corpus, tokenizers, max_tokens=20) for corpus in (plain, mapped))
    assert len(found.train.cache_files) == threads
    assert not wanted.train.cache_files
    assert found.dropped == wanted.dropped
    for name in SPLITS:
        expected, read = (getattr(corpus, name) for corpus in (wanted, found))
        assert read[:] == expected[:]
        for one, other in zip(TokenPairs(read), TokenPairs(expected), strict=True):
            assert [ids.tolist() for ids in one] == [ids.tolist() for ids in other]


@pytest.mark.parametrize("in_memory", [0, 3, 10, 10**3])
def test_filtered_rows_are_those_that_are_kept(in_memory: int) -> None:
    storage = Storage(in_memory)
    kept = np.random.default_rng(0).random(len(PAIRS)) < 0.5
    chosen = filtered(dataset_of(PAIRS, storage), kept, storage)
    assert list(pairs_of(chosen)) == [pair for pair, keep in zip(PAIRS, kept, strict=True) if keep]
    assert not len(filtered(dataset_of(PAIRS, storage), kept & False, storage))


def test_a_full_disk_is_told(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(AttnlabError, match="No space left on device.*set TMPDIR"):
        dataset_of(PAIRS, Storage(20))


def test_a_file_that_cannot_be_read_is_not_told_as_a_full_disk() -> None:
    def read() -> Iterator[tuple[str, str]]:
        yield from PAIRS
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        dataset_of(read(), Storage(20))


def test_rows_that_were_written_are_not_overwritten() -> None:
    storage = Storage(20)
    first, second = dataset_of(PAIRS, storage), dataset_of(PAIRS[::-1], storage)
    assert list(pairs_of(first)) == list(pairs_of(second))[::-1] == PAIRS


@pytest.mark.parametrize("predicted", SIDES)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dropping", [True, False])
def test_frequencies_from_ids_are_those_of_the_texts(
    table: Path, predicted: Side, *, shared: bool, dropping: bool
) -> None:
    corpus = load_corpus(str(table))
    wanted, learned = (
        train_tokenizers(corpus, vocabulary=90, shared=shared, predicted=predicted, counted=counted)
        for counted in (True, False)
    )
    every = encode_corpus(corpus, learned, max_tokens=40, predicted=predicted)
    longest = int(TokenPairs(every.train).source_lengths.max())
    limit = longest - 1 if dropping else 40
    encoded = encode_corpus(corpus, learned, max_tokens=limit, predicted=predicted)
    assert bool(encoded.dropped["train"]) == dropping
    found = with_counts(learned, corpus, encoded, predicted)
    assert (found.source_counts, found.target_counts) == (
        wanted.source_counts,
        wanted.target_counts,
    )


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_ids_are_those_that_the_tokenizer_gives(table: Path, kind: str) -> None:
    tokenizer = train_tokenizers(load_corpus(str(table)), kind=kind, vocabulary=60).source
    tokenizer(["long " * 50, "x"], padding=True, truncation=True, max_length=5)
    texts = ["", " ", "s1 some 5", "never </s> <pad> seen", "t0 of è", "e\u0300 " * 30]
    assert token_ids(tokenizer, texts) == tokenizer(texts)["input_ids"]
