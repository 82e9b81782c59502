"""Structural labels of heads while a model runs, against the labels of whole matrices."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from planted_layers import layer, stochastic

from attnlab.core.processes import unwrapped, wrapped
from attnlab.labels.structure import HeadStructure
from attnlab.matrices.families import CODED
from attnlab.matrices.labels import label_heads
from attnlab.matrices.synthetic import draw_corpus

LENGTHS = [23, 17, 19, 14, 21]
COUNT = len(CODED)


def planted() -> list[torch.Tensor]:
    """Sentences of as many heads as families, one of each family."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor(LENGTHS)
    heads = [
        draw_corpus(family, lengths, noise=0.1, window=3, num_pos=2, generator=generator)
        for family in CODED
    ]
    return [
        torch.stack([head[number, :length, :length] for head in heads])
        for number, length in enumerate(LENGTHS)
    ]


def fed(matrices: list[torch.Tensor], *batches: range, sentences: int = 99, **options):
    found = HeadStructure(sentences)
    for batch in batches:
        chosen = [matrices[n] for n in batch]
        words = [["word"] * matrix.shape[-2] for matrix in chosen]
        found.update(layer(chosen, words, first=batch.start, **options))
    return found


def test_without_tokens_there_is_one_view() -> None:
    """All keys count as content, so that the other view would only cost its time."""
    matrices = planted()[:1]
    one = layer(matrices, [["word"] * LENGTHS[0]])
    with_tokens, without = HeadStructure(1), HeadStructure(1)
    with_tokens.update(one)
    without.update(replace(one, has_tokens=False))
    pd.testing.assert_frame_equal(without.families(), with_tokens.families(), check_exact=True)
    assert {keys for _, _, keys in with_tokens.sums} == {"all", "content"}
    assert {keys for _, _, keys in without.sums} == {"all"}


def test_planted_families_are_found_whatever_the_batches() -> None:
    matrices = planted()
    found = fed(matrices, range(3, 5), range(3))
    assert found.labels().structure.tolist() == list(CODED)
    families = found.families()
    assert families["head"].tolist() == sorted(list(range(COUNT)) * COUNT)
    wide = torch.zeros(COUNT, len(LENGTHS), 23, 23, dtype=torch.float64)
    for number, matrix in enumerate(matrices):
        wide[:, number, : matrix.shape[-1], : matrix.shape[-1]] = matrix
    sizes = torch.tensor([[n, n] for n in LENGTHS])
    whole = label_heads(wide, sizes=sizes[None])
    bits = torch.tensor(families.bits_per_row.to_list(), dtype=torch.float64).view(COUNT, COUNT)
    torch.testing.assert_close(bits, whole.bits_per_row)
    margins = found.labels().structure_margin_bits_per_row
    torch.testing.assert_close(torch.tensor(margins.to_list()).double(), whole.margin)
    assert set(families.rows_coded) == {sum(LENGTHS)}
    assert set(families.noise_fraction[families.family == "diffuse"]) == {1.0}
    labels = found.labels()
    assert labels.structure_tie.tolist() == (labels.structure_margin_bits_per_row < 0.02).tolist()
    costs = families.pivot(index="head", columns="family", values="bits_per_row")
    second = [costs.loc[head].nsmallest(2).index[1] for head in range(COUNT)]
    assert labels.structure_runner_up.tolist() == second


def test_rows_that_two_families_code_alike_are_a_tie() -> None:
    """Even rows over two keys: the band over both of them is the whole matrix."""
    even = [torch.full((5, 2, 2), 0.5, dtype=torch.float64) for _ in range(400)]
    assert fed(even, range(400), sentences=400).labels().structure_tie.all()
    # The diffuse head is one too: every family holds it, as nothing but noise.
    assert fed(planted(), range(5)).labels().structure_tie.tolist() == [
        True,
        *[False] * (COUNT - 1),
    ]


def test_only_the_first_sentences_are_taken() -> None:
    matrices = planted()
    few = fed(matrices, range(3), range(3, 5), sentences=2)
    pd.testing.assert_frame_equal(few.families(), fed(matrices, range(2)).families())
    assert fed(matrices, range(3, 5), sentences=2).labels().empty


def test_bits_are_summed_over_sentences_and_no_vote_is_taken() -> None:
    """Four short sentences that look back by one lose to a long one that looks at the start."""
    back = [0.9 * torch.eye(5, dtype=torch.float64).roll(-1, 1)[None] + 0.02 for _ in range(4)]
    start = torch.zeros(1, 61, 61, dtype=torch.float64)
    start[:, :, 0] = 1
    long = 0.9 * start + 0.1 / 61
    assert fed(back, range(4)).labels().structure.tolist() == ["diagonal"]
    assert fed([*back, long], range(5)).labels().structure.tolist() == ["column"]


def test_a_decoder_is_coded_as_causal() -> None:
    matrix = stochastic(2, 7, 7, causal=True)
    found = fed([matrix], range(1), site="decoder").families()
    expected = label_heads(matrix[:, None], causal=True).bits_per_row
    bits = torch.tensor(found.bits_per_row.to_list(), dtype=torch.float64).view(2, COUNT)
    torch.testing.assert_close(bits, expected)


def test_cross_attention_is_a_rectangle() -> None:
    matrix = stochastic(2, 7, 11)
    found = HeadStructure(1)
    found.update(layer([matrix], [["word"] * 7], [["word"] * 11], site="cross"))
    bits = torch.tensor(found.families().bits_per_row.to_list(), dtype=torch.float64).view(2, COUNT)
    torch.testing.assert_close(bits, label_heads(matrix[:, None]).bits_per_row)


def test_shares_of_several_processes_give_the_whole() -> None:
    matrices = planted()
    shares = [fed(matrices, range(2)), fed(matrices, range(2, 5)), fed(matrices)]
    merged = HeadStructure(99)
    merged.sums = sum((unwrapped(wrapped(one.sums)) for one in shares), merged.sums)
    whole = fed(matrices, range(5))
    pd.testing.assert_frame_equal(merged.families(), whole.families(), rtol=1e-12)


@pytest.mark.parametrize("sentences", [0, 3])
def test_nothing_seen_gives_empty_tables(sentences: int) -> None:
    assert HeadStructure(sentences).families().empty
    assert HeadStructure(sentences).labels().empty
