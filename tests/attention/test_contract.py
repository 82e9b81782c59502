"""The seven rules of every mechanism (attention.md section 3), on ragged batches in float64."""

import pytest
import torch
from attention_cases import (
    ARRANGED,
    CAUSAL,
    CROSS,
    FAST,
    SPECS,
    VOCABULARY,
    build,
    can,
    gradients,
)
from oracles.ragged import drawn_ids, padded_on, ragged

from attnlab.attention.kernels import union
from attnlab.attention.kernels.feature_products import orthogonal_directions
from attnlab.attention.mechanisms import fixed, linear, static
from attnlab.attention.mechanisms.bigbird import block_table
from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.registry import MECHANISMS, make, parse
from attnlab.core.errors import InputError

pytestmark = pytest.mark.grid

# 64 queries are a piece; a block is whole, the last one of 7 and 65 tokens is not.
TOKENS = [1, 2, 7, 65, 130]
# One piece and two, for the rules that other lengths cannot break.
FEW = [2, 65]
CLOSE = {"rtol": 0, "atol": 1e-12}


def test_every_mechanism_is_under_contract() -> None:
    assert {parse(spec).name for spec in SPECS if spec != "perhead"} == set(MECHANISMS)


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize(("spec", "causal"), [case for case in ARRANGED if case[0] in FAST])
def test_rule_1_fast_equals_dense_with_gradients(spec: str, causal: bool, tokens: int) -> None:
    *inputs, visible = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    dense = gradients(build(spec, causal=causal, form="dense"), inputs, visible, ids)
    fast = gradients(build(spec, causal=causal, form="fast"), inputs, visible, ids)
    torch.testing.assert_close(fast, dense, **CLOSE)
    with torch.no_grad():
        out = build(spec, causal=causal, form="fast")(*inputs, visible, token_ids=ids)
    torch.testing.assert_close(out, dense[0], **CLOSE)


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize(("spec", "causal"), ARRANGED)
def test_law_forward_is_the_implied_matrix_times_values(
    spec: str, causal: bool, tokens: int
) -> None:
    query, key, value, visible = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    mechanism = build(spec, causal=causal)
    matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
    out = mechanism(query, key, value, visible, token_ids=ids)
    torch.testing.assert_close(out, matrix @ value, **CLOSE)
    identity = torch.eye(tokens, dtype=torch.float64).expand(3, 2, -1, -1)
    fed = mechanism(query, key, identity, visible, token_ids=ids)
    torch.testing.assert_close(fed, matrix, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", TOKENS)
def test_rule_1_a_band_as_wide_as_the_sentence_is_full_attention(tokens: int, causal: bool) -> None:
    *inputs, visible = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    expected = gradients(build("full", causal=causal), inputs, visible, ids)
    for width in (tokens, tokens + 3):
        for form in ("dense", "fast"):
            band = build(f"band(window={width})", causal=causal, form=form)
            torch.testing.assert_close(gradients(band, inputs, visible, ids), expected, **CLOSE)


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize(("spec", "causal"), ARRANGED)
def test_rule_1_gradients_are_those_of_the_implied_matrix(
    spec: str, causal: bool, tokens: int
) -> None:
    *inputs, visible = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    mechanism = build(spec, causal=causal)
    _, found = gradients(mechanism, inputs, visible, ids)

    def through_matrix(query, key, value, visible, *, token_ids):
        return mechanism.implied_matrix(query, key, visible, token_ids=token_ids) @ value

    _, expected = gradients(through_matrix, inputs, visible, ids)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("tokens", FEW)
@pytest.mark.parametrize(("spec", "causal"), ARRANGED)
def test_rule_2_padding_content_is_not_seen(spec: str, causal: bool, tokens: int) -> None:
    query, key, value, visible = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    real = visible[:, None, :, None]
    for form in ("dense", "fast") if spec in FAST else ("auto",):
        mechanism = build(spec, causal=causal, form=form)
        torch.testing.assert_close(
            mechanism(query, key, value, visible, token_ids=ids),
            mechanism(
                query,
                torch.where(real, key, 100.0),
                torch.where(real, value, -100.0),
                visible,
                token_ids=torch.where(visible, ids, 0),
            ),
            rtol=0,
            atol=0,
        )


@pytest.mark.parametrize(("spec", "causal"), ARRANGED)
def test_rule_2_amount_of_padding_does_not_matter(spec: str, causal: bool) -> None:
    query, key, value, _ = ragged(130)
    ids = drawn_ids(130, VOCABULARY)
    mechanism = build(spec, causal=causal)
    short = mechanism(query[:, :, :67], key[:, :, :67], value[:, :, :67], token_ids=ids[:, :67])
    visible = (torch.arange(130) < 67).expand(3, -1)
    padded = mechanism(query, key, value, visible, token_ids=ids)[:, :, :67]
    torch.testing.assert_close(padded, short, **CLOSE)


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("spec", SPECS)
def test_rule_3_causal_hides_the_future_or_is_refused(spec: str, tokens: int) -> None:
    if spec not in CAUSAL:
        with pytest.raises(InputError, match="causal"):
            build(spec, causal=True)
        return
    query, key, value, _ = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    for form in ("dense", "fast") if spec in FAST else ("auto",):
        mechanism = build(spec, causal=True, form=form)
        for cut in sorted({1, tokens // 2, tokens - 1} - {0, tokens}):
            later = torch.arange(tokens)[:, None] >= cut
            changed = mechanism(
                query,
                torch.where(later, -3 * key, key),
                torch.where(later, value + 9, value),
                token_ids=torch.where(later[:, 0], VOCABULARY - 1 - ids, ids),
            )
            before = mechanism(query, key, value, token_ids=ids)
            torch.testing.assert_close(changed[:, :, :cut], before[:, :, :cut], **CLOSE)
            # Of two tokens 'previous' never looks at the last.
            blind = tokens == 2 or spec == "none"
            assert cut > 1 or blind or not torch.equal(changed, before)


@pytest.mark.parametrize("spec", SPECS)
def test_rule_3_cross_attention_holds_or_is_refused(spec: str) -> None:
    if spec not in CROSS:
        with pytest.raises(InputError, match="no cross form"):
            build(spec, cross=True)
        return
    query, key, value, visible = ragged(13, 67)
    ids = drawn_ids(67, VOCABULARY)
    for form in ("dense", "fast") if spec in FAST else ("auto",):
        mechanism = build(spec, cross=True, form=form)
        matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
        out = mechanism(query, key, value, visible, token_ids=ids)
        torch.testing.assert_close(out, matrix @ value, **CLOSE)
        step = mechanism(query[:, :, 5:6], key, value, visible, token_ids=ids, first_query=5)
        torch.testing.assert_close(step, out[:, :, 5:6], **CLOSE)
    longer = build(spec, cross=True)
    long_query = ragged(71, 7)
    matrix = longer.implied_matrix(*long_query[:2], long_query[3], token_ids=ids[:, :7])
    out = longer(*long_query, token_ids=ids[:, :7])
    torch.testing.assert_close(out, matrix @ long_query[2], **CLOSE)


@pytest.mark.parametrize("tokens", FEW)
@pytest.mark.parametrize("spec", SPECS)
def test_rule_4_row_without_keys_gives_zero_and_finite_gradients(spec: str, tokens: int) -> None:
    *inputs, visible = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    for form in ("dense", "fast") if spec in FAST else ("auto",):
        mechanism = build(spec, form=form)
        out, found = gradients(mechanism, inputs, visible, ids)
        assert torch.equal(out[2], torch.zeros_like(out[2]))
        assert all(bool(gradient.isfinite().all()) for gradient in found)
    matrix = mechanism.implied_matrix(*inputs[:2], visible, token_ids=ids)
    assert torch.equal(matrix[2], torch.zeros_like(matrix[2]))


@pytest.mark.parametrize("tokens", FEW)
@pytest.mark.parametrize("spec", SPECS)
def test_rule_5_rows_of_what_is_called_weights_sum_to_one(spec: str, tokens: int) -> None:
    query, key, _, visible = ragged(tokens)
    mechanism = build(spec)
    matrix = mechanism.implied_matrix(query, key, visible, token_ids=drawn_ids(tokens, VOCABULARY))
    assert not bool(matrix.masked_select(~visible[:, None, None, :]).any())
    sums = matrix.sum(-1)
    # Rows of padding may see keys or not; rows of the sentence have to.
    sums = sums.where(visible[:, None, :], 1.0)
    if spec == "none":
        assert not bool(matrix.any())
    elif mechanism.traits.stochastic:
        torch.testing.assert_close(sums, torch.ones_like(sums), **CLOSE)
        assert bool((matrix >= 0).all())
    else:
        assert bool(((sums - 1).abs() > 1e-3).any())


@pytest.mark.parametrize("tokens", [*TOKENS, 67])
@pytest.mark.parametrize("spec", [spec for spec in CAUSAL if can(spec, "cached")])
def test_rule_6_one_query_at_a_time_equals_all_at_once(spec: str, tokens: int) -> None:
    query, key, value, _ = ragged(tokens)
    ids = drawn_ids(tokens, VOCABULARY)
    mechanism = build(spec, causal=True)
    whole = mechanism(query, key, value, token_ids=ids)
    steps = ((0, 1), (1, 2), (30, 33), (64, 65), (65, 66), (66, 67), (tokens - 1, tokens))
    for first, last in (step for step in steps if step[1] <= tokens):
        step = mechanism(
            query[:, :, first:last],
            key[:, :, :last],
            value[:, :, :last],
            token_ids=ids[:, :last],
            first_query=first,
        )
        torch.testing.assert_close(step, whole[:, :, first:last], **CLOSE)


@pytest.mark.parametrize("spec", SPECS)
def test_rule_6_global_random_state_stays(spec: str, untouched_randomness: None) -> None:
    query, key, value, visible = ragged(70)
    out = build(spec)(query, key, value, visible, token_ids=drawn_ids(70, VOCABULARY))
    assert bool(out.isfinite().all())


@pytest.mark.parametrize("tokens", FEW)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("spec", SPECS)
def test_rule_7_sixteen_bits_stay_finite(spec: str, dtype: torch.dtype, tokens: int) -> None:
    query, key, value, visible = ragged(tokens)
    query, key, value = ((8 * x).to(dtype) for x in (query, key, value))
    ids = drawn_ids(tokens, VOCABULARY)
    for form in ("dense", "fast") if spec in FAST else ("auto",):
        mechanism = build(spec, form=form).to(dtype)
        out, found = gradients(mechanism, [query, key, value], visible, ids)
        matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
        assert out.dtype == matrix.dtype == dtype
        assert bool(out.isfinite().all())
        assert bool(matrix.isfinite().all())
        assert all(bool(gradient.isfinite().all()) for gradient in found)


@pytest.mark.parametrize("spec", SPECS)
def test_support_holds_every_weight(spec: str) -> None:
    mechanism = build(spec)
    query, key, _, visible = ragged(16)
    ids = drawn_ids(16, VOCABULARY)
    if not isinstance(mechanism, MaskedSoftmax):
        return
    support = mechanism.support(query, key, visible, token_ids=ids)
    matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
    torch.testing.assert_close(support, matrix > 0)


@pytest.mark.parametrize("spec", [*SPECS, "sigma(window=1, num_pos=0)"])
def test_what_depends_on_token_ids_says_so(spec: str) -> None:
    mechanism = build(spec)
    query, key, _, visible = ragged(16)
    ids = drawn_ids(16, VOCABULARY)
    matrix, moved = (
        mechanism.implied_matrix(query, key, visible, token_ids=one)
        for one in (ids, VOCABULARY - 1 - ids)
    )
    assert getattr(mechanism, "uses_tokens", False) is not torch.equal(matrix, moved)


@pytest.mark.parametrize("spec", SPECS)
def test_without_dropout_training_is_evaluation(spec: str) -> None:
    """BigBird of transformers draws other blocks, or none, in each."""
    query, key, value, visible = ragged(65)
    ids = drawn_ids(65, VOCABULARY)
    for form in ("dense", "fast") if spec in FAST else ("auto",):
        mechanism = build(spec, form=form)
        expected = mechanism(query, key, value, visible, token_ids=ids)
        out = mechanism.train()(query, key, value, visible, token_ids=ids)
        torch.testing.assert_close(out, expected, **CLOSE)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "none"])
def test_dropout_only_in_training_and_right_on_average(spec: str) -> None:
    query, key, value, visible = ragged(7)
    ids = drawn_ids(7, VOCABULARY)
    mechanism = build(spec, dropout=0.25)
    expected = mechanism(query, key, value, visible, token_ids=ids)
    mechanism.train()
    copies = [tensor.repeat(50, *[1] * (tensor.ndim - 1)) for tensor in (query, key, value)]
    where = {"visible": visible.repeat(50, 1), "token_ids": ids.repeat(50, 1)}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        drawn = torch.cat([mechanism(*copies, **where) for _ in range(8)]).view(
            400, *expected.shape
        )
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[:50], drawn[50:100]), "each call draws anew"
    torch.testing.assert_close(drawn.mean(0), expected, rtol=0, atol=0.35)
    torch.testing.assert_close(
        mechanism.eval()(query, key, value, visible, token_ids=ids), expected
    )


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_drawn_in_inference_mode_serves_training(spec: str) -> None:
    block_table.cache_clear()
    orthogonal_directions.cache_clear()
    query, key, value, visible = ragged(7)
    ids = drawn_ids(7, VOCABULARY)
    mechanism = build(spec)
    with torch.inference_mode():
        first = mechanism(query, key, value, visible, token_ids=ids)
    out, _ = gradients(mechanism, [query, key, value], visible, ids)
    torch.testing.assert_close(out, first, **CLOSE)


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize(
    ("spec", "causal"),
    [case for case in ARRANGED if case[0].startswith(("band", "longformer", "sigma", "linear"))],
)
def test_queries_or_heads_in_pieces_change_nothing(
    spec: str, causal: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    *inputs, visible = ragged(65)
    ids = drawn_ids(65, VOCABULARY)
    mechanism = build(spec, causal=causal, form="fast" if spec in FAST else "auto")
    whole, expected = gradients(mechanism, inputs, visible, ids)
    monkeypatch.setattr(union, "PIECE", size)
    monkeypatch.setattr(linear, "TOGETHER", size)
    torch.testing.assert_close(gradients(mechanism, inputs, visible, ids)[1], expected, **CLOSE)
    with torch.no_grad():
        pieces = mechanism(*inputs, visible, token_ids=ids)
        later = mechanism(inputs[0][:, :, 9:], *inputs[1:], visible, token_ids=ids, first_query=9)
    torch.testing.assert_close(pieces, whole, **CLOSE)
    torch.testing.assert_close(later, whole[:, :, 9:], **CLOSE)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("tokens", [1, 2, 7, 65])
@pytest.mark.parametrize(
    ("spec", "causal"), [case for case in ARRANGED if case[0].startswith(("fixed", "static"))]
)
def test_long_sentences_are_mixed_without_a_matrix_to_the_same(
    spec: str, causal: bool, tokens: int, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *inputs, _ = ragged(tokens)
    visible, ids = padded_on(side, tokens), drawn_ids(tokens, VOCABULARY)
    mechanism = build(spec, causal=causal)
    short = gradients(mechanism, inputs, visible, ids)
    for module in (fixed, static):
        monkeypatch.setattr(module, "FEW", 0)
    torch.testing.assert_close(gradients(mechanism, inputs, visible, ids), short, **CLOSE)
    first = tokens // 2
    later = mechanism(inputs[0][:, :, first:], *inputs[1:], visible, first_query=first)
    torch.testing.assert_close(later, short[0][:, :, first:], **CLOSE)


@pytest.mark.parametrize(
    ("spec", "form"),
    [("linear", "flex"), ("scatterbrain(window=3)", "dense"), ("fixed(pattern='next')", "fast")],
)
def test_a_form_that_is_not_there_is_refused(spec: str, form: str) -> None:
    with pytest.raises(InputError, match=f"has no form '{form}'; choose from: 'auto'"):
        make(spec, form=form)
