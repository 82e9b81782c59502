"""The history of a training: `metrics.jsonl`, a line per evaluation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from attnlab.core import InputError, fitting, parse_json, read_lines, reason
from attnlab.models.run_folder import WEIGHTS

METRICS = "metrics.jsonl"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """One value per line of `metrics.jsonl`, oldest first; empty when there is none."""
    path = folder / METRICS
    if not path.exists():
        return []
    found = []
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
        found.append(row)
    return found


def is_trained(folder: Path, epochs: int) -> bool:
    """Whether the run in a folder was trained for so many epochs; without a history, whether it has weights.

    Raises:
        InputError: its history is damaged.
    """
    evaluations = read_metrics(folder)
    if not evaluations:
        return (folder / WEIGHTS).exists()
    return bool(evaluations[-1]["epoch"] >= epochs)


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
