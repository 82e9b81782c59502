"""Mechanisms at equal budgets: figures against plain loops, bounds, levels, sites, what may be learned."""

import itertools
import re
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from observed_layers import attended
from zoo import random_models
from zoo.analyzed import ANALYZED, IDS, LEFT, TYPES, WIDE
from zoo.architectures import CASES
from zoo.random_models import PAIRS, SENTENCES, seeded, tokenizer

from attnlab.attention.bridge.installing import use
from attnlab.attention.mechanism import Context
from attnlab.attention.plan import plan_of, write_plan
from attnlab.attention.registry import make
from attnlab.attention.specification import sides
from attnlab.budget.choosing import FIXED, Candidate, Choosing, SiteTypes, mechanism_names
from attnlab.budget.scores import MEASURED, measure_matrices
from attnlab.budget.uniform import refusals, uniform
from attnlab.core.addresses import SITES
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.evaluation.opened_model import parts_of
from attnlab.evaluation.sources import Texts
from attnlab.models.loaded import Model
from attnlab.models.run import load
from attnlab.questions.compare.comparison import _with_known_names, compare
from attnlab.questions.compare.question import (
    BudgetBeyondFull,
    ComparisonSettings,
    MechanismLeftOut,
    NoSettingAtSite,
    SameAttention,
)
from attnlab.reading import observing
from attnlab.reading.observing import Observed, observe, site_rules, sites_of
from attnlab.reading.sentences import Sentence, read_sentences
from attnlab.reading.vocabulary import Axis
from attnlab.results.result import Result

# Sentences of 11 and 7 tokens, their translations of 8 and 5.
LENGTHS, TARGETS = (11, 7), (8, 5)


def observed(seed: int = 0, site: str = "encoder") -> Observed:
    generator = torch.Generator().manual_seed(seed)
    queries, keys = {
        "encoder": (LENGTHS, LENGTHS),
        "decoder": (TARGETS, TARGETS),
        "cross": (TARGETS, LENGTHS),
    }[site]

    def drawn(lengths: tuple[int, ...], dim: int) -> torch.Tensor:
        shape = (2, 3, max(lengths), dim)
        return 3 * torch.randn(shape, generator=generator, dtype=torch.float64)

    query, key, value = drawn(queries, 5), drawn(keys, 5), drawn(keys, 7)
    real, visible = (torch.arange(max(n)) < torch.tensor(n)[:, None] for n in (queries, keys))
    ids = torch.randint(0, 13, visible.shape, generator=generator)
    full = make("full", causal=site == "decoder", cross=site == "cross")
    weights = full.implied_matrix(query, key, visible) * real[:, None, :, None]
    return Observed(site, 0, query, key, value, visible, real, ids, weights, (0, 1))


# One of each kind, since settings are many.
FEW = (
    "band",
    "longformer",
    "bigbird",
    "sigma first",
    "linear",
    "linformer (not trained)",
    "top-k",
    "fixed",
)


FEWER = ("band", "longformer", "linformer (not trained)", "top-k", "fixed")


def choosing(budget: int, site: str = "encoder", names: tuple[str, ...] = FEW) -> Choosing:
    """What learned on one batch and chose on another."""
    types = SiteTypes(site, torch.arange(13), queries=7, keys=9, longest=11)
    found = Choosing({site: types}, [budget], names, longest=11)
    with torch.no_grad():
        found.learn(observed(1, site))
        found.measure(observed(2, site))
    return found


def made(budget: int, site: str = "encoder", names: tuple[str, ...] = FEW) -> dict[str, Candidate]:
    found = choosing(budget, site, names).candidates()
    return {candidate.name: candidate for _, candidate in found[site, 0]}


@torch.no_grad()
def figures(candidate: Candidate, seen: Observed) -> dict[str, torch.Tensor]:
    support = candidate.mechanism.traits.support
    found = measure_matrices(candidate.matrices(seen), seen, support=support)
    return dict(zip(MEASURED, found, strict=True))


@pytest.mark.parametrize("site", SITES)
def test_measures_equal_plain_loops(site: str) -> None:
    seen = observed(site=site)
    causal, cross = site == "decoder", site == "cross"
    band = make("band(window=(2, 1))", causal=causal, cross=cross)
    matrices = band.implied_matrix(seen.query, seen.key, seen.visible)
    found = dict(zip(MEASURED, measure_matrices(matrices, seen, support=True), strict=True))
    for b in range(2):
        rows, columns = int(seen.real_queries[b].sum()), int(seen.visible[b].sum())
        for h in range(3):
            mass, keys, wrong, whole, l1 = 0.0, 0, 0.0, 0.0, 0.0
            for i in range(rows):
                allowed = [j for j in range(columns) if j <= i or not causal]
                score = {
                    j: sum(float(seen.query[b, h, i, d] * seen.key[b, h, j, d]) for d in range(5))
                    for j in allowed
                }
                power = {j: np.exp(score[j] / 5**0.5) for j in allowed}
                near = [j for j in allowed if -2 <= j - i <= 1]
                kept = sum(power[j] for j in near)
                mass, keys = mass + kept / sum(power.values()), keys + len(near)
                l1 += sum(
                    abs(power[j] / sum(power.values()) - (power[j] / kept if j in near else 0))
                    for j in allowed
                )
                for d in range(7):
                    value = {j: float(seen.value[b, h, j, d]) for j in allowed}
                    full = sum(power[j] * value[j] for j in allowed) / sum(power.values())
                    part = sum(power[j] * value[j] for j in near) / kept
                    wrong, whole = wrong + (part - full) ** 2, whole + full**2
            assert float(found["mass_fraction"][b, h]) == pytest.approx(mass / rows)
            assert float(found["visible_keys"][b, h]) == pytest.approx(keys / rows)
            assert float(found["error"][b, h]) == pytest.approx(l1 / rows)
            assert float(found["output_error"][b, h]) == pytest.approx((wrong / whole) ** 0.5)


def test_rows_without_keys_have_the_largest_error_and_padding_none() -> None:
    seen = observed()
    nothing = torch.zeros_like(seen.weights)
    found = dict(zip(MEASURED, measure_matrices(nothing, seen, support=True), strict=True))
    torch.testing.assert_close(found["error"], torch.full((2, 3), 2.0).double())


def test_a_head_without_any_output_has_no_output_error() -> None:
    seen = observed()
    silent = replace(seen, value=seen.value * torch.tensor([1.0, 0, 1])[:, None, None])
    band = make("band(window=(2, 1))").implied_matrix(seen.query, seen.key, seen.visible)
    found = measure_matrices(band, silent, support=True)[MEASURED.index("output_error")]
    assert found[:, 1].tolist() == [0, 0]
    assert bool((found[:, ::2] > 0).all())


@pytest.mark.grid
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("budget", [3, 6])
def test_the_nearest_setting_within_the_budget_is_chosen(site: str, budget: int) -> None:
    """Of all settings, against a loop over them on the very sentences that choose."""
    seen, found = observed(2, site), choosing(budget, site)
    rows = 3 * int(seen.real_queries.sum())
    for name in ("band", "top-k", "longformer", "bigbird"):
        near = {}
        for setting in uniform(name, site, budget):
            mechanism = make(setting, causal=site == "decoder", cross=site == "cross").double()
            matrix = mechanism.implied_matrix(seen.query, seen.key, seen.visible)
            matrix = matrix * seen.real_queries[:, None, :, None]
            if int((matrix != 0).sum()) <= budget * rows:
                near[setting] = float((matrix - seen.weights).abs().sum())
        chosen = found.setting(name, site, budget)
        assert (chosen is None) == (not near), name
        if near:
            assert near[chosen] == pytest.approx(min(near.values())), name
    for name, candidate in made(budget, site).items():
        keys = figures(candidate, seen)["visible_keys"]
        assert (
            bool(keys.isnan().any())
            or float((keys.mean(-1) * seen.real_queries.sum(-1)).sum() / seen.real_queries.sum())
            <= budget + 1e-9
        ), name


@pytest.mark.parametrize("site", SITES)
def test_columns_by_frequency_are_the_rarest_tokens_of_training_text(site: str) -> None:
    seen, name = observed(4, site), "sigma frequency"
    chosen, candidate = (
        choosing(6, site, (name,)).setting(name, site, 6),
        made(6, site, (name,))[name],
    )
    assert chosen.num_pos > 0
    matrices = candidate.matrices(seen)
    left, right = sides(chosen.name, chosen.window)
    for b, h in itertools.product(range(2), range(3)):
        real = range(int(seen.visible[b].sum()))
        # Token type t occurs t times.
        rarest = sorted(real, key=lambda j: (int(seen.token_ids[b, j]), j))[: chosen.num_pos]
        for i in range(int(seen.real_queries[b].sum())):
            wanted = {j for j in real if j in rarest or -left <= j - i <= right}
            if site == "decoder":
                wanted = {j for j in wanted if j <= i}
            assert set(matrices[b, h, i].nonzero().flatten().tolist()) == wanted


@pytest.mark.parametrize("site", SITES)
def test_a_budget_that_covers_every_pair_is_full_attention(site: str) -> None:
    seen = observed(site=site)
    found = made(13, site, ("band", "top-k", "longformer"))
    for name in found:
        figure = figures(found[name], seen)
        torch.testing.assert_close(figure["mass_fraction"], torch.ones(2, 3).double())
        torch.testing.assert_close(figure["output_error"], torch.zeros(2, 3).double())


def test_causal_rivals_see_nothing_behind_the_query() -> None:
    seen = observed(site="decoder")
    for name, candidate in made(6, "decoder").items():
        above = candidate.matrices(seen).triu(1)
        assert bool((above == 0).all()), name


@pytest.mark.parametrize("name", mechanism_names())
def test_names_are_read_in_every_spelling(name: str) -> None:
    for spelled in (
        name,
        name.upper(),
        name.replace(" ", "-"),
        name.replace("-", "").replace(" ", "_"),
    ):
        asked = ComparisonSettings(mechanisms=(spelled,), against=spelled)
        known = _with_known_names([], asked)
        assert (known.mechanisms, known.against) == ((name,), name)
    with pytest.raises(InputError, match="There is no mechanism"):
        _with_known_names([], ComparisonSettings(mechanisms=(f"{name}x",)))
    with pytest.raises(InputError, match=re.escape(f"name {name}, or give a plan")):
        _with_known_names([], ComparisonSettings(mechanisms=(f"{name}(window=2)",)))


def test_what_a_site_does_not_allow_is_named_and_left_out() -> None:
    assert not refusals("encoder")
    assert set(refusals("decoder")) == {"bigbird", "linformer (not trained)"}
    assert set(refusals("cross")) == {"bigbird", "longformer"}
    for site in SITES:
        assert set(made(8, site)) == set(made(8)) - set(refusals(site))
    assert "the future too" in refusals("decoder")["linformer (not trained)"]


def test_levels_say_what_each_row_was_chosen_from() -> None:
    levels = {name: candidate.level for name, candidate in made(8).items()}
    assert {name for name, level in levels.items() if level == "oracle"} == {"top-k"}
    assert set(levels.values()) == {"oracle", "calibrated"}
    assert FIXED in levels


def watched(model: Any, words: Any, texts: Any, **options: Any) -> list[Observed]:
    seen: list[Observed] = []
    encoding = read_sentences(Model(model, words), texts)
    observe(model, encoding, sites_of(model, encoding, None), seen.append, **options)
    return seen


ARCHITECTURES = ["attnlab", "bert", "distilbert", "marian", "bart", "gpt2", "llama", "t5"]
# With relative positions, or a mask of one row for all queries.
OTHERS = ["mt5", "umt5", "switch", "layoutlm"]
# With windows, capped scores or sinks, or a decoder that says only that it is one.
RULED = ["mistral", "qwen2", "gemma2", "gemma3", "gpt_oss", "modernbert", "nllb_moe"]


@pytest.mark.parametrize("name", [*ARCHITECTURES, *OTHERS, *RULED])
def test_observed_weights_are_those_the_model_returns(name: str) -> None:
    """Every layer of every site, on a batch of sentences of unlike length."""
    if name in OTHERS + RULED:
        model = seeded(ANALYZED[name]).eval()
        # Windows that hide all keys from padding are NaN in eager attention of float64.
        model = model if name in RULED else model.double()
        model.set_attn_implementation("eager")
    else:
        model = CASES[name]().model
    words = tokenizer()
    texts = PAIRS[:3] if model.config.is_encoder_decoder else SENTENCES[:3]
    encoding = read_sentences(Model(model, words), texts)
    seen = watched(model, words, texts)
    axes = encoding.axes([encoding.usable[n] for n in seen[0].sentences], torch.device("cpu"))
    given = {"input_ids": axes["source"].ids, "attention_mask": axes["source"].real.long()}
    if "target" in axes:
        given |= {
            "decoder_input_ids": axes["target"].ids,
            "decoder_attention_mask": axes["target"].real.long(),
        }
    with torch.no_grad():
        out = model(**given, output_attentions=True)
    fields = {"encoder": "encoder_attentions", "decoder": "decoder_attentions"}
    fields |= {"cross": "cross_attentions"}
    if not model.config.is_encoder_decoder:
        fields = {"encoder": "attentions", "decoder": "attentions"}
    expected = sum(len(out[fields[site]]) for site in {part.site for part in seen})
    assert len(seen) == expected == len({(part.site, part.layer) for part in seen})
    for part in seen:
        weights = out[fields[part.site]][part.layer] * part.real_queries[:, None, :, None]
        near = {"rtol": 1e-4, "atol": 1e-6} if name in RULED else {"rtol": 1e-5, "atol": 1e-7}
        torch.testing.assert_close(part.weights, weights.double(), **near)
        # A sink takes part of each row.
        least = 0.0 if part.has_sinks else 0.99
        assert bool((part.weights.sum(-1)[:, 0] > least).eq(part.real_queries).all())
        assert bool((part.weights.transpose(-1, -2)[~part.visible[:, None].expand(
            -1, part.weights.shape[1], -1)] == 0).all())  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", RULED)
def test_models_with_windows_caps_and_sinks_are_compared(name: str) -> None:
    """Mechanisms are cut by the model's own windows, as they are once they stand in it."""
    model, words = seeded(ANALYZED[name]).eval(), tokenizer()
    texts = PAIRS if model.config.is_encoder_decoder else SENTENCES
    found = compare(
        (model, words), [2], sentences=texts[:3], calibration=texts[3:5], validation=texts[5:],
        quick=True,
    )  # fmt: skip
    seen = watched(model, words, texts[:3])
    rows = sum(int(part.real_queries.sum()) * part.weights.shape[1] for part in seen)
    keys = sum(int((part.weights != 0).sum()) for part in seen)
    full = found.summary[found.summary["mechanism"] == "full"].iloc[0]
    assert full["visible_keys"] == pytest.approx(keys / rows)
    assert full["mass_fraction"] == pytest.approx(1)
    assert full["error"] == pytest.approx(0, abs=1e-6)
    others = found.summary[found.summary["mechanism"] != "full"]
    assert {"band", "top-k"} <= set(others["mechanism"])
    assert (others["error"] > 0).all()
    assert others["loss_change"].notna().all()
    rules = site_rules(model)
    left_out = {note.mechanism for note in found.notes if isinstance(note, MechanismLeftOut)}
    assert set().union(*(refusals(site, own) for site, own in rules.items())) == left_out


@pytest.mark.parametrize(("window", "narrow"), [(7, True), (8, False), (9, False), (None, False)])
def test_a_window_as_long_as_any_text_hides_nothing(window: int | None, narrow: bool) -> None:
    config = hf.MistralConfig(**LEFT | {"max_position_embeddings": 8}, sliding_window=window)
    model = seeded(lambda: hf.MistralForCausalLM(config)).eval()
    assert site_rules(model) == {"decoder": frozenset({"allowed"} if narrow else ())}
    names = refusals("decoder", site_rules(model)["decoder"])
    assert ("linear" in names) == narrow
    found = compare(
        (model, tokenizer()), [30], sentences=SENTENCES[:2], calibration=SENTENCES[2:4], quick=True,
        validation=SENTENCES[4:], mechanisms=["band"] if narrow else ["linear", "band"],
    )  # fmt: skip
    assert found.summary["loss_change"].notna().sum() == (1 if narrow else 2)


def test_between_two_sentences_there_are_no_windows() -> None:
    """The layers of T5Gemma have types, which are those of its self-attention."""
    part = dict(WIDE, sliding_window=4, attn_logit_softcapping=None)
    model = seeded(
        lambda: hf.T5GemmaForConditionalGeneration(
            hf.T5GemmaConfig(
                encoder=part, decoder=dict(part, is_decoder=True), vocab_size=TYPES, **IDS,
                attn_logit_softcapping=None,
            )
        )
    ).eval()  # fmt: skip
    rules = site_rules(model)
    assert rules["cross"] == frozenset()
    assert rules["encoder"] == rules["decoder"] == {"allowed"}
    found = compare(
        (model, tokenizer()), [30], sentences=PAIRS[:2], calibration=PAIRS[2:4], quick=True,
        validation=PAIRS[4:], mechanisms=["linear"],
    )  # fmt: skip
    assert list(found.summary["sites"]) == ["all", "cross"]


def test_a_sink_of_no_weight_is_none() -> None:
    model, words = seeded(ANALYZED["gpt_oss"]).eval(), tokenizer()
    tables = []
    for sink in (-torch.inf, -60.0):
        for layer in model.model.layers:
            layer.self_attn.sinks.data.fill_(sink)
        found = compare(
            (model, words), [2], sentences=SENTENCES[:3], calibration=SENTENCES[3:5], quick=True,
            validation=SENTENCES[5:], mechanisms=["band", "top-k", "sigma first"],
        )  # fmt: skip
        tables.append(found.summary.drop(columns=["time_ratio"]))
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-6)
    assert tables[0]["error"].notna().all()


@pytest.mark.parametrize("rules", ["windows of each head", "all", "faint sinks"])
def test_what_is_added_to_scores_is_handed_on_for_each_head(rules: str) -> None:
    layer = attended("encoder", rules=rules)
    assert layer.scoring is not None
    bias = torch.randn(1, 3, 11, 11, generator=torch.Generator().manual_seed(1))
    observer = observing._Observer("encoder")
    axis = Axis(layer.token_ids, layer.visible, *[layer.visible] * 5)
    seen: list[Observed] = []
    called = (layer.query, layer.key, layer.value)
    sentences = [Sentence(0, (1,) * 11, None), Sentence(1, (1,) * 7, None)]
    observing._hand_on(
        *called, Context(layer.visible, bias=bias, scoring=layer.scoring), receive=seen.append,
        observer=observer, site="encoder", layer=0,
        batch=sentences, axes={"source": axis},
    )  # fmt: skip
    full = make("full").implied_matrix(*called[:2], layer.visible, bias=bias, scoring=layer.scoring)
    torch.testing.assert_close(
        seen[0].weights, full * layer.real_queries[:, None, :, None], rtol=1e-9, atol=1e-12
    )
    # Of some heads alone as of all.
    for heads in ([2], [0, 2]):
        told = seen[0].call_context(heads)
        matrix = make("full").implied_matrix(
            seen[0].query[:, heads], layer.key[:, heads], layer.visible, **told
        )
        torch.testing.assert_close(matrix, full[:, heads], rtol=1e-9, atol=1e-12)


def test_mechanisms_that_see_the_same_keys_are_named_together() -> None:
    model, words = seeded(ANALYZED["gemma3"]).eval(), tokenizer()
    found = compare(
        (model, words), [2, 4], sentences=SENTENCES[:3], calibration=SENTENCES[3:5],
        validation=SENTENCES[5:], quick=True,
    )  # fmt: skip
    named = {
        (note.budget, name): set(note.mechanisms)
        for note in found.notes
        if isinstance(note, SameAttention)
        for name in note.mechanisms
    }
    assert named
    columns = ["layer", "head", "visible_keys", "error", "output_error"]
    rows = found.mechanisms_by_head.dropna(subset="budget")
    figures = {
        (int(str(one.budget)), one.mechanism): rows[
            (rows["budget"] == one.budget) & (rows["mechanism"] == one.mechanism)
        ][columns].to_numpy()
        for one in rows.itertuples()
    }
    for one, other in itertools.combinations(figures, 2):
        same = one[0] == other[0] and np.array_equal(figures[one], figures[other])
        assert same == (one[0] == other[0] and other[1] in named.get(one, set()))


def test_a_plan_of_a_file_is_named_with_the_mechanism_that_it_equals(tmp_path: Path) -> None:
    for name, entries in {
        "alike": {"decoder": "band(window=(2, 0))"},
        "other": {"decoder.0": "band(window=1)"},
    }.items():
        write_plan(tmp_path / name, plan_of(entries))
    found = compare(
        (seeded(ANALYZED["qwen3"]).eval(), tokenizer()), [2, 3], sentences=SENTENCES[:3],
        calibration=SENTENCES[3:5], validation=SENTENCES[5:], quick=True, mechanisms=["band", "linear"],
        plans=[tmp_path / "alike", tmp_path / "other"],
    )  # fmt: skip
    settings = found.mechanisms_by_head.set_index("budget")["setting"]
    assert "band(window=(2, 0))" in settings.loc[3].to_numpy(), "else this test says nothing"
    notes = [note for note in found.notes if isinstance(note, SameAttention)]
    assert notes == [SameAttention("decoder", 3, ("band", "alike"))]


def test_a_model_that_hides_pairs_without_saying_so_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = seeded(ANALYZED["mistral"]).eval()
    monkeypatch.setattr(
        observing, "layer_rules", lambda _: {("decoder", n): frozenset() for n in range(9)}
    )
    with pytest.raises(
        InputError, match="hides pairs by a mask of its own, which its configuration"
    ):
        watched(model, tokenizer(), SENTENCES[:2])


def test_relative_positions_are_observed_beside_queries() -> None:
    for part in watched(random_models.t5(), tokenizer(), PAIRS[:2]):
        assert (part.bias is None) == (part.site == "cross")
        assert part.query.any()


def few_layers() -> Any:
    return random_models.marian(encoder_layers=1, decoder_layers=2)


@pytest.fixture(scope="module")
def marian() -> Result:
    return compare(
        (few_layers(), tokenizer()),
        [7],
        sentences=PAIRS[:3],
        calibration=PAIRS[3:],
        mechanisms=FEWER,
    )


def test_every_head_of_every_site_has_its_rows(marian: Result) -> None:
    shapes = {"encoder": (1, 3), "decoder": (2, 5), "cross": (2, 5)}
    for site, (layers, heads) in shapes.items():
        own = marian.mechanisms_by_head[marian.mechanisms_by_head["site"] == site]
        assert {"band", "top-k", "fixed", "full"} <= set(own["mechanism"])
        assert not own.duplicated(["budget", "mechanism", "layer", "head"]).any()
        assert (own.groupby(["budget", "mechanism"], dropna=False).size() == layers * heads).all()
        for name in set(refusals(site)) & set(FEWER):
            assert MechanismLeftOut(site, name, refusals(site)[name]) in marian.notes
            assert name not in set(own["mechanism"])


def test_rows_are_of_every_site_and_of_all_sites_where_a_mechanism_can_be(marian: Result) -> None:
    sites = marian.summary[marian.summary["budget"] == 7].groupby("mechanism")["sites"].agg(set)
    assert sites["band"] == {*SITES, "all"}
    assert sites["longformer"] == {"encoder", "decoder", "encoder, decoder"}
    assert sites["linformer (not trained)"] == {"encoder", "cross", "encoder, cross"}
    full = marian.summary[marian.summary["mechanism"] == "full"]
    assert full["sites"].tolist() == ["all"]
    assert full[["output_error", "replaced_heads"]].to_numpy() == pytest.approx(0)
    assert full["mass_fraction"].item() == pytest.approx(1)


def test_a_model_that_is_no_run_has_loss_and_bleu_and_is_not_trained(marian: Result) -> None:
    assert {"loss", "bleu", "time_ratio"} <= set(marian.summary)
    pair = random_models.marian(), tokenizer()
    with pytest.raises(InputError, match="Only runs of attnlab train are trained further here"):
        compare(pair, [5], sentences=PAIRS[:2], calibration=PAIRS[3:], fine_tune=3)


@pytest.mark.slow
def test_tables_do_not_depend_on_how_sentences_are_batched(marian: Result) -> None:
    again = compare(
        (few_layers(), tokenizer()), [7],
        sentences=PAIRS[:3], calibration=PAIRS[3:], mechanisms=FEWER, batch_size=1, quick=True,
    )  # fmt: skip
    pd.testing.assert_frame_equal(
        marian.mechanisms_by_head, again.mechanisms_by_head, rtol=1e-5, atol=1e-6
    )


def test_sites_are_those_asked_for_and_there() -> None:
    pair = (random_models.marian(), tokenizer())
    only = compare(
        pair, [5], sites=["cross"], sentences=PAIRS[:2], calibration=PAIRS[3:], mechanisms=["band"]
    )
    assert set(only.mechanisms_by_head["site"]) == {"cross"}
    with pytest.raises(InputError, match="'cross' cannot be compared, since the sentences have no"):
        compare(pair, [5], sites=["cross"], sentences=SENTENCES[:2], calibration=SENTENCES[3:])
    bert = (random_models.bert(), tokenizer())
    with pytest.raises(InputError, match=r"'decoder' .* no such site; choose from: encoder\."):
        compare(bert, [5], sites=["decoder"], sentences=SENTENCES[:2], calibration=SENTENCES[3:])


def test_a_refusal_on_the_way_leaves_the_model_in_the_mode_it_was_in() -> None:
    def refuse(_: Observed) -> None:
        msg = "not this layer"
        raise InputError(msg)

    model = random_models.marian().train()
    with pytest.raises(InputError, match="not this layer"):
        observe(model, read_sentences(Model(model, tokenizer()), PAIRS), SITES, refuse)
    assert model.training


def test_layers_are_let_go_before_the_next_is_computed() -> None:
    """At no time do the matrices of two layers exist."""
    alive: list[Any] = []

    def receive(seen: Observed) -> None:
        assert not [one for one in alive if one() is not None], "an earlier layer is still held"
        alive.append(weakref.ref(seen.weights))

    model, words = random_models.marian(), tokenizer()
    encoding = read_sentences(Model(model, words), PAIRS)
    observe(model, encoding, SITES, receive, batch_size=2)
    assert len(alive) == 8 * 4


@pytest.fixture(scope="module")
def compared(small_run: Path, intervals_of_six: None) -> Result:
    return compare(
        small_run, [5, 7], sentences=10, calibration=7, validation=4, mechanisms=FEW, quick=True
    )


def test_means_and_intervals_are_those_of_the_heads(compared: Result, small_run: Path) -> None:
    evaluator = load_evaluator(small_run, sentences=10)
    counted = {
        site: sum(int(evaluator.real(batch, site).sum()) for batch in evaluator.batches)
        for site in SITES
    }
    for name in ("mass_fraction", "output_error"):
        known = compared.summary.dropna(subset=[name])
        assert (known[f"{name}_low"] <= known[name] + 1e-12).all()
        assert (known[name] <= known[f"{name}_high"] + 1e-12).all()
    heads = compared.mechanisms_by_head.dropna(subset=["budget"])
    for row in compared.summary.dropna(subset=["budget"]).to_dict("records"):
        sites = SITES if row["sites"] == "all" else row["sites"].split(", ")
        own = heads[
            heads["site"].isin(sites)
            & (heads["budget"] == row["budget"])
            & (heads["mechanism"] == row["mechanism"])
        ]
        assert len(own) == row["replaced_heads"]
        rows = own["site"].map(counted)
        for name in ("mass_fraction", "output_error", "error", "visible_keys"):
            assert row[name] == pytest.approx(np.average(own[name], weights=rows), nan_ok=True)


def test_figures_are_those_of_a_row_whichever_sentence_it_is_in() -> None:
    """Of sentences of unlike lengths the mean of their means is another number."""
    model, words = random_models.gpt2(), tokenizer()
    held_out = [SENTENCES[4], SENTENCES[5], SENTENCES[1]]
    found = compare(
        (model, words),
        [3],
        sentences=held_out,
        calibration=SENTENCES[2:4] * 2 + SENTENCES[6:],
        mechanisms=["band"],
    )
    lengths = torch.tensor([len(words(text)["input_ids"]) for text in held_out])
    band = found.mechanisms_by_head.query("mechanism == 'band'")
    (written,) = set(band["setting"])
    left = int(written.removeprefix("band(window=(").split(",")[0])
    of = {
        "full": lengths * (lengths + 1) // 2,
        "band": torch.tensor([sum(min(left + 1, row + 1) for row in range(n)) for n in lengths]),
    }
    for name, keys in of.items():
        expected = pytest.approx(float(keys.sum() / lengths.sum()))
        for table in (found.summary, found.mechanisms_by_head):
            own = table.loc[table["mechanism"] == name, "visible_keys"]
            assert own.to_numpy() == expected
    one_by_one = [
        compare(
            (model, words), [3], sentences=[text],
            calibration=SENTENCES[2:4] * 2 + SENTENCES[6:], mechanisms=["band"],
        ).mechanisms_by_head
        for text in held_out
    ]  # fmt: skip
    for name in ("mass_fraction", "output_error", "error"):
        of_sentences = [table.query("mechanism == 'band'")[name] for table in one_by_one]
        expected = np.average(of_sentences, axis=0, weights=lengths)
        assert band[name].to_numpy() == pytest.approx(expected)
        (mean,) = found.summary.query("mechanism == 'band'")[name]
        assert mean == pytest.approx(expected.mean())


def test_the_table_says_how_far_a_row_is_from_its_budget(compared: Result) -> None:
    for table in (compared.summary, compared.mechanisms_by_head):
        known = table.dropna(subset=["visible_keys", "budget"])
        over = known["visible_keys"] - known["budget"].astype(float)
        assert known["keys_over_budget"].to_numpy() == pytest.approx(over.to_numpy())
        assert table.loc[table["budget"].isna(), "keys_over_budget"].isna().all()
    fixed = compared.summary[compared.summary["mechanism"] == "fixed"]
    assert fixed["visible_keys"].to_numpy() == pytest.approx(1)


def test_held_out_sentences_are_never_learned_from(small_run: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("Maria sleeps.\n", encoding="utf-8")
    with pytest.raises(InputError, match="Every calibration sentence is among the held-out"):
        compare(small_run, [5], text=held_out, calibration_text=held_out)


def test_settings_are_chosen_on_other_sentences_than_tables_are_learned_on(marian: Result) -> None:
    counts = [marian.about[f"{name} sentences"] for name in ("Held-out", "Validation", "Training")]
    assert sum(counts) == len(PAIRS)
    assert counts[2] - counts[1] in {0, 1}
    pair = random_models.marian(), tokenizer()
    with pytest.raises(InputError, match="one training sentence alone"):
        compare(pair, [5], sentences=PAIRS[:2], calibration=PAIRS[3:4] * 2)


def test_a_training_sentence_that_stands_there_twice_is_in_one_part() -> None:
    model = Model(random_models.marian(), tokenizer())
    twice = [pair for pair in PAIRS[2:] for _ in range(2)]
    parts = parts_of(
        model, Texts(tuple(PAIRS[:2])), calibration=twice, validation=9, with_loss=True
    )
    assert len(parts.validation) + len(parts.calibration) == len(PAIRS) - 2
    assert not {*parts.validation.usable_texts} & {*parts.calibration.usable_texts}


def test_a_budget_that_no_setting_fits_is_told(small_run: Path) -> None:
    few = {"sentences": 3, "calibration": 4, "validation": 3, "quick": True}
    found = compare(small_run, [1], mechanisms=["band", "longformer"], sites=["encoder"], **few)
    assert NoSettingAtSite("encoder", "longformer", 1) in found.notes
    assert not any(isinstance(note, BudgetBeyondFull) for note in found.notes)
    large = compare(small_run, [40], mechanisms=["band"], sites=["encoder"], **few)
    (told,) = (note for note in large.notes if isinstance(note, BudgetBeyondFull))
    assert told.keys == pytest.approx(large.summary["visible_keys"].iloc[0])
    assert (told.site, told.budget) == ("encoder", 40)
    assert told.keys < 40
    with pytest.raises(InputError, match="No mechanism is applicable within the budget"):
        compare(small_run, [1], mechanisms=["longformer"], sites=["encoder"], **few)


def test_a_planned_model_is_refused(small_run: Path) -> None:
    run = load(small_run)
    planned = use(run.model, {"decoder": "band(window=(2, 0))"})
    with planned, pytest.raises(InputError, match="compared with full attention: give a run"):
        watched(run.model, run.tokenizers, ["Maria sleeps."])
