"""Settings of mechanisms: the nearest one within the budget on validation sentences, and counted budgets."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from observed_layers import attended

from attnlab.addresses import SITES
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.linear import Linear
from attnlab.attention.registry import make
from attnlab.extraction.observing import Observed
from attnlab.matrices.references import top_entries
from attnlab.studies.comparison.candidates import Candidate, SiteStatistics, made, teach
from attnlab.studies.comparison.learning import SiteTypes
from attnlab.studies.planning.measuring import measure
from attnlab.studies.planning.uniform import uniform
from attnlab.studies.substitution.choosing import FIXED, Choosing, mechanism_names

TYPES, BUDGETS = 6, (2, 4)
CALIBRATION, VALIDATION = 0, 4
NAMES = mechanism_names()


def chosen_on(
    validation: Observed, *, budgets: tuple[int, ...] = BUDGETS, names: tuple[str, ...] = NAMES
) -> Choosing:
    """Learned on one layer, chosen on another."""
    site = validation.site
    statistics = SiteStatistics(site, torch.arange(TYPES), queries=8, keys=9, longest=11)
    by_site = {site: SiteTypes(statistics, torch.arange(TYPES))}
    choosing = Choosing(by_site, budgets, names, longest=11)
    choosing.learn(attended(site, CALIBRATION))
    choosing.measure(validation)
    return choosing


@pytest.fixture(autouse=True, scope="module")
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(scope="module", params=SITES)
def choosing(request: pytest.FixtureRequest) -> Choosing:
    return chosen_on(attended(request.param, VALIDATION))


def site_of(choosing: Choosing) -> str:
    return next(iter(choosing.by_site))


def found_at(choosing: Choosing) -> list[tuple[int, Candidate]]:
    return list(choosing.candidates()[site_of(choosing), 0])


def mechanism_of(candidate: Candidate) -> Mechanism:
    assert candidate.mechanism is not None
    return candidate.mechanism


def distance_and_keys(mechanism: Mechanism, layer: Observed) -> tuple[float, float]:
    """By loops over sentences and heads, padding cut off; without a support its work in keys."""
    matrices = mechanism.implied_matrix(
        layer.query, layer.key, layer.visible, token_ids=layer.token_ids
    )
    l1 = keys = 0.0
    dim, heads = layer.query.shape[-1], layer.weights.shape[1]
    for sentence, head in itertools.product(range(len(matrices)), range(heads)):
        rows, columns = int(layer.real_queries[sentence].sum()), int(layer.visible[sentence].sum())
        applied = matrices[sentence, head, :rows, :columns]
        l1 += float((applied - layer.weights[sentence, head, :rows, :columns]).abs().sum())
        if mechanism.traits.support:
            keys += int((applied != 0).sum())
        else:
            keys += mechanism.cost(rows, columns, dim).multiply_adds / (2 * dim)
    return l1, keys


def test_every_mechanism_gets_the_nearest_setting_within_the_budget(choosing: Choosing) -> None:
    site = site_of(choosing)
    layer = attended(site, VALIDATION)
    rows = int(layer.real_queries.sum()) * layer.weights.shape[1]
    for name in NAMES:
        if name == FIXED:
            continue
        settings = uniform(name, site, max(BUDGETS), longest=11)
        measured = []
        for one in settings:
            mechanism = made(one, layer.weights.shape[1], TYPES, site)
            if one.name == "sigma":
                types = choosing.by_site[site].statistics.counts
                teach(mechanism, types, choosing._learned[site, 0])  # type: ignore[arg-type]
            measured.append(distance_and_keys(mechanism, layer))
        for budget in BUDGETS:
            fitting = [l1 for l1, keys in measured if keys <= budget * rows]
            found = choosing.setting(name, site, budget)
            if not fitting:
                assert found is None
                continue
            assert found is not None
            l1, keys = measured[list(settings).index(found)]
            assert l1 == pytest.approx(min(fitting)), (name, str(found))
            assert keys <= budget * rows
        assert choosing.tried(name, site) == len(settings)


def test_budgets_are_counted_non_zeros_at_the_borders_of_sentences_too(choosing: Choosing) -> None:
    layer = attended(site_of(choosing), VALIDATION)
    rows = int(layer.real_queries.sum()) * layer.weights.shape[1]
    found = found_at(choosing)
    assert len(found) > len(BUDGETS) * 7
    for budget, candidate in found:
        mechanism = mechanism_of(candidate)
        l1, keys = distance_and_keys(mechanism, layer)
        assert keys <= budget * rows, candidate.name
        counted = measure(mechanism, layer, range(layer.weights.shape[1]))
        assert float(counted.nonzeros.sum()) == pytest.approx(keys), candidate.name
        assert float(counted.l1.sum()) == pytest.approx(l1), candidate.name


def test_an_oracle_of_the_same_support_is_nearer_and_nothing_beats_its_lower_bound(
    choosing: Choosing,
) -> None:
    layer = attended(site_of(choosing), VALIDATION)
    for _, candidate in found_at(choosing):
        mechanism, heads = mechanism_of(candidate), range(layer.weights.shape[1])
        found = measure(mechanism, layer, heads, bounds=True)
        assert bool((found.bound <= found.oracle + 1e-12).all()), candidate.name
        assert bool((found.oracle <= found.l1 + 1e-12).all()), candidate.name
        if not mechanism.traits.support:
            continue
        for b, h in itertools.product(range(len(layer.weights)), heads):
            best = top_entries(layer.weights[b, h], int(found.nonzeros[b, h]))
            exact = float((layer.weights[b, h] - best).abs().sum())
            assert float(found.bound[b, h]) == pytest.approx(exact), candidate.name


def planted(*offsets: int) -> Observed:
    """Attention at these offsets alone."""
    layer = attended("encoder")
    tokens = torch.arange(layer.weights.shape[-1])
    offset = tokens - tokens[:, None]
    kept = torch.stack([offset == one for one in offsets]).any(0).double()
    kept = kept * (layer.real_queries[:, None, :, None] & layer.visible[:, None, None])
    weights = kept / kept.sum(-1, keepdim=True).clamp(min=1e-300)
    return replace(layer, weights=weights.expand(layer.weights.shape))


@pytest.mark.parametrize(
    ("offsets", "written"),
    [((-2, -1, 0), "band(window=(2, 0))"), ((0, 1, 2), "band(window=(0, 2))")],
)
def test_a_mechanism_whose_usual_setting_is_bad_gets_the_better_one(
    offsets: tuple[int, ...], written: str
) -> None:
    layer = planted(*offsets)
    setting = chosen_on(layer, budgets=(3,), names=("band",)).setting("band", "encoder", 3)
    assert str(setting) == written
    usual = measure(make("band(window=1)"), layer, range(3)).l1.sum()
    assert float(measure(make(written), layer, range(3)).l1.sum()) == pytest.approx(0)
    assert float(usual) > 1


def test_work_counts_what_the_sentences_are_long() -> None:
    layer = attended("cross")
    found = measure(make("linear(feature='favor', features=2)", cross=True), layer, range(3))
    cost = make(Linear("favor", 2), cross=True).cost
    for sentence, (queries, keys) in enumerate(zip((8, 5), (11, 7), strict=True)):
        expected = cost(queries, keys, 5).multiply_adds / (2 * 5)
        assert found.nonzeros[sentence].tolist() == pytest.approx([expected] * 3)


def test_a_mechanism_without_a_setting_within_the_budget_is_named() -> None:
    choosing = chosen_on(attended("encoder"), budgets=(2,), names=("bigbird", "band"))
    assert choosing.without_setting() == [("encoder", "bigbird", 2)]
    assert {candidate.name for _, candidate in choosing.candidates()["encoder", 0]} == {"band"}
