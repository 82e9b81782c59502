"""Replaced heads: what changes is what was replaced, and nothing of the run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from zoo import random_models

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
from attnlab.core.addresses import Head
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.evaluation.shared_settings import FewForIntervals
from attnlab.models.run import load
from attnlab.questions.compare.comparison import compare
from attnlab.questions.compare.question import MechanismLeftOut
from attnlab.questions.compare.replacing import SelectedHeads, plan_replacing
from attnlab.results.result import Result

SENTENCES, STEPS = 10, 2
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
            json.dumps({"format": "attnlab attention plan 2", "mechanisms": mechanisms})
        )
    return paths


@pytest.fixture(scope="module")
def study(small_run: Path, plans: tuple[Path, Path], intervals_of_six: None) -> Result:
    return compare(
        small_run,
        [6],
        sentences=SENTENCES,
        **QUICK,
        mechanisms=MECHANISMS,
        plans=plans,
        per_head=True,
    )


@pytest.fixture(scope="module")
def tuned_study(small_run: Path, plans: tuple[Path, Path]) -> Result:
    return compare(
        small_run, sentences=SENTENCES, **QUICK, mechanisms=("top-k",), plans=plans[:1],
        sites=("encoder",), quick=True, fine_tune=STEPS, seed=3,
    )  # fmt: skip


def row(study: Result, table: str = "summary", **wanted: object) -> pd.Series:
    rows = study.tables[table]
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_every_site_has_every_mechanism_that_can_be_there(study: Result) -> None:
    by_target = study.summary.groupby("sites")["mechanism"].agg(set)
    everywhere = {"band", "top-k", "sigma salience"}
    for name in ("cross", "decoder"):
        assert by_target[name] == everywhere
    assert by_target["encoder"] == everywhere | {"bigbird"}
    assert by_target["all"] == everywhere | {"whole.json", "narrow.json", "full"}
    assert set(study.summary["replaced_heads"]) == {0, 1, 2, 6}, (
        "one head has the band of the narrow plan"
    )
    heads = study.mechanisms_by_head.dropna(subset=["budget"])
    assert heads["loss_change"].notna().all()
    assert len(heads) == 6 * 3 + 2


def test_full_attention_in_place_of_itself_changes_nothing(
    study: Result, tuned_study: Result
) -> None:
    at_once = row(study, mechanism="whole.json")
    tuned = row(tuned_study, mechanism="whole.json", steps=STEPS)
    for same in (at_once, tuned):
        assert same["loss_change"] == 0
    assert at_once["bleu_change"] == 0
    assert at_once["output_error"] == pytest.approx(0, abs=1e-6)
    full = row(study, mechanism="full")
    assert at_once["visible_keys"] == pytest.approx(full["visible_keys"])


def test_a_plan_has_the_keys_and_the_error_of_its_mechanisms(
    study: Result, small_run: Path
) -> None:
    heads = study.mechanisms_by_head
    own = heads[heads["mechanism"] == "narrow.json"].set_index(["site", "layer", "head"])
    assert own.loc[("cross", 0, 1), "visible_keys"] < 1 + 1e-9
    others = own.drop(index=[("cross", 0, 1)])
    assert others["output_error"].to_numpy() == pytest.approx(0, abs=1e-6)
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    rows = [
        sum(int(evaluator.real(batch, site).sum()) for batch in evaluator.batches)
        for site in own.index.get_level_values("site")
    ]
    assert row(study, mechanism="narrow.json")["output_error"] == pytest.approx(
        np.average(own["output_error"], weights=rows)
    )


def test_a_head_or_site_replaced_by_full_attention_changes_nothing_to_the_last_digit(
    small_run: Path,
) -> None:
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    before = evaluator.losses()
    counts = {layer: part.heads for layer, part in evaluator.projections.items()}
    full = {
        (site, 0): make("full", causal=site == "decoder", cross=site == "cross")
        for site in ("encoder", "decoder", "cross")
    }
    heads = [Head(*layer, head) for layer in full for head in range(counts[layer])]
    sites = [[head for head in heads if head.site == site] for site, _ in full]
    for together in (*([head] for head in heads), *sites, heads):
        plan = plan_replacing(together, full, counts, evaluator.model.dtype)
        with use(evaluator.model, plan):
            assert torch.equal(evaluator.losses(), before), together


def test_nothing_is_chosen_on_held_out_sentences(study: Result, small_run: Path) -> None:
    again = compare(small_run, [6], sentences=2, **QUICK, mechanisms=MECHANISMS, quick=True)
    keys = ["sites", "mechanism"]
    before, after = (
        own[own["budget"].notna()].set_index(keys)[["setting", "settings_tried"]]
        for own in (study.summary, again.summary)
    )
    pd.testing.assert_frame_equal(before, after)
    assert len(after) > 8


def test_losses_are_those_of_the_plan_installed_by_hand(study: Result, small_run: Path) -> None:
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    before = evaluator.losses()
    band = {"mechanism": "band"}
    by_hand = {
        "encoder.0.1": row(study, "mechanisms_by_head", site="encoder", head=1, **band),
        "decoder.0.0": row(study, "mechanisms_by_head", site="decoder", head=0, **band),
        "cross": row(study, sites="cross", **band),
        "cross.0.1": row(study, mechanism="narrow.json"),
    }
    for replaced, found in by_hand.items():
        narrow = found["mechanism"] == "narrow.json"
        with use(evaluator.model, {replaced: "band(window=0)" if narrow else found["setting"]}):
            after = evaluator.losses()
        change = loss_difference(before, after, evaluator.tokens)
        assert found["loss_change"] == pytest.approx(change.change, abs=1e-6)
        assert found["loss"] == pytest.approx(change.after, abs=1e-6)
        assert found["loss_change_low"] == pytest.approx(change.low, abs=1e-6)
        assert found["loss_change_high"] == pytest.approx(change.high, abs=1e-6)


def test_fine_tuning_trains_as_the_run_did_with_the_mechanism_in_place(
    tuned_study: Result, small_run: Path
) -> None:
    evaluator = load_evaluator(small_run, sentences=SENTENCES)
    run = evaluator.loaded
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
        row(tuned_study, mechanism="full", steps=STEPS)["loss"], abs=1e-6
    )
    run.model.load_state_dict(start)
    found = row(tuned_study, mechanism="top-k", steps=STEPS)
    topk = make(found["setting"], dropout=run.model.config.attention_dropout)
    with use(run.model, {"encoder": topk}):
        after = tuned()
    change = float((after - whole).sum() / evaluator.tokens.sum())
    assert found["loss_change"] == pytest.approx(change, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marian", "bart"])
def test_encoder_decoders_of_transformers_have_a_loss_with_every_mechanism(name: str) -> None:
    model = random_models.ALL[name](), random_models.tokenizer()
    pairs = [(f"the {one} sees a {other}", f"a {other} {one} runs") for one in random_models.WORDS
             for other in random_models.WORDS]  # fmt: skip
    found = compare(
        model, (3,), sentences=pairs[:6], validation=pairs[6:20], calibration=pairs[20:40], quick=True,
        per_head=True,
    )  # fmt: skip
    assert {"sigma frequency", "sigma salience"} <= set(found.summary["mechanism"])
    assert found.summary["loss"].notna().all()
    replaced = found.mechanisms_by_head["budget"].notna()
    assert found.mechanisms_by_head.loc[replaced, "loss"].notna().all()


def test_the_run_is_as_it_was(small_run: Path) -> None:
    run = load(small_run)
    before = {name: part.clone() for name, part in run.model.state_dict().items()}
    few = {"sentences": 3, "calibration": 4, "validation": 3, "quick": True}
    compare(run, [5], **few, mechanisms=["band"], sites=["cross"], fine_tune=1, per_head=True)  # type: ignore[arg-type]
    left = run.model.state_dict()
    assert before.keys() == left.keys()
    assert all(torch.equal(before[name], left[name]) for name in before)


def test_intervals_are_of_their_rows(study: Result) -> None:
    rows = study.summary[study.summary["replaced_heads"] > 0]
    assert (rows["loss_change_low"] <= rows["loss_change"]).all()
    assert (rows["loss_change"] <= rows["loss_change_high"]).all()
    assert rows["bleu_change"].notna().all()
    assert rows["time_ratio"].gt(0).all()
    # What a mechanism costs is a question about models: a row is an estimate, and has no test.
    assert not [name for name in rows if name.endswith(("_p", "_p_value", "_significant"))]


def test_notes_say_what_is_lacking(study: Result) -> None:
    assert "Gains of" not in study.about, "none was named"
    assert FewForIntervals(study.about["Held-out sentences"]) in study.notes
    assert {note.site for note in study.notes if isinstance(note, MechanismLeftOut)} == {
        "decoder", "cross",
    }  # fmt: skip


def test_what_is_saved_is_loaded_and_drawn_again(study: Result, tmp_path: Path) -> None:
    study.save(tmp_path / "out")
    again = Result.load(tmp_path / "out")
    assert list(again.summary) == list(study.summary)
    assert [table.rows for table in again.terminal()] == [table.rows for table in study.terminal()]
    assert list(again.figures) == [
        f"mechanisms_{name}" for name in ("all", "encoder", "decoder", "cross")
    ]
    assert "<h1" in (tmp_path / "out" / "report.html").read_text("utf-8")


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
