"""Corpora as token ids, with what is too long left out and counted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attnlab.addresses import SIDES, Side
from attnlab.corpora.corpus import ParallelCorpus
from attnlab.corpora.mapping import mapped
from attnlab.corpora.rows import ROWS_AT_ONCE, Storage
from attnlab.corpora.splits import SPLITS
from attnlab.errors import InputError
from attnlab.translation.frequencies import by_type, count_types, texts_of, token_ids
from attnlab.translation.tokenizer import START, Tokenizers

if TYPE_CHECKING:
    import datasets

_FEATURES = ("input_ids", "labels", "row")


@dataclass(frozen=True)
class EncodedCorpus:
    """Three datasets with the columns `input_ids`, `labels`, `row`, and the number of pairs left out.

    `input_ids` is `<s> tokens </s>` of the source; `labels` is `tokens </s>` of the side that is
    predicted, so that the decoder reads `<s>` and all labels but the last. `row` is the pair's index in
    the corpus.
    """

    train: "datasets.Dataset"
    validation: "datasets.Dataset"
    test: "datasets.Dataset"
    dropped: dict[str, int]
    """By part, the pairs of which a side has more tokens than allowed."""


def encode_corpus(
    corpus: ParallelCorpus, tokenizers: Tokenizers, *, max_tokens: int, predicted: Side = "target"
) -> EncodedCorpus:
    """The corpus as token ids; pairs with a side of more than `max_tokens` are dropped, never cut.

    `max_tokens` counts <s> and </s>, so a model with that many positions can read all that is left.
    Where the source itself is `predicted`, targets are not looked at. Nothing random is used.

    Raises:
        InputError: a part has no pair that is short enough.
    """
    encoded, dropped = {}, {}
    for split in SPLITS:
        rows = corpus.part(split)
        encoded[split] = encode_rows(
            rows, tokenizers, max_tokens, f"Encoding {split}", predicted, storage=corpus.storage
        )
        dropped[split] = len(rows) - len(encoded[split])
        if not len(encoded[split]):
            msg = (
                f"None of the {len(rows)} {'pairs' if predicted == 'target' else 'texts'} in the "
                f"{split} part of {corpus.name} has at most {max_tokens} tokens"
                f"{' on both sides' if predicted == 'target' else ''}; raise max_tokens."
            )
            raise InputError(msg)
    return EncodedCorpus(**encoded, dropped=dropped)


def with_counts(
    tokenizers: Tokenizers, corpus: ParallelCorpus, encoded: EncodedCorpus, predicted: Side
) -> Tokenizers:
    """The tokenizers with the frequencies of their types in the training rows of the corpus.

    These are what `train_tokenizers` counts, taken from the ids; only rows that were too long are
    encoded again.
    """
    import numpy as np

    kept = np.zeros(len(corpus.train), dtype=np.bool_)
    counts = {side: np.zeros(len(getattr(tokenizers, side)), dtype=np.int64) for side in SIDES}
    for rows in encoded.train.with_format("arrow").iter(ROWS_AT_ONCE):
        kept[rows["row"].to_numpy()] = True
        for side, column in zip(SIDES, _FEATURES, strict=False):
            ids = rows[column].combine_chunks().flatten().to_numpy()
            counts[side] += np.bincount(ids, minlength=len(counts[side]))
    # Labels begin after it.
    counts["target"][START] += int(kept.sum())
    dropped = corpus.train.select(np.flatnonzero(~kept))
    for side, column in zip(SIDES, ("source", predicted), strict=True):
        tokenizer = getattr(tokenizers, side)
        counts[side] += list(count_types(tokenizer, texts_of(dropped, column)).values())
    by_side = {
        f"{side}_counts": by_type(getattr(tokenizers, side), counts[side].tolist())
        for side in SIDES
    }
    return replace(tokenizers, **by_side)


def encode_rows(
    rows: "datasets.Dataset",
    tokenizers: Tokenizers,
    max_tokens: int,
    description: str,
    predicted: Side = "target",
    *,
    storage: Storage | None = None,
) -> "datasets.Dataset":
    """The rows as `input_ids` and `labels`, without those that are too long.

    See `attnlab.corpora.mapping.mapped` for where they are and how they are made.

    Raises:
        AttnlabError: the disk of the storage is full, or a process was killed.
    """
    import datasets

    ids = datasets.List(datasets.Value("int32"))
    return mapped(
        rows,
        _Encoder(tokenizers, max_tokens, predicted),
        datasets.Features(dict(zip(_FEATURES, (ids, ids, datasets.Value("int64")), strict=True))),
        storage=storage or Storage(),
        description=description,
    )


@dataclass(frozen=True)
class _Encoder:
    tokenizers: Tokenizers
    max_tokens: int
    predicted: Side

    def __call__(self, batch: Mapping[str, list[str]], indices: list[int]) -> dict[str, list[Any]]:
        source = token_ids(self.tokenizers.source, batch["source"])
        target = token_ids(self.tokenizers.target, batch[self.predicted])
        short = [
            (ids, labels[1:], index)
            for ids, labels, index in zip(source, target, indices, strict=True)
            if max(len(ids), len(labels)) <= self.max_tokens
        ]
        return {name: [row[n] for row in short] for n, name in enumerate(_FEATURES)}
