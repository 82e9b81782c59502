"""A pruning drawn: change of BLEU or loss by heads left, heads left of each site; its answers."""

from typing import Literal, NamedTuple

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnlab.core import (
    BLEU_CHANGE,
    LOSS_CHANGE,
    SITES,
    Estimate,
    counted,
    rounded,
)
from attnlab.figures import INK, PAGE, WIDE, blank, check_table, style
from attnlab.results import Contents, DrawnFigure, Result, drawn_table

# Voita et al. 2019 prune as far as 0.15 BLEU below; 1,000 sentences cannot tell less than this apart.
TOLERANCE = 0.5
# What a model that translates nothing may lose per token, in nats or distance.
LOSS_TOLERANCE = 0.05

_WANTED = ("split", "kind", "penalty", "head_count", "heads_left", "loss", "bleu")
PRUNED, RANDOM = "#2178d9", "#9aa1ab"
SITE_COLOURS = {"encoder": "#2178d9", "decoder": "#c2571a", "cross": "#3a8f4d"}


class Measure(NamedTuple):
    """How much a model changed: columns of the curve, and how they are shown."""

    name: str
    change: Estimate
    title: str
    label: str
    digits: int
    legend: Literal["lower right", "upper right"]


# By whether the models translate.
MEASURES = {
    True: Measure("bleu", BLEU_CHANGE, "BLEU", "change of BLEU (greedy)", 1, "lower right"),
    False: Measure("loss", LOSS_CHANGE, "loss", "change of loss per token", 2, "upper right"),
}


def contents(result: Result) -> Contents:
    """What the page of a pruning shows."""
    curve = result.curve
    measure = "BLEU" if has_bleu(curve) else "loss"
    has_random = (curve["kind"] == "random").any()
    comparison = ", beside as many heads closed at random" if has_random else ""
    figure = DrawnFigure(
        "curve",
        draw_pruning(curve, width=WIDE),
        f"Left: change of {measure} on the test part against the unpruned model by heads left, with paired "
        f"95 % intervals{comparison}. Right: the share of each site's heads that a penalty leaves.",
    )
    facts = {
        "Heads": str(curve["head_count"].iloc[0]),
        "Penalties": ", ".join(f"{p:g}" for p in curve["penalty"].dropna().unique()),
        "Seed": str(curve["seed"].iloc[0]),
    }
    return Contents([figure], facts)


def rows(result: Result) -> pd.DataFrame:
    """The test part of the curve."""
    return result.curve[result.curve["split"] == "test"]


def legend(result: Result) -> list[str]:
    """What the rows are of."""
    sentences = result.curve.loc[result.curve["split"] == "test", "sentences"].iloc[0]
    return [f"of {counted(int(sentences), 'test sentence')}"]


def answers(result: Result) -> list[str]:
    """The smallest model, and where random heads do as well, as sentences."""
    curve = result.curve
    penalties = no_better_than_random(curve)
    if not penalties:
        return smallest_model(curve)
    named = (
        f"penalt{'y' if len(penalties) == 1 else 'ies'} {', '.join(f'{p:g}' for p in penalties)}"
    )
    random = (
        f"At {named} the heads that the gates closed cost no less on the test part than as many random "
        "ones (one draw)."
    )
    return [*smallest_model(curve), random]


def no_better_than_random(curve: pd.DataFrame) -> list[float]:
    """The penalties whose model is no better on the test part than with as many random heads closed."""
    measure = MEASURES[has_bleu(curve)].name
    test = curve[curve["split"] == "test"].set_index("penalty")
    pruned, random = (test.loc[test["kind"] == kind, measure] for kind in ("pruned", "random"))
    ahead = (pruned - random).dropna() * (1 if measure == "bleu" else -1)
    return [float(penalty) for penalty in ahead.index[ahead <= 0]]


def smallest_model(curve: pd.DataFrame) -> list[str]:
    """The model of fewest heads that costs little, chosen on validation, then its penalty and test score."""
    translates = has_bleu(curve)
    within = f"{TOLERANCE} BLEU" if translates else f"a loss of {LOSS_TOLERANCE} per token"
    pruned = curve[curve["kind"] == "pruned"]
    if (pruned["heads_left"] == pruned["head_count"]).all():
        return ["No penalty closed a head."]
    penalty = fewest_heads(curve)
    if penalty is None:
        return [
            f"No penalty that closed heads stayed within {within} of the unpruned model on validation."
        ]
    test = pruned[(pruned["penalty"] == penalty) & (pruned["split"] == "test")].iloc[0]
    scored = f"BLEU {test['bleu']:.1f}" if translates else f"loss {test['loss']:.2f}"
    left, heads = test["heads_left"], counted(int(test["head_count"]), "head")
    return [
        f"{left} of {heads} are enough to stay within {within} of the unpruned model on validation.",
        f"The penalty {penalty:g} leaves them; on the test part the model has {scored}.",
    ]


def has_bleu(curve: pd.DataFrame) -> bool:
    """Whether the models of a curve translate, so that there is BLEU."""
    return bool(curve["bleu"].notna().any())


def fewest_heads(curve: pd.DataFrame, tolerance: float | None = None) -> float | None:
    """The penalty that leaves fewest heads at most `tolerance` BLEU below the unpruned model.

    Without BLEU, at most `tolerance` a token above its loss. It is chosen on validation, so
    that the test figures beside it are not chosen; None where every penalty that closes a head costs
    more.

    Args:
        curve: as `prune(...).curve`.
        tolerance: None: `TOLERANCE` for BLEU, `LOSS_TOLERANCE` for the loss.
    """
    pruned = curve[(curve["kind"] == "pruned") & (curve["split"] == "validation")]
    pruned = pruned[pruned["heads_left"] < pruned["head_count"]]
    if has_bleu(curve):
        drop, most = -pruned[BLEU_CHANGE.name], TOLERANCE
    else:
        drop, most = pruned[LOSS_CHANGE.name], LOSS_TOLERANCE
    good = pruned.assign(lost=drop)[drop <= (most if tolerance is None else tolerance)]
    if good.empty:
        return None
    return float(good.sort_values(["heads_left", "lost"]).iloc[0]["penalty"])


def draw_pruning(curve: pd.DataFrame | Result, *, width: float = PAGE) -> Figure:
    """Change of test BLEU by heads left, and by penalty the share of each site's heads that is left.

    Of a language model it is the loss. Changes are against the unpruned model, the bars their paired
    95 % intervals, which are none of BLEU itself.

    Args:
        curve: a result of `prune`, or one row per model and split, as `curve.csv`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, a column is missing, or there are no rows.
    """
    curve, origin = drawn_table(curve, "curve"), "prune(...).curve or curve.csv"
    check_table(curve, _WANTED, origin)
    change = MEASURES[has_bleu(curve)].change
    check_table(curve, [change.low, change.high], origin)
    test = curve[curve["split"] == "test"]
    measure = MEASURES[has_bleu(test)]
    with style():
        figure = blank(width, 2.75)
        figure.set_layout_engine("constrained")
        quality, sites = figure.subplots(1, 2)
        _draw_quality(quality, test, measure)
        quality.legend(frameon=False, loc=measure.legend)
        quality.set_title(f"Change of test {measure.title} by heads left", loc="left")
        _draw_sites(sites, test)
        sites.set_title("Heads left by penalty", loc="left")
        sns.move_legend(sites, "upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    return figure


def _draw_quality(axes: Axes, test: pd.DataFrame, measure: Measure) -> None:
    unpruned = rounded(
        float(test.loc[test["kind"] == "unpruned", measure.name].iloc[0]), measure.digits
    )
    axes.axhline(
        0,
        color=INK,
        linewidth=1,
        linestyle=":",
        label=f"unpruned model ({measure.title} {unpruned})",
    )
    for change in test.loc[test["kind"] == "fine-tuned", measure.change.name]:
        axes.axhline(change, color=INK, linewidth=1, linestyle="--", label="every head, fine-tuned")
    random = test[test["kind"] == "random"].sort_values("heads_left")
    if len(random):
        axes.plot(
            random["heads_left"], random[measure.change.name], "s--", color=RANDOM, markersize=4, linewidth=1,
            label="random heads closed",
        )  # fmt: skip
    pruned = test[test["kind"] == "pruned"].sort_values("heads_left")
    axes.vlines(
        pruned["heads_left"], pruned[measure.change.low], pruned[measure.change.high],
        color=PRUNED, linewidth=1,
    )  # fmt: skip
    axes.plot(
        pruned["heads_left"], pruned[measure.change.name], "o-", color=PRUNED, markersize=4.5, linewidth=1.2,
        label="gates learned",
    )  # fmt: skip
    heads = int(test["head_count"].iloc[0])
    axes.set_xlim(-0.03 * heads, 1.03 * heads)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"heads left of {heads}")
    axes.set_ylabel(measure.label)


def _draw_sites(axes: Axes, test: pd.DataFrame) -> None:
    whole = test[test["kind"] == "unpruned"].iloc[0]
    pruned = test[test["kind"] == "pruned"].sort_values("penalty")
    names = {f"{site}_left": site for site in SITES if f"{site}_left" in pruned}
    left = (pruned[[*names]] / whole[[*names]].astype(float)).rename(columns=names)
    left.index = pd.Index([f"{penalty:g}" for penalty in pruned["penalty"]])
    shares = left.melt(var_name="site", value_name="share", ignore_index=False).rename_axis(
        "penalty"
    )
    sns.lineplot(
        shares.reset_index(), x="penalty", y="share", hue="site", palette=SITE_COLOURS, marker="o",
        errorbar=None, ax=axes,
    )  # fmt: skip
    axes.set(
        ylim=(-0.03, 1.03), xlabel="penalty (nats per token and head)", ylabel="share of heads left"
    )
