"""Corpora as token ids, with what is too long left out and counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnlab.corpora.corpus import ParallelCorpus
from attnlab.corpora.splits import SPLITS
from attnlab.errors import InputError
from attnlab.translation.tokenizer import Tokenizers

if TYPE_CHECKING:
    import datasets

_FEATURES = ("input_ids", "labels", "row")


@dataclass(frozen=True)
class EncodedCorpus:
    """Three datasets with the columns `input_ids`, `labels`, `row`, and the number of pairs left out.

    `input_ids` is `<s> tokens </s>` of the source; `labels` is `tokens </s>` of the target, so that
    the decoder reads `<s>` and all labels but the last. `row` is the pair's index in the corpus.
    """

    train: "datasets.Dataset"
    validation: "datasets.Dataset"
    test: "datasets.Dataset"
    dropped: dict[str, int]
    """By part, the pairs of which a side has more tokens than allowed."""


def encode_corpus(
    corpus: ParallelCorpus, tokenizers: Tokenizers, *, max_tokens: int
) -> EncodedCorpus:
    """The corpus as token ids; pairs with a side of more than `max_tokens` are dropped, never cut.

    `max_tokens` counts <s> and </s>, so a model with that many positions can read all that is left.
    Nothing is written to the disk and nothing random is used.

    Raises:
        InputError: a part has no pair that is short enough.
    """
    encoded, dropped = {}, {}
    for split in SPLITS:
        rows = corpus.part(split)
        encoded[split] = encode_rows(rows, tokenizers, max_tokens, f"Encoding {split}")
        dropped[split] = len(rows) - len(encoded[split])
        if not len(encoded[split]):
            msg = (
                f"None of the {len(rows)} pairs in the {split} part of {corpus.name} has at most "
                f"{max_tokens} tokens on both sides; raise --max-tokens."
            )
            raise InputError(msg)
    return EncodedCorpus(**encoded, dropped=dropped)


def encode_rows(
    rows: "datasets.Dataset", tokenizers: Tokenizers, max_tokens: int, description: str
) -> "datasets.Dataset":
    """The rows as `input_ids` and `labels`, without those that are too long.

    A new fingerprint is given, so that datasets does not pickle the tokenizers to find one.
    """
    import datasets
    from datasets.fingerprint import generate_random_fingerprint

    def encode(batch: Mapping[str, list[str]], indices: list[int]) -> dict[str, list[Any]]:
        source = tokenizers.source(batch["source"])["input_ids"]
        target = tokenizers.target(batch["target"])["input_ids"]
        short = [
            (ids, labels[1:], index)
            for ids, labels, index in zip(source, target, indices, strict=True)
            if max(len(ids), len(labels)) <= max_tokens
        ]
        return {name: [row[n] for row in short] for n, name in enumerate(_FEATURES)}

    ids = datasets.List(datasets.Value("int32"))
    return rows.map(
        encode,
        batched=True,
        with_indices=True,
        remove_columns=rows.column_names,
        features=datasets.Features(
            dict(zip(_FEATURES, (ids, ids, datasets.Value("int64")), strict=True))
        ),
        keep_in_memory=True,
        load_from_cache_file=False,
        new_fingerprint=generate_random_fingerprint(),
        desc=description,
    )
