"""The figure of a pruning: change of BLEU or loss by heads left, and heads left of each site."""

from typing import Literal, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnlab.columns import rounded
from attnlab.reporting.canvas import INK, blank, panel, style
from attnlab.reporting.drawing.given import refuse_other_table
from attnlab.reporting.drawing.palette import PAGE
from attnlab.studies.pruning.curve import has_bleu

_WANTED = ("split", "kind", "penalty", "heads", "heads_left", "loss_nats", "bleu")
PRUNED, RANDOM = "#2178d9", "#9aa1ab"
SITE_COLOURS = {"encoder": "#2178d9", "decoder": "#c2571a", "cross": "#3a8f4d"}


class Measure(NamedTuple):
    """How much a model changed: columns of the curve, and how they are shown."""

    name: str
    change: str
    title: str
    label: str
    digits: int
    legend: Literal["lower right", "upper right"]


# By whether the models translate.
MEASURES = {
    True: Measure("bleu", "bleu_change", "BLEU", "change of BLEU (greedy)", 1, "lower right"),
    False: Measure(
        "loss_nats", "loss_change", "loss", "change of loss (nats per token)", 2, "upper right"
    ),
}


def draw_pruning(curve: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """Change of test BLEU by heads left, and by penalty the share of each site's heads that is left.

    Of a language model it is the loss. Changes are against the unpruned run, the bars their paired
    95 % intervals, which are none of BLEU itself.

    Args:
        curve: one row per model and split, such as `Pruning.curve` or `curve.csv`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, a column is missing, or there are no rows.
    """
    wanted = "Pruning.curve or curve.csv"
    refuse_other_table(curve, _WANTED, wanted)
    changes = [f"{MEASURES[has_bleu(curve)].change}_{end}" for end in ("low", "high")]
    refuse_other_table(curve, changes, wanted)
    test = curve[curve["split"] == "test"]
    left, height, top = 0.6, 2.0, 0.3
    across = (width - left - 1.55) / 2
    with style():
        figure = blank(width, top + height + 0.45)
        axes = panel(figure, left, top, across, height)
        measure = MEASURES[has_bleu(test)]
        _draw_quality(axes, test, measure)
        axes.legend(frameon=False, fontsize=7, loc=measure.legend)
        axes.set_title(f"Change of test {measure.title} by heads left", loc="left")
        axes = panel(figure, left + across + 0.6, top, across, height)
        _draw_sites(axes, test)
        axes.legend(
            frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1.0),
            title="site",
        )  # fmt: skip
        axes.set_title("Heads left by penalty", loc="left")
    return figure


def _draw_quality(axes: Axes, test: pd.DataFrame, measure: Measure) -> None:
    unpruned = rounded(
        float(test.loc[test["kind"] == "unpruned", measure.name].iloc[0]), measure.digits
    )
    axes.axhline(
        0, color=INK, linewidth=1, linestyle=":", label=f"unpruned run ({measure.title} {unpruned})"
    )
    for change in test.loc[test["kind"] == "fine-tuned", measure.change]:
        axes.axhline(change, color=INK, linewidth=1, linestyle="--", label="every head, fine-tuned")
    random = test[test["kind"] == "random"].sort_values("heads_left")
    if len(random):
        axes.plot(
            random["heads_left"], random[measure.change], "s--", color=RANDOM, markersize=4, linewidth=1,
            label="random heads closed",
        )  # fmt: skip
    pruned = test[test["kind"] == "pruned"].sort_values("heads_left")
    axes.vlines(
        pruned["heads_left"], pruned[f"{measure.change}_low"], pruned[f"{measure.change}_high"],
        color=PRUNED, linewidth=1,
    )  # fmt: skip
    axes.plot(
        pruned["heads_left"], pruned[measure.change], "o-", color=PRUNED, markersize=4.5, linewidth=1.2,
        label="gates learned",
    )  # fmt: skip
    heads = int(test["heads"].iloc[0])
    axes.set_xlim(-0.03 * heads, 1.03 * heads)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"heads left of {heads}")
    axes.set_ylabel(measure.label)


def _draw_sites(axes: Axes, test: pd.DataFrame) -> None:
    whole = test[test["kind"] == "unpruned"].iloc[0]
    pruned = test[test["kind"] == "pruned"].sort_values("penalty")
    positions = range(len(pruned))
    for site, colour in SITE_COLOURS.items():
        name = f"{site}_left"
        if name in pruned:
            share = pruned[name] / whole[name]
            axes.plot(positions, share, "o-", color=colour, markersize=4, linewidth=1.2, label=site)
    axes.set_xticks(positions, [f"{penalty:g}" for penalty in pruned["penalty"]])
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("penalty (nats per token and head)")
    axes.set_ylabel("share of heads left")
