"""An axis that is linear about 0 and logarithmic beyond, with ticks that show it and words that say it."""

from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import SymmetricalLogLocator

# Up to so many times the threshold there is room for ticks within a decade.
_WIDE = 30.0


def stretch(axes: Axes, which: Literal["x", "y"], *, threshold: float, largest: float) -> str:
    """Makes an axis logarithmic beyond the threshold where anything lies there.

    Args:
        axes: of a figure.
        which: the axis.
        threshold: up to which it stays linear.
        largest: of the absolute values that are drawn.

    Returns:
        A line for the label of the axis, with the line feed before it; empty where it is linear.
    """
    if largest <= threshold:
        return ""
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_scale = axes.set_xscale if which == "x" else axes.set_yscale
    set_scale("symlog", linthresh=threshold)
    subs = (1, 2, 5) if largest < _WIDE * threshold else (1,)
    axis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=threshold, subs=subs))
    axis.set_major_formatter("{x:g}")
    return f"\n(linear to {threshold:g}, logarithmic beyond)"
