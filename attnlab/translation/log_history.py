"""What the Trainer's log, which every checkpoint holds, says about a training so far."""

from collections.abc import Iterable, Sequence
from typing import Any

from transformers import TrainerState

from attnlab.translation.trainer import CHOICE, choice

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
    """What checkpoints are chosen by, computed anew: a run may have been begun under another rule."""
    name = f"eval_{CHOICE}"
    for row in state.log_history:
        if "eval_bleu" in row:
            row[name] = choice(row["eval_bleu"], row["eval_loss"])
            if row["step"] == kept_step:
                state.best_metric = row[name]
