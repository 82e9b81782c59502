"""What candidates cost by each criterion, against plain loops; and plans of models that are no runs."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from grids import slow
from transformers import BertForMaskedLM, PreTrainedModel
from zoo import random_models
from zoo.analyzed import ANALYZED
from zoo.random_models import PAIRS, SENTENCES, SPECIALS, seeded, tokenizer

import attnlab
from attnlab.ablation.projections import changed_heads, watched_heads
from attnlab.attention.bridge.installing import use
from attnlab.attention.bridge.sites import layer_rules
from attnlab.attention.plan import plan_of
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import Evaluator, load_evaluator
from attnlab.evaluation.opened_model import observe_part
from attnlab.evaluation.shared_settings import Steps
from attnlab.models import IGNORED_LABEL
from attnlab.questions.plan.criteria import costs
from attnlab.questions.plan.planning import plan, plans_of
from attnlab.questions.plan.question import CRITERIA, DEFAULT_FAMILIES, SEARCHED
from attnlab.questions.plan.search import Candidate, Costs, Search, Unit
from attnlab.reading.observing import Observed

# Pairs, key-value heads, a distance; then what scores tokens as the first two do.
MODELS = ["llama", "bert", *slow("marian", "gpt2", "masked")]
MEASURED = tuple(name for name in CRITERIA if name != "l1")
FAMILIES = ("none", "band", "ends", "static")
TOGETHER = {("decoder", 0): 3, ("encoder", 0): 3}


def with_mask() -> Any:
    found = tokenizer([*SPECIALS, "<mask>"])
    found.add_special_tokens({"mask_token": "<mask>"})
    return found


def model_of(name: str) -> tuple[PreTrainedModel, Any]:
    if name == "marian":
        return random_models.marian(
            encoder_layers=1, decoder_layers=2, heads=3
        ).double(), tokenizer()
    if name != "masked":
        return random_models.ALL[name]().double(), tokenizer()
    config = random_models.bert().config
    config.vocab_size = len(with_mask())
    return seeded(lambda: BertForMaskedLM(config)).double(), with_mask()


@cache
def prepared(name: str) -> tuple[Evaluator, Search, dict[Unit, list[Candidate]]]:
    """A model on sentences of several lengths, and three candidates of every unit but the first layers'."""
    texts = PAIRS if name == "marian" else SENTENCES
    evaluator = load_evaluator(model_of(name), sentences=texts, batch_size=3)
    sites = list(dict.fromkeys(site for site, _ in evaluator.projections))
    search = Search((2,), FAMILIES, TOGETHER if name in {"llama", "bert"} else {})
    read = partial(
        observe_part, model=evaluator.loaded, part=evaluator.sentences, sites=sites, batch_size=3,
        progress=None,
    )  # fmt: skip
    read("", receive=search.learn)
    read("", receive=search.measure)
    return evaluator, search, {unit: own[::4] for unit, own in search.shortlist().items()}


@cache
def measured(name: str, criterion: str) -> Costs:
    """Of `cases` alone."""
    evaluator, search, _ = prepared(name)
    few = {unit: [candidate] for unit, candidate in cases(name)}

    def read(receive: Any) -> None:
        observe_part(
            "",
            evaluator.loaded,
            evaluator.sentences,
            search.sites,
            receive,
            batch_size=3,
            progress=None,
        )

    return costs(criterion, few, evaluator, read, lambda what, total: Steps(what, total, None))


def cases(name: str) -> list[tuple[Unit, Candidate]]:
    """One candidate of every third unit."""
    shortlist = prepared(name)[2]
    return [(unit, own[index % len(own)]) for index, (unit, own) in enumerate(shortlist.items())][
        ::3
    ]


def outputs(evaluator: Evaluator, batch: Any, layer: Any) -> torch.Tensor:
    found: dict[Any, torch.Tensor] = {}
    with torch.no_grad(), watched_heads(evaluator.projections, found.__setitem__):
        evaluator.run(batch)
    return found[layer].clone()


def alone(unit: Unit, candidate: Candidate) -> Any:
    return plan_of({str(head): candidate.specification for head in unit})


@pytest.mark.parametrize("name", MODELS)
def test_loss_is_that_of_the_model_with_the_candidate_alone(name: str) -> None:
    evaluator, _, _ = prepared(name)
    before = evaluator.losses().sum()
    for unit, candidate in cases(name):
        with use(evaluator.model, alone(unit, candidate)):
            after = evaluator.losses().sum()
        expected = float((after - before) / evaluator.tokens.sum())
        found = measured(name, "loss")[unit, candidate.specification]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["llama", *slow("marian", "masked")])
def test_divergence_is_a_sum_over_types(name: str) -> None:
    evaluator, _, _ = prepared(name)
    for unit, candidate in cases(name)[:3]:
        total = 0.0
        for batch in evaluator.batches:
            with torch.no_grad():
                whole = evaluator.run(batch).logits.softmax(-1)
                with use(evaluator.model, alone(unit, candidate)):
                    part = evaluator.run(batch).logits.softmax(-1)
            for p, q, labels in zip(whole, part, batch.labels, strict=True):
                for place in range(len(labels)):
                    if labels[place] != IGNORED_LABEL:
                        total += float(
                            torch.nn.functional.kl_div(q[place].log(), p[place], reduction="sum")
                        )
        found = measured(name, "divergence")[unit, candidate.specification]
        assert found == pytest.approx(total / float(evaluator.tokens.sum()), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_output_errors_are_those_of_the_heads_in_the_model(name: str) -> None:
    evaluator, _, _ = prepared(name)
    for unit, candidate in cases(name):
        layer = unit[0].site, unit[0].layer
        total = rows = 0.0
        for batch in evaluator.batches:
            before = outputs(evaluator, batch, layer)
            with use(evaluator.model, alone(unit, candidate)):
                after = outputs(evaluator, batch, layer)
            real = real_rows(evaluator, batch, layer[0])
            rows += float(real.sum())
            for sentence, own in enumerate(real):
                for head in (one.head for one in unit):
                    full = before[sentence, own, head]
                    wrong = after[sentence, own, head] - full
                    total += float(wrong.norm() / full.norm()) * int(own.sum())
        found = measured(name, "output")[unit, candidate.specification]
        assert found == pytest.approx(total / rows, rel=1e-6, abs=1e-9)


def real_rows(evaluator: Evaluator, batch: Any, site: str) -> torch.Tensor:
    """True at queries that are tokens, not padding."""
    name = "decoder_input_ids" if "decoder_input_ids" in batch.inputs else "input_ids"
    ids = batch.inputs["input_ids" if site == "encoder" else name]
    sentences = [evaluator.sentences.usable[place] for place in batch.numbers]
    lengths = [
        len(one.source if site == "encoder" or one.target is None else one.target)
        for one in sentences
    ]
    return torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("name", MODELS)
def test_gradient_times_change_is_the_slope_on_the_way_to_the_candidate(name: str) -> None:
    """By differences of the loss a little this way and that, sentence by sentence."""
    if name == "bert":
        pytest.skip("the distance from the model as it is has no slope there")
    evaluator, _, _ = prepared(name)
    # Llama's norms are in float32, whatever the model is in.
    small, tolerance = (1e-3, 2e-3) if name == "llama" else (1e-5, 1e-4)
    for unit, candidate in cases(name)[:4]:
        layer = unit[0].site, unit[0].layer
        total = rows = 0.0
        for batch in evaluator.batches:
            before = outputs(evaluator, batch, layer)
            with use(evaluator.model, alone(unit, candidate)):
                change = outputs(evaluator, batch, layer) - before
            real = real_rows(evaluator, batch, layer[0])
            rows += float(real.sum())
            change = change * real[:, :, None, None]
            keep = torch.zeros(change.shape[2]).index_fill(
                0, torch.tensor([h.head for h in unit]), 1.0
            )
            change = change * keep[:, None]
            ends = []
            for step in (small, -small):

                def moved(
                    apart: torch.Tensor, step: float = step, change: torch.Tensor = change
                ) -> torch.Tensor:
                    return apart + step * change

                with torch.no_grad(), changed_heads(evaluator.projections, {layer: moved}):
                    ends.append(evaluator.example_losses(batch))
            total += float(((ends[0] - ends[1]) / (2 * small)).abs().sum())
        found = measured(name, "gradient")[unit, candidate.specification]
        assert found == pytest.approx(total / rows, rel=tolerance, abs=1e-7)


@pytest.mark.parametrize("name", ["marian", "llama"])
def test_weights_lost_and_weights_times_norms_are_loops(name: str) -> None:
    evaluator, search, _ = prepared(name)
    seen: list[Observed] = []
    observe_part(
        "",
        evaluator.loaded,
        evaluator.sentences,
        search.sites,
        seen.append,
        batch_size=1,
        progress=None,
    )
    for unit, candidate in cases(name):
        lost = apart = rows = 0.0
        for layer in seen:
            if (layer.site, layer.layer) != (unit[0].site, unit[0].layer):
                continue
            rows += int(layer.real_queries.sum())
            made = attnlab.attention.make(
                candidate.specification,
                causal=layer.site == "decoder",
                cross=layer.site == "cross",
                heads=layer.query.shape[1],
            ).double()
            matrices = made.implied_matrix(
                layer.query, layer.key, layer.visible, **layer.call_context()
            )
            for head in (one.head for one in unit):
                for i in range(layer.weights.shape[2]):
                    for j in range(layer.weights.shape[3]):
                        whole, part = (
                            float(layer.weights[0, head, i, j]),
                            float(matrices[0, head, i, j]),
                        )
                        lost += whole * (part == 0)
                        apart += abs(whole - part) * float(layer.value[0, head, j].norm())
        key = unit, candidate.specification
        assert measured(name, "mass")[key] == pytest.approx(lost / rows, rel=1e-9, abs=1e-12)
        assert measured(name, "norm")[key] == pytest.approx(apart / rows, rel=1e-9, abs=1e-12)


def test_a_distance_has_no_divergence() -> None:
    with pytest.raises(InputError, match="scores no tokens, so there is no divergence"):
        measured("bert", "divergence")


@pytest.mark.parametrize("name", MODELS)
def test_any_model_gets_a_plan_that_costs_what_is_said(name: str) -> None:
    texts = PAIRS if name == "marian" else SENTENCES
    model = model_of(name)
    found = plan(
        model, (2,), sentences=texts[:3], calibration=texts[3:], validation=texts[3:], quick=True,
        families=FAMILIES,
    )  # fmt: skip
    evaluator = load_evaluator(model, sentences=texts[:3])
    before = evaluator.losses().sum()
    with use(model[0], plans_of(found)[2]):
        after = evaluator.losses().sum()
    row = found.summary.set_index("mechanism").loc["searched"]
    assert row["loss_change"] == pytest.approx(
        float((after - before) / evaluator.tokens.sum()), abs=1e-9
    )
    assert found.mechanisms["validation_keys"].mean() <= 2 + 1e-9
    heads = {(row.site, row.layer, row.head) for row in found.mechanisms.itertuples()}
    assert len(heads) == sum(one.heads for one in evaluator.projections.values())


@pytest.mark.parametrize(
    ("granularity", "kinds"), [("key-value-head", 1), ("layer", 1), ("head", 3)]
)
def test_query_heads_of_a_key_value_head_share_a_mechanism(granularity: str, kinds: int) -> None:
    found = plan(
        model_of("llama"), (2,), sentences=SENTENCES[:2], calibration=SENTENCES[2:], quick=True,
        validation=SENTENCES[2:], granularity=granularity, families=FAMILIES,
    )  # fmt: skip
    by_layer = found.mechanisms.groupby("layer")["mechanism"].nunique()
    assert (by_layer <= kinds).all()
    if kinds > 1:
        assert by_layer.max() > 1


@pytest.mark.parametrize("criterion", [MEASURED[0], MEASURED[-1], *slow(*MEASURED[1:-1])])
def test_every_criterion_finds_a_plan(criterion: str) -> None:
    found = plan(
        model_of("gpt2"), (2,), sentences=SENTENCES[:2], calibration=SENTENCES[2:], quick=True,
        validation=SENTENCES[2:], criterion=criterion, families=FAMILIES,
    )  # fmt: skip
    assert found.about["Chosen by"] == CRITERIA[criterion]
    assert found.mechanisms["criterion"].notna().all()


@pytest.mark.slow
@pytest.mark.parametrize("criterion", MEASURED)
def test_every_criterion_finds_a_plan_of_t5(criterion: str) -> None:
    """With static weights among the families, which need no scores to add relative positions to."""
    model = random_models.t5(), tokenizer()
    found = plan(
        model, (2,), sentences=PAIRS[:2], calibration=PAIRS[2:], validation=PAIRS[2:], quick=True,
        criterion=criterion,
    )  # fmt: skip
    assert set(found.mechanisms["site"]) == {"encoder", "decoder", "cross"}
    assert found.mechanisms["mechanism_family"].isin(DEFAULT_FAMILIES).all()


@pytest.mark.slow
@pytest.mark.parametrize("criterion", MEASURED)
@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "modernbert"])
def test_every_criterion_finds_a_plan_behind_windows_caps_and_sinks(
    name: str, criterion: str
) -> None:
    """Fixed weights are no candidate where the model does to scores what they have none for."""
    if name == "modernbert" and criterion in {"divergence", "gradient"}:
        pytest.skip("scores no tokens")
    model = seeded(ANALYZED[name]).eval()
    found = plan(
        (model, tokenizer()), (2,), sentences=SENTENCES[:2], calibration=SENTENCES[2:], quick=True,
        validation=SENTENCES[2:], criterion=criterion,
    )  # fmt: skip
    rules = layer_rules(model)
    assert all(rules.values()) == (name != "modernbert")
    for row in found.mechanisms.itertuples():
        assert row.mechanism_family != "static" or not rules[row.site, row.layer]
    assert found.mechanisms["lower_bound"].le(found.mechanisms["oracle_error"] + 1e-9).all()
    assert found.mechanisms["oracle_error"].le(found.mechanisms["error"] + 1e-9).all()
    (own,) = plans_of(found).values()
    read = load_evaluator((model, tokenizer()), sentences=SENTENCES[:2])
    with use(model, own):
        loss = float(read.losses().sum() / read.tokens.sum())
    searched = found.summary.set_index("mechanism").loc[SEARCHED]
    assert loss == pytest.approx(searched["loss"], rel=1e-5)


def test_an_encoder_decoder_needs_translations() -> None:
    model = random_models.bart(), tokenizer()
    with pytest.raises(InputError, match="evaluated on pairs"):
        plan(model, (2,), sentences=SENTENCES[:2], calibration=SENTENCES[2:])


def test_rounds_never_cost_more_on_the_sentences_that_choose_and_are_measured_in_the_plan() -> None:
    model = model_of("gpt2")
    options: dict[str, Any] = {
        "sentences": SENTENCES[:1], "calibration": SENTENCES[1:3], "validation": SENTENCES[3:],
        "quick": True, "families": FAMILIES,
    }  # fmt: skip
    evaluator = load_evaluator(model, sentences=SENTENCES[3:])

    def price(rounds: int) -> float:
        found = plan(model, (2,), rounds=rounds, **options)
        with use(model[0], plans_of(found)[2]):
            return float(evaluator.losses().sum())

    first, best = price(0), price(2)
    assert best <= first + 1e-9
    with pytest.raises(
        InputError, match="rounds are for the criteria loss and divergence, not for l1"
    ):
        plan(model, (2,), rounds=1, criterion="l1", **options)


def test_costs_within_a_plan_are_those_of_the_plan_with_one_unit_changed() -> None:
    evaluator, search, shortlist = prepared("marian")
    context = {str(unit[0]): own[-1].specification for unit, own in shortlist.items()}
    before = evaluator.losses().sum()
    few = dict(cases("marian")[:4])
    found = costs(
        "loss", {unit: [one] for unit, one in few.items()}, evaluator, lambda _: None,
        lambda what, total: Steps(what, total, None), context=context,
    )  # fmt: skip
    for unit, candidate in few.items():
        changed = context | {str(head): candidate.specification for head in unit}
        with use(evaluator.model, plan_of(changed)):
            after = evaluator.losses().sum()
        expected = float((after - before) / evaluator.tokens.sum())
        assert found[unit, candidate.specification] == pytest.approx(expected, rel=1e-9)
    assert search.units


def test_halfway_costs_leave_what_the_plan_has_at_nothing() -> None:
    _, search, shortlist = prepared("llama")
    alone = {
        (unit, one.specification): float(i)
        for unit, own in shortlist.items()
        for i, one in enumerate(own)
    }
    found = search.searched(2, alone)
    within = {key: 3.0 * cost + 7 for key, cost in alone.items()}
    halfway = search.damped(alone, found, within)
    for unit in search.units:
        now = found.entries[unit[0]].specification
        assert halfway[unit, now] == 0
        for one in shortlist[unit]:
            expected = 2 * (alone[unit, one.specification] - alone[unit, now])
            assert halfway[unit, one.specification] == pytest.approx(expected)


def test_a_folder_is_asked_by_the_scores_that_its_model_gives(tmp_path: Path) -> None:
    """The class without scores would do to read heads, and is what another question loads."""
    random_models.gpt2().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    texts: dict[str, Any] = {
        "sentences": SENTENCES[:2], "calibration": SENTENCES[2:4], "validation": SENTENCES[4:]
    }  # fmt: skip
    expected = load_evaluator((random_models.gpt2(), tokenizer()), sentences=SENTENCES[:2])
    loss = float(expected.losses().sum() / expected.tokens.sum())
    found = {
        "plan": plan(tmp_path, (2,), quick=True, families=FAMILIES, **texts).summary,
        "compare": attnlab.compare(tmp_path, 2, mechanisms=["band"], quick=True, **texts).summary,
    }
    for name, rows in found.items():
        whole = rows.loc[rows["mechanism"] == "full", "loss"].iloc[0]
        assert whole == pytest.approx(loss, rel=1e-5), name
    pruned = attnlab.prune(tmp_path, [1.0], steps=1, random=False, **texts)
    whole = pruned.curve[(pruned.curve["kind"] == "unpruned") & (pruned.curve["split"] == "test")]
    assert whole["loss"].iloc[0] == pytest.approx(loss, rel=1e-5)
    assert pruned.about["loss"].startswith("cross-entropy of next tokens")


@pytest.mark.parametrize(("name", "loss"), [("bert", None), ("gpt2", "cosine")])
def test_a_distance_from_the_untouched_model_has_no_gradient_to_choose_by(
    name: str, loss: str | None
) -> None:
    texts = SENTENCES
    with pytest.raises(InputError, match="whose gradient is 0 there; choose criterion loss"):
        plan(
            (random_models.ALL[name](), random_models.tokenizer()), (2,), sentences=texts[:2],
            calibration=texts[2:], validation=texts[2:], criterion="gradient", quick=True,
            **({} if loss is None else {"loss": loss}),
        )  # fmt: skip
