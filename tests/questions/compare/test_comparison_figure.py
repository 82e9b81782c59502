"""The figure of a comparison: every mechanism and budget drawn where its numbers say, all labels inside."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from attnlab.budget import uniform_mechanisms
from attnlab.figures.canvas import blank, svg
from attnlab.figures.drawing import LEVEL_COLOURS, LEVEL_MARKERS
from attnlab.questions.compare.comparison_figure import draw_comparison
from attnlab.questions.compare.view import _definitions
from attnlab.results.result import Result

ROWS = [
    # mechanism, level, mass, error
    ("top-k", "oracle", 0.9, 0.1),
    ("sigma salience", "calibrated", 0.7, 0.4),
    ("linear elu", "static", np.nan, 0.8),
    ("linformer (not trained)", "static", np.nan, 3.25),
]


@pytest.fixture
def summary() -> pd.DataFrame:
    rows = []
    for site, less in (("encoder", 0.0), ("cross", 0.05)):
        for budget in (5, 9):
            for mechanism, level, mass, error in ROWS:
                numbers = {"mass_fraction": mass - less, "output_error": error - less}
                row = {"sites": site, "budget": budget, "mechanism": mechanism, "level": level}
                row["visible_keys"] = np.nan if np.isnan(mass) else budget
                for name, number in numbers.items():
                    row |= {
                        name: number,
                        f"{name}_low": number - 0.02,
                        f"{name}_high": number + 0.03,
                    }
                rows.append(row)
    return pd.DataFrame(rows)


def markers(
    figure: Figure, panel: int, *, rings: bool = False
) -> dict[tuple[float, float], tuple[str, str]]:
    """Colour and marker by position, of the points of one panel, or of the rings around the best."""
    lines = [
        line
        for line in figure.axes[panel].lines
        if line.get_marker() not in {"None", ""} and (line.get_fillstyle() == "none") == rings
    ]
    return {
        (round(float(line.get_xdata()[0]), 6), float(line.get_ydata()[0])): (
            line.get_color(),
            line.get_marker(),
        )
        for line in lines
    }


def test_without_sites_those_of_all_are_drawn_or_the_first(summary: pd.DataFrame) -> None:
    every = pd.concat([summary, summary[summary["sites"] == "cross"].assign(sites="all")])
    assert markers(draw_comparison(every), 0) == markers(draw_comparison(every, "all"), 0)
    alone = summary[summary["sites"] == "encoder"]
    assert markers(draw_comparison(alone), 0) == markers(draw_comparison(summary, "encoder"), 0)


def test_points_stand_at_their_numbers_in_the_colour_of_their_level(summary: pd.DataFrame) -> None:
    figure = draw_comparison(summary, "cross")
    assert len(figure.axes) == 4
    heights = {
        label.get_text(): label.get_position()[1] for label in figure.axes[0].get_yticklabels()
    }
    assert heights == {
        "sigma salience": 2.0, "linear elu": 1.0, "linformer (not trained)": 0.0, "top-k (oracle)": -1.5,
    }, "the least error stands on top, and what cannot be used apart below"  # fmt: skip
    for panel in (0, 2):
        assert set(markers(figure, panel)) == {(0.05, -1.5), (0.35, 2.0), (0.75, 1.0)}
        assert markers(figure, panel + 1) == {
            (0.85, -1.5): (LEVEL_COLOURS["oracle"], LEVEL_MARKERS["oracle"]),
            (0.65, 2.0): (LEVEL_COLOURS["calibrated"], LEVEL_MARKERS["calibrated"]),
        }
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert low < -1.5 < len(ROWS) - 2 < high, "the first and the last name are in it"
    beyond = [text.get_text() for text in figure.axes[0].texts]
    assert beyond == ["3.2 →", "0.35"], "what the axis cannot hold is written down"
    ones = [line for line in figure.axes[0].lines if set(line.get_xdata()) == {1}]
    assert len(ones) == 1, "an error of 1 is that of leaving the heads out"
    intervals = [
        tuple(line.get_xdata()) for line in figure.axes[1].lines if len(line.get_xdata()) == 2
    ]
    assert any(one == pytest.approx((0.83, 0.88)) for one in intervals)


@pytest.mark.parametrize("kind", ["Int64", float])
def test_a_plan_without_a_budget_stands_at_every_one(
    summary: pd.DataFrame, kind: type | str
) -> None:
    """Also where `summary.csv` was read by pandas alone, which makes numbers of it."""
    plan = {"sites": "encoder", "mechanism": "mine", "level": "", "mass_fraction": 0.6,
            "output_error": 0.45, "visible_keys": 4.0}  # fmt: skip
    both = pd.concat([summary, pd.DataFrame([plan])], ignore_index=True)
    figure = draw_comparison(both.astype({"budget": kind}), "encoder")
    assert len(figure.axes) == 4, "no panel of its own"
    for panel, value in enumerate((0.45, 0.6, 0.45, 0.6)):
        labels = figure.axes[panel - panel % 2].get_yticklabels()
        heights = {label.get_text(): label.get_position()[1] for label in labels}
        assert (value, heights["mine"]) in markers(figure, panel)


def test_the_best_that_can_be_used_is_marked(summary: pd.DataFrame) -> None:
    figure = draw_comparison(summary, "encoder")
    ring = (LEVEL_COLOURS["calibrated"], "o")
    for panel in (0, 2):
        assert markers(figure, panel, rings=True) == {(0.4, 2.0): ring}, "no oracle"
        assert not markers(figure, panel + 1, rings=True), "one ring a budget"
        bold = [one.get_text() for one in figure.axes[panel].get_yticklabels()
                if one.get_fontweight() == "bold"]  # fmt: skip
        assert bold == ["sigma salience"]
    oracle = summary[summary["level"] == "oracle"]
    half = pd.concat([summary[summary["budget"] == 5], oracle[oracle["budget"] == 9]])
    for table, explained in ((half, True), (oracle, False)):
        legend = " ".join(
            text.get_text()
            for one in draw_comparison(table, "encoder").legends
            for text in one.get_texts()
        )
        assert ("best that can be used" in legend) == explained
    assert not any(markers(draw_comparison(oracle, "encoder"), n, rings=True) for n in range(4))


@pytest.mark.parametrize("level", ["", np.nan])
def test_a_plan_is_marked_only_where_it_sees_few_enough_keys(
    summary: pd.DataFrame, level: object
) -> None:
    plan = {"sites": "encoder", "mechanism": "mine", "level": level, "mass_fraction": 0.8,
            "output_error": 0.05, "visible_keys": 7.0}  # fmt: skip
    figure = draw_comparison(pd.concat([summary, pd.DataFrame([plan])]), "encoder")
    ringed = [[x for x, _ in markers(figure, panel, rings=True)] for panel in (0, 2)]
    assert ringed == [[0.4], [0.05]]
    apart = [
        [
            one.get_text()
            for one in figure.axes[panel].get_yticklabels()
            if one.get_position()[1] < 0
        ]
        for panel in (0, 2)
    ]
    assert sorted(apart[0]) == ["mine (more keys)", "top-k (oracle)"]
    assert apart[1] == ["top-k (oracle)"]


def test_every_label_is_inside_and_the_legend_names_each_level(summary: pd.DataFrame) -> None:
    before = dict(mpl.rcParams)
    figure = draw_comparison(summary, "encoder")
    element = svg(figure, "one")
    for text in (
        "encoder, 5 keys per row",
        "encoder, 9 keys per row",
        *LEVEL_COLOURS,
    ):
        assert element.count(f">{text}<") == 1, text
    assert element.count(">linformer (not trained)<") == 2, "once a row of panels"
    renderer = FigureCanvasAgg(figure).get_renderer()
    whole = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert whole.x0 <= box.x0
        assert whole.y0 <= box.y0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
    legend = figure.legends[0].get_window_extent(renderer)
    assert not any(axes.get_tightbbox(renderer).overlaps(legend) for axes in figure.axes)
    assert dict(mpl.rcParams) == before
    assert len(set(LEVEL_MARKERS.values())) == len(LEVEL_MARKERS), (
        "levels differ without colour too"
    )


def answers(rows: list[dict[str, object]]) -> list[str]:
    intervals = [
        {
            "sites": "encoder",
            "budget": 5,
            "level": "calibrated",
            "steps": 0,
            "replaced_heads": 4,
            "mass_fraction": 0.5,
        }
        | {
            f"{name}_{end}": 0.5
            for name in ("mass_fraction", "output_error")
            for end in ("low", "high")
        }
        | row
        for row in rows
    ]
    about = {"Held-out sentences": 2, "Training sentences": 3}
    tables = {"summary": pd.DataFrame(intervals), "mechanisms_by_head": pd.DataFrame()}
    return list(Result("compare", "A comparison", tables, about).contents().answers)


def test_the_page_says_what_every_mechanism_and_level_is() -> None:
    names = ["full", "fixed", *uniform_mechanisms(), "a plan"]
    rows = pd.DataFrame(
        {"mechanism": names, "sites": "all", "budget": 5, "steps": 0, "replaced_heads": 4}
    )
    rows = rows.assign(level=["", *["calibrated"] * (len(names) - 3), "oracle", ""])
    definitions = list(_definitions(Result("compare", "A comparison", {"summary": rows})))
    assert [name for name, _ in definitions] == ["oracle", "calibrated", *names[1:-1]]
    assert len({meaning for _, meaning in definitions}) == len(definitions)
    assert all(meaning for _, meaning in definitions)


def test_the_page_names_the_nearest_that_can_be_used() -> None:
    rows: list[dict[str, object]] = [
        {"mechanism": "full", "output_error": 0.0, "visible_keys": 9.0, "budget": None, "level": "",
         "replaced_heads": 0},
        {"mechanism": "top-k", "output_error": 0.05, "visible_keys": 5.0, "level": "oracle"},
        {"mechanism": "band", "output_error": 0.2, "visible_keys": 5.0},
        {"mechanism": "linear", "output_error": 0.35, "visible_keys": np.nan},
    ]  # fmt: skip
    assert answers(rows) == [
        "At 5 keys per row, band is nearest to full attention: output error 0.20 [0.50, 0.50].",
        (
            "It replaces 4 heads, the best of 2 mechanisms that can be used. "
            "Next is linear (0.35 [0.50, 0.50]), a difference that is not tested here."
        ),
    ]
    assert answers(rows[:2]) == []


def test_a_figure_is_as_dense_after_it_was_drawn_for_a_page() -> None:
    figure = blank(2.0, 1.0)
    before = figure.dpi
    svg(figure, "name")
    assert figure.dpi == before


def test_the_figure_of_the_best_stays_in_its_panel_and_the_legend_in_the_figure(
    summary: pd.DataFrame,
) -> None:
    best = summary["mechanism"] == "sigma salience"
    wide = summary.assign(
        output_error_low=summary["output_error_low"].mask(best, 0.01),
        output_error_high=summary["output_error_high"].mask(best, 1.49),
    )
    figure = draw_comparison(wide, "encoder")
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    (said,) = (text for text in axes.texts if text.get_text() == "0.40")
    ends = axes.get_window_extent().extents
    inside = said.get_window_extent().extents
    assert ends[0] < inside[0] < inside[2] < ends[2]
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= 0
