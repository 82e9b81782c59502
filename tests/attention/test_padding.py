"""Rule 2 with its teeth: NaN, infinity and the largest numbers in padding change nothing that is real."""

import math

import pytest
import torch
from attention_cases import ARRANGED, CAUSAL, CROSS, SPECS, build, forms_of, gradients, ids_of
from oracles.ragged import filled, padded_on, ragged
from torch import Tensor

from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.padding import HARMLESS, without_padding
from attnlab.attention.registry import make

pytestmark = pytest.mark.grid

TOKENS = 67
# Float64 is computed as float32 is, in its own precision; of the two this one overflows sooner.
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
EXACT = {"rtol": 0, "atol": 0}


def contents(dtype: torch.dtype) -> list[Tensor]:
    """NaN, infinity, and a mixture of infinite, largest and middling numbers of either sign."""
    largest = torch.finfo(dtype).max
    mixture = torch.tensor(
        [math.inf, -math.inf, largest, -largest, 2 * HARMLESS, math.nan], dtype=torch.float64
    )
    chosen = torch.randint(len(mixture), (TOKENS, 1), generator=torch.Generator().manual_seed(4))
    return [torch.tensor(math.nan), torch.tensor(math.inf), mixture.to(dtype)[chosen]]


def drawn(dtype: torch.dtype) -> list[Tensor]:
    return [tensor.to(dtype) for tensor in ragged(TOKENS)[:3]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("spec", "causal"), ARRANGED)
def test_content_of_padding_changes_nothing_real(
    spec: str, causal: bool, dtype: torch.dtype
) -> None:
    inputs, ids = drawn(dtype), ids_of(TOKENS)
    for form in forms_of(spec):
        mechanism = build(spec, causal=causal, form=form).to(dtype)
        for side in ("right", "left"):
            visible = padded_on(side, TOKENS)
            rows = visible[:, None, :, None]
            out, found = gradients(mechanism, inputs, visible, ids, visible)
            matrix = mechanism.implied_matrix(*inputs[:2], visible, token_ids=ids)
            assert all(bool(gradient.isfinite().all()) for gradient in found)
            with torch.no_grad():
                expected = mechanism(*inputs, visible, token_ids=ids)
            for content in contents(dtype):
                dirty = [filled(x, visible, content) for x in inputs]
                dirty_out, dirty_found = gradients(mechanism, dirty, visible, ids, visible)
                torch.testing.assert_close(dirty_out * rows, out * rows, **EXACT)
                for dirty_gradient, gradient in zip(dirty_found, found, strict=True):
                    torch.testing.assert_close(dirty_gradient * rows, gradient * rows, **EXACT)
                with torch.no_grad():
                    alone = mechanism(*dirty, visible, token_ids=ids)
                torch.testing.assert_close(alone * rows, expected * rows, **EXACT)
                weights = mechanism.implied_matrix(*dirty[:2], visible, token_ids=ids)
                torch.testing.assert_close(weights * rows, matrix * rows, **EXACT)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", CROSS)
def test_content_of_padding_changes_nothing_in_cross_attention(
    spec: str, dtype: torch.dtype
) -> None:
    query, ids = ragged(13)[0].to(dtype), ids_of(TOKENS)
    # A query of another sentence is real, whatever its size.
    query[:, :, -1] = 3 * HARMLESS
    inputs = [query, *drawn(dtype)[1:]]
    for form in forms_of(spec):
        mechanism = build(spec, cross=True, form=form).to(dtype)
        for side in ("right", "left"):
            visible = padded_on(side, TOKENS)
            out, found = gradients(mechanism, inputs, visible, ids)
            for content in contents(dtype):
                dirty = [query, *(filled(x, visible, content) for x in inputs[1:])]
                dirty_out, dirty_found = gradients(mechanism, dirty, visible, ids)
                torch.testing.assert_close(dirty_out, out, **EXACT)
                real = visible[:, None, :, None]
                torch.testing.assert_close(dirty_found[0], found[0], **EXACT)
                for dirty_gradient, gradient in zip(dirty_found[1:], found[1:], strict=True):
                    torch.testing.assert_close(dirty_gradient * real, gradient * real, **EXACT)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spec", "causal"), [case for case in ARRANGED if isinstance(build(case[0]), MaskedSoftmax)]
)
def test_a_bias_on_padding_changes_nothing_real(
    spec: str, causal: bool, dtype: torch.dtype
) -> None:
    inputs, ids = drawn(dtype), ids_of(TOKENS)
    generator = torch.Generator().manual_seed(2)
    bias = torch.randn(3, 2, TOKENS, TOKENS, generator=generator).to(dtype)
    mechanism = build(spec, causal=causal).to(dtype)
    for side in ("right", "left"):
        visible = padded_on(side, TOKENS)
        rows = visible[:, None, :, None]
        leaf = bias.clone().requires_grad_()
        out, found = gradients(mechanism, inputs, visible, ids, visible, bias=leaf)
        assert not torch.equal(out, gradients(mechanism, inputs, visible, ids)[0])
        for content in contents(dtype):
            dirty_bias = torch.where(
                visible[:, None, None, :], bias, (content.mT if content.ndim else content).to(dtype)
            )
            dirty = [filled(x, visible, content) for x in inputs]
            dirty_bias.requires_grad_()
            dirty_out, dirty_found = gradients(
                mechanism, dirty, visible, ids, visible, bias=dirty_bias
            )
            torch.testing.assert_close(dirty_out * rows, out * rows, **EXACT)
            for dirty_gradient, gradient in zip(dirty_found, found, strict=True):
                torch.testing.assert_close(dirty_gradient * rows, gradient * rows, **EXACT)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", SPECS)
def test_sentences_of_padding_alone_give_zero_and_finite_gradients(
    spec: str, dtype: torch.dtype
) -> None:
    inputs, ids = drawn(dtype), ids_of(TOKENS)
    visible = torch.zeros(3, TOKENS, dtype=torch.bool)
    for form in forms_of(spec):
        mechanism = build(spec, form=form).to(dtype)
        for content in contents(dtype):
            dirty = [filled(x, visible, content) for x in inputs]
            out, found = gradients(mechanism, dirty, visible, ids)
            assert torch.equal(out, torch.zeros_like(out))
            assert all(bool(gradient.isfinite().all()) for gradient in found)
            matrix = mechanism.implied_matrix(*dirty[:2], visible, token_ids=ids)
            assert torch.equal(matrix, torch.zeros_like(matrix))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spec", "causal"), [case for case in ARRANGED if isinstance(build(case[0]), MaskedSoftmax)]
)
def test_scores_far_apart_stay_within_the_support(
    spec: str, causal: bool, dtype: torch.dtype
) -> None:
    """Of scores so far apart the best key that is seen takes all; what is not seen scores higher."""
    size = {torch.float16: 3e4}.get(dtype, 1e30)
    tokens = 13
    visible, ids = padded_on("right", tokens), ids_of(tokens)
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(3))
    levels = torch.linspace(-size, size, tokens, dtype=torch.float64)[order]
    # Padding is better than all that is real, and scores below 0 than any mask that is too small.
    levels = torch.where(visible, levels.sort().values, size)
    key = levels.to(dtype)[:, None, :, None].expand(3, 2, tokens, 1).contiguous()
    query = torch.ones(3, 2, tokens, 1, dtype=dtype)
    value = torch.eye(tokens, dtype=dtype).expand(3, 2, -1, -1).contiguous()
    for form in forms_of(spec):
        mechanism = build(spec, causal=causal, form=form).to(dtype)
        assert isinstance(mechanism, MaskedSoftmax)
        support = mechanism.support(query, key, visible, token_ids=ids)
        scores = (query @ key.mT).double().masked_fill(~support, -math.inf)
        expected = torch.nn.functional.one_hot(scores.argmax(-1), tokens).to(dtype)
        expected = expected * support.any(-1, keepdim=True)
        matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
        torch.testing.assert_close(matrix, expected, **EXACT)
        out, found = gradients(mechanism, [query, key, value], visible, ids)
        torch.testing.assert_close(out, expected, **EXACT)
        assert all(bool(gradient.isfinite().all()) for gradient in found)


@pytest.mark.parametrize("spec", CAUSAL)
def test_padding_before_a_sentence_sees_no_later_key(spec: str) -> None:
    inputs, ids, visible = drawn(torch.float64), ids_of(TOKENS), padded_on("left", TOKENS)
    for form in forms_of(spec):
        mechanism = build(spec, causal=True, form=form)
        matrix = mechanism.implied_matrix(*inputs[:2], visible, token_ids=ids)
        assert not bool(matrix.triu(1).any())
        out = mechanism(*inputs, visible, token_ids=ids)
        torch.testing.assert_close(out, matrix @ inputs[2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", ["full", "longformer(window=2)", "linear", "topk(k=3)"])
def test_multi_head_attention_ignores_padded_keys_and_values(spec: str) -> None:
    second = spec.startswith("longformer")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = MultiHeadAttention(8, 2, make(spec), global_projections=second).double()
    tokens = torch.randn(3, TOKENS, 8, generator=torch.Generator().manual_seed(1)).double()
    keys, values = module.keys_and_values(tokens)
    visible = padded_on("right", TOKENS)
    expected, matrix = module(tokens, keys, values, visible, weights=True)
    for content in contents(torch.float64):
        dirty = [filled(x, visible, content) for x in (keys, values)]
        out, weights = module(tokens, *dirty, visible, weights=True)
        # Projections of copies: their last bits depend on where in memory these lie.
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(weights, matrix, rtol=0, atol=1e-12)


def test_what_is_harmless_stays_and_costs_no_copy() -> None:
    tokens = torch.full((1, 1, 2, 3), HARMLESS)
    visible = torch.tensor([[True, False]])
    assert without_padding(tokens, visible) is tokens
    assert without_padding(tokens, None) is tokens
    tokens[..., 0] = 2 * HARMLESS
    expected = tokens.clone()
    expected[0, 0, 1, 0] = 0
    assert torch.equal(without_padding(tokens, visible), expected)


def test_queries_of_another_sentence_are_not_padding() -> None:
    query, key, visible = torch.full((1, 1, 2, 3), 2 * HARMLESS), torch.zeros(1, 1, 2, 3), [[1, 0]]
    real = torch.tensor(visible).bool()
    for cross in (False, True):
        mechanism = make("full", cross=cross)
        assert isinstance(mechanism, MaskedSoftmax)
        kept = torch.equal(mechanism.real_tokens(query, key, real, 0)[0], query)
        assert kept == cross
