"""Mechanisms at equal budgets: figures against plain loops, bounds, levels, what may be learned."""

from pathlib import Path

import pytest
import torch

from attnlab.attention.registry import make
from attnlab.errors import InputError
from attnlab.studies.comparison import Comparison, compare, measure_matrices
from attnlab.studies.observing import Observed, observe
from attnlab.studies.rivals import rivals, window_of
from attnlab.translation.run import load

LENGTHS = (11, 7)


def observed(seed: int = 0) -> Observed:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        3 * torch.randn(2, 3, 11, 5, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    visible = torch.arange(11) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(4, 13, (2, 11), generator=generator)
    weights = make("full").implied_matrix(query, key, visible) * visible[:, None, :, None]
    return Observed(0, query, key, value, visible, ids, weights)


def test_measures_equal_plain_loops() -> None:
    seen = observed()
    matrices = make("band(window=(2, 1))").implied_matrix(seen.query, seen.key, seen.visible)
    found = measure_matrices(matrices, seen, support=True)
    for b, length in enumerate(LENGTHS):
        for h in range(3):
            mass, keys, wrong, whole = 0.0, 0, 0.0, 0.0
            for i in range(length):
                near = [j for j in range(length) if -2 <= j - i <= 1]
                kept = sum(float(seen.weights[b, h, i, j]) for j in near)
                mass, keys = mass + kept / length, keys + len(near)
                for d in range(5):
                    full = sum(
                        float(seen.weights[b, h, i, j] * seen.value[b, h, j, d])
                        for j in range(length)
                    )
                    band = sum(
                        float(seen.weights[b, h, i, j] * seen.value[b, h, j, d]) / kept
                        for j in near
                    )
                    wrong, whole = wrong + (band - full) ** 2, whole + full**2
            assert float(found["mass_fraction"][b, h]) == pytest.approx(mass)
            assert float(found["visible_keys"][b, h]) == pytest.approx(keys / length)
            assert float(found["output_error"][b, h]) == pytest.approx((wrong / whole) ** 0.5)


@pytest.mark.parametrize("budget", [5, 6, 9])
def test_top_k_bounds_what_sees_no_more_keys_and_budgets_are_kept(budget: int) -> None:
    seen = observed()
    made = rivals(budget, [observed(1)], torch.arange(13), tokens=9)
    found = {r.name: measure_matrices(r.apply(seen), seen, support=r.support) for r in made}
    # Rows of global tokens see every key, so these two alone may go over the budget.
    for name in set(found) - {"longformer", "bigbird"}:
        keys, mass = found[name]["visible_keys"], found[name]["mass_fraction"]
        if not bool(keys.isnan().any()):
            assert bool((keys <= budget + 1e-9).all()), name
            assert bool((mass <= found["top-k"]["mass_fraction"] + 1e-9).all()), name
    best = found["sigma oracle"]["mass_fraction"]
    for columns in ("first", "random", "salience", "frequency"):
        assert bool((found[f"sigma {columns}"]["mass_fraction"] <= best + 1e-9).all()), columns


def test_levels_say_what_each_row_was_chosen_from() -> None:
    levels = {r.name: r.level for r in rivals(5, [observed()], torch.arange(13), tokens=9)}
    assert {name for name, level in levels.items() if level == "oracle"} == {
        "top-k",
        "sigma oracle",
    }
    calibrated = {"sigma salience", "sigma frequency", "sigma offsets", "fixed"}
    assert {name for name, level in levels.items() if level == "calibrated"} == calibrated


def test_windows_have_the_number_of_keys_they_are_asked_for() -> None:
    for keys in range(1, 14):
        assert sum(window_of(keys)) + 1 == keys


@pytest.fixture(scope="module")
def compared(small_run: Path) -> Comparison:
    return compare(small_run, [5, 7], sentences=5, calibration=7)


def test_observed_weights_are_those_the_model_returns(small_run: Path) -> None:
    run = load(small_run)
    texts = list(run.corpus().test["source"][:1])
    seen = next(iter(observe(run.model, run.tokenizers, texts)))
    given = run.tokenizers.source(texts, return_tensors="pt")
    with torch.no_grad():
        out = run.model.encoder(**given, output_attentions=True)
    torch.testing.assert_close(seen.weights.float(), out.attentions[0], rtol=1e-5, atol=1e-6)


def test_tables_have_every_head_and_intervals_hold_their_means(compared: Comparison) -> None:
    names = set(compared.summary["mechanism"])
    assert len(compared.heads) == 2 * len(names) * 2
    assert not compared.heads.duplicated(["budget", "mechanism", "layer", "head"]).any()
    for name in ("mass_fraction", "output_error"):
        known = compared.summary.dropna(subset=[name])
        assert (known[f"{name}_low"] <= known[name] + 1e-12).all()
        assert (known[name] <= known[f"{name}_high"] + 1e-12).all()
    means = compared.heads.groupby(["budget", "mechanism"])["output_error"].mean()
    for row in compared.summary.to_dict("records"):
        assert row["output_error"] == pytest.approx(means[row["budget"], row["mechanism"]])


def test_the_same_call_gives_the_same_tables(
    small_run: Path, compared: Comparison, untouched_randomness: None
) -> None:
    again = compare(small_run, [5, 7], sentences=5, calibration=7)
    assert again.heads.equals(compared.heads)
    assert again.summary.equals(compared.summary)


def test_held_out_sentences_are_never_learned_from(small_run: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("Maria sleeps.\n", encoding="utf-8")
    with pytest.raises(InputError, match="no training sentence that is not held out"):
        compare(small_run, [5], text=held_out, calibration_text=held_out)


def test_a_budget_below_five_is_refused(small_run: Path) -> None:
    with pytest.raises(InputError, match="A budget is 5 visible keys a row or more, not 4"):
        compare(small_run, [5, 4])


def test_a_planned_model_is_refused(small_run: Path) -> None:
    from attnlab.attention.bridge import use

    run = load(small_run)
    planned = use(run.model, {"decoder": "band(window=2)"})
    with planned, pytest.raises(InputError, match="trained with it"):
        next(iter(observe(run.model, run.tokenizers, ["Maria sleeps."])))
