"""Mechanisms at equal budgets: figures against plain loops, bounds, levels, sites, what may be learned."""

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.architectures import CASES
from zoo.random_models import PAIRS, SENTENCES, tokenizer

from attnlab.attention.bridge.installing import use
from attnlab.attention.registry import make
from attnlab.budget.bounds import WIDEST
from attnlab.budget.candidates import (
    Candidate,
    LayerCalibration,
    SiteStatistics,
    candidates,
    left_out,
    narrow_window,
    window_of,
)
from attnlab.budget.notes import MechanismLeftOut
from attnlab.budget.scores import MEASURED, measure_matrices
from attnlab.budget.sizes import Learned, SiteTypes
from attnlab.core.addresses import SITES
from attnlab.core.errors import InputError
from attnlab.models.run import load
from attnlab.questions.compare.comparison import compare
from attnlab.reading.batches import encode
from attnlab.reading.observing import Observed, observe, sites_of
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


def made(budget: int, site: str = "encoder") -> dict[str, Candidate]:
    statistics = SiteStatistics(site, torch.arange(13), queries=7, keys=9, longest=11)
    learned = LayerCalibration(statistics, [narrow_window(budget, causal=site == "decoder")])
    learned.add(observed(1, site))
    return {candidate.name: candidate for candidate in candidates(budget, statistics, learned)}


def figures(candidate: Candidate, seen: Observed) -> dict[str, torch.Tensor]:
    found = measure_matrices(candidate.apply(seen), seen, support=candidate.support)
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
            mass, keys, wrong, whole = 0.0, 0, 0.0, 0.0
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
                for d in range(7):
                    value = {j: float(seen.value[b, h, j, d]) for j in allowed}
                    full = sum(power[j] * value[j] for j in allowed) / sum(power.values())
                    part = sum(power[j] * value[j] for j in near) / kept
                    wrong, whole = wrong + (part - full) ** 2, whole + full**2
            assert float(found["mass_fraction"][b, h]) == pytest.approx(mass / rows)
            assert float(found["visible_keys"][b, h]) == pytest.approx(keys / rows)
            assert float(found["output_error"][b, h]) == pytest.approx((wrong / whole) ** 0.5)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("budget", [5, 6, 9])
def test_top_k_bounds_what_sees_no_more_keys_and_budgets_are_kept(budget: int, site: str) -> None:
    seen = observed(site=site)
    found = {name: figures(candidate, seen) for name, candidate in made(budget, site).items()}
    # Rows of global tokens see every key, so these two alone may go over the budget.
    for name in set(found) - {"longformer", "bigbird"}:
        keys, mass = found[name]["visible_keys"], found[name]["mass_fraction"]
        if not bool(keys.isnan().any()):
            assert bool((keys <= budget + 1e-9).all()), name
            assert bool((mass <= found["top-k"]["mass_fraction"] + 1e-9).all()), name
    best = found["sigma oracle"]["mass_fraction"]
    for columns in ("first", "random", "salience", "frequency"):
        assert bool((found[f"sigma {columns}"]["mass_fraction"] <= best + 1e-9).all()), columns


@pytest.mark.parametrize("site", SITES)
def test_a_budget_that_covers_every_pair_is_full_attention(site: str) -> None:
    seen = observed(site=site)
    found = made(25, site)
    sparse = {"band", "top-k", "sigma first", "sigma salience", "sigma oracle"}
    for name in sparse | ({"longformer", "bigbird"} & set(found)):
        figure = figures(found[name], seen)
        torch.testing.assert_close(figure["mass_fraction"], torch.ones(2, 3).double())
        torch.testing.assert_close(figure["output_error"], torch.zeros(2, 3).double())


def test_causal_rivals_see_nothing_behind_the_query() -> None:
    seen = observed(site="decoder")
    for name, candidate in made(6, "decoder").items():
        above = candidate.apply(seen).triu(1)
        assert bool((above == 0).all()), name


def test_what_a_site_does_not_allow_is_named_and_left_out() -> None:
    assert not left_out("encoder")
    assert set(left_out("decoder")) == {"bigbird", "linformer (not trained)"}
    assert set(left_out("cross")) == {"bigbird", "longformer"}
    for site in SITES:
        assert set(made(5, site)) == set(made(5)) - set(left_out(site))
    assert "the future too" in left_out("decoder")["linformer (not trained)"]


def test_levels_say_what_each_row_was_chosen_from() -> None:
    levels = {name: candidate.level for name, candidate in made(5).items()}
    assert {name for name, level in levels.items() if level == "oracle"} == {
        "top-k",
        "sigma oracle",
    }
    calibrated = {"sigma salience", "sigma frequency", "sigma offsets", "fixed"}
    assert {name for name, level in levels.items() if level == "calibrated"} == calibrated


def test_windows_have_the_number_of_keys_they_are_asked_for() -> None:
    for keys in range(1, 14):
        assert sum(window_of(keys)) + 1 == keys
        assert window_of(keys, causal=True) == (keys - 1, 0)


def watched(model: Any, words: Any, texts: Any, **options: Any) -> list[Observed]:
    seen: list[Observed] = []
    encoding = encode(model, words, texts)
    observe(model, encoding, sites_of(model, encoding, None), seen.append, **options)
    return seen


ARCHITECTURES = ["attnlab", "bert", "distilbert", "marian", "bart", "gpt2", "llama"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_observed_weights_are_those_the_model_returns(name: str) -> None:
    """Every layer of every site, on a batch of sentences of unlike length."""
    case = CASES[name]()
    words = tokenizer()
    texts = PAIRS[:3] if case.model.config.is_encoder_decoder else SENTENCES[:3]
    encoding = encode(case.model, words, texts)
    seen = watched(case.model, words, texts)
    axes = encoding.axes([encoding.sentences[n] for n in seen[0].sentences], torch.device("cpu"))
    given = {"input_ids": axes["source"].ids, "attention_mask": axes["source"].real.long()}
    if "target" in axes:
        given |= {
            "decoder_input_ids": axes["target"].ids,
            "decoder_attention_mask": axes["target"].real.long(),
        }
    with torch.no_grad():
        out = case.model(**given, output_attentions=True)
    fields = {"encoder": "encoder_attentions", "decoder": "decoder_attentions"}
    fields |= {"cross": "cross_attentions"}
    if not case.model.config.is_encoder_decoder:
        fields = {"encoder": "attentions", "decoder": "attentions"}
    expected = sum(len(out[fields[site]]) for site in {part.site for part in seen})
    assert len(seen) == expected == len({(part.site, part.layer) for part in seen})
    for part in seen:
        weights = out[fields[part.site]][part.layer] * part.real_queries[:, None, :, None]
        torch.testing.assert_close(part.weights, weights.double(), rtol=1e-5, atol=1e-7)
        assert bool((part.weights.sum(-1)[:, 0] > 0.99).eq(part.real_queries).all())
        assert bool((part.weights.transpose(-1, -2)[~part.visible[:, None].expand(
            -1, part.weights.shape[1], -1)] == 0).all())  # fmt: skip


def test_a_model_with_relative_positions_is_refused() -> None:
    with pytest.raises(InputError, match="relative positions"):
        watched(random_models.t5(), tokenizer(), PAIRS[:2])


@pytest.fixture(scope="module")
def marian() -> Result:
    model = random_models.marian()
    return compare((model, tokenizer()), [5, 7], sentences=PAIRS[:3], calibration=PAIRS[3:])


def test_every_head_of_every_site_has_its_rows(marian: Result) -> None:
    shapes = {"encoder": (2, 3), "decoder": (3, 5), "cross": (3, 5)}
    assert list(marian.summary["site"].unique()) == list(shapes)
    for site, (layers, heads) in shapes.items():
        own = marian.mechanisms_by_head[marian.mechanisms_by_head["site"] == site]
        names = set(own["mechanism"])
        assert len(names) == 15 - len(left_out(site))
        assert len(own) == layers * heads * len(names) * 2
        assert not own.duplicated(["budget", "mechanism", "layer", "head"]).any()
        for name in left_out(site):
            assert MechanismLeftOut(site, name, left_out(site)[name]) in marian.notes


def test_tables_do_not_depend_on_how_sentences_are_batched(marian: Result) -> None:
    again = compare(
        (random_models.marian(), tokenizer()), [5, 7],
        sentences=PAIRS[:3], calibration=PAIRS[3:], batch_size=1,
    )  # fmt: skip
    pd.testing.assert_frame_equal(
        marian.mechanisms_by_head, again.mechanisms_by_head, rtol=1e-5, atol=1e-6
    )


def test_sites_are_those_asked_for_and_there() -> None:
    pair = (random_models.marian(), tokenizer())
    only = compare(pair, [5], sites=["cross"], sentences=PAIRS[:2], calibration=PAIRS[3:])
    assert set(only.mechanisms_by_head["site"]) == {"cross"}
    with pytest.raises(InputError, match="'cross' cannot be compared, since the sentences have no"):
        compare(pair, [5], sites=["cross"], sentences=SENTENCES[:2], calibration=SENTENCES[3:])
    bert = (random_models.bert(), tokenizer())
    with pytest.raises(InputError, match=r"'decoder' .* no such site; choose from: encoder\."):
        compare(bert, [5], sites=["decoder"], sentences=SENTENCES[:2], calibration=SENTENCES[3:])
    with pytest.raises(
        InputError, match="There is no site 'middle'; choose from: encoder, decoder"
    ):
        compare(bert, [5], sites=["middle"])


def test_a_refusal_on_the_way_leaves_the_model_in_the_mode_it_was_in() -> None:
    def refuse(_: Observed) -> None:
        msg = "not this layer"
        raise InputError(msg)

    model = random_models.marian().train()
    with pytest.raises(InputError, match="not this layer"):
        observe(model, encode(model, tokenizer(), PAIRS), SITES, refuse)
    assert model.training


def test_layers_are_let_go_before_the_next_is_computed() -> None:
    """At no time do the matrices of two layers exist."""
    alive: list[Any] = []

    def receive(seen: Observed) -> None:
        assert not [one for one in alive if one() is not None], "an earlier layer is still held"
        alive.append(weakref.ref(seen.weights))

    model, words = random_models.marian(), tokenizer()
    encoding = encode(model, words, PAIRS)
    observe(model, encoding, SITES, receive, batch_size=2)
    assert len(alive) == 8 * 4


@pytest.fixture(scope="module")
def compared(small_run: Path) -> Result:
    return compare(small_run, [5, 7], sentences=5, calibration=7)


def test_tables_have_every_head_and_intervals_hold_their_means(compared: Result) -> None:
    for site in SITES:
        own = compared.mechanisms_by_head[compared.mechanisms_by_head["site"] == site]
        assert len(own) == 2 * own["mechanism"].nunique() * 2
        assert not own.duplicated(["budget", "mechanism", "layer", "head"]).any()
    for name in ("mass_fraction", "output_error"):
        known = compared.summary.dropna(subset=[name])
        assert (known[f"{name}_low"] <= known[name] + 1e-12).all()
        assert (known[name] <= known[f"{name}_high"] + 1e-12).all()
    means = compared.mechanisms_by_head.groupby(["site", "budget", "mechanism"])[
        "output_error"
    ].mean()
    for row in compared.summary.to_dict("records"):
        key = row["site"], row["budget"], row["mechanism"]
        assert row["output_error"] == pytest.approx(means[key])


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("budget", [5, 6])
def test_sizes_see_most_keys_within_the_budget_counted(site: str, budget: int) -> None:
    """Of all sizes, against a loop over them on the very sentences that were counted."""
    seen = observed(site=site)
    statistics = SiteStatistics(site, torch.arange(13), queries=7, keys=9, longest=11)
    learned = Learned({site: SiteTypes(statistics, torch.arange(13))}, [budget])
    learned.add(seen)
    learned.count(seen)
    chosen = {one.name: one for _, one in learned.candidates()[site, 0]}
    keys: dict[str, list[float]] = {}
    for size in range(budget - 1, WIDEST * budget + 1):
        for one in candidates(size, statistics, learned.layers[site, 0]):
            if one.support and one.name != "fixed":
                keys.setdefault(one.name, []).append(
                    float(figures(one, seen)["visible_keys"].mean())
                )
    assert {"band", "top-k", "sigma salience", "sigma oracle"} <= set(keys)
    for name, counted in keys.items():
        within = [one for one in counted if one <= 1.02 * budget]
        expected = max(within) if within else min(counted)
        assert float(figures(chosen[name], seen)["visible_keys"].mean()) == pytest.approx(expected)
    if site == "encoder":
        # A window of 5 keys sees fewer at the ends of a sentence, so the band gets a wider one.
        assert chosen["band"].written != f"band(window={window_of(budget)})"


def test_the_table_says_how_far_a_row_is_from_its_budget(compared: Result) -> None:
    for table in (compared.summary, compared.mechanisms_by_head):
        known = table.dropna(subset=["visible_keys"])
        assert (known["keys_over_budget"] == known["visible_keys"] - known["budget"]).all()
    fixed = compared.summary[compared.summary["mechanism"] == "fixed"]
    assert fixed["keys_over_budget"].to_numpy() == pytest.approx(
        1 - fixed["budget"].to_numpy(float)
    )


def test_the_same_call_gives_the_same_tables(
    small_run: Path, compared: Result, untouched_randomness: None
) -> None:
    again = compare(small_run, [5, 7], sentences=5, calibration=7)
    assert again.mechanisms_by_head.equals(compared.mechanisms_by_head)
    assert again.summary.equals(compared.summary)


def test_held_out_sentences_are_never_learned_from(small_run: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("Maria sleeps.\n", encoding="utf-8")
    with pytest.raises(InputError, match="no training sentence that is not held out"):
        compare(small_run, [5], text=held_out, calibration_text=held_out)


def test_a_budget_below_five_is_refused(small_run: Path) -> None:
    with pytest.raises(InputError, match="budgets must be at least 5, not 4"):
        compare(small_run, [5, 4])


def test_a_planned_model_is_refused(small_run: Path) -> None:
    run = load(small_run)
    planned = use(run.model, {"decoder": "band(window=2)"})
    with planned, pytest.raises(InputError, match="compared with full attention: give a run"):
        watched(run.model, run.tokenizers, ["Maria sleeps."])
