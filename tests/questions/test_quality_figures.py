"""Figures of what heads cost: intervals stand at what they are intervals of."""

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from attnlab.figures.canvas import blank, panel
from attnlab.figures.drawing import stretch
from attnlab.questions.plan.view import draw_planning
from attnlab.questions.prune.view import SITE_COLOURS, draw_pruning


def bars(axes: Axes) -> set[tuple[float, float]]:
    """Lower and upper ends of the vertical intervals."""
    segments = [
        one
        for lines in axes.collections
        if isinstance(lines, LineCollection)
        for one in lines.get_segments()
    ]
    return {(float(one[0][1]), float(one[1][1])) for one in segments}


def rows(axes: Axes) -> set[tuple[float, float]]:
    """Left and right ends of the horizontal intervals."""
    drawn = ([*map(float, line.get_xdata())] for line in axes.lines)
    return {(low, high) for low, high in (ends for ends in drawn if len(ends) == 2) if low != high}


def check_text_fits(figure: Figure) -> None:
    figure.draw_without_rendering()
    drawn = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()


def curve(*, bleu: bool) -> pd.DataFrame:
    rows = [("unpruned", None, 12, 0.0, 0.0), ("fine-tuned", None, 12, -2.0, 0.1),
            ("pruned", 0.1, 8, -12.0, 0.2), ("pruned", 1.0, 0, -30.0, 1.5)]  # fmt: skip
    table = pd.DataFrame(
        rows, columns=["kind", "penalty", "heads_left", "bleu_change", "loss_change"]
    )
    table = table.assign(
        split="test", head_count=12, encoder_left=table["heads_left"], seed=0, sentences=60,
        bleu=30.0 + table["bleu_change"], loss=2.0 + table["loss_change"],
    )  # fmt: skip
    for name, half in (("bleu_change", 3.0), ("loss_change", 0.1)):
        table[f"{name}_low"], table[f"{name}_high"] = table[name] - half, table[name] + half
    if not bleu:
        table["bleu"] = float("nan")
    return table


@pytest.mark.parametrize("bleu", [True, False])
def test_intervals_of_a_pruning_are_those_of_the_change(bleu: bool) -> None:
    table = curve(bleu=bleu)
    name = "bleu_change" if bleu else "loss_change"
    figure = draw_pruning(table)
    axes = figure.axes[0]
    pruned = table[table["kind"] == "pruned"]
    assert bars(axes) == set(zip(pruned[f"{name}_low"], pruned[f"{name}_high"], strict=True))
    assert axes.get_ylabel().startswith("change of")
    low, high = axes.get_ylim()
    assert low < pruned[f"{name}_low"].min()
    assert high > pruned[f"{name}_high"].max()
    first, last = axes.get_xlim()
    assert first < 0
    assert last > 12, "the model with all its heads is in the figure"
    check_text_fits(figure)


def test_sites_of_a_pruning_have_the_same_colour_whichever_are_there() -> None:
    every = curve(bleu=True)
    every = every.assign(decoder_left=every["heads_left"], cross_left=every["heads_left"] / 2)
    for sites in (("encoder", "decoder", "cross"), ("cross",)):
        table = every.drop(columns=[f"{site}_left" for site in SITE_COLOURS if site not in sites])
        handles, labels = draw_pruning(table).axes[1].get_legend_handles_labels()
        drawn = {label: handle.get_color() for label, handle in zip(labels, handles, strict=True)}
        assert drawn == {site: SITE_COLOURS[site] for site in sites}


def scores(*, bleu: bool) -> pd.DataFrame:
    rows = [
        (None, "full", 20.0, 0.0, 0.0, 0.0), (3, "searched", 2.9, 0.7, -4.6, 0.69),
        (3, "band", 3.0, 1.3, -1.3, 0.63), (3, "longformer", 2.8, 1.2, -2.4, 0.73),
    ]  # fmt: skip
    names = ["budget", "mechanism", "visible_keys", "error", "bleu_change", "loss_change"]
    table = pd.DataFrame(rows, columns=names).assign(sentences=60, seed=0)
    table["bleu"], table["loss"] = 4.8 + table["bleu_change"], 2.3 + table["loss_change"]
    for name, half in (("error", 0.1), ("bleu_change", 2.5), ("loss_change", 0.1)):
        table[f"{name}_low"], table[f"{name}_high"] = table[name] - half, table[name] + half
    return table if bleu else table[[name for name in table if not name.startswith("bleu")]]


@pytest.mark.parametrize("budgets", [1, 2])
@pytest.mark.parametrize("bleu", [True, False])
def test_intervals_of_plans_are_those_of_the_change(bleu: bool, budgets: int) -> None:
    table = scores(bleu=bleu)
    if budgets > 1:
        table = pd.concat([table, table[1:].assign(budget=5, visible_keys=4.9)])
    names = ["loss_change", *(["bleu_change"] if bleu else []), "error"]
    figure = draw_planning(table)
    own = table[table["mechanism"] != "full"]
    for axes, drawn in zip(figure.axes, names, strict=True):
        ends = set(zip(own[f"{drawn}_low"], own[f"{drawn}_high"], strict=True))
        assert ends == (bars(axes) if budgets > 1 else rows(axes))
    first = figure.axes[0]
    assert (first.get_ylabel() or first.get_xlabel()) == "change of loss per token"
    if budgets == 1:
        plans = [label.get_text() for label in first.get_yticklabels()]
        assert plans == ["longformer", "searched", "band"], "what costs least loss stands on top"
    else:
        *others, last = (axes.get_legend() for axes in figure.axes)
        assert others == [None] * len(others)
        assert {text.get_text() for text in last.get_texts()} == {*own["mechanism"]}
    check_text_fits(figure)


@pytest.mark.parametrize(
    ("largest", "ticks"), [(1.5, {0, 0.1, 0.2, 0.5, 1}), (20.0, {0, 0.1, 1, 10})]
)
def test_a_stretched_axis_says_so_and_has_ticks(largest: float, ticks: set[float]) -> None:
    axes = panel(blank(3.0, 3.0), 0.5, 0.5, 2.0, 2.0)
    said = stretch(axes, "x", threshold=0.1, largest=largest)
    assert "linear to 0.1, logarithmic beyond" in said
    axes.set_xlim(-0.01, largest)
    assert {round(tick, 9) for tick in axes.get_xticks() if 0 <= tick <= largest} == ticks


def test_an_axis_without_anything_beyond_stays_linear() -> None:
    axes = panel(blank(3.0, 3.0), 0.5, 0.5, 2.0, 2.0)
    assert stretch(axes, "y", threshold=0.1, largest=0.09) == ""
    assert axes.get_yscale() == "linear"
