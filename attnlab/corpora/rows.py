"""Sentence pairs as datasets: in memory, or memory-mapped from a temporary folder where they are many."""

import hashlib
import shutil
import tempfile
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from attnlab.core import SIDES, AttnlabError, InputError

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Pair: TypeAlias = tuple[str, str]
IN_MEMORY = 100_000
"""Rows up to which a dataset is kept in memory."""
ROWS_AT_ONCE = 10_000


class Storage:
    """A folder for rows that are too many for memory; it is deleted with the last reference to this object.

    It is made where `tempfile` makes folders, so that TMPDIR says on which disk.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self.in_memory = in_memory
        self._folder: Path | None = None
        self._files = count()

    def new_file(self) -> Path:
        """The path of a file that is not there yet; the folder is made when first one is asked for.

        Raises:
            AttnlabError: the folder cannot be made.
        """
        if self._folder is None:
            with reporting_full_disk(Path(tempfile.gettempdir())):
                self._folder = Path(tempfile.mkdtemp(prefix="attnlab-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / f"{next(self._files)}.arrow"

    def discard(self, rows: "datasets.Dataset") -> None:
        """Deletes those files of `rows` that are in this storage; what is mapped can still be read."""
        for path in (Path(file["filename"]) for file in rows.cache_files):
            # A system that cannot delete what is mapped does so with the folder.
            with suppress(OSError):
                if path.parent == self._folder:
                    path.unlink()


def dataset_of(pairs: Iterable[Pair], storage: Storage) -> "datasets.Dataset":
    """The pairs as a dataset with the columns `source` and `target`.

    More rows than `storage.in_memory` are written to a file of it, a few at a time, and memory-mapped.

    Raises:
        AttnlabError: the disk of the storage is full.
    """
    import datasets

    rows = iter(pairs)
    few = list(islice(rows, storage.in_memory + 1))
    if len(few) <= storage.in_memory:
        return datasets.Dataset.from_dict(_columns(few))
    return _write_batches(_record_batches(chain(few, rows)), storage.new_file())


def filtered(
    rows: "datasets.Dataset", kept: "NDArray[np.bool_]", storage: Storage
) -> "datasets.Dataset":
    """The rows whose place in `kept` is true, in memory or on the disk as in `dataset_of`."""
    import numpy as np
    import pyarrow as pa

    if int(kept.sum()) <= storage.in_memory:
        return dataset_of(pairs_of(rows.select(np.flatnonzero(kept))), storage)
    starts = range(0, len(rows), ROWS_AT_ONCE)
    tables = rows.with_format("arrow").iter(ROWS_AT_ONCE)
    chosen = (
        table.filter(pa.array(kept[start : start + ROWS_AT_ONCE])).combine_chunks().to_batches()
        for start, table in zip(starts, tables, strict=True)
    )
    return _write_batches(chain.from_iterable(chosen), storage.new_file())


def pairs_of(rows: "datasets.Dataset") -> Iterator[Pair]:
    """The rows as pairs, of which few are in memory at a time."""
    for some in rows.select_columns(list(SIDES)).iter(ROWS_AT_ONCE):
        yield from zip(some["source"], some["target"], strict=True)


def _columns(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    pairs = list(pairs)
    return {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}


def _record_batches(pairs: Iterator[Pair]) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    while some := list(islice(pairs, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pydict(_columns(some), schema=_schema())


def _write_batches(batches: "Iterator[pa.RecordBatch]", path: Path) -> "datasets.Dataset":
    import datasets
    import pyarrow as pa

    with ExitStack() as opened:
        with reporting_full_disk(path.parent):
            file = opened.enter_context(path.open("wb"))
            writer = opened.enter_context(pa.ipc.new_stream(file, _schema()))
        # What the rows are read from may raise too.
        for batch in batches:
            with reporting_full_disk(path.parent):
                writer.write_batch(batch)
        with reporting_full_disk(path.parent):
            opened.close()
    return datasets.Dataset.from_file(str(path))


def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([(side, pa.string()) for side in SIDES])


@contextmanager
def reporting_full_disk(folder: Path) -> Iterator[None]:
    """Turns an error of a full disk inside the block into one that names the folder of a storage.

    Raises:
        AttnlabError: the system cannot write there.
    """
    try:
        yield
    except OSError as error:
        msg = (
            f"The corpus is too large for memory and {folder}, where its rows are kept meanwhile, cannot be "
            f"written ({error.strerror or error}); set TMPDIR to a folder on a disk with room."
        )
        raise AttnlabError(msg) from error


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
    part = _part_of_rows(_digests(map(key, pairs_of(train))), missing, where)
    kept = {name: part == number for number, name in enumerate((*missing, "train"))}
    if limit is not None:
        kept["train"] &= kept["train"].cumsum() <= limit
    return {**splits, **{name: filtered(train, rows, storage) for name, rows in kept.items()}}


def _digests(sentences: Iterable[str]) -> "NDArray[np.uint64]":
    """The first 16 bytes of the SHA-256 of each sentence, as two numbers of 64 bits."""
    import numpy as np

    together = b"".join(hashlib.sha256(text.encode()).digest()[:16] for text in sentences)
    return np.frombuffer(together, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def _part_of_rows(
    digests: "NDArray[np.uint64]", missing: Sequence[str], where: str
) -> "NDArray[np.intp]":
    """The index of the missing part that each row is held out for, or their number: it stays.

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
