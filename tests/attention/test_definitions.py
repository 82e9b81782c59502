"""Each mechanism against its definition, written as loops that share no code with it."""

import math

import pytest
import torch
from attention_cases import SPECS, build
from oracles.attention import (
    Allowed,
    bigbird,
    fixed_row,
    kernel_matrix,
    longformer,
    masked_softmax_matrix,
    window,
)
from oracles.ragged import drawn_ids, ragged
from torch import Tensor

from attnlab.attention.calibration import load_frequencies
from attnlab.attention.kernels.feature_products import favor_exponents, orthogonal_directions
from attnlab.attention.mechanism import Traits
from attnlab.attention.mechanisms.linformer import LinformerAttention, share_projections
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.mechanisms.softmax import softmax_with_sinks
from attnlab.attention.multihead import PerHead
from attnlab.attention.registry import MECHANISMS, make
from attnlab.core.errors import AttnlabError, InputError

CLOSE = {"rtol": 0, "atol": 1e-12}


@pytest.mark.parametrize("form", ["dense", "fast"])
@pytest.mark.parametrize("tokens", [1, 2, 7, 13])
@pytest.mark.parametrize(
    ("spec", "causal", "allowed"),
    [
        ("band(window=2)", False, window(2, 2)),
        ("band(window=(3, 1))", False, window(3, 1)),
        ("band(window=(3, 1))", True, window(3, 1, causal=True)),
        (
            "longformer(window=(2, 1), dilation=3, global_tokens=[1, -2])",
            False,
            longformer(2, 1, 3, [1, -2], False),
        ),
        ("longformer(window=1, global_tokens=[0, 4])", True, longformer(1, 1, 1, [0, 4], True)),
        ("bigbird(block=3, random=0, global_blocks=2)", False, bigbird(3, 1, 1)),
        ("bigbird(block=2, random=0, global_blocks=3)", False, bigbird(2, 2, 1)),
    ],
)
def test_softmax_over_a_pattern(
    spec: str, causal: bool, allowed: Allowed, tokens: int, form: str
) -> None:
    query, key, value, visible = ragged(tokens)
    expected = masked_softmax_matrix(query, key, visible, allowed)
    mechanism = make(spec, causal=causal, form=form)
    torch.testing.assert_close(mechanism.implied_matrix(query, key, visible), expected, **CLOSE)
    torch.testing.assert_close(mechanism(query, key, value, visible), expected @ value, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_full_equals_the_loop_and_a_wide_band(causal: bool) -> None:
    query, key, _, visible = ragged(7)
    expected = masked_softmax_matrix(query, key, visible, window(99, 99, causal))
    for spec in ("full", "band(window=7)", "topk(k=7)", "longformer(window=6, global_tokens=[])"):
        matrix = make(spec, causal=causal).implied_matrix(query, key, visible)
        torch.testing.assert_close(matrix, expected, **CLOSE)


def test_a_sink_takes_its_share_of_a_row_also_where_all_keys_are_seen() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    sinks = torch.tensor([0.5, -1.0, 2.0])
    seen = torch.ones_like(scores, dtype=torch.bool)
    expected = scores.exp() / (scores.exp().sum(-1, keepdim=True) + sinks.exp()[:, None, None])
    for mask in (None, seen):
        torch.testing.assert_close(softmax_with_sinks(scores, mask, sinks.double()), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_sigma_adds_the_columns_of_highest_priority(causal: bool) -> None:
    query, key, _, visible = ragged(13)
    ids, table = drawn_ids(13, 6), torch.tensor([[0.3, 0.1, 0.9, 0.2, 0.5, 0.4]] * 2)
    table[1] = table[0].flip(0)
    mechanism = make("sigma(window=1, num_pos=2)", causal=causal, heads=2, vocabulary=6).double()
    assert isinstance(mechanism, SigmaAttention)
    mechanism.load_tables(table)

    def allowed(b: int, h: int, i: int, j: int, length: int) -> bool:
        allowed = [at for at in range(length) if not (causal and at > i)]
        chosen = sorted(allowed, key=lambda at: (-float(table[h, ids[b, at]]), at))[:2]
        return (abs(j - i) <= 1 or j in chosen) and not (causal and j > i)

    expected = masked_softmax_matrix(query, key, visible, allowed)
    torch.testing.assert_close(
        mechanism.implied_matrix(query, key, visible, token_ids=ids), expected, **CLOSE
    )


def test_sigma_sees_first_columns_and_learned_offsets() -> None:
    query, key, _, visible = ragged(13)
    spec = "sigma(window=0, num_pos=2, columns='first', extra=2, entries='offsets')"
    mechanism = make(spec, heads=2)
    assert isinstance(mechanism, SigmaAttention)
    offsets = [[-4, 2], [5, -1]]
    mechanism.load_tables(offsets=torch.tensor(offsets))

    def allowed(b: int, h: int, i: int, j: int, length: int) -> bool:
        return j < 2 or j - i in (0, *offsets[h])

    expected = masked_softmax_matrix(query, key, visible, allowed)
    torch.testing.assert_close(mechanism.implied_matrix(query, key, visible), expected, **CLOSE)


def test_sigma_counts_no_more_keys_than_its_budget() -> None:
    query, key, _, visible = ragged(67)
    mechanism = make("sigma(window=(2, 1), num_pos=3, columns='random', extra=2)")
    assert isinstance(mechanism, SigmaAttention)
    seen = mechanism.support(query, key, visible).sum(-1)
    assert int(seen.max()) == mechanism.slots() == 9
    assert not torch.equal(seen[0, 0], seen[0, 1])  # heads draw their own


@pytest.mark.parametrize("causal", [False, True])
def test_sigma_draws_its_entries_among_every_key_that_a_row_may_attend(causal: bool) -> None:
    query, key, _, visible = ragged(5)
    drawn = torch.zeros(5, 5, dtype=torch.bool)
    for seed in range(60):
        spec = f"sigma(window=0, num_pos=0, extra=1, seed={seed})"
        mechanism = make(spec, causal=causal, heads=query.shape[1], vocabulary=1)
        assert isinstance(mechanism, SigmaAttention)
        whole = visible.all(-1)  # without padding every token may be drawn
        drawn |= mechanism.support(query, key, visible)[whole].any(0).any(0)
    assert torch.equal(drawn, torch.ones_like(drawn).tril() if causal else torch.ones_like(drawn))


@pytest.mark.parametrize("missing", ["heads", "vocabulary"])
def test_sigma_refuses_to_keep_a_table_of_unknown_size(missing: str) -> None:
    sizes = {"heads": 2, "vocabulary": 6}
    sizes.pop(missing)
    with pytest.raises(InputError, match=r"heads=\.\.\., vocabulary=\.\.\."):
        make("sigma(window=1)", **sizes)


def test_sigma_refuses_to_run_without_what_it_needs() -> None:
    query, key, value, _ = ragged(7)
    mechanism = make("sigma(window=1)", heads=2, vocabulary=6)
    with pytest.raises(AttnlabError, match="hand over the token ids"):
        mechanism(query, key, value)
    with pytest.raises(AttnlabError, match=r"call attnlab\.attention\.calibrate first"):
        mechanism(query, key, value, token_ids=drawn_ids(7, 6))


def test_bigbird_draws_distinct_blocks_once_for_each_head() -> None:
    query, key, _, visible = ragged(60)
    drawn = make("bigbird(block=4, random=2)").support(query, key, visible)
    none = make("bigbird(block=4, random=0)").support(query, key, visible)
    blocks = (drawn & ~none)[0].unflatten(1, (15, 4)).unflatten(3, (15, 4))
    assert torch.equal(blocks.any((2, 4)), blocks.all((2, 4)))  # whole blocks, in a whole sentence
    whole = blocks.any((2, 4)).sum(-1)  # head, block of queries
    assert torch.equal(whole[:, 1:-1], torch.full((2, 13), 2))
    assert not torch.equal(drawn[0, 0], drawn[0, 1])
    assert torch.equal(
        drawn, make("bigbird(block=4, random=2)").train().support(query, key, visible)
    )
    other = make("bigbird(block=4, random=2, seed=1)").support(query, key, visible)
    assert not torch.equal(drawn, other)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature", ["elu", "taylor", "favor"])
def test_linear_equals_its_kernel(feature: str, causal: bool) -> None:
    query, key, _, visible = ragged(13)

    def elu(q: Tensor, k: Tensor) -> float:
        return sum(
            (a + 1 if a >= 0 else math.exp(a)) * (b + 1 if b >= 0 else math.exp(b))
            for a, b in zip(q.tolist(), k.tolist(), strict=True)
        )

    def taylor(q: Tensor, k: Tensor) -> float:
        return 1 + float(q @ k / (q.norm() * k.norm()))

    directions = orthogonal_directions(8, 5, 0)

    def favor(q: Tensor, k: Tensor) -> float:
        def phi(x: Tensor) -> list[float]:
            x = x / 5**0.25
            return [math.exp(float(w @ x) - float(x @ x) / 2) for w in directions]

        return sum(a * b for a, b in zip(phi(q), phi(k), strict=True))

    kernel = {"elu": elu, "taylor": taylor, "favor": favor}[feature]
    mechanism = make(f"linear(feature='{feature}', features=8)", causal=causal)
    expected = kernel_matrix(query, key, visible, kernel, causal)
    torch.testing.assert_close(mechanism.implied_matrix(query, key, visible), expected, **CLOSE)


def test_taylor_weights_have_the_published_form() -> None:
    query, key, _, _ = ragged(7)
    unit_query, unit_key = (x / x.norm(dim=-1, keepdim=True) for x in (query, key))
    expected = (1 + unit_query @ unit_key.mT) / (7 + unit_query @ unit_key.sum(-2, keepdim=True).mT)
    matrix = make("linear(feature='taylor')").implied_matrix(query, key)
    torch.testing.assert_close(matrix, expected, **CLOSE)
    assert float(matrix.max()) < 2 / (7 - 7**0.5)


def test_random_features_are_unbiased_for_the_softmax_kernel() -> None:
    query, key, _, _ = ragged(2)
    query, key = query[0, 0], key[0, 0]
    exact = (query @ key.T / 5**0.5).exp()
    estimates = torch.stack(
        [
            favor_exponents(query, 16, seed).exp() @ favor_exponents(key, 16, seed).exp().T
            for seed in range(4000)
        ]
    )
    error = (estimates.mean(0) - exact) / (estimates.std(0) / 4000**0.5)
    assert float(error.abs().max()) < 4


def test_random_features_approach_full_attention() -> None:
    query, key, _, _ = ragged(7)
    full = make("full").implied_matrix(query, key)
    errors = [
        float(
            (make(f"linear(feature='favor', features={m})").implied_matrix(query, key) - full)
            .abs()
            .mean()
        )
        for m in (4, 64, 4096)
    ]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.02


def test_elu_features_do_not_vanish_in_bfloat16() -> None:
    query = torch.full((1, 1, 2, 4), -8.0, dtype=torch.bfloat16)
    out = make("linear(feature='elu')")(query, query, torch.ones_like(query))
    torch.testing.assert_close(out, torch.ones_like(out))


@pytest.mark.parametrize("spec", ["linear", "linear(feature='favor')", "scatterbrain(window=2)"])
def test_autocast_does_not_shorten_long_sums(spec: str) -> None:
    query, key, value, _ = ragged(700)
    query, key, value = (x.float() for x in (query, key, value))
    plain = make(spec)(query, key, value)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(make(spec)(query, key, value), plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_scatterbrain_is_exact_in_the_band_and_estimated_outside(causal: bool) -> None:
    query, key, _, visible = ragged(13)
    directions = orthogonal_directions(6, 5, 0)
    matrix = make("scatterbrain(window=(2, 1), features=6)", causal=causal).implied_matrix(
        query, key, visible
    )
    expected = torch.zeros_like(matrix)
    for b, h, i in ((b, h, i) for b in range(2) for h in range(2) for i in range(13)):
        row = {}
        for j in range(int(visible[b].sum())):
            if causal and j > i:
                continue
            q, k = query[b, h, i] / 5**0.25, key[b, h, j] / 5**0.25
            if -2 <= j - i <= 1:
                row[j] = math.exp(float(q @ k))
            else:
                scores = directions @ (q + k) - (q @ q + k @ k) / 2
                row[j] = float(scores.exp().mean())
        for j, number in row.items():
            expected[b, h, i, j] = number / sum(row.values())
    torch.testing.assert_close(matrix, expected, **CLOSE)


def test_scatterbrain_with_a_wide_band_is_full_attention() -> None:
    query, key, value, visible = ragged(13)
    out = make("scatterbrain(window=13)")(query, key, value, visible)
    torch.testing.assert_close(out, make("full")(query, key, value, visible), **CLOSE)


def linformer(spec: str, **sizes: int) -> LinformerAttention:
    mechanism = make(spec, **sizes).double()
    assert isinstance(mechanism, LinformerAttention)
    return mechanism


def test_linformer_with_identity_projections_is_full_attention() -> None:
    query, key, value, _ = ragged(7)
    mechanism = linformer("linformer(k=7, max_length=7, share='heads')")
    with torch.no_grad():
        for projection in mechanism.parameters():
            projection.copy_(torch.eye(7))
    torch.testing.assert_close(
        mechanism(query, key, value), make("full")(query, key, value), **CLOSE
    )


def test_linformer_equals_its_formula() -> None:
    query, key, value, _ = ragged(7)
    mechanism = linformer("linformer(k=3, max_length=9)", heads=2)
    keys, values = mechanism.key_projection[:, :, :7], mechanism.value_projection[:, :, :7]
    for h in range(2):
        weights = (query[:, h] @ (keys[h] @ key[:, h]).mT / 5**0.5).softmax(-1)
        out = mechanism(query, key, value)[:, h]
        torch.testing.assert_close(out, weights @ (values[h] @ value[:, h]), **CLOSE)


@pytest.mark.parametrize("k", [3, 48])
def test_linformer_projections_keep_squared_lengths_on_average(k: int) -> None:
    """Entries of variance 1 / k, as in the lemma of Johnson and Lindenstrauss that the paper rests on."""
    mechanism = linformer(f"linformer(k={k}, max_length=400, share='heads')")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mechanism.reset()
        x = torch.randn(400, 300, dtype=torch.float64)
    for projection in mechanism.parameters():
        ratio = (projection.detach()[0] @ x).square().sum(0) / x.square().sum(0)
        assert float(ratio.mean()) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    ("share", "numbers"), [("none", 2 * 2), ("heads", 2), ("kv", 1), ("layers", 1)]
)
def test_linformer_shares_as_the_paper_says(share: str, numbers: int) -> None:
    mechanism = linformer(f"linformer(k=3, max_length=9, share='{share}')", heads=2)
    assert sum(part.numel() for part in mechanism.parameters()) == numbers * 3 * 9


def test_linformer_layers_can_share_one_projection() -> None:
    spec = "linformer(k=3, max_length=9, share='layers')"
    layers = torch.nn.ModuleList([make(spec), make("full"), make(spec)])
    share_projections(layers)
    assert len(list(layers.parameters())) == 1
    layers.append(make("linformer(k=4, max_length=9, share='layers')"))
    with pytest.raises(InputError, match="cannot share one projection"):
        share_projections(layers)


def test_linformer_refuses_longer_sentences() -> None:
    with pytest.raises(AttnlabError, match="at most 5 tokens and met one of 7"):
        linformer("linformer(k=3, max_length=5)", heads=2)(*ragged(7))


@pytest.mark.parametrize("pattern", ["self", "previous", "next", "left", "right", "start", "end"])
def test_fixed_rows(pattern: str) -> None:
    query, key, _, visible = ragged(13)
    matrix = make(f"fixed(pattern='{pattern}')").implied_matrix(query, key, visible)
    for b, length in ((0, 13), (1, 7)):
        for i in range(length):
            row = torch.tensor(fixed_row(pattern, i, length), dtype=torch.float64)
            torch.testing.assert_close(matrix[b, 1, i, :length], row, **CLOSE)


@pytest.mark.parametrize("pattern", ["left", "right", "start", "end"])
def test_running_sums_of_long_sentences_are_the_pattern(pattern: str) -> None:
    *inputs, visible = ragged(300)
    mechanism = make(f"fixed(pattern='{pattern}')")
    expected = mechanism.implied_matrix(*inputs[:2], visible) @ inputs[2]
    torch.testing.assert_close(mechanism(*inputs, visible), expected, **CLOSE)
    longer = ragged(310, 7)
    expected = mechanism.implied_matrix(*longer[:2], longer[3]) @ longer[2]
    torch.testing.assert_close(mechanism(*longer), expected, **CLOSE)


@pytest.mark.parametrize(
    "spec", ["fixed(pattern='left')", "longformer(window=1)", "sigma(window=1, columns='first')"]
)
def test_padding_in_front_counts_no_position(spec: str) -> None:
    query, key, value, _ = ragged(13)
    visible = (torch.arange(13) >= 4).expand(3, -1)
    shifted = make(spec)(query[:, :, 4:], key[:, :, 4:], value[:, :, 4:])
    out = make(spec)(query, key, value, visible)[:, :, 4:]
    torch.testing.assert_close(out, shifted, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_gaussian_equals_its_density(causal: bool) -> None:
    query, key, _, visible = ragged(13)
    matrix = make("gaussian(offset=-2, sigma=1.5)", causal=causal).implied_matrix(
        query, key, visible
    )
    for b, length in ((0, 13), (1, 7)):
        for i in range(length):
            row = {
                j: math.exp(-((j - i + 2) ** 2) / (2 * 1.5**2))
                for j in range(length)
                if not (causal and j > i)
            }
            found = [row.get(j, 0.0) / math.fsum(row.values()) for j in range(13)]
            expected = torch.tensor(found, dtype=torch.float64)
            torch.testing.assert_close(matrix[b, 1, i], expected, **CLOSE)


def test_a_gaussian_whose_centre_is_far_outside_takes_the_nearest_key() -> None:
    query, key, value, visible = ragged(7)
    out = make("gaussian(offset=1000)")(query, key, value, visible)
    torch.testing.assert_close(out[0], value[0, :, 6:].expand(-1, 7, -1), **CLOSE)


def test_synthesizer_is_the_softmax_of_its_table_wherever_a_sentence_starts() -> None:
    query, key, value, _ = ragged(7)
    mechanism = make("synthesizer(max_length=9)", heads=2).double()
    table = mechanism.get_parameter("table")
    expected = table[:, :5, :5].softmax(-1) @ value[:, :, 2:]
    visible = (torch.arange(7) >= 2).expand(3, -1)
    out = mechanism(query, key, value, visible)[:, :, 2:]
    torch.testing.assert_close(out, expected, **CLOSE)


@pytest.mark.parametrize(
    "spec", ["synthesizer(max_length=5)", "sigma_static(window=1, num_pos=0, max_length=5)"]
)
def test_tables_of_positions_refuse_longer_sentences(spec: str) -> None:
    with pytest.raises(AttnlabError, match="at most 5 tokens and met one of 7"):
        make(spec, heads=2).double()(*ragged(7))


def test_sigma_static_adds_band_columns_and_the_largest_entries_of_its_error() -> None:
    query, key, _, visible = ragged(13)
    ids, counts = drawn_ids(13, 6), [3, 9, 1, 4, 8, 2]
    mechanism = make(
        "sigma_static(window=(2, 1), max_length=15, num_pos=2, extra=3)", heads=2, vocabulary=6
    ).double()
    load_frequencies(mechanism, torch.tensor(counts))
    with torch.no_grad():
        for number, parameter in enumerate(mechanism.parameters()):
            parameter.normal_(generator=torch.Generator().manual_seed(number))
    band, columns, error = (
        mechanism.get_parameter(name).tolist() for name in ("band", "columns", "error")
    )
    matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
    for b, h, i in ((b, h, i) for b in range(2) for h in range(2) for i in range(13)):
        length = int(visible[b].sum())
        rarest = sorted(range(length), key=lambda j: (counts[int(ids[b, j])], j))[:2]
        entries = sorted(range(length), key=lambda j: -error[h][i][j])[:3]
        row = [0.0] * 13
        for j in range(length):
            if -2 <= j - i <= 1:
                row[j] += math.exp(band[h][j - i + 2])
            if j in rarest:
                row[j] += math.exp(columns[h][rarest.index(j)])
            if j in entries:
                row[j] += math.exp(error[h][i][j])
        if i < length:
            expected = torch.tensor(row, dtype=torch.float64) / math.fsum(row)
            torch.testing.assert_close(matrix[b, h, i], expected, **CLOSE)


def test_sigma_static_refuses_to_run_without_what_it_needs() -> None:
    query, key, value, _ = ragged(7)
    mechanism = make("sigma_static(window=1, max_length=9)", heads=2, vocabulary=6)
    with pytest.raises(AttnlabError, match="hand over the token ids"):
        mechanism(query, key, value)
    with pytest.raises(AttnlabError, match=r"call attnlab\.attention\.load_frequencies first"):
        mechanism(query, key, value, token_ids=drawn_ids(7, 6))
    with pytest.raises(InputError, match=r"heads=\.\.\., vocabulary=\.\.\."):
        make("sigma_static(window=1, max_length=9)", heads=2)


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("gaussian(offset=0.5)", "'offset' of 'gaussian' is a whole number"),
        ("gaussian(offset=1, sigma=0)", "'sigma' of 'gaussian' is a number from 0.1 up"),
        ("synthesizer(max_length=0)", "'max_length' of 'synthesizer' is a whole number from 1"),
        ("synthesizer(max_length=9, trained=1)", "'trained' of 'synthesizer' is True or False"),
        ("synthesizer(max_length=9)", r"a matrix for each head: say how many"),
        ("sigma_static(window=-1, max_length=9)", "window of 'sigma_static'"),
        ("sigma_static(window=1, max_length=9, extra=-1)", "'extra' of 'sigma_static'"),
    ],
)
def test_options_of_attention_without_scores_are_checked(spec: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make(spec)


def test_topk_captures_at_least_what_any_pattern_of_its_size_does() -> None:
    query, key, _, visible = ragged(16)
    full = make("full").implied_matrix(query, key, visible)
    best = (full * make("topk(k=5)").support(query, key, visible)).sum(-1)
    for spec in (
        "band(window=2)",
        "sigma(window=1, columns='first')",
        "longformer(window=1, global_tokens=[0, -1])",
    ):
        captured = (full * make(spec).support(query, key, visible)).sum(-1)
        rows = visible[:, None] & (make(spec).support(query, key, visible).sum(-1) <= 5)
        assert bool((captured <= best + 1e-12)[rows.expand_as(best)].all())


def test_all_pairs_are_in_the_support_of_full_attention() -> None:
    query, key = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    for given in ({}, {"visible": torch.ones(2, 6, dtype=torch.bool)}):
        assert bool(make("full", cross=True).support(query, key, **given).all())
    causal = make("full", causal=True).support(key, key)
    assert torch.equal(causal, torch.ones(6, 6).tril().bool().expand_as(causal))


def test_cost_counts_visible_keys() -> None:
    assert make("band(window=(3, 1))").cost(100, 100, 8).multiply_adds == 2 * 100 * 5 * 8
    assert make("full").cost(100, 90, 8).multiply_adds == 2 * 100 * 90 * 8
    fixed = make("static(offsets=[-1, 0, 1], weights=[1, 2, 1])")
    assert fixed.cost(100, 90, 8).multiply_adds == 100 * 3 * 8
    assert fixed.cost(100, 2, 8).multiply_adds == 100 * 2 * 8
    assert make("fixed(pattern='left')").cost(100, 90, 8).bytes == 4 * 90 * 8
    assert (make("none").cost(100, 90, 8).multiply_adds, make("none").cost(100, 90, 8).bytes) == (
        0,
        0,
    )
    assert make("fixed(pattern='left')").cost(100, 90, 8).multiply_adds == (100 + 90) * 8
    drawn = make("synthesizer(max_length=128)", heads=2).cost(100, 90, 8)
    assert (drawn.multiply_adds, drawn.bytes) == (100 * 90 * 8, 4 * 100 * 90)
    parts = [([0, 2, 3], make("full")), ([1], make("none"))]
    each = PerHead(parts).cost(100, 90, 8)
    whole = make("full").cost(100, 90, 8)
    assert (each.multiply_adds, each.bytes) == (
        whole.multiply_adds * 3 // 4,
        whole.bytes * 3 // 4,
    )
    globals_too = 2 * (98 * 9 + 2 * 100) * 8
    assert (
        make("longformer(window=3, global_tokens=[0, -1])").cost(100, 100, 8).multiply_adds
        == globals_too
    )
    for spec in (
        "linear",
        "linformer(k=4, share='kv')",
        "scatterbrain(window=2)",
        "band(window=2)",
        "fixed(pattern='left')",
    ):
        small, large = (make(spec).cost(n, n, 8) for n in (1000, 2000))
        assert large.multiply_adds == 2 * small.multiply_adds


def test_scatterbrain_multiplies_features_of_all_tokens_and_two_scores_in_the_band() -> None:
    queries, keys, dim, features = 50, 40, 8, 16
    # Products with `dim` numbers make a feature; it then meets `dim` sums of values and one of ones.
    feature = dim + (dim + 1)
    # A score, its value mixed in, and the estimate of the features that it stands for.
    pair = dim + dim + features
    expected = (queries + keys) * features * feature + queries * (2 + 1 + 1) * pair
    spec = f"scatterbrain(window=(2, 1), features={features})"
    assert make(spec).cost(queries, keys, dim).multiply_adds == expected


def test_scatterbrain_keeps_features_of_all_tokens_and_two_scores_of_each_pair_in_the_band() -> (
    None
):
    def kept(queries: int, keys: int, window: tuple[int, int], features: int) -> float:
        spec = f"scatterbrain(window={window}, features={features})"
        return make(spec).cost(queries, keys, 8).bytes / 4

    start = kept(50, 40, (2, 1), 16)
    assert kept(50, 41, (2, 1), 16) - start == 16
    assert kept(51, 40, (2, 1), 16) - start == 16 + 2 * 4
    assert kept(50, 40, (3, 1), 16) - start == 2 * 50
    assert kept(50, 40, (2, 1), 17) - start == 50 + 40
    assert start == 16 * (50 + 40) + 2 * 50 * 4


@pytest.mark.parametrize("name", MECHANISMS)
def test_cost_is_called_linear_where_twice_the_tokens_take_twice_the_work(name: str) -> None:
    """In a fast form, which keys of some token ids have not."""
    specs = [spec for spec in SPECS if spec.partition("(")[0] == name and "tokens=(" not in spec]
    assert specs
    for mechanism in map(build, specs):
        small, large = (mechanism.cost(n, n, 8).multiply_adds for n in (4000, 8000))
        assert mechanism.traits.subquadratic == (large < 3 * small or not large)


@pytest.mark.parametrize("spec", SPECS)
def test_more_queries_or_keys_never_cost_less(spec: str) -> None:
    mechanism = build(spec)
    before = mechanism.cost(40, 60, 8)
    assert min(before.multiply_adds, before.bytes) >= 0
    for queries, keys, dim in ((41, 60, 8), (80, 60, 8), (40, 61, 8), (40, 120, 8), (40, 60, 16)):
        more = mechanism.cost(queries, keys, dim)
        assert more.multiply_adds >= before.multiply_adds
        assert more.bytes >= before.bytes


def test_linear_attention_keeps_the_features_of_queries_and_keys() -> None:
    assert make("linear").cost(40, 60, 8).bytes == 4 * (40 + 60) * 8
    assert make("linear(feature='taylor')").cost(40, 60, 8).bytes == 4 * (40 + 60) * 9


def test_drawn_features_of_linear_attention_are_paid_for_queries_and_for_keys() -> None:
    drawn = make("linear(feature='favor', features=16)").cost(40, 60, 8)
    assert drawn.multiply_adds == (40 + 60) * 16 * (8 + 1) + (40 + 60) * 16 * 8
    assert drawn.bytes == 4 * (40 + 60) * 16


def test_a_mechanism_that_does_not_say_its_cost_is_not_called_linear() -> None:
    assert not Traits().subquadratic


@pytest.mark.parametrize("form", ["fast", "flex"])
def test_forms_that_do_not_exist_are_refused(form: str) -> None:
    with pytest.raises(InputError, match=f"has no form '{form}'; choose from: 'auto', 'dense'"):
        make("topk(k=3)", form=form)


def test_dropout_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match="probability from 0 up to below 1"):
        make("full", dropout=1.0)


def test_causal_cross_attention_is_refused() -> None:
    with pytest.raises(InputError, match="not for both"):
        make("full", causal=True, cross=True)
