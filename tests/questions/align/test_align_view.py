"""What the page and the terminal show of an alignment, on a made-up result."""

import math
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_alignment import HEADS, LAYERS, NAMES, alignment, system
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline

from attnlab.core import InputError
from attnlab.labels import AER
from attnlab.questions.align.pair_figure import MOST_WORDS, STROKES, draw_pair, links_by_kind
from attnlab.questions.align.question import AER_CHANGE, ORACLE, QUESTION, SCORES, both_named
from attnlab.questions.align.score_figures import draw_calibration, draw_scores
from attnlab.questions.align.view import answer_of
from attnlab.results import Result, print_shown


def with_details(result: Result, **changed: Any) -> Result:
    return replace(result, details={**result.details, **changed})


# --- the answer ---


def test_a_clear_win_names_the_heads_their_score_and_the_best_default() -> None:
    assert answer_of(alignment()) == (
        "Head 0.2, read one step later, aligns best: AER 0.310 [0.290, 0.330] on 250 pairs, 21.0 points "
        "below the best of what engines take by default (first head of the last layer, AER 0.520 "
        "[0.500, 0.540])."
    )
    several = answer_of(alignment(chosen=[(0, 2), (1, 1), (2, 3)], row="output"))
    assert several.startswith(
        "Heads 0.2, 1.1 and 2.3, read at the step that predicts the word, align best: AER 0.310"
    )


@pytest.mark.parametrize(
    ("aer", "near"),
    [(0.501, "1.9 points above"), (0.539, "1.9 points below"), (0.52, "as good as")],
)
def test_defaults_that_are_as_good_are_what_the_first_sentence_begins_with(
    aer: float, near: str
) -> None:
    said = answer_of(alignment(aer=aer))
    assert said.startswith("The best of what engines take by default (first head of the last layer")
    assert f"is {near} the chosen head 0.2, read one step later, which has AER {aer:.3f} " in said
    assert "on 250 pairs (95 % interval of the difference [" in said
    # Intervals there are 5 points wide on either side.
    assert said.endswith("whether the two differ by more than 2 points these pairs do not tell.")


def test_defaults_that_are_surely_as_good_leave_little_to_gain() -> None:
    found = alignment(aer=0.51)
    default = found.systems["kind"] == "default"
    found.systems.loc[default, [AER_CHANGE.low, AER_CHANGE.high]] = [0.005, 0.015]
    said = answer_of(found)
    assert "is 1.0 points above the chosen head 0.2" in said
    assert said.endswith("[+0.5, +1.5]): that is within 2 points, so there is little to gain.")


def test_of_few_pairs_there_is_no_interval() -> None:
    for aer in (0.51, 0.55, 0.48):
        found = alignment(aer=aer)
        ends = [end for estimate in (AER, AER_CHANGE) for end in (estimate.low, estimate.high)]
        found.systems[ends] = math.nan
        said = answer_of(found)
        assert "[" not in said
        assert "nan" not in said
        assert "(too few pairs to tell from chance)" in said


def test_a_diagonal_that_aligns_better_is_told() -> None:
    found = alignment()
    row = {"system": "diagonal", "kind": "baseline", AER.name: 0.3, AER_CHANGE.name: -0.01}
    better = pd.DataFrame([row | {AER_CHANGE.low: -0.02, AER_CHANGE.high: -0.001}])
    found.tables["systems"] = pd.concat([found.systems, better], ignore_index=True)
    assert answer_of(found).endswith(
        " The diagonal, which reads no attention, aligns better than the chosen head (95 % interval of the "
        "difference [-2.0, -0.1])."
    )
    for end in (0.001, math.nan):
        found.tables["systems"].loc[len(found.systems) - 1, AER_CHANGE.high] = end
        assert "diagonal" not in answer_of(found)


def test_a_default_that_is_better_is_said_to_be() -> None:
    said = answer_of(alignment(aer=0.55))
    assert "aligns better than the chosen head 0.2" in said
    assert "3.0 points above it" in said
    assert "best:" not in said


def test_a_gain_that_may_be_chance_has_its_interval() -> None:
    said = answer_of(alignment(aer=0.48))
    assert said.endswith("(95 % interval of the difference [-1.0, +9.0], which holds 0).")
    assert "95 %" not in answer_of(alignment(aer=0.46))


def test_of_two_equal_defaults_the_first_is_named_and_one_alone_is_no_best() -> None:
    tied = {"first": ("2.0", 0.6), "second": ("2.1", 0.6)}
    assert "the best of what engines take by default (first, AER 0.600" in answer_of(
        alignment(defaults=tied)
    )
    alone = answer_of(alignment(defaults={"first": ("2.0", 0.6)}))
    assert "below what engines take by default (first, AER 0.600" in alone


def test_heads_that_another_choice_beats_are_not_called_best() -> None:
    found = alignment(aer=0.35)
    assert answer_of(found).startswith("Head 0.2, read one step later, has AER 0.350")


def test_without_gold_links_no_score_is_said() -> None:
    found = alignment(gold=False)
    assert answer_of(found) == (
        "Head 0.2, read one step later, was chosen by confidence, coverage, monotonicity, agreement on "
        "250 pairs; without gold links nothing says how good these links are."
    )
    assert list(found.contents().answers) == [answer_of(found)]
    missing = alignment()
    missing.systems[[name for one in SCORES for name in (one.name, one.low, one.high)]] = np.nan
    assert "AER" not in answer_of(missing)
    given = replace(found, about={**found.about, "Heads from": "heads.json"})
    assert "gives 4,321 links in 250 pairs" in answer_of(given)


def test_what_stands_beside_the_answer_is_ordered_by_kind_and_score() -> None:
    first, engines, without, nothing, gain = alignment().contents().answers
    assert first == answer_of(alignment())
    assert engines == (
        "Engines read the step that predicts the word (output row): CTranslate2 can average heads 2.1 and "
        "2.3, AER 0.450 [0.430, 0.470]; Marian can take head 1.0, AER 0.470 [0.450, 0.490]."
    )
    assert without == (
        "Without a choice: AER of statistical aligner 0.290 [0.270, 0.310], 2.0 points below the chosen "
        "heads; diagonal 0.630 [0.610, 0.650]; mean of the penultimate layer 0.660 [0.640, 0.680]."
    )
    assert nothing.startswith("Where there is nothing to find: AER of untrained twin")
    assert f"AER of {ORACLE} 0.300" in gain
    assert "1.0 points below" in gain


def test_many_heads_are_not_all_named_and_lines_to_copy_are_json() -> None:
    every = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    found = alignment(chosen=every)
    assert "2.0, 1.3" not in answer_of(found)
    assert "0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3 and 4 more" in answer_of(found)
    facts = alignment().contents().facts
    assert facts["generation_config.json (of Whisper)"] == '"alignment_heads": [[0, 2]]'
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
    assert not any("Engines read" in said for said in found.answers)


@pytest.mark.parametrize(
    ("aer", "said"), [(0.25, "6.0 points below"), (0.4, "9.0 points above"), (0.31, "as good as")]
)
def test_links_of_both_directions_are_compared_with_those_of_the_chosen_heads(
    aer: float, said: str
) -> None:
    name = both_named("union")
    made = with_details(alignment(), links_of=name)
    row = system(name, "choice", aer)
    found = replace(
        made, tables={**made.tables, "systems": pd.concat([made.systems, pd.DataFrame([row])])}
    )
    (told,) = (one for one in found.contents().answers if "are written" in one)
    assert told == (
        f"The links that are written are of both directions (union): AER {aer:.3f} "
        f"[{aer - 0.02:.3f}, {aer + 0.02:.3f}], {said} those of the chosen heads alone."
    )
    assert told in " ".join(str(next(iter(found.terminal())).caption).split())
    captions = [figure.caption for figure in found.contents().figures]
    assert any(f"links of {name} in pairs" in caption for caption in captions)


def test_chosen_heads_that_engines_can_take_have_their_score() -> None:
    """Their row is that of the chosen heads, since they are no other choice."""
    found = alignment(chosen=[(2, 1), (2, 3)], row="output")
    assert "average heads 2.1 and 2.3, AER 0.310 [0.290, 0.330]; Marian" in " ".join(
        found.contents().answers
    )


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
    drawn = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
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


def test_the_map_writes_the_error_of_every_head_and_rings_the_chosen() -> None:
    found = alignment(chosen=[(0, 2), (2, 1)])
    figure = draw_scores(found.heads, [(0, 2), (2, 1)], "input", link="#head=")
    output, input_ = figure.axes
    for axes, row in ((output, "output"), (input_, "input")):
        rows = found.heads[found.heads["row"] == row]
        assert [text.get_text() for text in axes.texts] == [f"{one:.2f}"[1:] for one in rows["aer"]]
    assert rings(figure) == [set(), {(0, 2), (2, 1)}]
    assert {text.get_url() for text in output.texts} == {None}
    assert [text.get_url() for text in input_.texts] == [f"#head={name}" for name in NAMES]


def test_the_map_without_gold_links_shows_the_score_without_them() -> None:
    heads = alignment(gold=False).heads
    figure = draw_scores(heads, [(0, 2)], "output")
    assert figure.texts[0].get_text().startswith("Score without gold of each head (more is better")
    assert rings(figure) == [{(0, 2)}, set()]
    missing = heads.assign(aer=np.nan)
    assert draw_scores(missing).texts[0].get_text().startswith("Score without gold")
    one_row = draw_scores(heads[heads["row"] == "input"])
    assert len(one_row.axes) == 1
    unknown = alignment().heads
    unknown.loc[0, "aer"] = np.nan
    assert draw_scores(unknown).axes[0].texts[0].get_text() == "-"
    with pytest.raises(InputError, match=r"lacks score_without_gold.*heads\.csv"):
        draw_scores(heads.drop(columns="score_without_gold"))


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (6, 8), (12, 16), (24, 16), (4, 20)])
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
    renderer = FigureCanvasAgg(figure).get_renderer()
    check_inside(figure)
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
    assert set(QUESTION.figures) == {"pair_*", "heads", "calibration"}


def test_a_curve_of_one_point_is_none() -> None:
    found = alignment()
    for curve in (found.calibration.tail(1), found.calibration.assign(aer=np.nan)):
        short = replace(found, tables={**found.tables, "calibration": curve})
        assert "calibration" not in short.figures
        assert len(list(short.terminal())) == 2
    assert len(list(found.terminal())) == 3


@pytest.mark.parametrize("gold", [True, False])
def test_columns_are_explained_once(gold: bool) -> None:
    *others, last = alignment(gold=gold).terminal()
    assert [table.legend for table in others] == [None] * len(others)
    assert ("AER: alignment error rate" in str(last.legend)) is gold
    assert "score without gold: geometric mean of confidence, coverage" in str(last.legend)
    assert "chosen: heads that are chosen together" in str(last.legend)


def test_all_pairs_are_no_draw() -> None:
    found = alignment()
    curve = found.calibration.copy()
    # All draws may choose the same heads, and one draw of all pairs is none.
    curve["aer_low"] = curve["aer_high"] = curve["aer"]
    curve["draws"] = [20] * (len(curve) - 1) + [1]
    *_, table = replace(found, tables={**found.tables, "calibration": curve}).terminal()
    assert [row[2] == "all pairs" for row in table.rows] == [False] * (len(curve) - 1) + [True]


def test_heads_that_were_given_have_no_map_and_no_pairs() -> None:
    given = pd.DataFrame({"layer": [0], "head": [2], "row": ["input"], "chosen": [True]})
    base = alignment(gold=False, sizes=())
    found = replace(base, tables={"systems": base.systems, "heads": given})
    assert found.figures == {}
    assert len(list(found.terminal())) == 1


# --- page and terminal ---


def printed(result: Result, capsys: pytest.CaptureFixture[str]) -> list[str]:
    for table in result.terminal():
        print_shown(replace(table, legend=None))
    return capsys.readouterr().out.splitlines()


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
    lines = printed(found, capsys)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    assert answer_of(found) in text
    assert f"best 10 of {LAYERS * HEADS}" in text
    if gold:
        own = found.heads[found.heads["row"] == "input"].sort_values("aer").head(10)
        ranked = [f"{layer}.{head}" for layer, head in zip(own["layer"], own["head"], strict=True)]
        assert [
            line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in NAMES
        ] == ranked
        for estimate in ("0.310 [0.290, 0.330]", "+0.210", "[0.340, 0.500]"):
            assert estimate in text


@pytest.mark.parametrize("gold", [True, False])
def test_a_page_holds_figures_and_tables_and_keeps_its_policy(gold: bool, tmp_path: Path) -> None:
    found = alignment(gold=gold)
    page = found.report(tmp_path).read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    for name in found.figures:
        assert f'<figure id="{name}">' in page
    assert page.count(">links of</th>") == 1
    assert "Left out for that reason" not in page
    assert page.count('xlink:href="#head=0.2"') == 2, "the cell and its number"
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


def test_without_gold_links_the_terminal_lists_heads_by_words_written_alike() -> None:
    found = alignment(gold=False)
    heads = found.heads[found.heads["row"] == found.details["row"]]
    ordered = heads.sort_values("alike", ascending=False).head(10)
    table = list(found.terminal())[1]
    assert [row[0] for row in table.rows] == [
        f"{one.layer}.{one.head}" for one in ordered.itertuples()
    ]
