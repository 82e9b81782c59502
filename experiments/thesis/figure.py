"""Attention matrices of several models beside each other, as the thesis's figures 11 and 12 show them."""

from collections.abc import Mapping

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.figures import PAGE, WEIGHTS, blank, panel, style

SIDE, GAP, TOP, LEFT, MOST = 0.78, 0.06, 0.3, 0.1, 8


def draw_matrices(matrices: Mapping[str, Float[Tensor, "head query key"]]) -> Figure:
    """A row of heat maps a model, of eight heads or of several models of one."""
    single = {name: H for name, H in matrices.items() if len(H) == 1}
    rows = {name: list(H) for name, H in matrices.items() if len(H) > 1}
    if single:
        rows[" | ".join(single)] = [H[0] for H in single.values()]
    with style():
        figure = blank(PAGE, len(rows) * (SIDE + TOP) + 0.1)
        height = figure.get_figheight()
        for row, (name, heads) in enumerate(rows.items()):
            top = TOP + row * (SIDE + TOP)
            figure.text(LEFT / PAGE, 1 - (top - 0.1) / height, name, va="center", fontsize=8)
            for index, H in enumerate(heads[:MOST]):
                axes = panel(figure, LEFT + index * (SIDE + GAP), top, SIDE, SIDE)
                axes.imshow(H, cmap="Blues", norm=WEIGHTS, interpolation="nearest")
                axes.set(xticks=[], yticks=[])
    return figure
