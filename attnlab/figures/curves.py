"""Curves of a training: losses, the gap between unknown and known pairs, and scores, by epoch."""

from collections.abc import Mapping

import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.core import InputError
from attnlab.figures.canvas import INK, blank, colour, panel, style
from attnlab.figures.drawing import COLUMN, PAGE, check_table
from attnlab.matrices import cumulative_spectrum

# Column, what the line is called, and its dashes.
_LOSSES = (
    ("training_loss", "training (dropout, smoothed labels)", ":"),
    ("training_sample_loss", "training sample", "--"),
    ("validation_loss", "validation", "-"),
)
_GAP = "generalisation_gap_on_validation"
_SCORES = (("validation_bleu", "BLEU (greedy)"), ("validation_perplexity", "perplexity"))


def draw_training(metrics: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """Losses by epoch, validation minus training sample beneath them, and BLEU or perplexity.

    Evaluations of runs that recorded no training sample are drawn without it.

    Args:
        metrics: one row per evaluation, such as `pandas.DataFrame(load(run).metrics())`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, or holds no epochs or no losses.
    """
    expected = "the evaluations of a run, pandas.DataFrame(attnlab.load(run).metrics())"
    check_table(metrics, ("epoch", "validation_loss"), expected)
    across, top, height = (width - 1.25) / 2, 0.3, 1.9
    score = next((pair for pair in _SCORES if pair[0] in metrics), None)
    with style():
        figure = blank(width, top + height + 0.45)
        axes = panel(figure, 0.5, top, across, height)
        axes.set_title("Loss (nats per token)", loc="left")
        for index, (name, label, dashes) in enumerate(_LOSSES):
            _line(axes, metrics, name, label=label, linestyle=dashes, color=colour(index))
        _line(axes, metrics, _GAP, label="validation - sample", linestyle="-", color=colour(3))
        axes.legend(frameon=False)
        if score is not None:
            axes = panel(figure, 0.5 + across + 0.6, top, across, height)
            axes.set_title(f"Validation {score[1]}", loc="left")
            _line(axes, metrics, score[0], label=score[1], linestyle="-", color=colour(2))
    return figure


def _line(
    axes: Axes, metrics: pd.DataFrame, name: str, *, label: str, linestyle: str, color: str
) -> None:
    """One column by epoch, where the table has it."""
    axes.set_xlabel("epoch")
    axes.spines[["top", "right"]].set_visible(False)
    if name in metrics:
        axes.plot(
            metrics["epoch"], metrics[name].astype(float), label=label, linestyle=linestyle,
            color=color, linewidth=1.2, marker="o", markersize=2,
        )  # fmt: skip


_HEIGHT = 2.2
# Names of more heads than this would hide the lines.
_MOST_NAMES = 8


def draw_spectrum(
    matrices: Mapping[str, Float[Tensor, "query key"]], *, width: float = COLUMN
) -> Figure:
    """Cumulative singular values of each matrix, by the share of them that is counted.

    The dashed diagonal is a matrix whose singular values are all alike, such as a shift; the higher a
    line rises above it at the left, the longer the tail.

    Args:
        matrices: attention weights of one sentence, by the name of the head.
        width: of the figure in inches.

    Raises:
        InputError: there is no matrix, or one that holds no attention weights.
    """
    if not isinstance(matrices, Mapping) or not matrices:
        msg = "There is no matrix to draw; give attention weights by the name of the head."
        raise InputError(msg)
    with style():
        figure = blank(width, _HEIGHT)
        axes = panel(figure, 0.5, 0.12, width - 0.62, _HEIGHT - 0.55)
        for index, (name, H) in enumerate(matrices.items()):
            cumulated = cumulative_spectrum(H).cpu()
            counted = torch.linspace(1 / len(cumulated), 1, len(cumulated))
            axes.plot(counted, cumulated, color=colour(index), linewidth=1, label=name)
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
        axes.set_xlabel("share of singular values, the largest first")
        axes.set_ylabel("share of their sum")
        if len(matrices) <= _MOST_NAMES:
            axes.legend(frameon=False, loc="lower right")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
