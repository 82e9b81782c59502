"""Rows of a corpus before they are its parts: splits made where there are none, documents of sentences."""

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from attnlab.corpora.rows import Pair, Storage, filtered, pairs_of
from attnlab.errors import InputError

if TYPE_CHECKING:
    import datasets
    import numpy as np
    from numpy.typing import NDArray

# Rows are read when they are asked for, and once.
Splits: TypeAlias = dict[str, Iterable[Pair]]

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
    splits: "Mapping[str, datasets.Dataset]",
    *,
    where: str,
    storage: Storage,
    key: Callable[[Pair], str] = source_of,
    limit: int | None = None,
) -> "dict[str, datasets.Dataset]":
    """All three splits; a test or validation part that is missing is taken from the training rows.

    Of the different sentences `key(row)` those with the smallest SHA-256 are held out: 5 % of them
    for each missing part, at least one and at most 1000. The choice depends on the sentences alone,
    not on their order, and rows with equal sentences never straddle two parts. Of the rows that stay
    for training where a part is taken from them, the first `limit` are kept; None: all.

    Raises:
        InputError: too few different sentences for a part of each kind.
    """
    missing = [name for name in ("test", "validation") if name not in splits]
    if not missing:
        return dict(splits)
    train = splits["train"]
    part = _held_out(_digests(map(key, pairs_of(train))), missing, where)
    kept = {name: part == number for number, name in enumerate((*missing, "train"))}
    if limit is not None:
        kept["train"] &= kept["train"].cumsum() <= limit
    return {**splits, **{name: filtered(train, rows, storage) for name, rows in kept.items()}}


def _digests(sentences: Iterable[str]) -> "NDArray[np.uint64]":
    """The first 16 bytes of the SHA-256 of each sentence, as two numbers of 64 bits."""
    import numpy as np

    together = b"".join(hashlib.sha256(text.encode()).digest()[:16] for text in sentences)
    return np.frombuffer(together, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def _held_out(
    digests: "NDArray[np.uint64]", missing: Sequence[str], where: str
) -> "NDArray[np.intp]":
    """For each row the index of the missing part that it is held out for, or their number: it stays.

    Raises:
        InputError: too few different sentences.
    """
    import numpy as np

    order = np.lexsort((digests[:, 1], digests[:, 0]))
    ordered = digests[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])[: len(order)]
    sentences = int(new.sum())
    if sentences <= len(missing):
        msg = (
            f"{where} has {sentences} different sentences, too few to hold some out for "
            f"{' and '.join(missing)}; add rows or give these parts as files."
        )
        raise InputError(msg)
    share = min(HELD_OUT_SENTENCES, max(1, round(HELD_OUT_FRACTION * sentences)))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = new.cumsum() - 1
    return np.minimum(rank // share, len(missing))


def join_documents(rows: Iterable[Pair], sentences: int) -> Iterator[Pair]:
    """Documents of that many consecutive rows, joined by a space; the last one may be shorter.

    >>> list(join_documents([("a", "x"), ("b", "y"), ("c", "z")], 2))
    [('a b', 'x y'), ('c', 'z')]
    """
    rest = iter(rows)
    while group := list(islice(rest, sentences)):
        yield " ".join(source for source, _ in group), " ".join(target for _, target in group)
