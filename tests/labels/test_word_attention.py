"""Attention between words: to a word the sum, from a word the mean, row sums kept."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.words import merged_by_loops
from torch import Tensor

from attnlab.labels.gold import align_corpus
from attnlab.labels.treebank import load_treebank
from attnlab.labels.word_tokens import Alignment, gather_units, merge_tokens
from attnlab.reading.text_tokens import tokens_of


def random_weights(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(2).softmax(-1)


def test_by_hand() -> None:
    # [CLS] a b b [SEP]
    alignment = Alignment((None, 0, 1, 1, None), (0, 1))
    units = gather_units([alignment], torch.ones(1, 5, dtype=torch.bool))
    weights = torch.tensor(
        [
            [0.5, 0.5, 0.0, 0.0, 0.0],
            [0.0, 0.25, 0.25, 0.5, 0.0],
            [0.0, 1.0, 0.0, 0.0, 0.0],
            [0.25, 0.0, 0.25, 0.0, 0.5],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    # units: a, b, [CLS], [SEP]
    expected = torch.tensor(
        [
            [0.25, 0.75, 0.0, 0.0],
            [0.5, 0.125, 0.125, 0.25],
            [0.5, 0.0, 0.5, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    torch.testing.assert_close(
        merge_tokens(weights[None, None], units, units, special=True)[0, 0],
        expected,
        rtol=0,
        atol=0,
    )
    assert units.words.tolist() == [[True, True]]


@given(st.data())
def test_equals_loops_and_keeps_row_sums(data: st.DataObject) -> None:
    def alignment() -> Alignment:
        units = data.draw(st.integers(1, 5))
        sizes = [data.draw(st.integers(1, 3)) for _ in range(units)]
        inner = [unit for unit, size in enumerate(sizes) for _ in range(size)]
        before = [None] * data.draw(st.integers(0, 2))
        behind = [None] * data.draw(st.integers(0, 2))
        return Alignment((*before, *inner, *behind), tuple(range(units)))

    queries, keys = [[alignment() for _ in range(3)] for _ in range(2)]
    sizes = [[len(one.unit_of_token) for one in side] for side in (queries, keys)]
    visible = [torch.zeros(3, max(side) + 1, dtype=torch.bool) for side in sizes]
    left = data.draw(st.booleans())
    for side, lengths in zip(visible, sizes, strict=True):
        for sentence, length in enumerate(lengths):
            side[sentence, -length:] = left
            side[sentence, :length] |= not left
    scores = random_weights(3, 2, visible[0].shape[1], visible[1].shape[1])
    weights = scores * visible[0][:, None, :, None] * visible[1][:, None, None]
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
    q_units, k_units = (gather_units(a, v) for a, v in zip((queries, keys), visible, strict=True))
    merged = merge_tokens(weights, q_units, k_units, special=True)
    for sentence in range(3):
        rows, columns = (side[sentence].nonzero().flatten() for side in visible)
        for head in range(2):
            block = weights[sentence, head][rows][:, columns].tolist()
            expected = merged_by_loops(
                block, queries[sentence].unit_of_token, keys[sentence].unit_of_token
            )
            u, v = queries[sentence].units, keys[sentence].units
            found = merged[sentence, head]
            torch.testing.assert_close(
                found[:u, :v], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
            )
            torch.testing.assert_close(
                found[:u].sum(-1), torch.ones(u, dtype=torch.float64), rtol=0, atol=1e-12
            )
        assert q_units.words[sentence].sum() == queries[sentence].units


def test_sentence_without_alignment_has_no_units() -> None:
    visible = torch.tensor([[True, True, True], [True, True, False]])
    units = gather_units([None, Alignment((0, 1), (0, 1))], visible)
    assert units.words.tolist() == [[False, False], [True, True]]
    merged = merge_tokens(random_weights(2, 1, 3, 3), units, units, special=True)
    assert merged[0].abs().sum() == 0


def test_words_without_a_token_are_told_from_others() -> None:
    """Such as a word behind the end of a text that was cut."""
    visible = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    units = gather_units(
        [Alignment((None, 1, 1), (0, 1)), Alignment((0, 1), (0, 1)), None], visible
    )
    assert units.words.tolist() == [[True, True], [True, True], [False, False]]
    assert units.of_tokens.tolist() == [[False, True], [True, True], [False, False]]


def test_other_number_of_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="Sentence 0 of the batch has 3 tokens, its alignment 2"):
        gather_units([Alignment((0, 1), (0, 1))], torch.ones(1, 3, dtype=torch.bool))


def test_half_precision_is_summed_in_float32() -> None:
    alignment = Alignment((0,) * 61, (0,))
    units = gather_units([alignment], torch.ones(1, 61, dtype=torch.bool))
    weights = random_weights(1, 1, 61, 61).half()
    merged = merge_tokens(weights, units, units, special=True)
    assert merged.dtype == torch.float32
    torch.testing.assert_close(
        merged[0, 0, 0, 0].double(), weights.double().sum() / 61, rtol=0, atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "it", "de", "fr", "es"])
def test_row_sums_on_parallel_treebanks(shared_data, trained_byte_level, language: str) -> None:
    sentences = load_treebank(shared_data / "pud" / f"{language}.conllu.gz")
    tokenizer = trained_byte_level([sentence.text for sentence in sentences], 4000)
    tokens = tokens_of(tokenizer, [sentence.text for sentence in sentences])
    alignments = align_corpus(tokenizer, sentences, tokens).alignments
    found = [one for one in alignments if one is not None]
    assert len(found) >= 995
    for start in range(0, len(found), 100):
        group = found[start : start + 100]
        lengths = torch.tensor([len(one.unit_of_token) for one in group])
        visible = torch.arange(int(lengths.max())) < lengths[:, None]
        weights = random_weights(len(group), 1, *[visible.shape[1]] * 2, seed=start)
        weights = weights * visible[:, None, None]
        weights = weights / weights.sum(-1, keepdim=True)
        units = gather_units(group, visible)
        sums = merge_tokens(weights, units, units, special=True).sum(-1)[
            :, 0, : units.words.shape[1]
        ]
        torch.testing.assert_close(sums, units.words.double(), rtol=0, atol=1e-12)
