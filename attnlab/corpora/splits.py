"""Rows of a corpus before they become datasets: splits made where there are none, documents of sentences."""

import hashlib
import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from attnlab.errors import InputError

Pair: TypeAlias = tuple[str, str]
Splits: TypeAlias = dict[str, list[Pair]]

SPLITS = ("train", "validation", "test")
HELD_OUT_FRACTION = 0.05
HELD_OUT_SENTENCES = 1000


def clean_sentence(text: str) -> str:
    """The sentence in Unicode normal form C without white space at its ends.

    >>> clean_sentence("  due parole ")
    'due parole'
    """
    return unicodedata.normalize("NFC", text).strip()


def source_of(pair: Pair) -> str:
    """The first side of a pair."""
    return pair[0]


def target_of(pair: Pair) -> str:
    """The second side of a pair."""
    return pair[1]


def complete_splits(
    splits: Splits, *, where: str, key: Callable[[Pair], str] = source_of
) -> Splits:
    """All three splits; a test or validation part that is missing is taken from the training rows.

    Of the different sentences `key(row)` those with the smallest SHA-256 are held out: 5 % of them
    for each missing part, at least one and at most 1000. The choice depends on the sentences alone,
    not on their order, and rows with equal sentences never straddle two parts.

    Raises:
        InputError: too few different sentences for a part of each kind.
    """
    missing = [name for name in ("test", "validation") if name not in splits]
    if not missing:
        return splits
    train = splits["train"]
    sentences = {key(row) for row in train}
    if len(sentences) <= len(missing):
        msg = (
            f"{where} has {len(sentences)} different sentences, too few to hold some out for "
            f"{' and '.join(missing)}; add rows or give these parts as files."
        )
        raise InputError(msg)
    share = min(HELD_OUT_SENTENCES, max(1, round(HELD_OUT_FRACTION * len(sentences))))
    by_hash = sorted(sentences, key=lambda text: hashlib.sha256(text.encode()).digest())
    part_of = {
        sentence: missing[rank // share]
        for rank, sentence in enumerate(by_hash[: share * len(missing)])
    }
    parts: Splits = {"train": [], **{name: [] for name in missing}}
    for row in train:
        parts[part_of.get(key(row), "train")].append(row)
    return {**splits, **parts}


def join_documents(rows: list[Pair], sentences: int) -> list[Pair]:
    """Documents of that many consecutive rows, joined by a space; the last one may be shorter.

    >>> join_documents([("a", "x"), ("b", "y"), ("c", "z")], 2)
    [('a b', 'x y'), ('c', 'z')]
    """
    if sentences == 1:
        return rows
    groups = (rows[start : start + sentences] for start in range(0, len(rows), sentences))
    return [
        (" ".join(source for source, _ in group), " ".join(target for _, target in group))
        for group in groups
    ]
