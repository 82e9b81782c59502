"""Progress of a training: `metrics.jsonl`, a line per evaluation, and the state at a checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from attnlab.core import InputError, document_text, fitting, parse_json, read_lines, reason
from attnlab.models.run_folder import STATE, WEIGHTS, last_complete_checkpoint

METRICS = "metrics.jsonl"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The evaluations in `metrics.jsonl`, a table each, oldest first; empty when there is none."""
    path = folder / METRICS
    if not path.exists():
        return []
    evaluations = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        try:
            # A training that diverges writes NaN.
            row = parse_json(line, finite=False)
            fitting(_Evaluation, row)
        except InputError as error:
            msg = (
                f"{path} is damaged (line {number}: {reason(error)}); restore it, or delete it to lose "
                "the history only."
            )
            raise InputError(msg) from error
        evaluations.append(row)
    return evaluations


@dataclass(frozen=True)
class TrainingState:
    """The part of the Trainer's state that readers rely on."""

    global_step: Annotated[int, Field(ge=0)]
    log_history: tuple[Mapping[str, Any], ...]
    epoch: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    best_global_step: Annotated[int, Field(ge=0)] | None = None
    best_metric: float | None = None
    best_model_checkpoint: str | None = None
    stateful_callbacks: Mapping[str, Any] | None = None
    max_steps: int = 0
    num_train_epochs: int = 0
    train_batch_size: int | None = None


def state_of(checkpoint: Path) -> TrainingState:
    """The state of training at a checkpoint.

    Raises:
        InputError: it is damaged; the message says how, without its path.
    """
    # The loss of a training that diverges is NaN.
    return fitting(TrainingState, parse_json(document_text(checkpoint / STATE), finite=False))


def is_trained(folder: Path, epochs: int) -> bool:
    """Whether the run in a folder was trained for so many epochs.

    That is what its history says, or its last checkpoint where there is none, as of a training that was
    interrupted in its first epoch; without either, whether it has weights. Where that checkpoint is damaged
    it was not, so that `resume` says what is wrong.

    Raises:
        InputError: its history is damaged.
    """
    evaluations = read_metrics(folder)
    if evaluations:
        return bool(evaluations[-1]["epoch"] >= epochs)
    checkpoint = last_complete_checkpoint(folder)
    if checkpoint is None:
        return (folder / WEIGHTS).exists()
    try:
        return (state_of(checkpoint).epoch or 0) >= epochs
    except InputError:
        return False


@dataclass(frozen=True)
class _Evaluation:
    """A line of `metrics.jsonl`."""

    epoch: Annotated[float, Field(ge=0)]
    step: Annotated[int, Field(ge=0)]
    training_loss: float | None = None
    training_seconds: float = 0.0
    target_tokens_per_second: float | None = None
    validation_loss: float = 0.0
    validation_perplexity: float = 0.0
    validation_bleu: float = 0.0
    validation_chrf: float = 0.0
