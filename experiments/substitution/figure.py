"""The figure of a substitution result: what replaced heads cost, and what predicts it."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.figures import (
    INK,
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    blank,
    example_of,
    panel,
    stretch,
    style,
)

_LEFT, _WIDTH, _GAP, _TOP, _HEIGHT = 0.9, 2.2, 0.55, 0.75, 2.2
_PREDICTORS = {"missing_mass": "attention not captured", "output_error": "relative output error"}
_SITE_MARKERS = {"encoder": "o", "decoder": "s", "cross": "^"}


def draw_substitution(rows: pd.DataFrame) -> Figure:
    """Above: change of loss and BLEU with all heads replaced; below: what predicts the loss of one head."""
    alone = rows[(rows["scope"] == "head") & rows["mass_fraction"].notna()]
    together = rows[(rows["scope"] != "head") & (rows["replaced_heads"] > 0)]
    names = _labels(together)
    height = 0.17 * max(len(names), 3) + 0.2
    columns = list(dict.fromkeys(together["replaced"]))
    wide = 1.5 + _LEFT + max(len(columns), 2) * (_WIDTH + _GAP)
    lower = _HEIGHT + 1.3 if len(alone) else 0.0
    with style():
        figure = blank(wide, _TOP + height + 0.75 + lower)
        for position, column in enumerate(columns):
            left = _LEFT + 1.5 + position * (_WIDTH + _GAP)
            axes = panel(figure, left, _TOP, _WIDTH, height)
            _draw_changes(axes, together[together["replaced"] == column], names)
            axes.tick_params(axis="y", labelleft=position == 0, length=0)
            axes.set_title(str(column), loc="left")
        _headline(
            figure, 0.25, "Change of loss (nats per token, 95 % intervals) with all heads replaced"
        )
        figure.legend(
            handles=[example_of(level) for level in dict.fromkeys(together["level"]) if level],
            loc="center right", bbox_to_anchor=(0.99, 1 - 0.25 / figure.get_figheight()),
            frameon=False, fontsize=8, ncols=3,
        )  # fmt: skip
        if len(alone):
            top = _TOP + height + 1.45
            for position, (name, label) in enumerate(_PREDICTORS.items()):
                left = _LEFT + position * (_WIDTH * 1.5 + _GAP + 0.35)
                axes = panel(figure, left, top, _WIDTH * 1.5, _HEIGHT)
                _draw_prediction(axes, alone, name)
                axes.set_xlabel(label, fontsize=8.5)
            axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=8)
            _headline(
                figure, top - 0.3, "Change of loss with one head replaced, by what is known before"
            )
    return figure


def _headline(figure: Figure, top: float, text: str) -> None:
    figure.text(0.012, 1 - top / figure.get_figheight(), text, va="center", fontsize=11)


def _label(row: pd.Series) -> str:
    keys = "" if pd.isna(row["budget"]) else f" ({row['budget']})"
    tuned = f", {row['steps']} steps" if row["steps"] else ""
    return f"{row['mechanism']}{keys}{tuned}"


def _labels(rows: pd.DataFrame) -> list[str]:
    """Mechanisms by their mean change of loss, the worst first."""
    if rows.empty:
        return []
    labels = rows.apply(_label, axis=1)
    order = rows["loss_change"].groupby(labels).mean().sort_values(ascending=False)
    return [str(name) for name in order.index]


def _draw_changes(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for row in rows.to_dict("records"):
        height = names.index(_label(pd.Series(row)))
        colour = LEVEL_COLOURS.get(row["level"], INK)
        axes.plot(
            [row["loss_change_low"], row["loss_change_high"]],
            [height, height],
            color=colour,
            linewidth=1,
        )
        marker = LEVEL_MARKERS.get(row["level"], "*")
        axes.plot(row["loss_change"], height, marker, color=colour, markersize=4)
    axes.margins(x=0.08)
    largest = float(rows[["loss_change", "loss_change_low", "loss_change_high"]].abs().max().max())
    scale = stretch(axes, "x", threshold=0.1, largest=largest)
    axes.set_xlabel(f"nats per token{scale}", fontsize=8.5)
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_prediction(axes: Axes, rows: pd.DataFrame, predictor: str) -> None:
    values = 1 - rows["mass_fraction"] if predictor == "missing_mass" else rows[predictor]
    sites = rows["replaced"].str.partition(".")[0]
    for site, marker in _SITE_MARKERS.items():
        own = sites == site
        if own.any():
            axes.plot(
                values[own], rows.loc[own, "loss_change"], marker, markersize=3, alpha=0.6,
                label=site, markeredgewidth=0,
            )  # fmt: skip
    scale = stretch(axes, "y", threshold=0.01, largest=float(rows["loss_change"].abs().max()))
    axes.set_ylabel(f"nats per token{scale}", fontsize=8.5)
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.spines[["top", "right"]].set_visible(False)
