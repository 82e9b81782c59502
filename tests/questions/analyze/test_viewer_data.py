"""What the viewer is given: limits, what is left out, and text that stays text."""

import json
import math
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from browser.planted_page import SCRIPT_ALERT, WORDS, planted_analysis, planted_matrices, remade
from oracles.page_weights import decoded

import attnlab.questions.analyze.measuring as measuring
from attnlab import plot
from attnlab.core import HEAD_COLUMNS, LOSS_CHANGE
from attnlab.core.errors import InputError
from attnlab.labels.verdict import NOT_COMPARED
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.kept_facts import best_sentences
from attnlab.questions.analyze.overview import highlights_of, overview_of
from attnlab.questions.analyze.view import terminal
from attnlab.questions.analyze.viewer import viewer_data
from attnlab.reading.keeping import KeptMatrices
from attnlab.reading.reading_notes import KeptInPart
from attnlab.results.page.rendering import render_page
from attnlab.results.result import Result
from attnlab.results.showing import show


@pytest.fixture(scope="module")
def analysis() -> Result:
    return planted_analysis()


def test_every_kept_matrix_is_in_the_page(analysis: Result) -> None:
    data = viewer_data(analysis, "t")
    assert data is not None
    assert not data.blocks
    assert not data.left_out
    assert "still the largest in" in render_page("t", {}, [], [], viewer=data)
    stored = {one.address: decoded(*astuple(one.encoded)) for one in data.weights}
    for (number, site, layer), matrix in analysis.matrices.matrices.items():
        found = stored[f"weights.{number}.{site}.{layer}"]
        torch.testing.assert_close(found.sqrt(), matrix.double().sqrt(), atol=1 / 500, rtol=0)


def test_facts_are_numbers_and_seen_text(analysis: Result) -> None:
    data = viewer_data(analysis, SCRIPT_ALERT)
    assert data is not None
    assert "<" not in data.facts
    facts = json.loads(data.facts)
    assert facts["title"] == SCRIPT_ALERT
    assert facts["sentences"][0]["sites"]["encoder"]["queries"] == WORDS
    head = facts["heads"][1]
    assert (head["name"], head["short"]) == ("encoder.0.1", "positional ✓")
    assert sum(chosen for *_, chosen in head["bits"]) == 1
    assert all(math.isfinite(mass) for _, mass in head["offsets"])


def test_nothing_kept_nothing_shown(analysis: Result) -> None:
    empty = replace(analysis, matrices=KeptMatrices())
    assert viewer_data(empty, "t") is None
    with pytest.raises(InputError, match="No matrices were kept; analyze with keep_matrices"):
        show(empty)
    assert repr(show(analysis, head="encoder.0.1")).startswith("HeadViewer(encoder.0.1, ")


def test_what_the_loss_is_without_a_head_is_said_once_and_where_it_was_measured(
    analysis: Result,
) -> None:
    heading = LOSS_CHANGE.column.heading
    unmeasured = analysis.labels.drop(columns=[column.name for column in LOSS_CHANGE])
    for result, times in ((analysis, 1), (remade(analysis, labels=unmeasured), 0)):
        assert set(result.labels["keys"]) == {"all", "content"}
        data = viewer_data(result, "t")
        assert data is not None
        heads = json.loads(data.facts)["heads"]
        said = [[line[0] for line in head["lines"]].count(heading) for head in heads]
        assert said == [times] * 6


@pytest.mark.parametrize("shape", [(5, 24, 24), (2, 3, 24, 24), (3, 2, 2, 24, 24)])
def test_of_a_file_of_matrices_beyond_the_limit_a_sentence_is_shown_in_part(
    shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "KEPT_BYTES", 2 * 24 * 60)
    matrices = np.random.default_rng(0).random(shape)
    np.savez(tmp_path / "matrices.npz", matrices / matrices.sum(-1, keepdims=True))
    found = analyze(tmp_path / "matrices.npz", structure_sentences=0, fit_sentences=0)
    (number,) = found.matrices.sentences
    queries = found.matrices.tokens[number, "unknown"][0]
    assert 1 <= len(queries) < 24
    assert KeptInPart(number, "unknown", len(queries), 24) in found.notes
    data = viewer_data(found, "t")
    assert data is not None
    assert [one["number"] for one in json.loads(data.facts)["sentences"]] == [number]


def test_a_sentence_beyond_its_limit_is_stored_as_block_maxima(analysis: Result) -> None:
    whole = viewer_data(analysis, "t")
    assert whole is not None
    size = max(len(one.encoded.text) for one in whole.weights)
    data = viewer_data(analysis, "t", most_sentence_bytes=size)
    assert data is not None
    block = data.blocks[0]
    assert block > 1
    assert data.weights[0].encoded.shape[1:] == (math.ceil(len(WORDS) / block),) * 2
    assert sum(len(one.encoded.text) for one in data.weights if ".0.encoder" in one.address) <= size
    page = " ".join(render_page("t", {}, [], [], viewer=data).split())
    assert (
        f"Of sentence 0 only the largest weight of every {block} by {block} tokens is stored"
        in page
    )
    assert "room. Attention is not explanation" in page


def test_rows_are_counted_only_where_all_weights_are_stored(analysis: Result) -> None:
    data = viewer_data(analysis, "t", most_sentence_bytes=1)
    assert data is not None
    assert data.largest_kept == (0, 0)
    page = " ".join(render_page("t", {}, [], [], viewer=data).split())
    assert "still the largest" not in page
    assert (
        "a weight is off by at most 0.004 (of the largest, where that is above 1). Of sentence 0 only"
        in page
    )
    assert "stored; of sentence 1 only" in page


def test_sentences_without_room_are_named(analysis: Result) -> None:
    data = viewer_data(analysis, "t")
    assert data is not None
    first = sum(
        len(one.encoded.text) for one in data.weights if one.address.startswith("weights.0.")
    )
    short = viewer_data(analysis, "t", most_page_bytes=first)
    assert short is not None
    assert short.left_out == (1,)
    assert "left out for want of room: 1;" in render_page("t", {}, [], [], viewer=short)


def test_long_sentences_have_small_pictures_too() -> None:
    long = planted_matrices((["w"] * 130,))
    analysis = remade(replace(planted_analysis(), matrices=long))
    data = viewer_data(analysis, "t")
    assert data is not None
    shapes = {one.address: one.encoded.shape for one in data.weights}
    assert shapes["weights.0.encoder.0"] == (3, 130, 130)
    assert shapes["small.0.encoder.0"] == (3, 44, 44)


def test_the_fitted_diagonal_is_the_planted_one(analysis: Result) -> None:
    data = viewer_data(analysis, "t")
    assert data is not None
    fits = json.loads(data.facts)["sentences"][0]["sites"]["encoder"]["fits"]["0"][1]
    diagonal = next(one for one in fits if one["name"] == "diagonal")
    assert diagonal["offsets"] == [-1, -1]
    columns = json.loads(data.facts)["sentences"][0]["sites"]["encoder"]["fits"]["0"][2]
    # The second column holds as much as the entries of E that it would take the room of.
    assert next(one for one in columns if one["name"] == "additive")["columns"] == [4]


def test_words_are_given_only_where_subwords_make_them(analysis: Result) -> None:
    data = viewer_data(analysis, "t")
    assert data is not None
    assert json.loads(data.facts)["sentences"][0]["sites"]["encoder"]["queryWords"] is None
    subwords = planted_matrices((["<s>", "▁cat", "s", "</s>"],))
    data = viewer_data(remade(replace(analysis, matrices=subwords)), "t")
    assert data is not None
    side = json.loads(data.facts)["sentences"][0]["sites"]["encoder"]
    assert side["keyWords"] == {"starts": [0, 1, 3], "names": ["<s>", "cats", "</s>"]}


def test_sentences_are_ranked_by_what_the_head_does(analysis: Result) -> None:
    data = viewer_data(analysis, "t")
    assert data is not None
    head = json.loads(data.facts)["heads"][1]
    assert head["bestBy"] == "by the share of rows at one offset"
    # All rows but the first, which is even and has its largest weight on itself: 9 of 10 and 6 of 7.
    assert head["best"] == [[0, "0.90"], [1, "0.86"]]


def test_maps_tell_significant_roles_from_those_that_are_only_confirmed(analysis: Result) -> None:
    overview = overview_of(analysis)
    cells = {
        cell.head: cell for _, row in overview.maps[0].rows for cell in row if cell is not None
    }
    assert {name: cells[f"encoder.{name}"].style for name in ("0.1", "1.1", "0.2")} == {
        "0.1": "filled", "1.1": "framed", "0.2": "partial",
    }  # fmt: skip
    assert cells["encoder.0.1"].detail == "-1"
    assert cells["encoder.0.0"].detail == "first token"
    assert [kind[1:] for kind in overview.maps[0].kinds] == [
        ("sink", "K", 2, "1 ✓"),
        ("positional", "P", 2, "1 ✓"),
        ("syntactic", "S", 2, ""),
    ]
    assert list(analysis.contents().answers) == [
        "2 of 6 heads have a role that is confirmed against controls: 1 positional, 1 sink.",
        "The loss rises most without encoder.0.2, by 0.020 nats per token.",
    ]
    assert [word for word, _ in overview.words] == [
        "closest role", "%", "✓", "shape", "loss",
    ]  # fmt: skip
    shown = {cell.short for one in overview.maps for _, cells in one.rows for cell in cells if cell}
    assert {word for word, _ in overview.definitions} == {"control"} | shown - {"·"}
    assert all(meaning for _, meaning in overview.definitions)
    assert len({one.head for one in overview.highlights}) == len(overview.highlights) == 3
    assert overview.highlights[0].reason == "Most needed"


def test_maps_tell_roles_that_no_control_is_compared_with(analysis: Result) -> None:
    labels = analysis.labels
    broad = labels["function"] == "positional"
    labels = labels.assign(
        function=labels["function"].mask(broad, "broad"),
        status=labels["status"].mask(broad, "confirmed"),
        significance=labels["significance"].mask(broad, "confirmed"),
    )
    overview = overview_of(remade(analysis, labels=labels))
    role = overview.maps[0]
    assert ("broad", "broad", "B", 2, "2 (✓)") in role.kinds
    assert dict(role.styles)["dashed"] == "(✓) confirmed, without a control"
    assert dict(role.styles)["filled"] == "✓ confirmed against controls"
    cells = {cell.kind: cell for _, row in role.rows for cell in row if cell}
    assert cells["broad"].style == "dashed"
    assert cells["broad"].meaning.endswith(" (✓)")
    clearest = {one.reason: one.phrase for one in overview.highlights}["Clearest role"]
    assert clearest.startswith("first token"), "significant before what is compared with no control"
    page = render_page("t", {}, [], [], overview=overview)
    assert "2 broad, 2 (✓)</li>" in page
    assert '<span class="swatch dashed">' in page
    assert ".cell.dashed" in page


def test_without_controls_nothing_is_said_of_significance(analysis: Result) -> None:
    labels = analysis.labels.assign(significance=NOT_COMPARED, significant_labels=NOT_COMPARED)
    quick = remade(analysis, labels=labels)
    overview = overview_of(quick)
    styles = dict(overview.maps[0].styles)
    assert set(styles) == {"dashed", "partial"}
    assert styles["dashed"] == "(✓) confirmed, without a control"
    assert ("sink", "K", 2, "2 (✓)") in [kind[1:] for kind in overview.maps[0].kinds]
    meanings = [cell.meaning for _, row in overview.maps[0].rows for cell in row if cell]
    assert any("(✓)" in meaning for meaning in meanings)
    assert not any(" ✓" in meaning for meaning in meanings)
    assert "significant" not in f"{styles} {overview.words} {quick.contents().answers}"


def test_a_strength_that_could_not_be_measured_has_no_bar_and_no_figure(analysis: Result) -> None:
    unmeasured = {"status": "undecided", "significance": "undecided", "strength": math.nan}
    overview = overview_of(remade(analysis, labels=analysis.labels.assign(**unmeasured)))
    cells = [cell for _, row in overview.maps[0].rows for cell in row if cell]
    assert {cell.strength for cell in cells} == {0}


def test_no_head_is_needed_or_clear_without_evidence(analysis: Result) -> None:
    labels = analysis.labels.assign(
        loss_change_low=-0.01, status="borderline", significance="borderline"
    )
    weak = remade(analysis, labels=labels)
    assert [one.reason for one in highlights_of(weak).values()] == ["Clearest shape"]


def test_a_head_with_the_clearest_role_and_shape_is_shown_with_both(analysis: Result) -> None:
    shown = highlights_of(analysis)
    role = next(head for head, one in shown.items() if one.reason.startswith("Clearest role"))
    first = (analysis.structure[[*HEAD_COLUMNS]] == [role.site, role.layer, role.head]).all(axis=1)
    band = analysis.structure["family"] == "band"
    bits = analysis.structure["bits_per_row"].mask(first & band, -9.0)
    both = highlights_of(remade(analysis, structure=analysis.structure.assign(bits_per_row=bits)))
    assert both[role].reason.endswith("learest role, clearest shape")
    assert "; band" in both[role].phrase
    assert not any(one.reason == "Clearest shape" for one in both.values())


def test_the_clearest_structure_is_one(analysis: Result) -> None:
    """Whatever the margin, no head is shown for that no family describes it."""
    bits = analysis.structure["bits_per_row"].mask(analysis.structure["family"] == "diffuse", -9.0)
    nothing = remade(analysis, structure=analysis.structure.assign(bits_per_row=bits))
    assert "Clearest shape" in {one.reason for one in highlights_of(analysis).values()}
    assert "Clearest shape" not in {one.reason for one in highlights_of(nothing).values()}


def test_where_most_heads_are_sinks_every_surface_leaves_special_tokens_out(
    analysis: Result,
) -> None:
    all_keys = analysis.labels["keys"] == "all"
    sinks = analysis.labels.assign(
        function=analysis.labels["function"].mask(all_keys, "sink"), status="confirmed"
    )
    for result, first, keys in (
        (analysis, "special tokens included", "all"),
        (remade(analysis, labels=sinks), "special tokens left out", "content"),
    ):
        overview = overview_of(result)
        assert f", {first}" in overview.maps[0].caption
        assert first not in overview.other_maps[0][0]
        [table] = terminal(result)
        assert f", {first}" in table.title
        assert set(result.summary["keys"]) == {keys}
        shown = result.labels[result.labels["keys"] == keys].set_index(HEAD_COLUMNS)
        named = result.summary.set_index(HEAD_COLUMNS)
        named = named[named["role"] != "none"]
        assert (shown.loc[named.index, "function"] == named["role"]).all()


def test_the_evidence_of_a_head_has_its_labels_alone_and_no_empty_column(analysis: Result) -> None:
    data = viewer_data(analysis, "t")
    assert data is not None
    for head in json.loads(data.facts)["heads"]:
        table = head["controls"]
        of_head = analysis.controls.query(
            f"layer == {head['layer']} and head == {head['head']} and keys == 'all'"
        )
        near = of_head["status"].isin(["confirmed", "borderline"])
        assert len(table["rows"]) <= near.sum() + 1
        cells = zip(*(row["cells"] for row in table["rows"]), strict=True)
        assert all(any(column) for column in cells)


def test_a_figure_of_the_table_of_heads_is_distributed_by_role(analysis: Result) -> None:
    (axes,) = plot.distribution(analysis, "normalised_entropy").axes
    drawn = [x for group in axes.collections for x in group.get_offsets()[:, 0]]
    assert sorted(drawn) == pytest.approx(sorted(analysis.heads["normalised_entropy"]))
    with pytest.raises(InputError, match="role is no column of numbers"):
        plot.distribution(analysis, "role", "strength")


def test_sentences_are_ranked_by_what_the_label_of_the_head_says() -> None:
    n = 6
    previous = torch.eye(n).roll(-1, 1)
    # Its largest weights go backwards while queries go on.
    across = torch.eye(n).flip(1)
    one_key = torch.zeros(n, n).index_fill(1, torch.tensor(2), 1.0)
    even = torch.full((n, n), 1 / n)
    kept = KeptMatrices(
        {
            (number, "encoder", 0): torch.stack([matrix] * 4)
            for number, matrix in enumerate((across, previous, one_key, even))
        }
    )
    names = [f"encoder.0.{head}" for head in range(4)]
    roles = dict(zip(names, ("positional", "sink", "broad", "syntactic"), strict=True))
    ranked = best_sentences(kept, roles)
    assert {name: ranked[name]["by"] for name in names} == dict(
        zip(names, ("positional", "sink", "broad", ""), strict=True)
    )
    first = {name: ranked[name]["sentences"][0] for name in names}
    # All but the first row attend to the previous token.
    assert first["encoder.0.0"] == [1, pytest.approx(5 / 6)]
    assert first["encoder.0.1"] == [2, 1.0]
    assert first["encoder.0.2"] == [3, pytest.approx(1.0)]
    assert [number for number, _ in ranked["encoder.0.3"]["sentences"]] == [2, 1, 0, 3]
