"""A training that was interrupted and resumed ends as the same training without an interruption."""

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_run import small_settings

from attnlab.core.signals import SIGNALS
from attnlab.models.callbacks import mean_training_loss
from attnlab.models.run import load
from attnlab.models.run_folder import last_complete_checkpoint
from attnlab.models.trainer import TranslationTrainer
from attnlab.models.training import resume, train
from attnlab.models.training_settings import RunSettings

STEPS_PER_EPOCH = 48


def settings(evaluations_per_epoch: int) -> RunSettings:
    """Two epochs of 48 steps: more than the 20 between two logs, and no multiple of them."""
    return small_settings(
        optimizer={"batch_tokens": 100, "evaluations_per_epoch": evaluations_per_epoch}
    )


@contextmanager
def watched_steps(
    interrupted_in: int | None = None, by: signal.Signals = signal.SIGINT
) -> Iterator[list[float]]:
    """The loss of every step in the block; the signal comes in the step of that number, from 1.

    A second passes from one look at the clock to the next, so that times can be compared.
    """
    losses: list[float] = []
    original = TranslationTrainer.training_step
    ticks = itertools.count()

    def step(self: TranslationTrainer, *arguments: Any, **options: Any) -> torch.Tensor:
        loss = original(self, *arguments, **options)
        losses.append(loss.item())
        if self.state.global_step + 1 == interrupted_in:
            os.kill(os.getpid(), by)
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TranslationTrainer, "training_step", step)
        clock = SimpleNamespace(perf_counter=lambda: float(next(ticks)))
        patch.setattr("attnlab.models.callbacks.time", clock)
        yield losses


@dataclass(frozen=True)
class Whole:
    """A training without an interruption: its run directory, metrics, and the loss of every step."""

    folder: Path
    metrics: list[dict[str, Any]]
    losses: list[float]


@pytest.fixture(scope="module")
def whole_trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Whole]:
    """By the number of evaluations per epoch."""
    found = {}
    for evaluations in (1, 2):
        folder = tmp_path_factory.mktemp("whole") / "run"
        with watched_steps() as losses:
            metrics = train(folder, settings(evaluations)).metrics
        found[evaluations] = Whole(folder, metrics, losses)
    return found


@pytest.mark.parametrize("evaluations", [1, 2])
def test_training_loss_is_the_mean_over_all_steps_since_the_last_evaluation(
    whole_trainings: dict[int, Whole], evaluations: int
) -> None:
    whole = whole_trainings[evaluations]
    steps = [row["step"] for row in whole.metrics]
    length = STEPS_PER_EPOCH // evaluations
    assert steps == list(range(length, 2 * STEPS_PER_EPOCH + 1, length))
    for row in whole.metrics:
        losses = whole.losses[row["step"] - length : row["step"]]
        assert row["training_loss"] == pytest.approx(sum(losses) / length, rel=1e-6)
    assert [row["training_seconds"] for row in whole.metrics] == steps


def assert_same_rows(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Every field is the same; sums of losses may be rounded in another order."""
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    for row, other in zip(found, expected, strict=True):
        rounded = {"training_loss": pytest.approx(other["training_loss"], rel=1e-6)}
        assert row == other | rounded


@pytest.mark.parametrize(
    ("evaluations", "interruptions"),
    [
        (1, (33, 75)),
        (2, (24,)),
        pytest.param(1, (5, 25, 31), marks=pytest.mark.slow),
        pytest.param(1, (STEPS_PER_EPOCH,), marks=pytest.mark.slow),
        pytest.param(1, (2 * STEPS_PER_EPOCH,), marks=pytest.mark.slow),
        pytest.param(2, (30, 71), marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_ends_as_one_without_an_interruption(
    whole_trainings: dict[int, Whole],
    tmp_path: Path,
    evaluations: int,
    interruptions: tuple[int, ...],
) -> None:
    whole, folder = whole_trainings[evaluations], tmp_path / "run"
    losses: list[float] = []
    for number, step in enumerate(interruptions):
        with watched_steps(interrupted_in=step, by=SIGNALS[number % len(SIGNALS)]) as part:
            trained = resume(folder) if number else train(folder, settings(evaluations))
        losses += part
        assert trained.interrupted
        assert load(folder).model is not None, "usable as it is"
        assert last_complete_checkpoint(folder).name == f"checkpoint-{step}"
    with watched_steps() as part:
        trained = resume(folder)
    assert not trained.interrupted
    assert losses + part == whole.losses
    assert_same_rows(trained.metrics, whole.metrics)
    assert_same_rows(load(folder).metrics(), whole.metrics)
    expected = load_file(whole.folder / "model.safetensors")
    for name, weight in load_file(folder / "model.safetensors").items():
        assert torch.equal(weight, expected[name]), name


def test_of_a_log_only_steps_since_the_evaluation_before_count() -> None:
    log = [
        {"loss": 9.0, "step": 20},
        {"loss": 7.0, "step": 24},
        {"eval_loss": 5.0, "step": 24},
        {"loss": 3.0, "step": 40},
        {"loss": 1.0, "step": 48},
        {"eval_loss": 5.0, "step": 48},
        {"train_loss": 4.0, "step": 48},
    ]
    assert mean_training_loss(log, step=24) == pytest.approx((20 * 9 + 4 * 7) / 24)
    assert mean_training_loss(log, step=48) == pytest.approx((16 * 3 + 8 * 1) / 24)
    assert mean_training_loss(log[2:3], step=24) is None
    assert mean_training_loss([], step=0) is None
