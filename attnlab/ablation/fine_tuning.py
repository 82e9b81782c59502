"""Training a run's model further on its own pairs, as its training did: batches, loss, closed heads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.ablation.ablation import ablated
from attnlab.ablation.projections import Projections
from attnlab.core import Head, InputError, seeded
from attnlab.corpora import ParallelCorpus
from attnlab.models import (
    LengthGroupedBatches,
    Pair,
    Run,
    TokenPairs,
    bfloat16_is_native,
    collator,
    encode_rows,
    step_budget,
    training_dataset,
)

PARAMETER_LEARNING_RATE = 1e-4
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs that a run was trained on, in batches of like length.

    Attributes:
        pairs: encoded pairs.
        collate: makes a batch of some.
        batch_tokens: tokens a batch and side, padding counted.
        seed: of the order.
    """

    pairs: TokenPairs
    collate: Callable[[list[Pair]], Batch]
    batch_tokens: int
    seed: int

    @property
    def steps_in_epoch(self) -> int:
        """Number of batches that hold every pair once."""
        return len(self._sampler())

    def batches(self, steps: int) -> Iterator[Batch]:
        """So many batches, the same at every call; every pair once before any comes again."""
        sampler, left = self._sampler(), steps
        while left > 0:
            self.pairs.set_epoch(sampler.epoch)
            for indices in sampler:
                yield self.collate([self.pairs[index] for index in indices])
                left -= 1
                if not left:
                    return
            sampler.set_epoch(sampler.epoch + 1)

    def _sampler(self) -> LengthGroupedBatches:
        return LengthGroupedBatches(
            self.pairs.source_lengths,
            self.pairs.target_lengths,
            batch_tokens=self.batch_tokens,
            seed=self.seed,
        )


def training_pairs(
    run: Run, corpus: ParallelCorpus, *, batch_tokens: int | None, seed: int
) -> TrainingPairs:
    """The training pairs of the run's corpus; `batch_tokens` None takes the run's own.

    Raises:
        InputError: no training pair is short enough.
    """
    limit = run.settings.corpus.max_tokens
    model = run.settings.model
    encoded = encode_rows(
        corpus.train,
        run.tokenizers,
        limit,
        "Encoding train",
        model.predicted_side,
        storage=corpus.storage,
    )
    if not len(encoded):
        msg = f"{run.folder} has no training pairs of at most {limit} tokens."
        raise InputError(msg)
    pairs = training_dataset(encoded, model, seed)
    size = batch_tokens or step_budget(pairs, run.settings.optimizer).batch_tokens
    return TrainingPairs(pairs, collator(run.settings), size, seed)


@contextmanager
def in_training(model: nn.Module, seed: int) -> Iterator[None]:
    """While the block runs, the model drops out and smooths labels, from `seed`; in eval mode afterwards."""
    with seeded(seed):
        model.train()
        try:
            yield
        finally:
            model.eval()


def training_loss(run: Run) -> Callable[[Batch], Float[Tensor, ""]]:
    """The loss that the run was trained on: mean over target tokens in nats, with its label smoothing.

    Its dropout and label smoothing apply `in_training`; bfloat16 where the training used it.
    """
    model = run.model
    device = model.device
    low = run.settings.optimizer.precision != "fp32" and bfloat16_is_native(device)

    def loss(batch: Batch) -> Tensor:
        here = {name: tensor.to(device) for name, tensor in batch.items()}
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=low):
            return model(**here).loss

    return loss


def linear_decay(steps: int) -> Callable[[int], float]:
    """The factor of a learning rate that falls from 1 at step 0 to 0 after the last step.

    >>> [linear_decay(4)(step) for step in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    return lambda step: 1 - step / steps


def fine_tune(
    model: nn.Module,
    batches: Iterable[Batch],
    loss: Callable[[Batch], Float[Tensor, ""]],
    *,
    projections: Projections,
    closed: Sequence[Head] = (),
    schedule: Callable[[int], float] = lambda _: 1.0,
) -> list[float]:
    """Trains the model's parameters by Adam, one step a batch, with some heads closed; the losses.

    Parameters that need no gradient, as positions of Marian, stay as they are.

    The optimizer is the one that gates are learned beside (`attnlab.ablation.gates.train_gates`), so
    that models pruned and not pruned can have the same training.

    Args:
        model: changed in place.
        batches: one step each.
        loss: mean loss of a batch.
        projections: where the heads are apart.
        closed: heads whose output is 0 throughout; their parameters get no gradient.
        schedule: factor of `PARAMETER_LEARNING_RATE` at a step, from 0.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=PARAMETER_LEARNING_RATE)
    losses = []
    with ablated(projections, closed, "zero"):
        for step, batch in enumerate(batches):
            optimizer.param_groups[0]["lr"] = PARAMETER_LEARNING_RATE * schedule(step)
            batch_loss = loss(batch)
            slopes = torch.autograd.grad(batch_loss, parameters, allow_unused=True)
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter.grad = slope
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(batch_loss.detach()))
    return losses
