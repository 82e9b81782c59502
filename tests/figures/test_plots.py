"""Figures of tidy tables: what they show, what they refuse, and the same bytes each time."""

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from attnlab import plot
from attnlab.core.errors import InputError
from attnlab.figures.canvas import blank, panel, svg
from attnlab.figures.drawing import FUNCTIONS, STRUCTURES
from attnlab.figures.pareto import frontier
from attnlab.figures.scaling import crossover
from attnlab.questions.analyze.figures import distance_by_window
from attnlab.reading.statistics_columns import CONTENT_OFFSET_PREFIX, OFFSET_PREFIX

HEADS = pd.DataFrame(
    [("encoder", 0, 0, "positional; sink", "band"), ("encoder", 0, 1, "none", "diffuse"),
     ("encoder", 1, 0, "mine", "column"), ("encoder", 1, 1, "rare tokens", "rare_columns"),
     ("cross", 0, 0, "monotone", "band")],
    columns=["site", "layer", "head", "role", "structure"],
)  # fmt: skip


def weak() -> pd.DataFrame:
    """Roles of many heads, with strengths; the last one alone is confirmed."""
    heads = pd.DataFrame(
        {"site": "encoder", "layer": [n // 8 for n in range(24)], "head": [*range(8)] * 3}
    )
    strengths = [0.3 + n / 48 for n in range(23)] + [1.0]
    heads = heads.assign(
        role=["sink", "positional"] * 12, strength=strengths, detail="", control=0.1
    )
    return heads.assign(
        confirmed=[False] * 23 + [True],
        statistic="mean_mass_fraction",
        value=0.5,
        control_kind="equal rows",
    )


def fits() -> pd.DataFrame:
    """Means of bands of every head."""
    rows = [
        {"site": site, "layer": layer, "head": head, "approximation": "band", "window": window,
         "relative": 1 / (window + 1 + head), "equal_weights": 0.9 / (window + 1)}
        for site in ("encoder", "decoder", "cross")
        for layer in range(2)
        for head in range(2)
        for window in range(4)
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"window": "Int64"})


def offsets() -> pd.DataFrame:
    columns = {
        f"{prefix}{offset}": 0.1 + offset / 100
        for prefix in (OFFSET_PREFIX, CONTENT_OFFSET_PREFIX)
        for offset in range(-5, 6)
    }
    return HEADS[["site", "layer", "head"]].assign(**columns)


def priced() -> pd.DataFrame:
    return pd.DataFrame(
        [("a", 5, 0.5, "static"), ("a", 9, 0.3, "static"), ("b", 5, 0.4, "calibrated"),
         ("b", 9, 0.35, "calibrated"), ("c", 5, 3.0, "static"), ("best", 5, 0.01, "oracle")],
        columns=["mechanism", "budget", "output_error", "level"],
    )  # fmt: skip


def timed() -> pd.DataFrame:
    rows = [
        (name, tokens, start * tokens**power, 1e6 * tokens)
        for name, start, power in (("full", 1e-6, 2), ("band", 1e-4, 1), ("slow", 1.0, 1))
        for tokens in (32, 64, 128, 256)
    ]
    return pd.DataFrame(rows, columns=["mechanism", "tokens", "seconds_both", "peak_bytes"])


MATRICES = torch.arange(7 * 5 * 6).view(7, 5, 6) / 420

FIGURES: dict[str, Callable[[], Figure]] = {
    "heads": lambda: plot.heads(HEADS),
    "windows": lambda: plot.windows(fits()),
    "three sites, two side by side": lambda: plot.windows(fits(), width=plot.PAGE),
    "offsets": lambda: plot.offsets(offsets()),
    "offsets of content tokens": lambda: plot.offsets(offsets(), "content"),
    "strengths": lambda: plot.distribution(weak()),
    "matrices of a column": lambda: plot.matrices(MATRICES, width=plot.COLUMN, title="Heads"),
    "pareto": lambda: plot.pareto(priced()),
    "scaling": lambda: plot.scaling(timed()),
}


@pytest.mark.grid
@pytest.mark.parametrize("kind", [".svg", ".pdf", ".png"])
@pytest.mark.parametrize("name", FIGURES)
def test_the_same_table_gives_the_same_bytes(name: str, kind: str, tmp_path: Path) -> None:
    first, second = (plot.save(FIGURES[name](), tmp_path / f"{n}" / f"x{kind}") for n in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[:5] in {b"<?xml", b"%PDF-", b"\x89PNG\r"}


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_leaves_the_figure(name: str) -> None:
    check_text_fits(FIGURES[name]())


@pytest.mark.parametrize(
    ("heads", "tokens", "token"),
    [(1, 3, "a"), (1, 8, "internationalisation"), (1, 30, "a"), (2, 5, "W" * 12), (5, 1, "注意力")],
)
def test_matrices_are_as_wide_as_they_and_their_texts_need(
    heads: int, tokens: int, token: str
) -> None:
    names = [f"encoder.0.{head}\nrole: same token across" for head in range(heads)]
    texts = [token] * tokens
    figure = plot.matrices(
        torch.rand(heads, tokens, tokens), texts, texts, title="Sentence 0", names=names
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        check_text_fits(figure)
        drawn = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    assert drawn.width > 0.75 * figure.get_figwidth()


def check_text_fits(figure: Figure) -> None:
    figure.draw_without_rendering()
    drawn = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()


def test_a_figure_is_as_wide_as_a_column_of_a_paper() -> None:
    for name in ("heads", "offsets", "windows", "pareto"):
        assert FIGURES[name]().get_figwidth() == plot.COLUMN
    assert plot.heads(HEADS, width=5.0).get_figwidth() == 5


def test_a_notebook_shows_a_figure_without_pyplot() -> None:
    assert plot.heads(HEADS)._repr_png_().startswith(b"\x89PNG")


def test_a_written_figure_keeps_what_is_referred_to_and_every_letter() -> None:
    figure = blank(3.0, 2.0)
    axes = panel(figure, 0.5, 0.2, 2.0, 1.2)
    axes.plot([1e-6, 1], [0.123456, 12.3456], "o-")
    axes.text(0.2, 5, "id=1 12.34567 #head", gid="of-a-page")
    element = svg(figure, "one")
    identifiers = re.findall(r'id="([^"]*)"', element)
    referred = set(re.findall(r'(?:url\(#|href="#)([^)"]*)', element))
    assert set(identifiers) == {*referred, "one-of-a-page"}
    assert len(identifiers) == len(referred) + 1 > 3
    assert ">id=1 12.34567 #head<" in element


def test_a_picture_has_as_many_dots_an_inch_as_are_asked_for(tmp_path: Path) -> None:
    figure = FIGURES["heads"]()
    usual = plot.save(figure, tmp_path / "usual.png").read_bytes()
    wide = plot.save(figure, tmp_path / "wide.png", dpi=300).read_bytes()
    widths = [int.from_bytes(one[16:20], "big") for one in (usual, wide)]
    assert widths == [round(plot.COLUMN * 200), round(plot.COLUMN * 300)]
    assert plot.save(figure, tmp_path / "again.png").read_bytes() == usual
    with pytest.raises(InputError, match="dpi must be at least 1 and at most 2400, not 0"):
        plot.save(figure, tmp_path / "x.png", dpi=0)


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.svg, \.pdf, \.png"):
        plot.save(FIGURES["heads"](), tmp_path / "x.gif")


def colours_of(figure: Figure) -> list[set[str]]:
    return [
        {to_hex(pixel) for pixel in image.get_array().reshape(-1, 3)}
        for axes in figure.axes
        for image in axes.images
    ]


def test_a_head_has_the_colour_of_each_of_its_labels() -> None:
    encoder, cross = colours_of(plot.heads(HEADS))
    known = {FUNCTIONS[name].colour for name in ("positional", "sink", "none", "rare tokens")}
    assert known < encoder
    assert len(encoder) == 5, "a label of another distribution has a colour of its own"
    assert FUNCTIONS["monotone"].colour in cross
    encoder, _ = colours_of(plot.heads(HEADS, "structure"))
    assert encoder == {STRUCTURES[n].colour for n in ("band", "diffuse", "column", "rare_columns")}


def test_a_head_that_is_not_confirmed_has_a_bar_as_long_as_its_strength() -> None:
    table = weak()
    (axes,) = plot.heads(table).axes
    bars = {bar.get_xy(): bar.get_width() for bar in axes.patches}
    np.testing.assert_allclose([*bars.values()], table["strength"][:-1])
    assert [round(x) for x, _ in bars] == [*table["head"][:-1]]


def test_positional_heads_are_told_apart_by_their_offset() -> None:
    details = [f"offset {offset:+d}" for offset in (-1, 0, 1)]
    table = weak()[:8].assign(
        role="positional", confirmed=True, detail=[*details, *details, *details[:2]]
    )
    table.loc[7, ["role", "detail"]] = "sink", "first token"
    figure = plot.heads(table)
    drawn = [text.get_text() for text in figure.axes[0].texts]
    assert drawn == [*["P-1", "P0", "P+1"] * 2, "P-1", "K"]
    (legend,) = figure.legends
    assert "P positional, offset" in {text.get_text() for text in legend.get_texts()}
    narrow = plot.heads(table, width=1.6)
    assert {text.get_text() for text in narrow.axes[0].texts} == {"P", "K"}, "no room for more"


@pytest.mark.parametrize(("layers", "every"), [(2, True), (12, True), (13, False)])
def test_every_head_has_its_name_where_there_is_room(layers: int, every: bool) -> None:
    named = offsets().iloc[[0] * 12 * layers].reset_index(drop=True)
    heads = named.assign(layer=named.index // 12, head=named.index % 12)
    axes = plot.offsets(heads).axes[0]
    labels = axes.get_yticklabels()
    names = (heads["layer"].astype(str) + "." + heads["head"].astype(str)).to_list()
    assert [one.get_text() for one in labels] == (names if every else names[::12])
    axes.figure.draw_without_rendering()
    starts = [one.get_window_extent().y0 for one in labels]
    digits = 0.6 * labels[0].get_window_extent().height
    assert (np.diff(starts) < -digits).all(), "no name lies on another"


@pytest.mark.parametrize("by", ["role", "layer"])
def test_a_distribution_has_a_stroke_at_the_figure_of_each_head(by: str) -> None:
    table = weak()
    (axes,) = plot.distribution(table, by=by).axes
    drawn = [
        group.get_offsets()[:, 0] for group in axes.collections if isinstance(group, PathCollection)
    ]
    expected = [rows["strength"].to_numpy() for _, rows in table.groupby(by, sort=by == "layer")]
    for found, strengths in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(np.sort(found.data), np.sort(strengths))
    violins = [group for group in axes.collections if isinstance(group, PolyCollection)]
    assert len(violins) == (2 if by == "role" else 0), "of few heads their strokes are enough"


def test_matrices_stand_three_to_a_column_in_one_scale() -> None:
    figure = plot.matrices(MATRICES, width=plot.COLUMN)
    *panels, scale = figure.axes
    assert len(panels) == 7
    assert figure.get_figwidth() == plot.COLUMN
    grid = panels[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == (3, 3)
    for axes, matrix in zip(panels, MATRICES, strict=True):
        (image,) = axes.images
        assert image.get_clim() == (0, 1)
        np.testing.assert_allclose(image.get_array(), matrix)
    assert scale.get_xlabel().startswith("attention weight")


def test_stripes_of_a_head_fill_its_cell_from_left_to_right() -> None:
    names = ["positional; sink; broad", "sink"]
    table = pd.DataFrame({"site": "encoder", "layer": 0, "head": [0, 1], "label": names})
    figure = plot.heads(table, "label")
    (axes,) = figure.axes
    (row,) = axes.images[0].get_array()
    colours = [FUNCTIONS[name].colour for name in ("positional", "sink", "broad", *["sink"] * 3)]
    np.testing.assert_allclose(row, [to_rgb(colour) for colour in colours])
    middles = [text.get_position()[0] for text in axes.texts]
    np.testing.assert_allclose(middles, [1 / 6, 3 / 6, 5 / 6, 1.5])


@pytest.mark.parametrize("layers", [1, 5, 13])
def test_a_panel_of_heads_has_a_row_for_each_layer(layers: int) -> None:
    heads = [(site, layer, head) for site, count in (("encoder", layers), ("cross", 2))
             for layer in range(count) for head in range(3)]  # fmt: skip
    table = pd.DataFrame(heads, columns=["site", "layer", "head"]).assign(role="sink")
    figure = plot.heads(table)
    FigureCanvasAgg(figure).draw()
    cells = []
    for axes, count in zip(figure.axes, (layers, 2), strict=True):
        assert (axes.get_xlim(), axes.get_ylim()) == ((0, 3), (count, 0))
        assert axes.images[0].get_array().shape == (count, 3, 3)
        cells.append(axes.get_position().height * figure.get_figheight() / count)
    assert cells[0] == pytest.approx(cells[1], rel=0.02), "rows are as high at every site"


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="no column 'labels'; choose from: site"):
        plot.heads(HEADS, "labels")
    with pytest.raises(InputError, match="strength is a column of numbers and not of names"):
        plot.heads(weak(), "strength")
    with pytest.raises(InputError, match="lacks loss"):
        plot.pareto(priced(), value="loss")
    with pytest.raises(InputError, match="has no bands"):
        plot.windows(fits().assign(approximation="low rank"))


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_equal_weights_stand_beside_the_heads_of_a_site(site: str) -> None:
    found = distance_by_window(fits()).loc[site]
    assert list(found.index) == ["0.0", "0.1", "1.0", "1.1", "uniform"]
    np.testing.assert_allclose(found.loc["uniform"], [0.9 / (w + 1) for w in range(4)])
    np.testing.assert_allclose(found.loc["1.1"], [1 / (w + 2) for w in range(4)])


@pytest.mark.parametrize("larger", [False, True])
def test_nothing_beats_what_is_on_the_frontier(larger: bool) -> None:
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.integers(0, 6, (40, 2)), columns=["price", "value"])
    sign = -1 if larger else 1
    points = set(zip(table["price"], sign * table["value"], strict=True))
    wanted = {
        p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    }
    found = frontier(table, "price", "value", larger=larger)
    assert set(zip(found["price"], sign * found["value"], strict=True)) == wanted


def test_prices_of_several_sites_do_not_compare() -> None:
    several = pd.concat([priced().assign(sites=name) for name in ("encoder", "encoder, cross")])
    with pytest.raises(InputError, match="several sites \\(encoder; encoder, cross\\)"):
        plot.pareto(several)
    assert plot.pareto(several[several["sites"] == "encoder"]).axes


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (0.0, "width must be a number above 0"), (float("nan"), "width must be a number above 0"),
        (0.6, "width is 0.6 inches, which leaves no room"),
    ],
)  # fmt: skip
def test_a_figure_needs_room(width: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plot.pareto(priced(), width=width)


def test_an_oracle_is_no_candidate() -> None:
    (axes,) = plot.pareto(priced()).axes
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"a", "b", "others"}
    assert "1 above this axis" in {text.get_text() for text in axes.texts}


def test_nothing_below_zero_is_cut_off() -> None:
    table = pd.DataFrame({"mechanism": list("abc"), "keys": [3, 5, 7], "loss": [0.3, 0.05, -0.02]})
    (axes,) = plot.pareto(table, "keys", "loss").axes
    low, high = axes.get_ylim()
    assert low < -0.02
    assert high > 0.3


def test_where_full_attention_is_overtaken() -> None:
    assert crossover(timed(), "band") == 128
    assert np.isnan(crossover(timed(), "slow"))


def test_settings_of_matplotlib_stay() -> None:
    before = dict(mpl.rcParams)
    plot.heads(pd.DataFrame({"site": ["encoder"], "layer": [0], "head": [0], "role": ["sink"]}))
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_nothing_global_is_touched() -> None:
    code = """
import attnlab, matplotlib, pandas, sys
assert "attnlab.plot" not in sys.modules
plot = attnlab.plot
before = dict(matplotlib.rcParams)
plot.heads(pandas.DataFrame({"site": ["encoder"], "layer": [0], "head": [0], "role": ["sink"]}))
assert dict(matplotlib.rcParams) == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
