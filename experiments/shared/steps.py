"""Times at which the steps of a training end."""

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PrinterCallback, TrainerCallback

from attnlab.core import Processes, quiet, seeded
from attnlab.models import (
    Collator,
    OptimizerSettings,
    TokenPairs,
    TranslationModel,
    TranslationTrainer,
    step_budget,
    training_arguments,
)


class Moment(NamedTuple):
    """Seconds of the processor and of the clock."""

    cpu: float
    clock: float


class Stopwatch(TrainerCallback):
    """Notes the time of each step's end."""

    def __init__(self) -> None:
        self.ends: list[Moment] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Notes the time."""
        self.ends.append(Moment(time.process_time(), time.perf_counter()))


def step_ends(
    model: TranslationModel, pairs: TokenPairs, settings: OptimizerSettings, longest: int
) -> list[Moment]:
    """When each step of an epoch of attnlab's Trainer ends; it evaluates and writes nothing.

    Args:
        model: that is trained.
        pairs: what it reads.
        settings: of the training.
        longest: tokens of the longest target.
    """
    budget, watch = step_budget(pairs, settings), Stopwatch()
    with tempfile.TemporaryDirectory() as folder, seeded(0), quiet():
        arguments = training_arguments(
            settings, Path(folder), target_limit=longest, warmup=budget.warmup
        )
        arguments.eval_strategy = arguments.save_strategy = "no"
        arguments.load_best_model_at_end = False
        trainer = TranslationTrainer(
            batch_tokens=budget.batch_tokens,
            processes=Processes(),
            model=model,
            args=arguments,
            data_collator=Collator(),
            train_dataset=pairs,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return watch.ends
