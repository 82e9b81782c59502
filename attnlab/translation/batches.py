"""Batches of sentence pairs of similar length under a token budget, and how many steps they make."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import datasets
import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, Sampler

from attnlab.processes import Processes
from attnlab.translation.configuration import IGNORED_LABEL
from attnlab.translation.settings import OptimizerSettings
from attnlab.translation.tokenizer import END, PAD

LENGTH_STEP = 4
PAIR_STEP = 8
# Measured on 1,000 to 10,000 pairs of tatoeba (experiments/small_corpora/run.py).
STEPS_WANTED = 1500
BATCHES = (4096, 3072, 2048, 1536, 1024, 768, 512, 384, 256)
WARMUP_SHARE = 0.1
LONGEST_WARMUP = 400
Pair = tuple[Int[Tensor, " _"], Int[Tensor, " _"]]
# Stands where there is no pair: a model can read it, and it adds nothing to loss and gradients.
NO_PAIR: Pair = (torch.tensor([END]), torch.tensor([IGNORED_LABEL]))


class TokenPairs(Dataset[Pair]):
    """Encoded pairs as two flat arrays with offsets; item i is (source ids, labels)."""

    def __init__(self, encoded: datasets.Dataset) -> None:
        self.source, self.source_starts = _flat(encoded, "input_ids")
        self.target, self.target_starts = _flat(encoded, "labels")

    def __len__(self) -> int:
        return len(self.source_starts) - 1

    def __getitem__(self, index: int) -> Pair:
        source = self.source[self.source_starts[index] : self.source_starts[index + 1]]
        target = self.target[self.target_starts[index] : self.target_starts[index + 1]]
        return torch.from_numpy(source), torch.from_numpy(target)

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Source tokens of each pair."""
        return np.diff(self.source_starts)

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Target tokens of each pair, the end token counted, the start token not."""
        return np.diff(self.target_starts)


def _flat(encoded: datasets.Dataset, column: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lists: Sequence[Sequence[int]] = encoded[column][:]
    lengths = np.fromiter((len(ids) for ids in lists), dtype=np.int64, count=len(lists))
    starts = np.concatenate([np.zeros(1, dtype=np.int64), lengths.cumsum()])
    total = int(starts[-1])
    return np.fromiter((i for ids in lists for i in ids), dtype=np.int64, count=total), starts


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
    """Where batches begin and end in a sorted sequence of lengths."""
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
    """

    def __call__(self, pairs: Sequence[Pair]) -> dict[str, Tensor]:
        """Source ids, the attention mask that is 1 at real tokens, and labels with -100 as padding."""
        pairs = pairs or [NO_PAIR]
        source = _padded([pair[0] for pair in pairs], PAD)
        labels = _padded([pair[1] for pair in pairs], IGNORED_LABEL)
        lengths = torch.tensor([len(pair[0]) for pair in pairs])
        visible = torch.arange(source.shape[1]) < lengths[:, None]
        return {"input_ids": source, "attention_mask": visible.long(), "labels": labels}


def _padded(rows: list[Tensor], value: int) -> Tensor:
    together = pad_sequence(rows, batch_first=True, padding_value=value)
    return pad(together, (0, -together.shape[1] % LENGTH_STEP), value=value)


@dataclass(frozen=True)
class StepBudget:
    """How a training is cut into steps.

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


def _batches(pairs: TokenPairs, batch_tokens: int) -> int:
    lengths = pairs.source_lengths, pairs.target_lengths
    return len(LengthGroupedBatches(*lengths, batch_tokens=batch_tokens, shuffle=False))
