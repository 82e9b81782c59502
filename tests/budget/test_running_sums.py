"""Running sums: static weights beside those that made the attention, and distances beside plain loops."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from observed_layers import RULED, attended

from attnlab.attention.registry import make
from attnlab.budget.running_sums import PAIR_SMOOTHING, LayerSums, beyond_distance, measure
from attnlab.budget.scores import MEASURED, measure_matrices
from attnlab.core.addresses import SITES
from attnlab.matrices.references import top_entries
from attnlab.reading.observing import Observed

pytestmark = pytest.mark.grid

LONGEST = 9


def rows_of(lengths: list[tuple[int, int]], weights: dict[int, float]) -> torch.Tensor:
    """Weights by offset, normalised over the keys of each sentence; the padding is 0."""
    matrices = torch.zeros(len(lengths), LONGEST, LONGEST, dtype=torch.float64)
    for matrix, (queries, keys) in zip(matrices, lengths, strict=True):
        for i in range(queries):
            reached = {i + d: w for d, w in weights.items() if 0 <= i + d < keys}
            for j, weight in reached.items():
                matrix[i, j] = weight / sum(reached.values())
    return matrices


def observed(lengths: list[tuple[int, int]], matrices: torch.Tensor) -> Observed:
    position = torch.arange(LONGEST)
    queries, keys = (torch.tensor(side) for side in zip(*lengths, strict=True))
    zero = torch.zeros(len(lengths), 1, LONGEST, 2, dtype=torch.float64)
    ids = torch.full((len(lengths), LONGEST), 5)
    return Observed(
        "cross", 0, zero, zero, zero, position < keys[:, None], position < queries[:, None], ids,
        matrices[:, None], tuple(range(len(lengths))),
    )  # fmt: skip


length = st.integers(1, LONGEST)


@given(
    lengths=st.lists(st.tuples(length, length), min_size=20, max_size=30),
    weights=st.dictionaries(st.integers(-4, 4), st.floats(0.05, 1.0), min_size=1, max_size=3),
)
def test_static_weights_are_those_that_made_the_attention(
    lengths: list[tuple[int, int]], weights: dict[int, float]
) -> None:
    # One sentence in which every offset is reached by some row, together with others.
    lengths = [*lengths, *[(LONGEST, LONGEST)] * 5]
    sums = LayerSums(causal=False, tokens=False)
    sums.add(observed(lengths, rows_of(lengths, weights)))
    total = sum(weights.values())
    expected = [weight / total for weight in weights.values()]
    assert sums.static_weights(0, list(weights)) == pytest.approx(expected, abs=1e-3)


def test_each_offset_gets_its_share_where_sentences_have_different_lengths() -> None:
    lengths, taken = [(9, 4), (7, 9), (3, 3), (8, 2)], [-3, -1, 0, 2]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(len(lengths), LONGEST, LONGEST, generator=generator, dtype=torch.float64)
    for matrix, (queries, keys) in zip(drawn, lengths, strict=True):
        matrix[queries:] = 0
        matrix[:, keys:] = 0
    sums = LayerSums(causal=False, tokens=False)
    sums.add(observed(lengths, drawn))
    weights = dict(zip(taken, sums.static_weights(0, taken), strict=True))
    applied = rows_of(lengths, weights)
    shares = [
        torch.tensor([matrices.diagonal(d, -2, -1).sum() for d in taken])
        for matrices in (applied, drawn)
    ]
    given_share, wanted = (share / share.sum() for share in shares)
    assert torch.allclose(given_share, wanted, atol=1e-4)


SPECIFICATIONS = [
    "band(window=(2, 0))", "keys(offsets=(-3, -1), first=1)", "keys(offsets=(-4,))", "none",
    "keys(tokens=(1, 2), offsets=(0,), reach=2)", "static(offsets=(-2, 0), weights=(0.3, 0.7))",
    "full", "longformer(window=(1, 0))",
]  # fmt: skip


@pytest.mark.parametrize("rules", [None, *RULED])
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("spec", SPECIFICATIONS)
def test_nothing_beats_its_bounds_and_distances_are_those_of_the_matrices(
    spec: str, site: str, rules: str | None
) -> None:
    """Also where the model has windows of its own, caps its scores, or has sinks."""
    if site == "cross" and "longformer" in spec:
        pytest.skip("has no form for the site")
    if rules is not None and "static" in spec:
        pytest.skip("has no scores to do that to")
    layer = attended(site, rules=rules)
    mechanism = make(spec, causal=site == "decoder", cross=site == "cross", heads=3)
    found = measure(mechanism, layer, range(3), bounds=True)
    matrix = mechanism.implied_matrix(
        layer.query, layer.key, layer.visible, token_ids=layer.token_ids, scoring=layer.scoring
    )
    matrix = matrix * layer.real_queries[:, None, :, None]
    torch.testing.assert_close(found.l1, (matrix - layer.weights).abs().sum((-2, -1)))
    assert torch.equal(found.nonzeros, (matrix != 0).sum((-2, -1)).double())
    keyless = (matrix == 0).all(-1) & layer.real_queries[:, None]
    assert torch.equal(found.empty, keyless.sum(-1).expand(2, 3).double())
    if layer.has_sinks:
        assert bool((found.keyless <= keyless.sum(-1) + 1e-9).all())
    else:
        assert torch.equal(found.keyless, keyless.sum(-1).double())
    compared = measure_matrices(matrix, layer, support=True)[MEASURED.index("error")]
    rows = layer.real_queries.sum(-1)[:, None]
    torch.testing.assert_close(found.error / rows, compared)
    assert torch.equal(found.error, found.l1 + found.keyless)
    assert bool((found.bound <= found.oracle + 1e-12).all())
    assert bool((found.oracle <= found.l1 + 1e-12).all())
    for b, h in itertools.product(range(2), range(3)):
        best = top_entries(layer.weights[b, h], int(found.nonzeros[b, h]))
        expected = float((layer.weights[b, h] - best).abs().sum())
        assert float(found.bound[b, h]) == pytest.approx(expected)
        assert float(found.oracle[b, h]) == pytest.approx(best_rows(layer, matrix, b, h))


@pytest.mark.parametrize("spec", ["linear", "linear(feature='taylor')", "linear(features=3)"])
def test_what_has_no_keys_is_counted_in_the_work_of_keys(spec: str) -> None:
    """Of full attention, which scores and mixes every pair, the work is its number of pairs."""
    layer = attended("encoder")
    mechanism, full = (make(one, heads=3) for one in (spec, "full"))
    found, pairs = (measure(one, layer, range(3)).nonzeros for one in (mechanism, full))
    for sentence, length in enumerate((11, 7)):
        assert pairs[sentence].tolist() == [length**2] * 3
        work = [one.cost(length, length, 5).multiply_adds for one in (mechanism, full)]
        assert found[sentence].tolist() == pytest.approx([length**2 * work[0] / work[1]] * 3)


def best_rows(layer: Observed, matrix: torch.Tensor, sentence: int, head: int) -> float:
    """Distance of the nearest rows with as many entries each: of sum 1, or at most 1 beside a sink."""
    total = 0.0
    for own, other in zip(layer.weights[sentence, head], matrix[sentence, head], strict=True):
        count = int((other != 0).sum())
        dropped = float(own.sort(descending=True).values[count:].sum())
        total += dropped if layer.has_sinks or not count else 2 * dropped
    return total


@given(st.floats(0.0, 0.999), st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_a_row_without_keys_counts_as_much_as_the_keys_that_cost_most(
    sink: float, drawn: list[float]
) -> None:
    """Beside any sink no support costs more, however little it holds, and some cost as much."""
    drawn = [share / sum(drawn) * (1 - sink) for share in drawn]
    weights = torch.tensor([drawn], dtype=torch.float64)[None, None]
    worst = float(weights.sum() + beyond_distance(weights, sinks=True))
    masses = torch.linspace(1e-9, 1 - sink, 100_001, dtype=torch.float64)
    costs = (1 - sink - masses) * (1 + masses / (masses + sink))
    assert worst == pytest.approx(float(costs.max()), abs=1e-3)
    # The sink is 1 - the sum of the row, whose rounding is 1e-8 behind a root.
    assert float(costs.max()) <= worst + 1e-6


@pytest.mark.parametrize("rules", [None, *RULED])
@pytest.mark.parametrize("site", SITES)
def test_full_attention_is_no_distance_away_and_counts_the_keys_that_the_model_sees(
    site: str, rules: str | None
) -> None:
    layer = attended(site, rules=rules)
    mechanism = make("full", causal=site == "decoder", cross=site == "cross", heads=3)
    found = measure(mechanism, layer, range(3), bounds=True)
    for distance in (found.error, found.oracle, found.bound):
        torch.testing.assert_close(distance, torch.zeros_like(distance))
    assert torch.equal(found.nonzeros, (layer.weights != 0).sum((-2, -1)).double())


@pytest.mark.parametrize("rules", RULED)
def test_rows_that_a_window_keeps_from_a_token_do_not_count_as_ones_that_look_away(
    rules: str,
) -> None:
    layer = attended("encoder", rules=rules)
    sums = LayerSums(causal=False, tokens=True)
    sums.add(layer)
    seen = (
        torch.ones_like(layer.weights, dtype=torch.bool) if layer.allowed is None else layer.allowed
    )
    received, pairs = torch.zeros(2, 6, dtype=torch.float64)
    for b, (length, ids) in enumerate(zip((11, 7), layer.token_ids.tolist(), strict=True)):
        for i, j in itertools.product(range(length), range(length)):
            if bool(seen[b % len(seen), :, i, j].any()):
                received[ids[j]] += layer.weights[b, 0, i, j]
                pairs[ids[j]] += 1
    mean = received.sum() / pairs.sum()
    weight = (received + PAIR_SMOOTHING * mean) / (pairs + PAIR_SMOOTHING)
    expected = [token for token in weight.argsort(descending=True).tolist() if pairs[token]]
    assert sums.tokens_by_weight(0, None) == expected


@pytest.mark.parametrize("reach", [None, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_tokens_come_in_the_order_of_the_mean_weight_that_a_row_gives_them(
    causal: bool, reach: int | None
) -> None:
    generator = torch.Generator().manual_seed(3)
    # Some tokens stand in sentences with few queries, which padding would let look asked by many.
    lengths = [(1 + number % LONGEST, 4 + number % 6) for number in range(60)]
    drawn = torch.rand(len(lengths), LONGEST, LONGEST, generator=generator, dtype=torch.float64)
    ids = torch.randint(0, 4, (len(lengths), LONGEST), generator=generator)
    ids += torch.tensor([[queries] for queries, _ in lengths])
    received, pairs = torch.zeros(2, 4 + LONGEST, dtype=torch.float64)
    for own, matrix, (queries, keys) in zip(ids.tolist(), drawn, lengths, strict=True):
        matrix[queries:], matrix[:, keys:] = 0, 0
        for i, j in itertools.product(range(queries), range(keys)):
            if (causal and j > i) or (reach is not None and not 0 < abs(i - j) <= reach):
                continue
            received[own[j]] += matrix[i, j]
            pairs[own[j]] += 1
    mean = received.sum() / pairs.sum()
    weight = (received + PAIR_SMOOTHING * mean) / (pairs + PAIR_SMOOTHING)
    expected = [token for token in weight.argsort(descending=True).tolist() if pairs[token]]
    sums = LayerSums(causal=causal, tokens=True)
    for half in (slice(30), slice(30, 60)):
        sums.add(replace(observed(lengths[half], drawn[half]), token_ids=ids[half]))
    assert sums.tokens_by_weight(0, reach) == expected
    assert sums.tokens_by_weight(0, 3) == []
