"""Replaced heads: what changes is what was replaced, and nothing of the run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from attnlab.ablation.fine_tuning import (
    fine_tune,
    in_training,
    linear_decay,
    training_loss,
    training_pairs,
)
from attnlab.ablation.significance import (
    loss_difference,
)
from attnlab.attention import make, use
from attnlab.attention.multihead import PerHead
from attnlab.attention.plan import plan_of, write_plan
from attnlab.budget.notes import MechanismLeftOut
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.evaluation.shared_settings import FewForIntervals
from attnlab.reporting.substitution import answers
from attnlab.studies.substitution import substitution
from attnlab.studies.substitution.prediction import prediction, spearman
from attnlab.studies.substitution.selected import SelectedHeads
from attnlab.studies.substitution.substitution import Substitution, substitute
from attnlab.studies.substitution.targets import Replacement, targets

SENTENCES, STEPS = 6, 2
MECHANISMS = ("band", "bigbird", "top-k", "sigma salience")
QUICK: dict[str, Any] = {"calibration": 20, "validation": 8}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Full attention everywhere, and a band in one head."""
    folder = tmp_path_factory.mktemp("plans")
    whole = dict.fromkeys(("encoder", "decoder", "cross"), "full")
    contents = {"whole": whole, "narrow": {"cross.0.1": "band(window=0)"}}
    paths = tuple(folder / f"{name}.json" for name in contents)
    for path, mechanisms in zip(paths, contents.values(), strict=True):
        path.write_text(
            json.dumps({"format": "attnlab attention plan 1", "mechanisms": mechanisms})
        )
    return paths


@pytest.fixture(scope="module")
def study(small_run: Path, plans: tuple[Path, Path]) -> Substitution:
    return substitute(
        small_run, sentences=SENTENCES, **QUICK, mechanisms=MECHANISMS, plans=plans, budgets=(6,)
    )


@pytest.fixture(scope="module")
def tuned_study(small_run: Path, plans: tuple[Path, Path]) -> Substitution:
    return substitute(
        small_run, sentences=SENTENCES, **QUICK, mechanisms=("top-k",), plans=plans[:1],
        scopes=("site",), sites=("encoder",), bleu=False, steps=STEPS, seed=3,
    )  # fmt: skip


def row(study: Substitution, **wanted: object) -> pd.Series:
    rows = study.substitutions
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_every_target_has_every_mechanism_that_can_stand_there(study: Substitution) -> None:
    rows = study.substitutions
    by_target = rows.groupby("replaced")["mechanism"].agg(set)
    everywhere = {"band", "top-k", "sigma salience"}
    for name in ("decoder.0.1", "cross", "decoder"):
        assert by_target[name] == everywhere
    for name in ("encoder.0.0", "encoder"):
        assert by_target[name] == everywhere | {"bigbird"}
    assert by_target["all"] == everywhere | {"whole.json", "narrow.json"}
    assert set(rows["replaced_heads"]) == {0, 1, 2, 6}


def test_full_attention_in_place_of_itself_changes_nothing(
    study: Substitution, tuned_study: Substitution
) -> None:
    at_once = row(study, mechanism="whole.json")
    tuned = row(tuned_study, mechanism="whole.json", steps=STEPS)
    for same in (at_once, tuned):
        assert same["loss_change_nats"] == 0
    assert at_once["bleu_change"] == 0


def test_a_head_or_site_replaced_by_full_attention_changes_nothing_to_the_last_digit(
    small_run: Path,
) -> None:
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    before = evaluator.losses()
    counts = {layer: part.heads for layer, part in evaluator.projections.items()}
    layers = {
        (site, 0): make("full", causal=site == "decoder", cross=site == "cross")
        for site in ("encoder", "decoder", "cross")
    }
    full = Replacement(5, "full", "calibrated", layers, dict.fromkeys(("encoder",), "full"))
    heads = [Head(*layer, head) for layer in layers for head in range(counts[layer])]
    for target in targets(heads, ("head", "site", "model")):
        with use(evaluator.model, full.plan(target, counts, evaluator.model.dtype)):
            assert torch.equal(evaluator.losses(), before), target.name


def test_nothing_is_chosen_on_test(study: Substitution, small_run: Path) -> None:
    again = substitute(
        small_run, sentences=2, **QUICK, mechanisms=MECHANISMS, budgets=(6,), bleu=False,
        scopes=("site",),
    )  # fmt: skip
    keys = ["replaced", "mechanism"]
    before, after = (
        own[own["scope"] == "site"].set_index(keys)[["written", "settings_tried"]]
        for own in (study.substitutions, again.substitutions)
    )
    pd.testing.assert_frame_equal(before, after)
    assert len(after) > 8


def test_losses_are_those_of_the_plan_installed_by_hand(
    study: Substitution, small_run: Path
) -> None:
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    before = evaluator.losses()
    by_hand = ("encoder.0.1", "band"), ("decoder.0.0", "top-k"), ("cross", "band")
    for replaced, mechanism in (*by_hand, ("all", "narrow.json")):
        found = row(study, replaced=replaced, mechanism=mechanism)
        narrow = mechanism == "narrow.json"
        plan = {"cross.0.1": "band(window=0)"} if narrow else {replaced: found["written"]}
        with use(evaluator.model, plan):
            after = evaluator.losses()
        change = loss_difference(before, after, evaluator.tokens, seed=0)
        assert found["loss_change_nats"] == pytest.approx(change.change, abs=1e-6)
        assert found["loss_nats"] == pytest.approx(change.after, abs=1e-6)
        assert found["loss_low"] <= found["loss_change_nats"] <= found["loss_high"]


def test_fine_tuning_trains_as_the_run_did_with_the_mechanism_in_place(
    tuned_study: Substitution, small_run: Path
) -> None:
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    run = evaluator.subject.run
    assert run is not None

    def tuned() -> torch.Tensor:
        pairs = training_pairs(run, run.corpus(), batch_tokens=None, seed=3)
        with in_training(run.model, 3):
            fine_tune(
                run.model, pairs.batches(STEPS), training_loss(run),
                projections=evaluator.projections, schedule=linear_decay(STEPS),
            )  # fmt: skip
        return evaluator.losses()

    start = {name: part.clone() for name, part in run.model.state_dict().items()}
    whole = tuned()
    assert float(whole.sum() / evaluator.tokens.sum()) == pytest.approx(
        row(tuned_study, mechanism="full", steps=STEPS)["loss_nats"], abs=1e-6
    )
    run.model.load_state_dict(start)
    found = row(tuned_study, mechanism="top-k", steps=STEPS)
    topk = make(found["written"], dropout=run.model.config.attention_dropout)
    with use(run.model, {"encoder": topk}):
        after = tuned()
    change = float((after - whole).sum() / evaluator.tokens.sum())
    assert found["loss_change_nats"] == pytest.approx(change, abs=1e-6)


def test_the_run_is_as_it_was(tuned_study: Substitution, small_run: Path) -> None:
    kept = load_evaluator(small_run, sentences=1).model.state_dict()
    left = tuned_study.run.model.state_dict()
    assert kept.keys() == left.keys()
    assert all(torch.equal(kept[name], left[name]) for name in kept)


def test_intervals_are_of_their_rows(study: Substitution) -> None:
    rows = study.substitutions
    compared = rows[rows["replaced_heads"] > 0]
    assert (compared["loss_low"] <= compared["loss_change_nats"]).all()
    assert (compared["loss_change_nats"] <= compared["loss_high"]).all()
    assert (rows["sentences"] == study.sentences["test"]).all()
    together = compared["scope"] != "head"
    assert compared.loc[together, "bleu_change"].notna().all()
    assert compared.loc[~together, "bleu"].isna().all()
    assert compared.loc[together, "time_ratio"].gt(0).all()
    # What a mechanism costs is a question about models: a row is an estimate, and has no test.
    assert not [name for name in rows if name.endswith(("_p_value", "_significant"))]


def test_notes_say_what_is_lacking(study: Substitution) -> None:
    assert FewForIntervals(study.sentences["test"]) in study.notes
    assert {note.site for note in study.notes if isinstance(note, MechanismLeftOut)} == {
        "decoder", "cross",
    }  # fmt: skip


def test_selected_heads_are_those_of_single_mechanisms() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(2, 3, 7, 4, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    visible = torch.ones(2, 7, dtype=torch.bool)
    visible[1, 5:] = False
    band = make("band(window=1)", causal=True)
    chosen = SelectedHeads(band, [0, 2], 3)
    parts = PerHead([([0, 2], band), ([1], make("full", causal=True))])
    torch.testing.assert_close(
        chosen(query, key, value, visible), parts(query, key, value, visible)
    )
    matrix = chosen.implied_matrix(query, key, visible)
    torch.testing.assert_close(matrix, parts.implied_matrix(query, key, visible))
    torch.testing.assert_close(chosen(query, key, value, visible), matrix @ value)


def test_what_is_translated_is_counted_apart_and_comes_first(small_run: Path) -> None:
    told: list[tuple[str, int, int]] = []
    found = substitute(
        small_run, sentences=4, calibration=4, validation=4, mechanisms=["band"], sites=["cross"],
        budgets=[5], scopes=["head", "site"], progress=lambda *step: told.append(step),
    ).substitutions  # fmt: skip
    names = [what for what, _, _ in told if what.startswith("Replacing")]
    kinds = "Replacing sites, models, plans", "Replacing heads"
    assert tuple(dict.fromkeys(names)) == kinds
    alone = found["scope"] == "head"
    for what, count in zip(kinds, (int((~alone).sum()), int(alone.sum())), strict=True):
        assert [one[1:] for one in told if one[0] == what] == [(n, count) for n in range(count + 1)]
    assert found["bleu"].notna().tolist() == (~alone).tolist()


def test_scopes() -> None:
    heads = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("cross", 0, 0)]
    names = [target.name for target in targets(heads, ("head", "site", "model"))]
    assert names == ["encoder.0.0", "encoder.0.1", "cross.0.0", "encoder", "cross", "all"]
    assert [t.name for t in targets(heads[:2], ("site", "model"))] == ["encoder"]
    assert [t.name for t in targets(heads[:2], ("model",))] == ["all"]


def test_spearman_is_that_of_scipy_with_ties() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        one, other = random.integers(0, 5, (2, 12)).astype(float)
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert np.isnan(spearman(np.ones(4), np.arange(4.0)))


def test_what_decides_the_loss_predicts_it() -> None:
    """Planted: the loss is a function of the output error; captured mass is noise."""
    random = np.random.default_rng(1)
    table = pd.DataFrame(
        [
            {"replaced": f"{site}.0.{head}", "site": site, "budget": 5, "mechanism": name,
             "mass_fraction": random.random(), "output_error": random.random()}
            for site in ("encoder", "cross") for head in range(6) for name in "abcdef"
        ]
    )  # fmt: skip
    table["loss_change_nats"] = table["output_error"] ** 3
    table.loc[len(table)] = {
        "replaced": "encoder.0.0", "site": "encoder", "budget": 5, "mechanism": "linear",
        "mass_fraction": np.nan, "output_error": 9.0, "loss_change_nats": -1.0,
    }  # fmt: skip
    found = prediction(table, seed=0).set_index(["site", "predictor", "across"])
    for site in ("encoder", "cross", "all"):
        for across in ("pairs", "mechanisms", "heads"):
            exact = found.loc[(site, "output_error", across)]
            assert exact["spearman"] == pytest.approx(1)
            noise = found.loc[(site, "missing_mass", across)]
            assert noise["low"] < noise["spearman"] < noise["high"]
            assert abs(noise["spearman"]) < 0.7
    assert (found["mechanisms"] == 6).all()


def few(heads: int, mechanisms: int) -> pd.DataFrame:
    """Rank correlations of planted heads whose loss is in the order of both predictors."""
    values = [(head, name) for head in range(heads) for name in range(mechanisms)]
    table = pd.DataFrame(values, columns=["head", "name"])
    figure = table["head"] + 10.0 * table["name"]
    table = table.assign(
        replaced="cross.0." + table["head"].astype(str), site="cross", budget=5,
        mechanism="m" + table["name"].astype(str), mass_fraction=-figure, output_error=figure,
        loss_change_nats=figure**2,
    )  # fmt: skip
    return prediction(table, seed=0).set_index(["predictor", "across"]).loc["output_error"]


def test_too_few_are_not_ranked() -> None:
    found = few(1, 2)
    assert found[["spearman", "low", "high"]].isna().all(axis=None), (
        "two points are always in a line"
    )
    nothing = pd.DataFrame(columns=["scope", "level", "replaced_heads", "steps"])
    said = found.reset_index().assign(site="cross", predictor="output_error")
    assert answers(nothing, said) == []
    found = few(4, 3)
    assert found["spearman"].isna().to_dict() == {"pairs": False, "mechanisms": True, "heads": True}
    assert found[["low", "high"]].isna().all(axis=None), "four heads give too few different draws"
    found = few(6, 5)
    assert (found["spearman"] == 1).all()
    assert found[["low", "high"]].isna().all(axis=None), "all draws agree"


@pytest.mark.filterwarnings("error")
def test_what_does_not_vary_predicts_nothing() -> None:
    table = pd.DataFrame(
        {"replaced": [f"encoder.0.{head}" for head in range(4)], "site": "encoder", "budget": 5,
         "mechanism": "band", "mass_fraction": 0.5, "output_error": 1.0, "loss_change_nats": 0.1}
    )  # fmt: skip
    assert prediction(table, seed=0)[["spearman", "low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mechanisms": ("nobody",)}, "no mechanism 'nobody'"),
        ({"scopes": ("heads",)}, "scopes must be among head, site, model"),
        ({"budgets": (0,)}, "budgets must be at least 1"),
        ({"scopes": ()}, "nothing to replace"),
        ({"plans": (Path("none.json"),)}, "none.json"),
        ({"sites": ("middle",)}, "no site 'middle'"),
        ({"plans": ("a/plan.json", Path("b/plan.json"))}, "Two plans are called plan.json"),
        (
            {"scopes": ("model",), "mechanisms": ("bigbird",)},
            "'bigbird' is not applicable within the budget to all heads",
        ),
    ],
)
def test_refusals(small_run: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        substitute(small_run, **({"sentences": 4, "calibration": 4, "validation": 4} | options))  # type: ignore[arg-type]


def test_a_plan_with_token_ids_of_another_tokenizer_is_refused(
    small_run: Path, tmp_path: Path
) -> None:
    plan = plan_of({"encoder": "keys(tokens=(5,))"}).for_tokenizer("abc")
    write_plan(tmp_path / "blocks.json", plan)
    with pytest.raises(
        InputError, match="The plan blocks.json names token ids of another tokenizer"
    ):
        substitute(
            small_run, sentences=4, calibration=4, validation=4, plans=(tmp_path / "blocks.json",)
        )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"encoder.0.2": "band(window=1)"},
            "names 'encoder.0.2', but the model's encoder has 1 layer of",
        ),
        ({"cross": "bigbird(block=1)"}, "bigbird"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_before_anything_is_measured(
    entries: dict[str, str],
    message: str,
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_plan(tmp_path / "unfit.json", plan_of(entries))
    monkeypatch.setattr(substitution, "parts_of", None)
    with pytest.raises(InputError, match=message):
        substitute(small_run, sentences=4, plans=(tmp_path / "unfit.json",))


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        substitute(tmp_path, sentences=4)
