"""Batch size and warm-up that follow the size of the corpus, where the settings leave them open."""

from dataclasses import dataclass

from attnlab.translation.batches import LengthGroupedBatches, TokenPairs
from attnlab.translation.settings import OptimizerSettings

# Measured on 1,000 to 10,000 pairs of tatoeba (experiments/small_corpora/run.py).
STEPS_WANTED = 1500
BATCHES = (4096, 3072, 2048, 1536, 1024, 768, 512, 384, 256)
WARMUP_SHARE = 0.1
LONGEST_WARMUP = 400


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
