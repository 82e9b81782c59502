"""Statistics of heads: against loops, with planted answers, and merged."""

import math

import pandas as pd
import pytest
import torch
from oracles import head_statistics as oracle
from planted_layers import KINDS, layer, stochastic

import attnlab.matrices.batched as in_pieces
from attnlab.core.errors import InputError
from attnlab.reading.statistics import HeadStatistics

SHORT = ["start", "word", "point", "word", "end"]
LONG = ["start", "word", "word", "point", "word", "word", "end"]
PLAIN = ["word", "word", "word"]


def statistics(*layers):
    found = HeadStatistics(distances=True)
    for one in layers:
        found.update(one)
    return found


def kinds(rows):
    return [KINDS[kind] for kind in rows]


def counted_words(words, site):
    """In cross-attention a row goes by the token that it predicts, which the last row lacks."""
    return [*words[1:], "end"] if site == "cross" else words


def only_specials(matrix, words, specials) -> None:
    """Head 1 looks at special tokens alone in the rows of an even number."""
    if specials:
        weights = torch.zeros(len(words), dtype=matrix.dtype)
        weights[specials[0]] = 1.0
        matrix[1, 2::2] = weights


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_batched_statistics_equal_loops(site: str, left: bool) -> None:
    causal = site == "decoder"
    queries = [SHORT, LONG, PLAIN]
    keys = [LONG, PLAIN, SHORT] if site == "cross" else queries
    matrices = [
        stochastic(3, len(q), len(k), causal=causal, seed=n)
        for n, (q, k) in enumerate(zip(queries, keys, strict=True))
    ]
    for matrix, words in zip(matrices, keys, strict=True):
        specials = [k for k, kind in enumerate(words) if "special" in KINDS[kind]]
        only_specials(matrix, words, specials)
    # Rows of a cross-attention have positions of their own, so only one side of padding keeps offsets.
    together = not (left and site == "cross")
    batches = [slice(0, 3)] if together else [slice(n, n + 1) for n in range(3)]
    heads = statistics(
        *(
            layer(
                matrices[b], queries[b], keys[b], site=site, left=left, padding=math.nan,
                first=b.start,
            )
            for b in batches
        )
    ).heads()  # fmt: skip
    for head in range(3):
        sentences = [
            (m[head].tolist(), kinds(counted_words(q, site)), kinds(k), causal)
            for m, q, k in zip(matrices, queries, keys, strict=True)
        ]
        expected = oracle.statistics(sentences) | oracle.content_statistics(sentences)
        row = heads.iloc[head]
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("entries", [4, 20, 1 << 18])
def test_distances_between_heads_equal_loops(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_pieces, "CPU_ENTRIES", entries)
    matrix = stochastic(3, 7, 7, seed=5)
    table = statistics(layer([matrix], [LONG])).distances().set_index(["head", "other_head"])
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        expected = oracle.jensen_shannon_distance(
            matrix[one].tolist(), matrix[other].tolist(), kinds(LONG)
        )
        assert table.loc[(one, other), "js_distance"] == pytest.approx(expected, rel=1e-9)


def test_distance_of_equal_heads_is_0_and_of_disjoint_heads_1() -> None:
    identity = torch.eye(7, dtype=torch.float64)
    matrix = torch.stack([identity, identity, identity.roll(1, 0)])
    table = statistics(layer([matrix], [["word"] * 7])).distances()
    assert table["js_distance"].tolist() == pytest.approx([0.0, 1.0, 1.0], abs=1e-9)


def test_distances_are_taken_where_they_are_asked_for_alone() -> None:
    found = HeadStatistics()
    found.update(layer([stochastic(2, 3, 3)], [PLAIN]))
    assert "js_distance_to_others" not in found.heads()
    with pytest.raises(InputError, match="ask for them with distances=True"):
        found.distances()


def test_a_head_on_the_previous_token() -> None:
    matrix = torch.zeros(1, 7, 7, dtype=torch.float64)
    for i in range(7):
        matrix[0, i, max(i - 1, 0)] = 1.0
    row = statistics(layer([matrix], [LONG])).heads().iloc[0]
    # The first word looks at the start token, which is no content: 4 of 5 rows have a word before.
    assert row["mass_at_offset_-1"] == 1.0
    assert row["mean_offset"] == -1.0
    assert row["confidence"] == pytest.approx(4 / 5)
    assert row["entropy_nats"] == 0.0
    assert row["mass_on_opening"] == pytest.approx(1 / 5)


def test_a_uniform_head_has_the_largest_entropy_at_every_length() -> None:
    matrices = [torch.full((1, n, n), 1 / n, dtype=torch.float64) for n in (5, 7, 3)]
    row = statistics(layer(matrices, [SHORT, LONG, PLAIN])).heads().iloc[0]
    assert row["normalised_entropy"] == pytest.approx(1.0, rel=1e-12)


def test_a_sink_is_mass_on_one_token_and_no_confidence() -> None:
    matrix = torch.zeros(1, 7, 7, dtype=torch.float64)
    matrix[..., 6] = 1.0
    row = statistics(layer([matrix], [LONG])).heads().iloc[0]
    assert row["mass_on_closing"] == 1.0
    assert row["mass_on_opening"] == 0.0
    assert row["confidence"] == 0.0
    assert math.isnan(row["mean_offset"])


def test_what_no_row_can_see_is_missing_and_not_0() -> None:
    matrix = stochastic(2, 3, 3, causal=True)
    row = statistics(layer([matrix], [PLAIN], site="decoder")).heads().iloc[0]
    assert math.isnan(row["mass_at_offset_1"])
    assert math.isnan(row["mass_on_punctuation"])
    assert row["rows_seeing_punctuation"] == 0


def test_rows_that_see_no_key_are_counted() -> None:
    matrix = stochastic(2, 7, 7)
    matrix[1, 3] = 0.0
    assert statistics(layer([matrix], [LONG])).heads()["empty_rows"].tolist() == [0, 1]


def test_merging_is_associative_and_equals_one_pass() -> None:
    layers = [
        layer([stochastic(3, 5, 5, seed=n), stochastic(3, 7, 7, seed=n + 9)], [SHORT, LONG])
        for n in range(3)
    ]
    a, b, c = (statistics(one) for one in layers)
    whole = statistics(*layers)
    for merged in (a + b + c, a + (b + c), c + a + b):
        pd.testing.assert_frame_equal(merged.heads(), whole.heads(), rtol=1e-12)
        pd.testing.assert_frame_equal(merged.distances(), whole.distances(), rtol=1e-9)
    assert a.heads()["sentences"].tolist() == [2, 2, 2], "merging left its parts as they were"


def test_layers_that_only_one_share_saw_are_kept() -> None:
    one = statistics(layer([stochastic(2, 3, 3)], [PLAIN], number=1))
    other = statistics(layer([stochastic(2, 3, 3)], [PLAIN], site="cross"))
    merged = (other + one).heads()
    assert list(zip(merged["site"], merged["layer"], strict=True))[::2] == [
        ("encoder", 1),
        ("cross", 0),
    ]


def test_statistics_of_different_models_do_not_merge() -> None:
    one = statistics(layer([stochastic(2, 3, 3)], [PLAIN]))
    other = statistics(layer([stochastic(3, 3, 3)], [PLAIN]))
    with pytest.raises(InputError, match="different models do not add up"):
        _ = one + other


def test_nothing_seen_is_an_empty_table() -> None:
    assert HeadStatistics().heads().empty
