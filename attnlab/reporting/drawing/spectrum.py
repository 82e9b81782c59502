"""How many singular values hold most of an attention matrix, head by head."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.matrices.references import cumulative_spectrum
from attnlab.reporting.canvas import INK, blank, colour, panel, style
from attnlab.reporting.drawing.palette import COLUMN

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
            held = cumulative_spectrum(H).cpu()
            counted = torch.linspace(1 / len(held), 1, len(held))
            axes.plot(counted, held, color=colour(index), linewidth=1, label=name)
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
        axes.set_xlabel("share of singular values, the largest first")
        axes.set_ylabel("share of their sum")
        if len(matrices) <= _MOST_NAMES:
            axes.legend(frameon=False, loc="lower right")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
