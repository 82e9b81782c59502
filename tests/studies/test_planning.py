"""The plan search: the allocation against exact ones, planted heads, counted keys, bounds, and files."""

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from observed_layers import attended
from small_run import small_settings

import attnlab
from attnlab.ablation.significance import loss_difference
from attnlab.attention.bridge.installing import use
from attnlab.attention.plan import load_plan, plan_of
from attnlab.attention.registry import make
from attnlab.attention.specification import sides
from attnlab.budget.bounds import WIDEST
from attnlab.budget.measuring import measure
from attnlab.budget.uniform import uniform
from attnlab.core.addresses import SITES, Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.matrices.references import top_entries
from attnlab.models.run import load
from attnlab.models.tokenizer import checksum
from attnlab.models.training import train
from attnlab.reading.observing import Observed
from attnlab.reporting.planning import write_plans
from attnlab.studies.planning.allocation import Choice, allocate, allocate_exactly, lower_hull
from attnlab.studies.planning.notes import BudgetNearLength
from attnlab.studies.planning.planning import Planning, plan
from attnlab.studies.planning.scores import output_of
from attnlab.studies.planning.search import Search
from attnlab.studies.planning.settings import DEFAULT_FAMILIES, FAMILIES

LENGTHS = (13, 9, 11, 5)
QUICK: dict[str, Any] = {"sentences": 6, "validation": 5, "calibration": 12}


def drawn_options(seed: int, heads: int, most: int) -> list[list[Choice]]:
    draw = random.Random(seed)

    def one() -> Choice:
        return Choice(float(draw.randint(1, most)), float(draw.randint(0, 19)))

    return [[Choice(0.0, 20.0), *(one() for _ in range(draw.randint(1, 4)))] for _ in range(heads)]


def smallest_error(options: list[list[Choice]], budget: int) -> float:
    """The exact optimum by dynamic programming over whole costs."""
    best = [0.0] * (budget + 1)
    for own in options:
        best = [
            min(best[left - int(one.cost)] + one.error for one in own if one.cost <= left)
            for left in range(budget + 1)
        ]
    return best[budget]


def test_the_reference_is_the_best_of_all_choices() -> None:
    for seed in range(20):
        options = drawn_options(seed, 4, 6)
        for budget in (0, 3, 9, 24):
            fitting = [
                sum(one.error for one in choice)
                for choice in itertools.product(*options)
                if sum(one.cost for one in choice) <= budget
            ]
            assert smallest_error(options, budget) == min(fitting)


@pytest.mark.parametrize("heads", [1, 4, 12])
def test_the_greedy_is_within_one_step_of_the_optimum(heads: int) -> None:
    exact = 0
    for seed in range(60):
        options = drawn_options(seed, heads, 9)
        steps = [
            own[before].error - own[after].error
            for own in options
            for before, after in itertools.pairwise(lower_hull(own))
        ]
        for budget in (0, 5, 17, 9 * heads):
            found = allocate(options, float(budget))
            taken = [own[index] for own, index in zip(options, found.chosen, strict=True)]
            assert found.cost == sum(one.cost for one in taken) <= budget
            assert found.error == sum(one.error for one in taken)
            optimum = smallest_error(options, budget)
            best = allocate_exactly(options, float(budget))
            assert best is not None
            assert best.error == optimum
            assert best.cost <= budget
            assert found.lower_bound <= optimum + 1e-9
            assert optimum <= found.error <= optimum + max(steps, default=0)
            exact += found.error == optimum
    assert exact > 60 * 4 * 0.5


def test_a_hull_is_convex_and_below_every_option() -> None:
    for seed in range(30):
        own = drawn_options(seed, 1, 30)[0]
        hull = [own[index] for index in lower_hull(own)]
        for one in own:
            for left, right in itertools.pairwise(hull):
                if left.cost <= one.cost <= right.cost:
                    share = (one.cost - left.cost) / (right.cost - left.cost)
                    line = left.error + share * (right.error - left.error)
                    assert one.error >= line - 1e-9


def test_a_budget_below_the_cheapest_options_is_refused() -> None:
    options = [[Choice(2.0, 1.0)], [Choice(3.0, 1.0), Choice(4.0, 0.0)]]
    with pytest.raises(InputError, match="see 5 keys, over the budget of 4; raise the budget"):
        allocate(options, 4.0)
    assert allocate_exactly(options, 4.0) is None


def planted(seed: int) -> Observed:
    """Heads whose attention is a band, a column, fixed weights by offset, and two listed offsets."""
    generator = torch.Generator().manual_seed(seed)
    tokens = max(LENGTHS)
    real = torch.arange(tokens) < torch.tensor(LENGTHS)[:, None]
    offset = torch.arange(tokens) - torch.arange(tokens)[:, None]
    drawn = torch.rand(len(LENGTHS), tokens, tokens, generator=generator, dtype=torch.float64)
    band = drawn * ((offset >= -2) & (offset <= 1))
    column = torch.zeros_like(drawn)
    column[..., 0] = 1.0
    by_offset = sum(w * (offset == d) for d, w in {-3: 0.2, 0: 0.5, 2: 0.3}.items())
    two = drawn * ((offset == -4) | (offset == 0) | (offset == 3))
    weights = torch.stack([band, column, by_offset.expand_as(drawn), two], 1)
    weights = weights * (real[:, None, :, None] & real[:, None, None, :])
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    shape = len(LENGTHS), 4, tokens, 3
    ids = torch.randint(5, (len(LENGTHS), tokens), generator=generator)
    zero = torch.zeros(shape, dtype=torch.float64)
    return Observed("encoder", 0, zero, zero, zero, real, real, ids, weights, tuple(range(4)))


@pytest.fixture(scope="module")
def search() -> Search:
    search = Search((3,), DEFAULT_FAMILIES)
    for seed in range(3):
        search.learn(planted(seed))
    for seed in range(3, 6):
        search.measure(planted(seed))
    return search


def test_planted_heads_get_what_was_planted(search: Search) -> None:
    entries = search.searched(3).entries
    assert [entries[Head("encoder", 0, head)].family for head in range(4)] == [
        "band", "ends", "static", "offsets",
    ]  # fmt: skip
    specifications = [str(entries[Head("encoder", 0, head)].specification) for head in range(4)]
    assert specifications[:2] == ["band(window=(2, 1))", "keys(first=1)"]
    assert specifications[2].startswith("static(offsets=(-3, 0, 2), weights=(0.2")
    assert specifications[3] == "keys(offsets=(-4, 0, 3))"


def broad(seed: int) -> Observed:
    """The planted layer with heads that look at all keys alike."""
    layer = planted(seed)
    real = layer.real_queries[:, None, :, None] & layer.visible[:, None, None, :]
    even = real / layer.visible.sum(-1)[:, None, None, None]
    return replace(layer, weights=even.double().expand_as(layer.weights).clone())


def test_no_head_is_left_out_because_few_keys_hold_less_than_half_of_it() -> None:
    search = Search((3,), DEFAULT_FAMILIES)
    search.learn(broad(0))
    search.measure(broad(1))
    found = search.searched(3)
    assert "none" not in {one.family for one in found.entries.values()}
    assert found.allocation.cost > 0.9 * 3 * search.rows
    nothing = next(one for one in search._candidates[search.heads[0]] if one.family == "none")
    assert search.measured(search.heads[0], nothing) == (pytest.approx(2), 0)


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_budgets_are_counted_non_zeros_at_the_ends_of_sentences_too(
    search: Search, budget: int
) -> None:
    for found in (search.searched(budget), search.baseline("band", budget)):
        assert found is not None
        counted = 0
        for seed in range(3, 6):
            layer = planted(seed)
            for head, candidate in found.entries.items():
                matrix = make(candidate.specification, heads=1).implied_matrix(
                    layer.query[:, [head.head]],
                    layer.key[:, [head.head]],
                    layer.visible,
                    token_ids=layer.token_ids,
                )
                for sentence, length in enumerate(LENGTHS):
                    counted += int((matrix[sentence, 0, :length, :length] != 0).sum())
        assert counted == found.allocation.cost
        assert counted <= budget * 4 * 3 * sum(LENGTHS)


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_the_bound_holds_for_candidates_that_lost_to_fixed_weights_too(
    search: Search, budget: int
) -> None:
    options = [
        [search._choice(head, one) for one in search._candidates[head]] for head in search.heads
    ]
    best = allocate_exactly(options, float(budget * search.rows))
    found = search.searched(budget).allocation
    assert best is not None
    assert found.lower_bound <= best.error + 1e-9
    assert best.error <= found.error + 1e-9


def test_global_rows_count_with_all_their_keys() -> None:
    layer = planted(0)
    found = measure(make("longformer(window=1)"), layer, range(4))
    for sentence, length in enumerate(LENGTHS):
        expected = sum(
            len({j for j in range(length) if abs(j - i) <= 1 or j == 0 or i == 0})
            for i in range(length)
        )
        assert found.nonzeros[sentence].tolist() == [expected] * 4


@pytest.mark.parametrize("name", ["band", "longformer"])
@pytest.mark.parametrize("budget", [3, 9])
def test_uniform_windows_are_as_wide_as_those_of_single_heads(name: str, budget: int) -> None:
    for site in ("encoder", "decoder"):
        made: list[Any] = uniform(name, site, budget)
        sizes = {sum(sides(name, one.window)) + 1 for one in made}
        assert WIDEST * budget - 4 < max(sizes) <= WIDEST * budget
        assert sizes >= set(range(1, budget + 1))


MEASURED = [
    "band(window=(2, 0))", "keys(offsets=(-3, -1), first=1)", "keys(offsets=(-4,))", "none",
    "keys(tokens=(1, 2), offsets=(0,), reach=2)", "static(offsets=(-2, 0), weights=(0.3, 0.7))",
    "full", "longformer(window=(1, 0))",
]  # fmt: skip


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("spec", MEASURED)
def test_nothing_beats_its_bounds_and_distances_are_those_of_the_matrices(
    spec: str, site: str
) -> None:
    if site == "cross" and "longformer" in spec:
        pytest.skip("has no form for the site")
    layer = attended(site)
    mechanism = make(spec, causal=site == "decoder", cross=site == "cross", heads=3)
    found = measure(mechanism, layer, range(3), bounds=True)
    matrix = mechanism.implied_matrix(
        layer.query, layer.key, layer.visible, token_ids=layer.token_ids
    )
    matrix = matrix * layer.real_queries[:, None, :, None]
    torch.testing.assert_close(found.l1, (matrix - layer.weights).abs().sum((-2, -1)))
    assert torch.equal(found.nonzeros, (matrix != 0).sum((-2, -1)).double())
    keyless = (matrix == 0).all(-1) & layer.real_queries[:, None]
    assert torch.equal(found.keyless, keyless.sum(-1).double())
    assert torch.equal(found.error, found.l1 + found.keyless)
    assert bool((found.bound <= found.oracle + 1e-12).all())
    assert bool((found.oracle <= found.l1 + 1e-12).all())
    for b, h in itertools.product(range(2), range(3)):
        best = top_entries(layer.weights[b, h], int(found.nonzeros[b, h]))
        expected = float((layer.weights[b, h] - best).abs().sum())
        assert float(found.bound[b, h]) == pytest.approx(expected)


@pytest.fixture(scope="module")
def found(small_run: Path) -> Planning:
    return plan(small_run, (2, 4), **QUICK)


def test_tables_hold_every_head_and_plan(found: Planning) -> None:
    for budget, own in found.heads.groupby("budget"):
        assert len(own) == 6
        assert not own.duplicated(["site", "layer", "head"]).any()
        assert (own["lower_bound"] <= own["oracle_error"] + 1e-9).all()
        assert (own["oracle_error"] <= own["error"] + 1e-9).all()
        for row in own.to_dict("records"):
            entry = found.plans[budget].at(row["site"], row["layer"], row["head"])
            assert str(entry) == row["mechanism"]
    searched = found.scores[found.scores["plan"] == "searched"].set_index("budget")
    assert searched.at[4, "error"] < searched.at[2, "error"]
    for row in found.scores.to_dict("records"):
        if row["plan"] != "full":
            assert row["error_low"] - 1e-9 <= row["error"] <= row["error_high"] + 1e-9
            assert {"loss_change_low", "bleu_change_high"} <= set(row)


def test_keys_per_row_are_those_that_the_model_with_the_plan_attends_to(
    small_run: Path, found: Planning
) -> None:
    run = load(small_run)
    evaluator = load_evaluator(small_run, sentences=QUICK["sentences"])
    counts: dict[Head, int] = {}
    rows = {"encoder": 0, "decoder": 0, "cross": 0}
    fields = {
        "encoder": "encoder_attentions",
        "decoder": "decoder_attentions",
        "cross": "cross_attentions",
    }
    with use(run.model.eval(), found.plans[4]), torch.no_grad():
        for batch in evaluator.batches:
            out = run.model(**batch.inputs, output_attentions=True)
            for site in SITES:
                real = evaluator.real(batch, site)
                rows[site] += int(real.sum())
                for layer, weights in enumerate(out[fields[site]]):
                    for head in range(2):
                        key = Head(site, layer, head)
                        some = (weights[:, head] != 0) & real[:, :, None]
                        counts[key] = counts.get(key, 0) + int(some.sum())
    own = found.heads[found.heads["budget"] == 4]
    for row in own.to_dict("records"):
        key = Head(row["site"], row["layer"], row["head"])
        assert row["keys_per_row"] == pytest.approx(counts[key] / rows[key.site])


def test_gains_are_those_of_the_searched_plan_and_corrected_together(
    small_run: Path, found: Planning
) -> None:
    scores = found.scores.set_index(["plan", "budget"])
    baselines = [key for key in scores.index if key[0] not in ("full", "searched")]
    evaluator = load_evaluator(small_run, sentences=QUICK["sentences"])
    outputs = {}
    for budget in (2, 4):
        outputs[budget] = output_of(evaluator, found.plans[budget], bleu=True)
    for baseline, budget in baselines:
        row, searched = scores.loc[(baseline, budget)], scores.loc[("searched", budget)]
        assert row["loss_gain"] == pytest.approx(row["loss_nats"] - searched["loss_nats"])
        assert row["bleu_gain"] == pytest.approx(searched["bleu"] - row["bleu"])
        assert row["loss_gain_low"] <= row["loss_gain_high"]
        by_site = {part.split("=")[0]: part.split("=", 1)[1] for part in row["written"].split("; ")}
        other = output_of(evaluator, plan_of(by_site), bleu=True)
        difference = loss_difference(outputs[budget].losses, other.losses, evaluator.tokens, seed=0)
        ends = row["loss_gain_low"], row["loss_gain_high"]
        assert ends == pytest.approx((difference.low, difference.high))
    assert len(baselines) > 2
    assert not [name for name in scores if name.endswith("_p_value")]


def test_nothing_is_chosen_on_test(small_run: Path, found: Planning) -> None:
    again = plan(small_run, (2, 4), **{**QUICK, "sentences": 2}, bleu=False)
    assert again.plans == found.plans
    assert "bleu" not in again.scores


def test_a_plan_goes_into_files_training_and_models_unchanged(
    small_run: Path, found: Planning, tmp_path: Path
) -> None:
    paths = write_plans(found.plans, tmp_path / "plan.json")
    assert [path.name for path in paths] == ["plan_2.json", "plan_4.json"]
    written = load_plan(paths[1])
    assert written == found.plans[4]
    run = load(small_run)
    installed = attnlab.attention.install(run.model, written)
    installed.remove()
    settings = small_settings(
        model={"attention": written.as_dict()}, optimizer={"epochs": 1, "validation_sentences": 2}
    )
    train(tmp_path / "planned", settings, command="attnlab train planned")
    trained = load(tmp_path / "planned").model.attention_plan
    for row in found.heads[found.heads["budget"] == 4].to_dict("records"):
        assert str(trained.at(row["site"], row["layer"], row["head"])) == row["mechanism"]


def test_full_attention_everywhere_changes_nothing_to_the_last_digit(small_run: Path) -> None:
    found = plan(small_run, (40,), **QUICK, families=("none", "full"), bleu=False)
    assert found.plans[40] == plan_of(dict.fromkeys(found.plans[40].entries, "full"))
    evaluator = load_evaluator(small_run, sentences=6)
    before = output_of(evaluator, None, bleu=True)
    after = output_of(evaluator, found.plans[40], bleu=True)
    assert torch.equal(after.losses, before.losses)
    assert after.translations == before.translations
    assert (found.heads["error"].abs() < 1e-9).all()
    assert any(isinstance(note, BudgetNearLength) and note.budget == 40 for note in found.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budgets": (0,)}, "budgets must be at least 1, not 0"),
        (
            {"budgets": (3,), "families": ("bands",)},
            f"families must be among {', '.join(FAMILIES)}",
        ),
        ({"budgets": ()}, "There is no budget"),
        ({"budgets": (3,), "families": ()}, "There is no family"),
        ({"budgets": (3,), "validation": 0}, "validation must be at least 1, not 0"),
        ({"budgets": (3,), "sites": ("middle",)}, "There is no site 'middle'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_model_is_loaded(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan("no run", **options)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        plan(tmp_path, (3,))


def test_a_site_without_a_candidate_is_named(small_run: Path) -> None:
    with pytest.raises(InputError, match="None of the families tokens has a form .* decoder"):
        plan(small_run, (3,), **QUICK, families=("tokens",), bleu=False)


def test_one_site_alone(small_run: Path) -> None:
    found = plan(small_run, (3,), **QUICK, sites=("encoder",), bleu=False)
    assert set(found.heads["site"]) == {"encoder"}
    assert set(found.scores["plan"]) <= {"full", "searched", "band", "longformer", "bigbird"}
    own = found.heads
    assert own["validation_keys"].mean() <= 3
    assert isinstance(found.scores, pd.DataFrame)
    found = plan(small_run, (40,), **QUICK, sites=("encoder",), bleu=False, families=("tokens",))
    assert set(found.heads["family"]) == {"tokens"}
    assert found.plans[40].tokenizer == checksum(load(small_run).tokenizers.source)
