"""What processes that train together agree on at each step: whether it is the last, and who draws what."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attnlab.processes import Processes
from attnlab.signals import answering


class Interruption(TrainerCallback):
    """Ends training after the current step when Ctrl-C, SIGTERM or SIGHUP came, with a checkpoint written.

    A signal to one of several processes ends all of them, after the same step.
    """

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.asked = False
        self.agreed = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside the block the first signal is remembered; a second Ctrl-C stops at once."""

        def remember(number: int) -> None:
            # Batch systems and launchers may both send SIGTERM.
            if self.asked and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked = True

        with answering(remember):
            yield

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Asks the Trainer to stop."""
        self.agreed = self.processes.any(self.asked)
        if self.agreed:
            control.should_training_stop = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Saves, without evaluating in the middle of an epoch: the user is waiting.

        The end of an epoch is evaluated all the same: training that goes on starts behind it.
        """
        if self.agreed:
            if not float(state.epoch or 0.0).is_integer():
                control.should_evaluate = False
            control.should_save = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Takes up a signal that came after the last step."""
        self.agreed = self.processes.any(self.asked)


class StepSeeds(TrainerCallback):
    """Seeds each step of several processes, so that dropout differs between them, but not on resuming."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self.processes = processes
        self.seed = seed

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Seeds torch; one process goes on drawing instead."""
        if self.processes.count > 1:
            parts = np.random.SeedSequence([self.seed, self.processes.index, state.global_step])
            torch.manual_seed(int(parts.generate_state(1)[0]))
