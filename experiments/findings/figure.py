"""A figure a claim on the page of findings."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from attnlab.figures import COLUMN, INK, blank, colour, panel, style
from experiments.heads_over_training.curves import BLEU

LEFT, TOP, RIGHT, ROW, BOTTOM, HEIGHT, LINE = 1.5, 0.1, 0.2, 0.24, 0.45, 1.6, 0.16
INTERVAL = "#b5bcc4"


def draw_models(points: Mapping[str, Sequence[float]], means: pd.DataFrame, label: str) -> Figure:
    """A row a group, the first at the top: a dot a model, a line at the mean, a bar its 95 % interval.

    Args:
        points: by group, a value a model.
        means: by group `mean`, `low` and `high`.
        label: of the values.
    """
    with style():
        figure = blank(COLUMN, TOP + ROW * len(points) + BOTTOM)
        axes = panel(figure, LEFT, TOP, COLUMN - LEFT - RIGHT, ROW * len(points))
        for row, (group, values) in enumerate(points.items()):
            own = means.loc[group]
            axes.plot([own["low"], own["high"]], [row] * 2, color=INTERVAL, linewidth=3, zorder=1)
            axes.plot([own["mean"]], [row], "|", color=INK, markersize=9)
            axes.plot(values, [row] * len(values), "o", color=colour(0), markersize=2.5, alpha=0.6)
        axes.set(xlabel=label, ylim=(len(points) - 0.5, -0.5))
        axes.set_yticks(range(len(points)), list(points))
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_mismatches(counts: pd.DataFrame) -> Figure:
    """A row a property: how many architectures do not attend as they should, by kind of cause."""
    with style():
        figure = blank(COLUMN, TOP + ROW * len(counts) + BOTTOM)
        axes = panel(figure, LEFT, TOP, COLUMN - LEFT - RIGHT, ROW * len(counts))
        start = pd.Series(0, index=counts.index)
        for place, kind in enumerate(counts):
            axes.barh(list(counts.index), counts[kind], left=start, color=colour(place), label=kind)
            start += counts[kind]
        axes.invert_yaxis()
        axes.set(xlabel="architectures with a mismatch")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_plans(rows: pd.DataFrame, arms: Mapping[str, str]) -> Figure:
    """Change of BLEU by attended keys per query, a line an arm with its 95 % intervals over models.

    Args:
        rows: `arm`, `budget` and `bleu_change` with its ends.
        arms: what each arm is called, by its name in the rows.
    """
    with style():
        legend = LINE * len(arms)
        figure = blank(COLUMN, TOP + HEIGHT + BOTTOM + legend)
        axes = panel(figure, 0.5, TOP, COLUMN - 0.5 - RIGHT, HEIGHT)
        for place, (arm, name) in enumerate(arms.items()):
            own = rows[rows["arm"] == arm]
            beside = own["budget"] + 0.06 * (place - (len(arms) - 1) / 2)
            ends = own["bleu_change_low"], own["bleu_change_high"]
            axes.vlines(beside, *ends, color=colour(place), alpha=0.5)
            axes.plot(
                beside, own["bleu_change"], "o-", color=colour(place), markersize=3, label=name
            )
        axes.axhline(0, color=INK, linewidth=0.5)
        axes.set(
            xlabel="attended keys per query",
            ylabel="change of BLEU",
            xticks=sorted({*rows["budget"]}),
        )
        below = (0, -BOTTOM / HEIGHT)
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=below, borderaxespad=0)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_forming(alignment: pd.DataFrame, quality: pd.DataFrame) -> Figure:
    """Strength of alignment heads and BLEU over training, as shares of their ends: a line a model.

    Args:
        alignment: `seed`, `step` and `strength` of the strongest head.
        quality: `seed`, `step` and `BLEU`.
    """
    with style():
        figure = blank(COLUMN, TOP + HEIGHT + BOTTOM)
        axes = panel(figure, 0.5, TOP, COLUMN - 0.5 - RIGHT, HEIGHT)
        curves = (("alignment heads", alignment, "strength"), (BLEU, quality, BLEU))
        for place, (name, table, column) in enumerate(curves):
            for number, (_, own) in enumerate(table.groupby("seed")):
                done, reached = own["step"] / own["step"].max(), own[column] / own[column].iloc[-1]
                label = name if number == 0 else None
                axes.plot(done, reached, color=colour(place), linewidth=0.8, label=label)
        axes.axhline(0.5, color=INK, linewidth=0.5, linestyle=":")
        axes.set(xlabel="share of the training", ylabel="share of its end", xlim=(0, 1))
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(frameon=False, loc="lower right")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
