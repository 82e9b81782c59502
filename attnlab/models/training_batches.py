"""Batches of sentence pairs of similar length under a token budget, and how many steps they make."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, Sampler

from attnlab.core import SIDES, InputError, Processes, Side
from attnlab.corpora import ROWS_AT_ONCE, SPLITS, ParallelCorpus, Storage, mapped
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.tokenizer import (
    END,
    PAD,
    START,
    Tokenizers,
    by_type,
    count_types,
    texts_of,
    token_ids,
)
from attnlab.models.training_settings import LANGUAGE_MODEL, OptimizerSettings, RunSettings

if TYPE_CHECKING:
    import datasets

LENGTH_STEP = 4
PAIR_STEP = 8
# Measured on 1,000 to 10,000 pairs of tatoeba (experiments/LOG.md).
STEPS_WANTED = 1500
BATCHES = (4096, 3072, 2048, 1536, 1024, 768, 512, 384, 256)
WARMUP_SHARE = 0.1
LONGEST_WARMUP = 400
_ROWS_AT_ONCE = 10_000
Pair = tuple[Int[Tensor, " _"], Int[Tensor, " _"]]
# Stands where there is no pair: a model can read it, and it adds nothing to loss and gradients.
NO_PAIR: Pair = (torch.tensor([END]), torch.tensor([IGNORED_LABEL]))


class TokenLists:
    """The lists of ids in a column, where the dataset keeps them: in memory or memory-mapped."""

    def __init__(self, encoded: "datasets.Dataset", column: str) -> None:
        rows = encoded.select_columns(column).with_format("arrow")
        lists = [
            part for some in rows.iter(_ROWS_AT_ONCE) for part in some[column].chunks if len(part)
        ]
        self.ids: list[NDArray[np.int32]] = [part.flatten().to_numpy() for part in lists]
        lengths = [part.value_lengths().to_numpy().astype(np.int64) for part in lists]
        self.lengths = np.concatenate([np.zeros(0, dtype=np.int64), *lengths])
        self.first_rows = np.cumsum([0, *map(len, lists)])
        starts = [length.cumsum() - length for length in lengths]
        self.starts = np.concatenate([np.zeros(0, dtype=np.int64), *starts])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Int[Tensor, " _"]:
        part = int(np.searchsorted(self.first_rows, index, side="right")) - 1
        start = self.starts[index]
        ids = self.ids[part][start : start + self.lengths[index]]
        return torch.from_numpy(ids.astype(np.int64))


class TokenPairs(Dataset[Pair]):
    """Encoded pairs, of which the ids stay where the dataset keeps them; item i is (source ids, labels)."""

    def __init__(self, encoded: "datasets.Dataset") -> None:
        self.source = TokenLists(encoded, "input_ids")
        self.target = TokenLists(encoded, "labels")

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Pair:
        return self.source[index], self.target[index]

    def set_epoch(self, epoch: int) -> None:
        """Tells which pass over the pairs begins; these are the same in each."""

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Source tokens of each pair."""
        return self.source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Target tokens of each pair, the end token counted, the start token not."""
        return self.target.lengths


class LastTokens(TokenPairs):
    """Pairs of which one label counts, drawn anew in each epoch.

    For a model that reads from left to right that label is the last token of a random beginning.
    Draws depend on seed, epoch and pair alone, so that they are the same for any number of processes
    and after a resumption.
    """

    def __init__(self, encoded: "datasets.Dataset", seed: int) -> None:
        super().__init__(encoded)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the labels of the next pass."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> Pair:
        source, labels = super().__getitem__(index)
        chosen = np.random.default_rng([self.seed, self.epoch, index]).integers(len(labels))
        return source, labels.where(torch.arange(len(labels)) == int(chosen), IGNORED_LABEL)


class LengthGroupedBatches(Sampler[list[int]]):
    """Batches of pairs of similar length whose padded size stays within a budget.

    Pairs are sorted by target and source length, ties at random, and cut greedily so that pairs x
    longest target and pairs x longest source both stay within `batch_tokens` (one pair that alone
    is longer makes a batch). Lengths count in steps of 4 and pairs in steps of 8, so that few
    different sizes occur: a matrix product of a new size is compiled and kept by oneDNN. The cuts
    depend on lengths only, so every epoch has the same number of batches; the members of a batch
    among equals, and the order of batches, change with `set_epoch`. Draws come from a generator of
    its own.
    """

    def __init__(
        self,
        source_lengths: NDArray[np.int64],
        target_lengths: NDArray[np.int64],
        *,
        batch_tokens: int,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        self.source_lengths = source_lengths
        self.target_lengths = target_lengths
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        order = np.lexsort((source_lengths, target_lengths))
        self.cuts = _cuts(source_lengths[order], target_lengths[order], batch_tokens)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the shuffle of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __iter__(self) -> Iterator[list[int]]:
        generator = np.random.default_rng([self.seed, self.epoch])
        ties = generator.random(len(self.source_lengths)) if self.shuffle else self.source_lengths
        order = np.lexsort((ties, self.source_lengths, self.target_lengths))
        batches = np.arange(len(self))
        if self.shuffle:
            generator.shuffle(batches)
        for batch in batches:
            yield order[self.cuts[batch] : self.cuts[batch + 1]].tolist()


class SharedBatches(Sampler[list[int]]):
    """The part that one of several processes takes of each batch, which is empty where pairs are few."""

    def __init__(self, batches: LengthGroupedBatches, processes: Processes) -> None:
        self.batches = batches
        self.processes = processes

    def set_epoch(self, epoch: int) -> None:
        """Chooses the shuffle of the next pass."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            # A batch is sorted by length, so that parts of every n-th pair are about equally long.
            yield batch[self.processes.index :: self.processes.count]


def _cuts(source: NDArray[np.int64], target: NDArray[np.int64], batch_tokens: int) -> list[int]:
    """Indices at which batches begin and end in a sorted sequence of lengths."""
    padded = -np.maximum(source, target) // LENGTH_STEP * -LENGTH_STEP
    cuts = [0]
    longest = 0
    for index, pair_length in enumerate(padded.tolist()):
        longest = max(longest, pair_length)
        pairs = index - cuts[-1]
        if pairs and pairs + 1 > _most_pairs(longest, batch_tokens):
            # Longer pairs lower the limit while a batch fills; only whole steps of pairs are kept.
            keep = pairs // PAIR_STEP * PAIR_STEP or pairs
            cuts.append(cuts[-1] + keep)
            longest = int(padded[cuts[-1] : index + 1].max())
    if len(source):
        cuts.append(len(source))
    return cuts


def _most_pairs(longest: int, batch_tokens: int) -> int:
    most = batch_tokens // longest
    return most // PAIR_STEP * PAIR_STEP or max(most, 1)


@dataclass(frozen=True)
class Collator:
    """Pads pairs to the longest of their batch, in steps of 4: what `TranslationModel.forward` takes.

    A batch without pairs becomes one row without a target.

    Attributes:
        most: positions that the model has, beyond which nothing is padded; None for any number.
    """

    most: int | None = None

    def __call__(self, pairs: Sequence[Pair]) -> dict[str, Tensor]:
        """Source ids, the attention mask that is 1 at real tokens, and labels with -100 as padding."""
        pairs = pairs or [NO_PAIR]
        source = _padded([pair[0] for pair in pairs], PAD, self.most)
        labels = _padded([pair[1] for pair in pairs], IGNORED_LABEL, self.most)
        lengths = torch.tensor([len(pair[0]) for pair in pairs])
        visible = torch.arange(source.shape[1]) < lengths[:, None]
        return {"input_ids": source, "attention_mask": visible.long(), "labels": labels}


@dataclass(frozen=True)
class NextTokenCollator:
    """Pads texts to the longest of their batch, in steps of 4: what `LanguageModel.forward` takes.

    A batch without texts becomes one row without a label.

    Attributes:
        most: see `Collator`.
    """

    most: int | None = None

    def __call__(self, pairs: Sequence[Pair]) -> dict[str, Tensor]:
        """Ids, and the labels of the same positions, with -100 at the start token and at padding."""
        pairs = pairs or [NO_PAIR]
        unpredicted = torch.tensor([IGNORED_LABEL])
        labels = [torch.cat([unpredicted, labels])[: len(ids)] for ids, labels in pairs]
        return {
            "input_ids": _padded([ids for ids, _ in pairs], PAD, self.most),
            "labels": _padded(labels, IGNORED_LABEL, self.most),
        }


def collator(settings: RunSettings) -> Collator | NextTokenCollator:
    """The collator that makes batches for a run's model."""
    model = settings.model
    most = settings.corpus.max_tokens if model.positions == "learned" else None
    return NextTokenCollator(most) if model.task == LANGUAGE_MODEL else Collator(most)


def _padded(rows: list[Tensor], value: int, most: int | None) -> Tensor:
    together = pad_sequence(rows, batch_first=True, padding_value=value)
    length = together.shape[1]
    return pad(together, (0, padded_length(length, most) - length), value=value)


def padded_length(tokens: int, most: int | None) -> int:
    """Tokens of a batch whose longest text has `tokens`; at most `most`, unless the text itself is longer."""
    padded = -tokens // LENGTH_STEP * -LENGTH_STEP
    return padded if most is None else max(min(padded, most), tokens)


@dataclass(frozen=True)
class StepBudget:
    """Batch size and number of steps of a training.

    Attributes:
        batch_tokens: tokens per batch and side, padding counted.
        steps: optimizer steps of the whole training.
        warmup: steps up to the highest learning rate.
    """

    batch_tokens: int
    steps: int
    warmup: int


def step_budget(pairs: TokenPairs, settings: OptimizerSettings) -> StepBudget:
    """Batch size, number of steps and warm-up of a training on `pairs`.

    What `settings` say is kept. Where they leave it open, batches are as large as 1,500 steps over
    all epochs allow, from 4,096 tokens down to 256, and warm-up takes a tenth of the steps, at most
    400.
    """
    for batch_tokens in BATCHES if settings.batch_tokens is None else (settings.batch_tokens,):
        steps = settings.epochs * _batches(pairs, batch_tokens)
        if steps >= STEPS_WANTED:
            break
    warmup = settings.warmup
    if warmup is None:
        warmup = min(max(round(WARMUP_SHARE * steps), 1), LONGEST_WARMUP)
    return StepBudget(batch_tokens, steps, warmup)


def usual_batch_tokens(pairs: TokenPairs, settings: OptimizerSettings) -> int:
    """Tokens per batch of a training that differs from `settings` in its epochs alone, the default number."""
    return step_budget(pairs, replace(settings, epochs=OptimizerSettings().epochs)).batch_tokens


def _batches(pairs: TokenPairs, batch_tokens: int) -> int:
    lengths = pairs.source_lengths, pairs.target_lengths
    return len(LengthGroupedBatches(*lengths, batch_tokens=batch_tokens, shuffle=False))


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
            raise InputError(msg, options=["max_tokens"])
    return EncodedCorpus(**encoded, dropped=dropped)


def with_counts(
    tokenizers: Tokenizers, corpus: ParallelCorpus, encoded: EncodedCorpus, predicted: Side
) -> Tokenizers:
    """The tokenizers with the frequencies of their types in the training rows of the corpus.

    These are what `train_tokenizers` counts, taken from the ids; only rows that were too long are
    encoded again.
    """
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
