"""What the page and the terminal show of an alignment, on a made-up result."""

import math
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from grids import slow
from made_alignment import HEADS, LAYERS, NAMES, alignment
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline

from attnlab.core import InputError
from attnlab.questions.align.pair_figure import MOST_WORDS, STROKES, draw_pair, links_by_kind
from attnlab.questions.align.question import AER_CHANGE, QUESTION, SCORES
from attnlab.questions.align.view import draw_calibration, draw_scores
from attnlab.results import Result, print_shown


def with_details(result: Result, **changed: Any) -> Result:
    return replace(result, details={**result.details, **changed})


# --- the answer ---


def answer_of(result: Result) -> str:
    (answer,) = result.answers
    return answer


def with_interval(result: Result, low: float, high: float) -> Result:
    """The difference of all defaults from the chosen heads has this interval."""
    default = result.systems["system_kind"] == "default"
    result.systems.loc[default, [AER_CHANGE.low, AER_CHANGE.high]] = [low, high]
    return result


def test_the_answer_names_the_heads_their_score_and_the_best_default() -> None:
    assert answer_of(alignment()) == (
        "Head 0.2, read one step later, has AER 0.310 [0.290, 0.330], better than what engines take by "
        "default (first head of the last layer); the statistical aligner, which reads no attention, is "
        "better by 0.020 [-0.030, 0.070], an interval that includes 0."
    )
    several = answer_of(alignment(chosen=[(0, 2), (1, 1), (2, 3)], row="output"))
    assert several.startswith(
        "Heads 0.2, 1.1 and 2.3, read at the step that predicts the word, have AER 0.310"
    )


@pytest.mark.parametrize(
    ("ends", "beside"),
    [
        ((0.001, 0.02), "better than"),
        ((-0.02, -0.001), "worse than"),
        ((-0.01, 0.01), "no better beyond chance than"),
        ((math.nan, math.nan), "of too few pairs to tell from"),
    ],
)
def test_the_interval_says_whether_a_default_is_as_good(
    ends: tuple[float, float], beside: str
) -> None:
    assert f", {beside} what engines take by default" in answer_of(
        with_interval(alignment(), *ends)
    )


def test_of_few_pairs_there_is_no_interval() -> None:
    found = alignment()
    ends = [name for name in found.systems if name.endswith(("_low", "_high"))]
    found.systems[ends] = math.nan
    said = answer_of(found)
    assert "has AER 0.310, of too few pairs to tell from" in said
    assert "nan" not in said


def test_the_best_that_reads_no_attention_is_told_with_the_difference() -> None:
    found = alignment(aer=0.2)
    assert "the statistical aligner, which reads no attention, is worse by 0.090" in answer_of(
        found
    )
    diagonal = found.systems["system"] == "diagonal"
    found.systems.loc[diagonal, ["aer", *(column.name for column in AER_CHANGE)]] = [
        0.15, -0.05, -0.08, -0.02, 0.01
    ]  # fmt: skip
    assert answer_of(found).endswith(
        "; the diagonal, which reads no attention, is better by 0.050 [0.020, 0.080]."
    )
    alone = found.systems[~found.systems["system_kind"].eq("baseline")]
    assert "reads no attention" not in answer_of(
        replace(found, tables={**found.tables, "systems": alone})
    )


def test_without_gold_links_no_score_is_said() -> None:
    found = alignment(gold=False)
    expected = (
        "Head 0.2, read one step later, gives 4,321 links in 250 pairs; without gold links nothing says how "
        "good these links are."
    )
    assert answer_of(found) == expected
    missing = alignment()
    scores = [name for one in SCORES for name in (one.name, one.low, one.high)]
    missing.systems[[*scores, *(column.name for column in AER_CHANGE)]] = np.nan
    assert answer_of(missing) == expected


def test_many_heads_are_not_all_named_and_lines_to_copy_are_json() -> None:
    every = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    assert "0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3 and 4 more" in answer_of(alignment(chosen=every))
    facts = alignment().contents().facts
    assert not any("Whisper" in name for name in facts), "these heads read text"
    assert facts["CTranslate2, heads 2.1 and 2.3"] == (
        "alignment_layer = 2, alignment_heads = 2, head_order = [1, 3, 0, 2]"
    )
    assert facts["Marian, head 1.0"] == "transformer-guided-alignment-layer: 2"


@pytest.mark.parametrize(
    ("row", "why"), [("input", "on the output row"), ("output", "several layers")]
)
def test_what_engines_cannot_be_told_is_said(row: str, why: str) -> None:
    none = {"ctranslate2": None, "marian": None}
    configuration = {**alignment().details["configuration"], **none}
    found = with_details(alignment(), configuration=configuration, row=row).contents()
    assert why in found.facts["CTranslate2"]
    assert not any("Marian" in name for name in found.facts)


# --- figures ---


def collections(figure: Figure) -> dict[str, int]:
    """How many lines the chosen heads have, by kind."""
    return {
        str(one.get_gid()).rpartition("-")[2]: len(one.get_segments())
        for one in figure.axes[0].collections
        if isinstance(one, LineCollection)
    }


def words_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("gold", [True, False])
def test_a_pair_has_its_words_in_boxes_and_a_line_for_each_link(gold: bool) -> None:
    found = alignment(gold=gold)
    for one in found.details["pairs"]:
        figure = draw_pair(one, gold=gold, heads=NAMES)
        assert words_of(figure) == [*one["source"], *one["target"]]
        links = {tuple(link) for link in one["links"]["chosen"]}
        sure, possible = ({tuple(link) for link in one[name]} for name in ("sure", "possible"))
        wanted = {"found": len(links)}
        if gold:
            wanted = {
                "right": len(links & sure), "possible": len((links & possible) - sure),
                "wrong": len(links - possible), "missed": len(sure - links),
                "possible_missed": len(possible - sure - links),
            }  # fmt: skip
        assert collections(figure) == {kind: count for kind, count in wanted.items() if count}
        assert sum(wanted.values()) == len(links | possible)


def test_every_head_has_its_links_in_the_figure_unseen() -> None:
    (one, *_) = alignment().details["pairs"]
    figure = draw_pair(one, gold=True, heads=NAMES)
    found: dict[str, int] = {}
    for path in figure.axes[0].findobj(PathPatch):
        _, head, kind = str(path.get_gid()).split("-")
        assert path.get_alpha() < 0.01
        if not kind.endswith("missed"):
            moves = int((path.get_path().codes == Outline.MOVETO).sum())
            found[head] = found.get(head, 0) + moves
    assert found == {name: len(one["links"][name]) for name in NAMES}
    assert not draw_pair(one, gold=True).axes[0].findobj(PathPatch)


def test_kinds_of_links_do_not_overlap_and_lose_none() -> None:
    generator = np.random.default_rng(0)
    cells = list(product(range(4), range(4)))
    for _ in range(50):
        found, sure, more = ({cell for cell in cells if generator.random() < 0.3} for _ in range(3))
        kinds = links_by_kind(found, sure, sure | more, gold=True)
        every = [link for links in kinds.values() for link in links]
        assert sorted(every) == sorted(found | sure | more)
        assert set(kinds["right"]) | set(kinds["missed"]) == sure
        assert set(kinds["wrong"]) == found - sure - more
        # The error rate by its definition, of what is drawn.
        right, possible, wrong = (len(kinds[name]) for name in ("right", "possible", "wrong"))
        assert right + possible + wrong == len(found)
    assert links_by_kind([(0, 1)], [], [], gold=False) == {"found": [(0, 1)]}


def test_kinds_differ_in_their_stroke_without_colour_too() -> None:
    assert len({(str(one.line), one.width) for one in STROKES.values()}) == len(STROKES)


def check_inside(figure: Figure) -> None:
    """All that is drawn lies within the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = figure.get_tightbbox(canvas.get_renderer())
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= figure.get_figwidth() + 1e-6
    assert drawn.y1 <= figure.get_figheight() + 1e-6


def boxes(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


@pytest.mark.parametrize("sizes", [(1, 1), (2, 15), (14, 14), (40, 36), (60, 45)])
def test_words_stay_in_their_boxes_and_boxes_apart(sizes: tuple[int, int]) -> None:
    one = alignment(sizes=[sizes]).details["pairs"][0]
    figure = draw_pair(one, gold=True)
    assert figure.get_figwidth() <= 12.4, "as wide as the page"
    renderer = FigureCanvasAgg(figure).get_renderer()
    found = boxes(figure)
    for text, box in zip(figure.axes[0].texts, found, strict=True):
        inner, outer = text.get_window_extent(renderer), box.get_window_extent(renderer)
        assert inner.x0 >= outer.x0
        assert inner.x1 <= outer.x1
        assert inner.y0 >= outer.y0
        assert inner.y1 <= outer.y1
        # A unit of the axes is an inch, in which the words were measured.
        inches = outer.x0 / figure.dpi, outer.width / figure.dpi, outer.height / figure.dpi
        assert inches == pytest.approx((box.get_x(), box.get_width(), box.get_height()))
    rows = [found[: min(sizes[0], MOST_WORDS)], found[min(sizes[0], MOST_WORDS) :]]
    for row in rows:
        for left, right in pairwise(row):
            assert left.get_x() + left.get_width() <= right.get_x()
    check_inside(figure)


@pytest.mark.parametrize("sizes", [(3, 9), (60, 45)])
def test_lines_join_the_middles_of_two_words(sizes: tuple[int, int]) -> None:
    figure = draw_pair(alignment(sizes=[sizes]).details["pairs"][0], gold=True)
    found, sources = boxes(figure), min(sizes[0], MOST_WORDS)
    middles = [
        {round(box.get_x() + box.get_width() / 2, 6) for box in row}
        for row in (found[:sources], found[sources:])
    ]
    lines = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    segments = [segment for line in lines for segment in line.get_segments()]
    assert segments
    for (start, _), (end, _) in segments:
        assert round(float(start), 6) in middles[0]
        assert round(float(end), 6) in middles[1]


def test_long_sentences_are_cut_and_say_so() -> None:
    one = alignment(sizes=[(60, 45)]).details["pairs"][0]
    one["sure"] = one["possible"] = [[0, 0], [59, 44]]
    # Those to the first words that are cut off are among them.
    one["links"] = {"chosen": [[0, 0], [1, 44], [59, 44], [0, MOST_WORDS], [MOST_WORDS, 0]]}
    figure = draw_pair(one, gold=True)
    assert len(words_of(figure)) == 2 * MOST_WORDS
    assert collections(figure) == {"right": 1}
    (note,) = figure.texts
    assert note.get_text() == "The first 40 words of 60 and 45; 4 links of the others left out."
    shorter = draw_pair(alignment(sizes=[(40, 3)]).details["pairs"][0], gold=True)
    assert not shorter.texts


def test_words_that_could_disturb_a_figure_are_drawn_as_they_are() -> None:
    one = {
        "source": ["<b>&", "$x$", "", "猫猫"], "target": ["a\u200bb", "w" * 80],
        "sure": [], "possible": [], "links": {"chosen": [[0, 0], [3, 1]]},
    }  # fmt: skip
    figure = draw_pair(one, gold=True)
    first, second, *_, hidden, long = words_of(figure)
    assert (first, second, hidden) == ("<b>&", "$x$", "a\\u200bb")
    assert len(long) == 18


def rings(figure: Figure) -> list[set[tuple[int, int]]]:
    return [
        {
            (int(one.get_y()), int(one.get_x()))
            for one in axes.patches
            if one.get_gid() == "chosen" and isinstance(one, Rectangle)
        }
        for axes in figure.axes
    ]


def links(axes: Any) -> dict[str, tuple[int, int]]:
    """Layer and head of each cell that leads to an address."""
    return {
        one.get_url(): (int(one.get_y()), int(one.get_x())) for one in axes.patches if one.get_url()
    }


def test_the_map_writes_the_error_of_every_head_and_rings_the_chosen() -> None:
    found = alignment(chosen=[(0, 2), (2, 1)])
    figure = draw_scores(found.heads, [(0, 2), (2, 1)], "input", link="#head=")
    output, input_ = figure.axes
    for axes, row in ((output, "output"), (input_, "input")):
        rows = found.heads[found.heads["row"] == row]
        assert [text.get_text() for text in axes.texts] == [f"{one:.2f}"[1:] for one in rows["aer"]]
    assert rings(figure) == [set(), {(0, 2), (2, 1)}]
    assert links(output) == {}
    assert links(input_) == {f"#head={name}": tuple(map(int, name.split("."))) for name in NAMES}


def test_the_map_without_gold_links_shows_the_score_without_them() -> None:
    heads = alignment(gold=False).heads
    figure = draw_scores(heads, [(0, 2)], "output")
    rows = heads[heads["row"] == "output"]["score_without_gold"]
    assert [text.get_text() for text in figure.axes[0].texts] == [f"{one:.2f}"[1:] for one in rows]
    assert rings(figure) == [{(0, 2)}, set()]
    one_row = draw_scores(heads[heads["row"] == "input"])
    assert len(one_row.axes) == 1
    unknown = alignment().heads
    unknown.loc[0, "aer"] = np.nan
    assert len(draw_scores(unknown).axes[0].texts) == LAYERS * HEADS - 1
    with pytest.raises(InputError, match=r"lacks score_without_gold.*heads\.csv"):
        draw_scores(heads.drop(columns="score_without_gold"))


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (6, 8), *slow((12, 16), (24, 16)), (4, 20)])
def test_no_text_leaves_a_map_of_any_size(layers: int, heads: int) -> None:
    table = pd.DataFrame(
        [
            (layer, head, row, 0.5)
            for row, layer, head in product(("output", "input"), range(layers), range(heads))
        ],
        columns=["layer", "head", "row", "aer"],
    )  # fmt: skip
    figure = draw_scores(table, [(0, 0)], "input")
    assert figure.get_figwidth() <= 12.4
    check_inside(figure)
    renderer = FigureCanvasAgg(figure).get_renderer()
    first, second = (axes.get_tightbbox(renderer) for axes in figure.axes)
    assert not first.overlaps(second)


def test_the_curve_has_its_points_its_band_and_a_line_for_each_default_and_the_bound() -> None:
    found = alignment()
    figure = draw_calibration(found.calibration, found.systems)
    (axes,) = figure.axes
    curve, *lines = axes.lines
    assert list(curve.get_xdata()) == [10, 25, 50, 100]
    assert list(curve.get_ydata()) == [0.4, 0.36, 0.33, 0.31]
    heights = sorted(float(line.get_ydata()[0]) for line in lines)
    assert heights == [0.3, 0.52, 0.61]
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in lines}) == 3
    (band,) = axes.collections
    assert band.get_paths()[0].get_extents().ymax == 0.5
    assert len(draw_calibration(found.calibration).axes[0].lines) == 1
    one = draw_calibration(found.calibration.head(1), found.systems)
    for drawn in (figure, one):
        check_inside(drawn)


@pytest.mark.parametrize("gold", [True, False])
def test_every_figure_is_declared_and_drawn(gold: bool) -> None:
    names = list(alignment(gold=gold).figures)
    assert names == ["heads", "pair_1", "pair_2", *(["calibration"] if gold else [])]
    assert set(QUESTION.figures) == {"heads", "pair_*", "calibration"}


def test_a_curve_of_one_point_is_none() -> None:
    found = alignment()
    for curve in (found.calibration.tail(1), found.calibration.assign(mean_aer=np.nan)):
        short = replace(found, tables={**found.tables, "calibration": curve})
        assert "calibration" not in short.figures


def test_the_first_pair_alone_has_a_legend() -> None:
    figures = alignment().figures
    assert [bool(figures[f"pair_{number}"].legends) for number in (1, 2)] == [True, False]


def test_heads_that_were_given_have_no_map_and_no_pairs() -> None:
    given = pd.DataFrame({"layer": [0], "head": [2], "row": ["input"], "chosen": [True]})
    base = alignment(gold=False, sizes=())
    found = replace(base, tables={"systems": base.systems, "heads": given})
    assert found.figures == {}


# --- page and terminal ---


@pytest.mark.parametrize("gold", [True, False])
@pytest.mark.parametrize("chosen", [[(0, 2)], [(0, 2), (1, 3), (2, 0)]])
def test_a_terminal_of_80_characters_shows_all(
    gold: bool,
    chosen: list[tuple[int, int]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = alignment(gold=gold, chosen=chosen)
    for table in found.terminal():
        print_shown(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    assert answer_of(found) in text
    assert ("AER: alignment error rate" in text) is gold
    if gold:
        assert "0.310 [0.290, 0.330]" in text
        assert "+0.21" in text


@pytest.mark.parametrize("gold", [True, False])
def test_a_page_holds_figures_and_tables_and_keeps_its_policy(gold: bool, tmp_path: Path) -> None:
    found = alignment(gold=gold)
    page = found.report(tmp_path).read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    for name in found.figures:
        assert f'<figure id="{name}">' in page
    assert page.count(">links of</th>") == 2, "few columns, and all of them folded"
    assert "Left out for that reason" not in page
    assert page.count('xlink:href="#head=0.2"') == 1
    assert 'id="pair_1-links-0.2-' in page
    assert 'id="pair_1-links-chosen-' in page
    assert "_blank" not in page
    assert ">Worth a look first<" not in page


def test_links_of_all_heads_of_a_large_model_do_not_push_figures_out(tmp_path: Path) -> None:
    found = alignment(sizes=[(40, 40)] * 8)
    many = [f"{layer}.{head}" for layer in range(24) for head in range(16)]
    generator = np.random.default_rng(1)
    for one in found.details["pairs"]:
        links = generator.integers(0, 40, (len(many), 40, 2)).tolist()
        one["links"] |= dict(zip(many, links, strict=True))
    page = found.report(tmp_path).read_text(encoding="utf-8")
    assert "Left out for that reason" not in page
    assert len(page.encode()) < 4 * 2**20
    assert 'id="pair_1-links-23.15-' in page
    assert 'id="pair_8-links-23.15-' not in page


def test_a_result_is_saved_and_drawn_again(tmp_path: Path) -> None:
    found = alignment()
    loaded = Result.load(found.save(tmp_path / "r"))
    assert loaded.answers == found.answers
    assert list(loaded.figures) == list(found.figures)
