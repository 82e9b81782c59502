"""Callbacks of training: metrics to a file, patience, a progress bar, an end on NaN."""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from transformers import (
    EarlyStoppingCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from attnlab.core import (
    BETWEEN_LINES,
    AttnlabError,
    duration,
    write_text,
)
from attnlab.models.checkpoints import save_model
from attnlab.models.metrics import METRICS, read_metrics
from attnlab.models.model import OwnModel
from attnlab.models.run_folder import checkpoint_path, kept_path
from attnlab.models.trainer import CHOICE, choice

LogRow = dict[str, Any]


def mean_training_loss(log_history: Sequence[LogRow], step: int) -> float | None:
    """Mean training loss over the optimizer steps after the evaluation before `step`, up to `step`.

    Every step counts the same. The Trainer logs the mean over the steps since its last log, so logs
    are weighted by their number of steps; None where there was no step. Steps before a resumption
    count too: the log comes from the checkpoint.

    >>> mean_training_loss([{"loss": 4.0, "step": 20}, {"loss": 1.0, "step": 30}], step=30)
    3.0
    """
    evaluations = [row["step"] for row in log_history if "eval_loss" in row and row["step"] < step]
    since = max(evaluations, default=0)
    total = 0.0
    logged = since
    for row in log_history:
        if "loss" in row and since < row["step"] <= step:
            total += row["loss"] * (row["step"] - logged)
            logged = row["step"]
    return total / (logged - since) if logged > since else None


def longest_training_seconds(rows: Iterable[LogRow]) -> float:
    """The largest training time of the rows; those of the Trainer's own that tell none are left out."""
    return max((row["training_seconds"] for row in rows if "training_seconds" in row), default=0.0)


def choose_again(state: TrainerState, kept_step: int) -> None:
    """Computes anew what checkpoints are chosen by: a run may have been begun under another rule."""
    name = f"eval_{CHOICE}"
    for row in state.log_history:
        if "eval_bleu" in row:
            row[name] = choice(row["eval_bleu"], row["eval_loss"])
            if row["step"] == kept_step:
                state.best_metric = row[name]


# What an evaluation gives, and what it is called in the file.
MEASURES = {
    "eval_loss": "validation_loss",
    "eval_perplexity": "validation_perplexity",
    "eval_bleu": "validation_bleu",
    "eval_chrf": "validation_chrf",
    "eval_bleu_signature": "bleu_signature",
    "eval_chrf_signature": "chrf_signature",
    "eval_sentences": "validation_sentences",
}


def generalisation(metrics: Mapping[str, float]) -> dict[str, float]:
    """The loss of the training sample, and how far the validation loss is above it.

    Both are taken without dropout and label smoothing. The gap estimates G, test risk minus training
    risk, on validation pairs, by which the kept checkpoint is chosen; the test part stays unread.
    """
    if "eval_training_sample_loss" not in metrics:
        return {}
    loss = metrics["eval_training_sample_loss"]
    gap = metrics["eval_loss"] - loss
    return {"training_sample_loss": loss, "generalisation_gap_on_validation": gap}


class Clock:
    """Seconds spent between `start` and `stop`, added up; evaluation and saving are left out."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._since: float | None = None

    def start(self) -> None:
        """Begins or goes on counting."""
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Adds what passed since `start`."""
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
            self._since = None


class Metrics(TrainerCallback):
    """Appends a line to `metrics.jsonl` at each evaluation: losses, scores, speed."""

    def __init__(self, folder: Path, target_tokens_per_epoch: int) -> None:
        self.folder = folder
        self.target_tokens_per_epoch = target_tokens_per_epoch
        self.rows: list[dict[str, Any]] = []
        self.clock = Clock()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: Any, **_: Any
    ) -> None:
        """Forgets lines after the checkpoint from which training goes on; finds the best one again."""
        if state.best_global_step is not None:
            # The run may have been moved since, and the Trainer keeps the whole path.
            state.best_model_checkpoint = str(checkpoint_path(self.folder, state.best_global_step))
            if args.metric_for_best_model == CHOICE:
                choose_again(state, state.best_global_step)
        self.rows = [row for row in read_metrics(self.folder) if row["step"] <= state.global_step]
        self.clock = Clock(longest_training_seconds([*self.rows, *state.log_history]))
        self.clock.start()

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: Any,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Logs the training time beside the loss; a loss that is no number ends training."""
        if logs and "loss" in logs:
            if not math.isfinite(logs["loss"]):
                msg = (
                    f"The training loss became {logs['loss']} at step {state.global_step}; "
                    "try a lower learning rate, more warm-up steps, or precision='fp32'."
                )
                raise AttnlabError(msg)
            state.log_history[-1]["training_seconds"] = self.clock.seconds

    def on_epoch_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> None:
        """Has the loss of the last steps logged before the evaluation and the checkpoint."""
        control.should_log = True

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> None:
        """Counts training time up to here; has the loss logged before an evaluation or a checkpoint.

        What a checkpoint's log does not hold is unknown to the run that goes on from it.
        """
        self.clock.stop()
        self.clock.start()
        control.should_log |= control.should_evaluate or control.should_save

    def on_evaluate(
        self, args: Any, state: TrainerState, control: Any, metrics: dict[str, Any], **_: Any
    ) -> None:
        """Writes the line, in the first of several processes."""
        epoch = float(state.epoch or 0.0)
        speed = self.target_tokens_per_second(epoch)
        self.rows.append(
            {
                "epoch": round(epoch, 4),
                "step": state.global_step,
                "training_loss": mean_training_loss(state.log_history, state.global_step),
                **{name: metrics[key] for key, name in MEASURES.items() if key in metrics},
                **generalisation(metrics),
                "training_seconds": round(self.clock.seconds, 3),
                "target_tokens_per_second": None if speed is None else round(speed, 1),
            }
        )
        if state.is_world_process_zero:
            lines = "".join(json.dumps(row) + "\n" for row in self.rows)
            write_text(self.folder / METRICS, lines)
        self.clock.start()

    def target_tokens_per_second(self, epoch: float) -> float | None:
        """Speed of training since the last evaluation, up to `epoch`; None before the first step."""
        since = self.rows[-1] if self.rows else {"epoch": 0.0, "training_seconds": 0.0}
        seconds = self.clock.seconds - since["training_seconds"]
        tokens = (epoch - since["epoch"]) * self.target_tokens_per_epoch
        return tokens / seconds if seconds > 0 else None

    def on_save(self, *_: Any, **__: Any) -> None:
        """Leaves out the time that saving took."""
        self.clock.start()


# The first step after the start of which weights are kept, while the learning rate still rises.
FIRST_KEPT = 8


def log_spaced_steps(count: int, total: int) -> list[int]:
    """The start of a training, and steps whose logarithms are evenly spaced up to the last.

    Args:
        count: how many; of a short training fewer, since no step comes twice.
        total: the last step.

    >>> log_spaced_steps(5, 1000), log_spaced_steps(2, 1000), log_spaced_steps(5, 4)
    ([0, 8, 40, 200, 1000], [0, 1000], [0, 4])
    """
    first = min(FIRST_KEPT, total) if count > 2 else total
    ratio = (total / first) ** (1 / max(count - 2, 1))
    steps = [0, *(round(first * ratio**power) for power in range(count - 1))]
    return sorted({*steps[:count]})


class KeptCheckpoints(TrainerCallback):
    """Keeps the weights of chosen steps, and of the step at which patience ends the training.

    The steps follow from the settings alone, so that a training which goes on keeps those of a whole one.
    """

    def __init__(self, folder: Path, count: int, patience: "Patience") -> None:
        self.folder = folder
        self.count = count
        self.patience = patience
        self.steps: list[int] = []

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **rest: Any) -> None:
        """Keeps the first weights."""
        self.steps = log_spaced_steps(self.count, state.max_steps)
        self.on_step_end(args, state, control, **rest)

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **rest: Any) -> None:
        """Keeps those of a chosen step."""
        if state.global_step in self.steps:
            self._keep(state, rest["model"])

    def on_evaluate(self, args: Any, state: TrainerState, control: Any, **rest: Any) -> None:
        """Keeps the last weights, which the best ones replace when training has ended."""
        if self.patience.is_over:
            self._keep(state, rest["model"])

    def _keep(self, state: TrainerState, model: OwnModel) -> None:
        path = kept_path(self.folder, state.global_step)
        path.mkdir(parents=True, exist_ok=True)
        save_model(model, path)


class Patience(EarlyStoppingCallback):
    """Ends training after so many evaluations without a better one, those before a resumption counted.

    Evaluations during warm-up do not count: the learning rate is still too low to say anything.
    """

    def __init__(self, evaluations: int, *, warmup: int = 0) -> None:
        super().__init__(evaluations)
        self.warmup = warmup

    @property
    def is_over(self) -> bool:
        """Whether there were enough evaluations without a better one."""
        return self.early_stopping_patience_counter >= self.early_stopping_patience

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Counts the evaluations up to the checkpoint that came after the best of them."""
        super().on_train_begin(args, state, control, **rest)
        name = f"eval_{str(args.metric_for_best_model).removeprefix('eval_')}"
        scores = {row["step"]: row[name] for row in state.log_history if name in row}
        if scores:
            best = (max if args.greater_is_better else min)(scores, key=scores.__getitem__)
            waited = [step for step in scores if step > max(best, self.warmup)]
            self.early_stopping_patience_counter = len(waited)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, Any],
        **rest: Any,
    ) -> None:
        """Counts an evaluation that is no better, and asks to stop when there were enough of them."""
        if state.global_step > self.warmup:
            super().on_evaluate(args, state, control, metrics, **rest)


class ProgressBar(TrainerCallback):
    """A line that shows epoch, training loss, target tokens per second, BLEU and remaining time.

    Speed is counted as in `metrics.jsonl`, since the last evaluation; BLEU is that of the newest one.
    Of a language model it shows perplexity instead.
    """

    def __init__(self, metrics: Metrics, console: Console) -> None:
        self.metrics = metrics
        self.loss: float | None = None
        self.scores = ""
        self.next_line = 0.0
        self.bar = Progress(
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}% {task.fields[status]}"),
            TimeRemainingColumn(),
            console=console,
            transient=False,
            # It would be printed once, as it stands when it ends.
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Shows the bar."""
        self.next_line = time.monotonic() + BETWEEN_LINES
        self.task = self.bar.add_task("", total=state.max_steps, status="")
        self.bar.update(self.task, completed=state.global_step)
        self.bar.start()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Takes up a new loss."""
        self.loss = (logs or {}).get("loss", self.loss)

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Moves the bar."""
        self._show(state, self.metrics.target_tokens_per_second(float(state.epoch or 0.0)))

    def on_evaluate(
        self, args: Any, state: TrainerState, control: Any, metrics: dict[str, Any], **_: Any
    ) -> None:
        """Shows the newest score; where no bar can be drawn, as a line of its own."""
        self.scores = (
            f"  BLEU {metrics['eval_bleu']:.1f}"
            if "eval_bleu" in metrics
            else f"  perplexity {metrics['eval_perplexity']:.1f}"
        )
        self._show(state, self.metrics.rows[-1]["target_tokens_per_second"])
        if not self.bar.console.is_terminal:
            self.bar.console.print(
                f"epoch {state.epoch or 0:.1f}  validation loss {metrics['eval_loss']:.2f}"
                f"{self.scores}"
            )

    def _show(self, state: TrainerState, speed: float | None) -> None:
        loss = "" if self.loss is None else f"  training loss {self.loss:.2f}"
        pace = "" if speed is None else f"  {speed:,.0f} tokens/s"
        status = f"epoch {state.epoch or 0:.1f}{loss}{pace}{self.scores}"
        if self.task is not None:
            self.bar.update(self.task, completed=state.global_step, status=status)
            self._print_line(state, status)

    def _print_line(self, state: TrainerState, status: str) -> None:
        """Prints a line every few seconds where no bar can be drawn."""
        now = time.monotonic()
        if self.bar.console.is_terminal or now < self.next_line:
            return
        self.next_line = now + BETWEEN_LINES
        left = self.bar.tasks[0].time_remaining
        about = "" if left is None else f", about {duration(float(left))} left"
        self.bar.console.print(
            f"step {state.global_step:,} of {state.max_steps:,}{about}  {status}",
            soft_wrap=True, highlight=False, markup=False,
        )  # fmt: skip

    def close(self) -> None:
        """Ends the bar, also after an error."""
        self.bar.stop()
