"""The plan search: the allocation against exact ones, planted heads, counted keys, bounds, and files."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answered import Answered
from grids import slow
from small_run import small_settings
from zoo import random_models
from zoo.analyzed import ANALYZED
from zoo.random_models import PAIRS, SENTENCES, seeded, tokenizer

import attnlab
from attnlab.ablation.significance import bleu_difference, loss_difference
from attnlab.attention.bridge.installing import use
from attnlab.attention.mechanisms.keys import Keys, KeysAttention
from attnlab.attention.mechanisms.linformer import Linformer, LinformerAttention
from attnlab.attention.plan import load_plan, plan_of
from attnlab.attention.registry import make
from attnlab.budget.allocation import allocate_exactly
from attnlab.budget.running_sums import measure
from attnlab.core.addresses import SITES, Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.models.run import load
from attnlab.models.tokenizer import checksum
from attnlab.models.training import train
from attnlab.questions.plan import planning
from attnlab.questions.plan.planning import _notes, plan, plans_of
from attnlab.questions.plan.question import (
    BASELINES,
    DEFAULT_FAMILIES,
    FAMILIES,
    BandInstead,
    BudgetNearLength,
    NoSettingFits,
    NotApplicable,
)
from attnlab.questions.plan.search import FoundPlan, Search, check_families
from attnlab.reading.observing import Observed
from attnlab.results.report import write_report
from attnlab.results.result import Result

LENGTHS = (13, 9, 11, 5)
QUICK: dict[str, Any] = {"sentences": 8, "validation": 3, "calibration": 8}


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
    nothing = next(one for one in search._candidates[search.units[0]] if one.family == "none")
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
def test_the_choice_is_within_a_step_of_the_best_there_is(search: Search, budget: int) -> None:
    options = [
        [search._choice(one.specification, *unit) for one in search._worth_scoring(unit)]
        for unit in search.units
    ]
    best = allocate_exactly(options, float(budget * search.rows))
    found = search.searched(budget).allocation
    assert best is not None
    assert found.lower_bound <= best.error + 1e-9
    assert best.error <= found.error + 1e-9


def test_the_shortlist_holds_what_no_mixture_of_others_beats(search: Search) -> None:
    for unit, kept in search.shortlist().items():
        own = {one: search._choice(one.specification, *unit) for one in search._worth_scoring(unit)}
        assert set(kept) <= set(own)
        for one, choice in own.items():
            better = [
                other
                for other in own.values()
                if other.cost <= choice.cost and other.error < choice.error - 1e-9
            ]
            assert better or any(own[k].error <= choice.error + 1e-9 for k in kept), one
        assert min(choice.error for choice in own.values()) == min(own[k].error for k in kept)


def test_what_costs_least_is_chosen_whatever_its_distance(search: Search) -> None:
    shortlist = search.shortlist()
    prices = {
        (unit, one.specification): float(index) if one.family != "none" else -1.0
        for unit, own in shortlist.items()
        for index, one in enumerate(own)
    }
    found = search.searched(3, prices)
    assert {one.family for one in found.entries.values()} == {"none"}
    assert found.allocation.error == -4.0


def test_a_mechanism_that_says_its_settings_may_be_given_to_heads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first(_: type, keys: int, *, causal: bool) -> Keys:
        return Keys(first=keys, last=int(not causal))

    monkeypatch.setattr(KeysAttention, "at_budget", classmethod(first))
    check_families(("keys", "none"))
    one = Search((6,), ("keys", "none"))
    for seed in range(3):
        one.learn(planted(seed))
    for seed in range(3, 6):
        one.measure(planted(seed))
    found = one.searched(6).entries[Head("encoder", 0, 1)]
    assert (found.family, found.level) == ("keys", "calibrated")
    assert str(found.specification) == "keys(first=5, last=1)"


def test_a_mechanism_whose_keys_cannot_be_counted_is_no_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sized(_: type, keys: int, *, causal: bool) -> Linformer:
        del causal
        return Linformer(keys)

    monkeypatch.setattr(LinformerAttention, "at_budget", classmethod(sized))
    with pytest.raises(InputError, match="families must be among .*, not 'linformer'"):
        check_families(("linformer",))


@pytest.mark.parametrize("size", [2, 4])
def test_heads_together_have_one_mechanism_that_is_best_for_their_sum(size: int) -> None:
    apart = Search((3,), ("band",))
    together = Search((3,), ("band",), {("encoder", 0): size})
    for one in (apart, together):
        for seed in range(3):
            one.learn(planted(seed))
        for seed in range(3, 6):
            one.measure(planted(seed))
    assert [len(unit) for unit in together.units] == [size] * (4 // size)
    found = together.searched(3)
    for unit in together.units:
        assert len({found.entries[head] for head in unit}) == 1
    assert found.allocation.error >= apart.searched(3).allocation.error - 1e-9
    assert found.allocation.cost <= 3 * together.rows


def test_global_rows_count_with_all_their_keys() -> None:
    layer = planted(0)
    found = measure(make("longformer(window=1)"), layer, range(4))
    for sentence, length in enumerate(LENGTHS):
        expected = sum(
            len({j for j in range(length) if abs(j - i) <= 1 or j == 0 or i == 0})
            for i in range(length)
        )
        assert found.nonzeros[sentence].tolist() == [expected] * 4


@pytest.fixture(scope="module")
def found(small_run: Path, intervals_of_six: None) -> Result:
    return plan(small_run, (2, 4), **QUICK)


def test_tables_hold_every_head_and_plan(found: Result) -> None:
    for budget, own in found.mechanisms.groupby("budget"):
        assert len(own) == 6
        assert not own.duplicated(["site", "layer", "head"]).any()
        assert (own["lower_bound"] <= own["oracle_error"] + 1e-9).all()
        assert (own["oracle_error"] <= own["error"] + 1e-9).all()
        for row in own.to_dict("records"):
            entry = plans_of(found)[budget].at(row["site"], row["layer"], row["head"])
            assert str(entry) == row["mechanism"]
    searched = found.summary[found.summary["mechanism"] == "searched"].set_index("budget")
    assert searched.at[4, "error"] < searched.at[2, "error"]
    for row in found.summary.to_dict("records"):
        if row["mechanism"] != "full":
            assert row["error_low"] - 1e-9 <= row["error"] <= row["error_high"] + 1e-9
            assert {"loss_change_low", "bleu_change_high"} <= set(row)


def test_the_share_of_rows_without_keys_is_told(found: Result) -> None:
    """All of `none`, and of the first key those that a window of the model hides it from."""
    nothing = found.mechanisms["mechanism_family"] == "none"
    assert (found.mechanisms["empty_fraction"][nothing] == 1).all()
    assert (found.mechanisms["empty_fraction"][~nothing] < 1).all()
    behind = plan(
        (seeded(ANALYZED["mistral"]), tokenizer()), (1,), sentences=SENTENCES[:2], calibration=SENTENCES[2:],
        validation=SENTENCES[2:], families=("ends",), criterion="l1", quick=True,
    )  # fmt: skip
    lengths = [len(tokenizer()(text)["input_ids"]) for text in SENTENCES[:2]]
    expected = sum(length - 4 for length in lengths) / sum(lengths)
    first = behind.mechanisms[behind.mechanisms["mechanism"] == "keys(first=1)"]
    assert len(first) > 0
    assert first["empty_fraction"].to_numpy() == pytest.approx(expected)


def test_the_error_of_a_plan_is_the_mean_of_its_heads_over_all_rows(
    small_run: Path, found: Result
) -> None:
    evaluator = load_evaluator(small_run, sentences=QUICK["sentences"])
    rows = {
        site: sum(int(evaluator.real(batch, site).sum()) for batch in evaluator.batches)
        for site in SITES
    }
    summary = found.summary.set_index(["mechanism", "budget"])
    for budget, own in found.mechanisms.groupby("budget"):
        row = summary.loc[("searched", budget)]
        weights = own["site"].map(rows)
        for name in ("error", "visible_keys"):
            assert row[name] == pytest.approx(np.average(own[name], weights=weights), rel=1e-7)


def test_keys_per_row_are_those_that_the_model_with_the_plan_attends_to(
    small_run: Path, found: Result
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
    with use(run.model.eval(), plans_of(found)[4]), torch.no_grad():
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
    own = found.mechanisms[found.mechanisms["budget"] == 4]
    for row in own.to_dict("records"):
        key = Head(row["site"], row["layer"], row["head"])
        assert row["visible_keys"] == pytest.approx(counts[key] / rows[key.site])


def output_of(evaluator: Any, one: Any) -> tuple[torch.Tensor, list[str]]:
    """Losses and translations with a plan in place, or without one."""
    with nullcontext() if one is None else use(evaluator.model, one):
        return evaluator.losses(), evaluator.translations()


def test_gains_are_those_of_the_searched_plan(small_run: Path, found: Result) -> None:
    summary = found.summary.set_index(["mechanism", "budget"])
    baselines = [key for key in summary.index if key[0] not in ("full", "searched")]
    evaluator = load_evaluator(small_run, sentences=QUICK["sentences"])
    outputs = {budget: output_of(evaluator, plans_of(found)[budget]) for budget in (2, 4)}
    for baseline, budget in baselines:
        row, searched = summary.loc[(baseline, budget)], summary.loc[("searched", budget)]
        assert row["loss_gain"] == pytest.approx(row["loss"] - searched["loss"])
        assert row["bleu_gain"] == pytest.approx(searched["bleu"] - row["bleu"])
        by_site = {part.split("=")[0]: part.split("=", 1)[1] for part in row["setting"].split("; ")}
        losses, translations = output_of(evaluator, plan_of(by_site))
        difference = loss_difference(outputs[budget][0], losses, evaluator.tokens)
        ends = row["loss_gain_low"], row["loss_gain_high"]
        assert ends == pytest.approx((difference.low, difference.high))
        texts = translations, outputs[budget][1], evaluator.references
        bleu = bleu_difference(*texts)
        ends = row["bleu_gain_low"], row["bleu_gain_high"]
        assert ends == pytest.approx((bleu.low, bleu.high), abs=1e-6)
    assert len(baselines) > 2
    assert summary.loc["searched", "loss_gain"].isna().all()
    assert summary.loc["full", "loss_gain"].isna().all()


def test_nothing_is_chosen_on_test(small_run: Path, found: Result) -> None:
    again = plan(small_run, (2, 4), **{**QUICK, "sentences": 2}, quick=True)
    assert plans_of(again) == plans_of(found)
    assert "bleu" not in again.summary


def test_a_plan_goes_into_files_training_and_models_unchanged(
    small_run: Path, found: Result, tmp_path: Path
) -> None:
    found.save(tmp_path / "found")
    again = Result.load(tmp_path / "found")
    assert plans_of(again) == plans_of(found)
    again.save(tmp_path / "copy")
    for folder in ("found", "copy"):
        paths = sorted((tmp_path / folder).glob("plan_*"))
        assert [path.name for path in paths] == ["plan_2.json", "plan_4.json"]
        assert [load_plan(path) for path in paths] == list(plans_of(found).values())
    written = load_plan(paths[1])
    assert written == plans_of(found)[4]
    run = load(small_run)
    installed = attnlab.attention.install(run.model, written)
    installed.remove()
    settings = small_settings(
        model={"attention": written.as_dict()}, optimizer={"epochs": 1, "validation_sentences": 2}
    )
    train(tmp_path / "planned", settings, command="attnlab train planned")
    trained = load(tmp_path / "planned").model.attention_plan
    for row in found.mechanisms[found.mechanisms["budget"] == 4].to_dict("records"):
        assert str(trained.at(row["site"], row["layer"], row["head"])) == row["mechanism"]


@pytest.mark.slow
def test_plans_of_an_older_search_go_with_it(
    answer: Callable[[str, str], Answered], tmp_path: Path
) -> None:
    found = answer("plan", "run").result
    (written,) = found.extra.values()
    found.save(tmp_path)
    (tmp_path / "plan_of_mine.json").write_text("mine")
    replace(found, extra={"plan_7.json": written}).save(tmp_path, overwrite=True)
    assert {path.name for path in tmp_path.glob("plan_*")} == {"plan_7.json", "plan_of_mine.json"}
    (tmp_path / "plan_7.json").write_text("{}")
    with pytest.raises(InputError, match=r"plan_7\.json is no attention plan"):
        write_report(tmp_path)


def test_families_that_no_budget_allows_are_refused_before_candidates_are_tried(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "costs", None)
    said = r"At 3 keys per row there is no plan: what these families have cheapest sees \d+\.\d\d keys; raise"
    with pytest.raises(InputError, match=said):
        plan(small_run, (40, 3), **QUICK, families=("full",), quick=True)


def test_full_attention_everywhere_changes_nothing_to_the_last_digit(small_run: Path) -> None:
    found = plan(small_run, (40,), **QUICK, families=("none", "full"), quick=True, criterion="l1")
    assert plans_of(found)[40] == plan_of(dict.fromkeys(plans_of(found)[40].entries, "full"))
    evaluator = load_evaluator(small_run, sentences=6)
    before = output_of(evaluator, None)
    after = output_of(evaluator, plans_of(found)[40])
    assert torch.equal(after[0], before[0])
    assert after[1] == before[1]
    assert (found.mechanisms["error"].abs() < 1e-9).all()
    assert any(isinstance(note, BudgetNearLength) and note.budget == 40 for note in found.notes)
    assert any(said.endswith("it saves nothing.") for said in map(str, found.notes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"budgets": (3,), "families": ("bands",)},
            f"families must be among {', '.join(FAMILIES)}",
        ),
        ({"budgets": ()}, "There is no budget"),
        ({"budgets": (3, 3)}, "The budget of 3 keys is given twice"),
        ({"budgets": (3,), "families": ()}, "There is no family"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_model_is_loaded(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan("no run", **options)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no run of attnlab and brings no sentences"):
        plan(tmp_path, (3,))


def test_a_site_without_a_candidate_is_named(small_run: Path) -> None:
    with pytest.raises(InputError, match="None of the families tokens has a form .* decoder"):
        plan(small_run, (3,), **QUICK, families=("tokens",), quick=True)


@pytest.mark.parametrize(
    ("name", "texts", "lacking"),
    [("bert", SENTENCES, []), ("gpt2", SENTENCES, ["bigbird"]), *slow(("marian", PAIRS, []))],
)
def test_a_baseline_that_would_be_a_band_at_all_sites_has_no_row(
    name: str, texts: list[Any], lacking: list[str]
) -> None:
    found = plan(
        (random_models.ALL[name](), tokenizer()), (6,), sentences=texts, criterion="l1",
        families=("none", "band"), quick=True,
    )  # fmt: skip
    there = set(found.summary["mechanism"])
    assert {*BASELINES} - there == {*lacking}
    assert [one.mechanism for one in found.notes if isinstance(one, NotApplicable)] == lacking
    assert lacking == [] or not any(isinstance(one, BandInstead) for one in found.notes)


@pytest.mark.slow
def test_one_site_alone(small_run: Path) -> None:
    given = {**QUICK, "sites": ("encoder",), "quick": True, "criterion": "l1"}
    found = plan(small_run, (3,), **given)
    assert set(found.mechanisms["site"]) == {"encoder"}
    assert set(found.summary["mechanism"]) <= {"full", "searched", "band", "longformer", "bigbird"}
    own = found.mechanisms
    assert own["validation_keys"].mean() <= 3
    found = plan(small_run, (40,), **given, families=("tokens",))
    assert set(found.mechanisms["mechanism_family"]) == {"tokens"}
    assert plans_of(found)[40].tokenizer == checksum(load(small_run).tokenizers.source)


@pytest.mark.parametrize("lacking", [(), (2,), (2, 9)])
def test_notes_tell_baselines_that_are_lacking_and_where_a_band_stands_in(
    lacking: tuple[int, ...],
) -> None:
    """Of a mechanism without a form at a site, while it is a baseline at any budget."""

    class TwoSites(Search):
        sites = ("encoder", "cross")

        def full_keys(self) -> float:
            return 100.0

    budgets = (2, 9)
    allocation = allocate_exactly([], 0.0)
    assert allocation is not None
    nothing = FoundPlan({}, allocation)
    plans = {
        (budget, name): nothing
        for budget in budgets
        for name in BASELINES
        if name != "longformer" or budget not in lacking
    }
    expected = [BandInstead("bigbird", "cross"), *(NoSettingFits("longformer", b) for b in lacking)]
    if len(lacking) < len(budgets):
        expected.append(BandInstead("longformer", "cross"))
    assert set(_notes(TwoSites(budgets, FAMILIES), budgets, plans)) == set(expected)
