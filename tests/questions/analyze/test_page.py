"""The report page and its figures: whole, self-contained, explained, bounded."""

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from planted_layers import stochastic
from torch import Tensor
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.core.addresses import HEAD_COLUMNS, Head
from attnlab.core.errors import InputError
from attnlab.figures.canvas import INK, svg
from attnlab.figures.heatmaps import draw_heads, short
from attnlab.questions.analyze import view
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.figures import not_drawn
from attnlab.questions.analyze.overview import highlights_of
from attnlab.questions.analyze.question import QUESTION
from attnlab.questions.analyze.summary import summarise_heads
from attnlab.reading.keeping import KeptMatrices, load_kept_matrices
from attnlab.reading.statistics_columns import HEADS
from attnlab.results.export import columns_named
from attnlab.results.page.rendering import (
    PageFigure,
    Section,
    bundled_script,
    page_table,
    render_page,
)
from attnlab.results.result import Result
from attnlab.results.result_files import check_not_taken, files_of

ANALYSIS = files_of(QUESTION)
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Ids, outside references, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.ids, self.references, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in {"src", "href", "xlink:href", "srcset", "data"}:
                self.references.append(value)

    def handle_startendtag(self, tag, attributes) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def analysis() -> Result:
    return analyze(
        (random_models.marian(), tokenizer()),
        sentences=PAIRS,
        labels=False,
        keep_matrices=1,
        fit_sentences=3,
    )


@pytest.fixture(scope="module")
def folder(analysis: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "analysis"
    return replace(analysis, title="Heads of <b>a model</b>").save(folder)


def test_the_folder_holds_what_the_design_names(folder: Path, analysis: Result) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "summary.csv", "heads.csv", "head_distances.csv", "fits.csv", "structure.csv",
        "matrices.safetensors", "figures", "result.json", "report.html", "tables.md",
    }  # fmt: skip
    figures = {path.stem for path in (folder / "figures").glob("*.svg")}
    assert figures == {path.stem for path in (folder / "figures").glob("*.png")}
    assert figures == {"mass_by_offset", "distance_by_window"} | {
        f"heads_sentence0_{head.site}_layer{head.layer}" for head in highlights_of(analysis)
    }
    pd.testing.assert_frame_equal(pd.read_csv(folder / "heads.csv"), analysis.heads, rtol=1e-12)
    assert len(pd.read_csv(folder / "fits.csv")) == len(analysis.fits)
    assert list(load_kept_matrices(folder / "matrices.safetensors").matrices) == list(
        analysis.matrices.matrices
    )


def test_the_page_needs_nothing_else(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    reader = read(page)
    assert all(ref.startswith(("#", "data:image/png")) for ref in reader.references)
    targets = {ref[1:] for ref in reader.references if ref.startswith("#")}
    assert targets <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids)), "figures share identifiers"
    assert not re.search(r"@import|url\((?!#)", page)
    scripts = re.findall(r"<script[^>]*>", page)
    assert scripts.count('<script type="module">') == 1
    assert not [script for script in scripts if "src" in script]


def test_the_page_runs_no_script_but_its_own(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
    own = re.findall(r'<script type="module">(.*?)</script>', page, flags=re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy


def test_the_page_says_what_the_run_was_and_what_to_beware_of(
    folder: Path, analysis: Result
) -> None:
    text = " ".join(read((folder / "report.html").read_text(encoding="utf-8")).text)
    for value in analysis.about.values():
        assert value in text
    for note in analysis.notes:
        assert str(note) in text
    assert "Heads of <b>a model</b>" in text, "the title is text, not markup"
    assert "4 MiB" in text


def test_every_column_shown_is_explained(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    headings = re.findall(r'<th scope="col" title="([^"]+)"[^>]*>([^<]+)</th>', page)
    assert len(headings) > 15
    for meaning, heading in headings:
        assert f"<dt>{heading}</dt><dd>{meaning}</dd>" in page


def test_figures_beyond_the_budget_are_named() -> None:
    figures = tuple(PageFigure(f"figure{n}", f"<svg>{'x' * 60_000}</svg>", "c") for n in range(4))
    section = Section("s", "S", "t", figures=figures)
    page = render_page("T", {}, [], [section], most_bytes=200_000)
    assert len(page.encode()) - len(bundled_script()) <= 200_000
    assert page.count("<svg>") == 2
    assert "figure2, figure3" in page


def test_the_ink_of_figures_follows_the_page() -> None:
    figure = PageFigure("one", f'<svg><path style="stroke: {INK}"/></svg>', "caption")
    page = render_page("T", {}, [], [Section("s", "S", "t", figures=(figure,))])
    assert 'stroke: currentColor"' in page


def test_missing_numbers_are_empty_cells_and_unknown_columns_are_refused() -> None:
    frame = pd.DataFrame({"head_name": ["encoder.0.0"], "mean_offset": [float("nan")]})
    columns = columns_named(["head_name", "mean_offset"], HEADS.columns)
    assert page_table(frame, columns).rows == (("encoder.0.0", ""),)
    with pytest.raises(KeyError):
        columns_named(["new"], HEADS.columns)


def test_numbers_stand_at_the_right_and_text_at_the_left() -> None:
    frame = pd.DataFrame({"head_name": ["encoder.0.0"], "mean_offset": [0.5], "rows": [7]})
    table = page_table(frame, columns_named(["head_name", "mean_offset", "rows"], HEADS.columns))
    assert table.numeric == (False, True, True)
    page = render_page("T", {}, [], [Section("s", "S", "t", (table,))])
    assert '<td class="number">0.50</td><td class="number">7</td>' in page


def test_offset_columns_say_where() -> None:
    assert "2 tokens back" in HEADS["mass_at_offset_-2"].meaning
    assert "1 token ahead" in HEADS["mass_at_offset_1"].meaning
    assert HEADS["mass_at_offset_0"].heading == "at 0"


def test_a_heat_map_names_every_token_and_is_the_same_each_time() -> None:
    before = dict(mpl.rcParams)
    tokens = ["<s>", "▁the", "Ġcat", "internationalisation", "&", "▁ναί", "</s>"]
    draw = lambda: draw_heads(  # noqa: E731
        stochastic(8, 7, 7), tokens, tokens, title="Sentence 0", names=[f"h{n}" for n in range(8)]
    )
    element = svg(draw(), "one")
    assert element == svg(draw(), "one")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", element)
    for label in ("&lt;s&gt;", "_the", "_cat", "intern…ation", "&amp;", "_ναί", "&lt;/s&gt;"):
        assert texts.count(label) == 16, label
    assert dict(mpl.rcParams) == before


def test_labels_do_not_touch() -> None:
    """Room a token is at least the height of its label, on both axes."""
    tokens = [f"token{n}" for n in range(40)]
    figure = draw_heads(stochastic(2, 40, 40), tokens, tokens, title="t", names=["a", "b"])
    axes = figure.axes[0]
    box = axes.get_window_extent()
    size = axes.get_xticklabels()[0].get_fontsize() * figure.dpi / 72
    assert min(box.width, box.height) / 40 >= size


@pytest.mark.parametrize(("tokens", "columns"), [(7, 4), (18, 2), (60, 1)])
def test_as_many_heads_side_by_side_as_a_page_is_wide(tokens: int, columns: int) -> None:
    labels = ["word"] * tokens
    figure = draw_heads(
        stochastic(8, tokens, tokens), labels, labels, title="t", names=[f"h{n}" for n in range(8)]
    )
    tops = [round(axes.get_position().y1, 6) for axes in figure.axes[:8]]
    assert tops.count(tops[0]) == columns
    assert figure.get_figwidth() <= 14.9


def test_short_labels() -> None:
    assert short("twelve_chars") == "twelve_chars"
    assert len(short("x" * 99)) == 12


def test_a_finished_analysis_is_not_replaced_unasked(tmp_path: Path) -> None:
    check_not_taken(tmp_path / "new", ANALYSIS, overwrite=False)
    for name in ("report.html", "result.json"):
        (tmp_path / name).write_text(json.dumps({"result": ANALYSIS.what}))
    with pytest.raises(InputError, match="add --overwrite"):
        check_not_taken(tmp_path, ANALYSIS, overwrite=False)
    check_not_taken(tmp_path, ANALYSIS, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        check_not_taken(tmp_path / "report.html", ANALYSIS, overwrite=True)


@pytest.mark.parametrize(
    "name", ["heads.csv", "matrices.safetensors", "figures/mass_by_offset.svg"]
)
def test_files_of_the_same_names_are_never_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=f"holds {name} and no result.json of attnlab"):
            check_not_taken(tmp_path, ANALYSIS, overwrite=overwrite)


def test_only_figures_of_an_analysis_are_deleted(tmp_path: Path) -> None:
    np.save(tmp_path / "heads.npy", stochastic(2, 5, 7))
    analysis = analyze(tmp_path / "heads.npy", keep_matrices=0, fit_sentences=0)
    figures = tmp_path / "figures"
    figures.mkdir()
    for name in ("paper.txt", "mine.png"):
        (figures / name).write_text("mine")
    analysis.save(tmp_path)
    stale = figures / "heads_sentence9_encoder_layer0.svg"
    stale.write_text("old")
    with pytest.raises(InputError, match="holds a finished analysis"):
        analysis.save(tmp_path)
    analysis.save(tmp_path, overwrite=True)
    assert not stale.exists()
    assert (figures / "paper.txt").read_text() == (figures / "mine.png").read_text() == "mine"


def test_a_sentence_too_large_to_draw_is_named_with_the_reason(
    analysis: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = analysis.matrices
    sizes = {at: max(map(len, sides)) for at, sides in kept.tokens.items()}
    limit = sizes[0, "encoder"] - 1
    left_out = not_drawn(kept, limit)
    assert {(one.sentence, one.site, one.tokens, one.limit) for one in left_out} == {
        (*at, tokens, limit) for at, tokens in sizes.items() if tokens > limit
    }
    monkeypatch.setattr(view, "not_drawn", lambda kept: not_drawn(kept, 0))
    page = (analysis.save(tmp_path) / "report.html").read_text(encoding="utf-8")
    for (sentence, site), tokens in sizes.items():
        assert f"Not drawn: sentence {sentence} of the {site}, since it has {tokens} tokens" in page
    assert not list((tmp_path / "figures").glob("heads_sentence*"))


@pytest.mark.parametrize("chosen", ["first", "all"])
def test_matrices_of_the_heads_that_are_shown_first_are_drawn_or_all(
    analysis: Result, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(analysis, details={**analysis.details, "figures": chosen})
    drawn = []

    def draw(weights: Tensor, *_: object, names: list[str], title: str) -> Figure:
        # The title names a head that is drawn alone.
        drawn.append((weights, names if len(names) > 1 else [title.removeprefix("Sentence 0, ")]))
        return Figure()

    monkeypatch.setattr(view, "draw_matrices", draw)
    (part,) = view._matrices_parts(found)
    for _ in part.figures():
        pass
    heads = (
        sorted(highlights_of(found))
        if chosen == "first"
        else [Head(*row) for row in found.table[HEAD_COLUMNS].itertuples(index=False)]
    )
    assert 1 <= len(highlights_of(found)) <= 3
    assert sorted(name.split("\n")[0] for _, names in drawn for name in names) == sorted(
        map(str, heads)
    )
    each = {
        name.split("\n")[0]: one
        for weights, names in drawn
        for name, one in zip(names, weights, strict=True)
    }
    for head in heads:
        torch.testing.assert_close(
            each[str(head)], found.matrices.matrices[0, head.site, head.layer][head.head]
        )


def test_shares_stand_beside_the_rows_that_they_are_means_over(
    folder: Path, analysis: Result
) -> None:
    heads = analysis.heads
    fewer = (heads["rows_seeing_punctuation"] < heads["rows"]) & (
        heads["rows_seeing_punctuation"] > 0
    )
    assert fewer.any()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f">{HEADS['rows_seeing_punctuation'].heading}</th>" in page


@pytest.mark.parametrize("labelled", [False, True])
def test_heads_that_the_terminal_leaves_out_stand_in_the_files_it_names(
    analysis: Result, labelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [analysis.heads.assign(layer=analysis.heads["layer"] + 10 * n) for n in range(9)]
    many = pd.concat(copies, ignore_index=True)
    labels = pd.DataFrame()
    if labelled:
        keys = many[["site", "layer", "head"]]
        none = {
            "labels": "unknown", "significant_labels": "unknown", "function": "positional",
            "detail": "offset +0", "statistic": "argmax_rate", "status": "undecided", "value": math.nan,
            "counted": 9, "needed": 1000,
            "unit": "rows", "strength": math.nan, "significance": "undecided",
        }  # fmt: skip
        labels = keys.assign(keys="all", **none)
    empty = pd.DataFrame()
    summary = summarise_heads(many, structure=empty, labels=labels, controls=empty)
    tables = {"summary": summary, "heads": many}
    found = replace(analysis, tables=tables, matrices=KeptMatrices())
    (shown,) = found.terminal()
    assert len(shown.rows) == len(many), "all of them where no person looks"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    (shown,) = found.terminal()
    caption = str(shown.caption)
    count = int(caption.split()[1])
    assert count == len(many) - 48 > 0
    assert re.findall(r"\w+\.csv", caption) == ["summary.csv"]
    rows = found.tables["summary"]
    assert len(rows[["site", "layer", "head"]].drop_duplicates()) == len(
        many[["site", "layer", "head"]].drop_duplicates()
    )
