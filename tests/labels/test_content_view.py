"""The view of content tokens: what a head does where a special token takes most of its attention."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from oracles import content_view as oracle
from planted_layers import KINDS, layer, stochastic

from attnlab.labels.counting import HeadFunctions, TextSide
from attnlab.labels.label_tables import label_table
from attnlab.labels.rare import FREQUENT_TYPES
from attnlab.labels.structure import HeadStructure
from attnlab.matrices.labels import label_heads
from attnlab.reading.statistics import HeadStatistics
from attnlab.reading.weights import ALL, CONTENT, View

OPENED_BY_A_WORD = ["word", "word", "point", "word", "end"]
SHORT = ["start", "word", "point", "word", "word", "end"]
LONG = ["start", "word", "word", "point", "word", "end", "word", "word", "point", "end"]
MIDDLE = ["start", "word", "word", "word", "word", "word", "point"]
PADDED = [(site, left) for site in ("encoder", "decoder", "cross") for left in (False, True)]
TYPES = 900


def counts_of_types() -> torch.Tensor:
    """Types by falling frequency, so that the rank of a type is its number."""
    return torch.arange(TYPES, 0, -1)


def functions(site: str) -> HeadFunctions:
    text = TextSide(counts_of_types())
    return HeadFunctions(text, None if site == "encoder" else text)


def of_view(found: HeadFunctions, site: str, keys: View) -> SimpleNamespace:
    """The counts of layer 0 by the first word of their label."""
    counts = found.sums[site, 0]
    names = ("positional", "rare tokens", "sink", "broad")
    return SimpleNamespace(**{name.split()[0]: counts.get((name, keys)) for name in names})


def specials(words: list[str]) -> list[bool]:
    return ["special" in KINDS[kind] for kind in words]


def counted_rows(words: list[str], site: str) -> list[bool]:
    """In cross-attention the row of a token counts by the token that it predicts, the next one."""
    ordinary = [not special for special in specials(words)]
    return [*ordinary[1:], False] if site == "cross" else ordinary


def planted(site: str, seed: int):
    """Matrices, query and key words of three sentences; head 1 looks at special tokens alone at times."""
    queries = [SHORT, LONG, MIDDLE]
    keys = [LONG, MIDDLE, SHORT] if site == "cross" else queries
    matrices = []
    for number, (one, other) in enumerate(zip(queries, keys, strict=True)):
        matrix = stochastic(3, len(one), len(other), causal=site == "decoder", seed=seed + number)
        matrix[1, ::3] = 0.0
        matrix[1, ::3, 0] = 1.0
        matrices.append(matrix)
    return matrices, queries, keys


def given(site: str, left: bool, seed: int):
    """A batch whose padding holds NaN, and the ranks of the key tokens of every sentence."""
    matrices, queries, keys = planted(site, seed)
    batch = layer(matrices, queries, keys, site=site, left=left, padding=math.nan)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, TYPES, batch.keys.ids.shape, generator=generator)
    batch = replace(batch, keys=replace(batch.keys, ids=ids))
    ranks = [ids[n][batch.keys.real[n]].tolist() for n in range(3)]
    return batch, matrices, queries, keys, ranks


@pytest.mark.parametrize(("site", "left"), PADDED)
def test_every_count_equals_loops(site: str, left: bool) -> None:
    found = functions(site)
    sentences = {0: [], 1: [], 2: []}
    for seed in range(0, 30, 3):
        batch, matrices, queries, keys, ranks = given(site, left, seed)
        # The parity decides the half; every sentence of a batch has a number of its own.
        batch = replace(batch, sentences=(seed, seed + 1, seed + 2))
        parts = [batch]
        if site == "cross" and left:
            # Padding on the left moves rows and columns of a rectangle by different steps.
            parts = []
            for n in range(3):
                one = layer([matrices[n]], [queries[n]], [keys[n]], site=site, first=seed + n)
                ids = torch.tensor([ranks[n]])
                parts.append(replace(one, keys=replace(one.keys, ids=ids)))
        for part in parts:
            found.update(part)
        for head in range(3):
            sentences[head] += [
                (
                    matrices[n][head].tolist(),
                    counted_rows(queries[n], site),
                    specials(keys[n]),
                    ["punctuation" in KINDS[kind] for kind in keys[n]],
                    ranks[n],
                    site == "decoder",
                )
                for n in range(3)
            ]
    counts = of_view(found, site, CONTENT)
    for head, mine in sentences.items():
        if site == "cross":
            assert counts.positional is None
        else:
            at_offset = counts.positional.at_offset
            middle = at_offset.numerator.shape[-1] // 2
            for offset in (-3, -1, 0, 1, 2):
                expected = oracle.positional(mine, offset)
                column = middle + offset
                hits = at_offset.numerator.sum(0)[head, column].item()
                assert (hits, at_offset.denominator.sum(0)[head, column].item()) == expected, offset
        rows, hits = oracle.rare(mine, FREQUENT_TYPES)
        assert rows > 0
        if site == "encoder":
            assert counts.rare.two_rarest.denominator.sum(0)[head].item() == rows
            assert counts.rare.two_rarest.numerator.sum(0)[head].item() == hits
        else:
            assert counts.rare is None
        sink = counts.sink.mass
        assert counts.sink.kinds == ("punctuation", "first")
        for kind, expected in enumerate((oracle.punctuation(mine), oracle.first_position(mine))):
            share, rows = expected
            assert sink.denominator.sum(0)[head, kind].item() == rows
            mean = (sink.numerator.sum(0) / rows)[head, kind].item()
            assert mean == pytest.approx(share, rel=1e-12)
        entropy = counts.broad.entropy
        value = (entropy.numerator.sum(0) / entropy.denominator.sum(0))[head].item()
        assert value == pytest.approx(oracle.broad(mine), rel=1e-12)
        assert counts.broad.rows.sum(0)[head].item() == rows


@pytest.mark.parametrize(("site", "left"), PADDED)
def test_structure_is_that_of_the_matrices_without_special_tokens(site: str, left: bool) -> None:
    found = HeadStructure(99)
    batch, matrices, queries, keys, _ = given(site, left, 0)
    found.update(batch)
    families = found.families(CONTENT)
    for head in range(3):
        parts, empty = [], 0
        for matrix, rows, columns in zip(matrices, queries, keys, strict=True):
            part, without = oracle.content_matrix(
                matrix[head].tolist(), counted_rows(rows, site), specials(columns)
            )
            parts.append(torch.tensor(part, dtype=torch.float64))
            empty += without
        sizes = torch.tensor([part.shape for part in parts])
        wide = torch.zeros(1, 3, *sizes.amax(0).tolist(), dtype=torch.float64)
        for number, part in enumerate(parts):
            wide[0, number, : part.shape[0], : part.shape[1]] = part
        expected = label_heads(wide, sizes=sizes[None], causal=site == "decoder")
        mine = families[families["head"] == head]
        bits = torch.tensor(mine["bits_per_row"].to_list(), dtype=torch.float64)
        torch.testing.assert_close(bits, expected.bits_per_row[0])
        assert set(mine["rows_left_out"]) == {empty}
        assert set(mine["rows_coded"]) == {int(sizes[:, 0].sum()) - empty}
    assert (families["rows_left_out"] > 0).any(), "a head that looks at special tokens alone"


def sink_beside_a_diagonal(length: int, offset: int = -1, sink: float = 0.7) -> torch.Tensor:
    """0.7 on the first token, the rest on the token at the offset, one head."""
    matrix = torch.zeros(1, length, length, dtype=torch.float64)
    matrix[0, :, 0] = sink
    for i in range(length):
        matrix[0, i, min(max(i + offset, 0), length - 1)] += 1 - sink
    return matrix


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("site", ["encoder", "decoder"])
def test_a_sink_hides_no_diagonal(site: str, left: bool) -> None:
    found, structure, statistics = functions(site), HeadStructure(99), HeadStatistics()
    for first in range(0, 400, 40):
        words = [["start", *["word"] * (14 + n % 4), "end"] for n in range(40)]
        matrices = [sink_beside_a_diagonal(len(row)) for row in words]
        batch = layer(matrices, words, site=site, first=first, left=left, padding=math.nan)
        for consumer in (found, structure, statistics):
            consumer.update(batch)
    assert label_table(found.verdicts(ALL)).labels.tolist() == ["sink"]
    assert structure.labels(ALL).structure.tolist() == ["column_band"]
    assert label_table(found.verdicts(CONTENT)).labels.tolist() == ["positional"]
    verdicts = found.verdicts(CONTENT).set_index("label")
    assert (verdicts.detail["positional"], verdicts.value["positional"]) == ("offset -1", 1)
    assert structure.labels(CONTENT).structure.tolist() == ["diagonal"]
    families = structure.families(CONTENT)
    assert families[families.chosen].member.tolist() == ["offset -1"]
    row = statistics.heads().iloc[0]
    # Of 15.5 words on average the first looks at the start token alone, all others at the word before too.
    assert row["mass_on_special"] == pytest.approx(0.7 + 0.3 / 15.5, abs=1e-3)
    assert row["content_mass_at_offset_-1"] == pytest.approx(1.0)
    assert row["content_confidence"] == pytest.approx(1.0)
    assert row["rows_without_content_mass"] == 400, "the first word of every sentence"


def test_without_special_tokens_the_views_are_one() -> None:
    found, structure = functions("encoder"), HeadStructure(99)
    words = [["word", "point", *["word"] * 9]] * 4
    batch = layer([stochastic(3, 11, 11, seed=n) for n in range(4)], words)
    found.update(batch)
    structure.update(batch)
    every, content = (of_view(found, "encoder", keys) for keys in (ALL, CONTENT))
    assert torch.equal(*(one.positional.at_offset.numerator for one in (every, content)))
    assert torch.equal(*(one.rare.two_rarest.numerator for one in (every, content)))
    torch.testing.assert_close(every.broad.entropy.numerator, content.broad.entropy.numerator)
    one, other = structure.families(ALL), structure.families(CONTENT)
    assert one.bits_per_row.tolist() == pytest.approx(other.bits_per_row.tolist(), rel=1e-12)


def test_half_precision_and_tiny_weights_on_content_stay_finite() -> None:
    words = [["start", *["word"] * 3, "point", "end"]]
    matrix = torch.zeros(1, 6, 6)
    matrix[0, :, 0] = 1.0
    matrix[0, 2, 1], matrix[0, 3, 2] = 1e-40, 1e-30
    for weights in (matrix, matrix.half()):
        batch = layer([weights], words)
        assert torch.isfinite(batch.content_entropies).all()
        row_of = HeadStatistics()
        row_of.update(batch)
        assert math.isfinite(row_of.heads()["content_entropy_nats"].fillna(0).iloc[0])
        found = functions("encoder")
        found.update(batch)
        assert torch.isfinite(of_view(found, "encoder", CONTENT).sink.mass.numerator).all()


def test_a_row_without_weight_on_content_looks_at_no_content_token() -> None:
    # The first token is a word here: the first of equals, where all of them have nothing.
    words = [["word", "word", "word", "end"]]
    matrix = torch.zeros(1, 4, 4, dtype=torch.float64)
    matrix[..., 3] = 1.0
    found = functions("encoder")
    found.update(layer([matrix], words))
    counts = of_view(found, "encoder", CONTENT)
    assert counts.positional.at_offset.denominator.sum() > 0
    assert counts.positional.at_offset.numerator.sum() == 0
    assert counts.rare.two_rarest.numerator.sum() == 0


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_the_first_token_is_a_sink_among_content_unless_it_is_special(
    causal: bool, left: bool
) -> None:
    sentences = [OPENED_BY_A_WORD, SHORT, ["point", "word", "word"], OPENED_BY_A_WORD]
    site = "decoder" if causal else "encoder"
    matrices = [
        stochastic(2, len(words), len(words), causal=causal, seed=number)
        for number, words in enumerate(sentences)
    ]
    found = functions(site)
    found.update(layer(matrices, sentences, site=site, left=left, padding=math.nan))
    sink = of_view(found, site, CONTENT).sink
    column = sink.kinds.index("first")
    for head in range(2):
        told = [
            (matrix[head].tolist(), counted_rows(words, site), specials(words),
             [kind == "point" for kind in words], [0] * len(words), causal)
            for matrix, words in zip(matrices, sentences, strict=True)
        ]  # fmt: skip
        share, rows = oracle.first_position(told)
        assert sink.mass.numerator.sum(0)[head, column].item() == pytest.approx(share * rows)
        assert share > 0
        alone, _ = oracle.first_position(told[1:2])
        assert alone == 0, "a start token is no content"
