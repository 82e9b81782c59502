"""Replaced heads: what changes is what was replaced, and nothing of the run."""

import ast
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from grids import slow
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
from attnlab.attention import calibrate, install, load_frequencies, make, use
from attnlab.attention.multihead import PerHead
from attnlab.attention.plan import plan_of, write_plan
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.evaluation import opened_model
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.evaluation.shared_settings import FewForIntervals
from attnlab.questions.compare.comparison import compare
from attnlab.questions.compare.comparison_figure import draw_comparison
from attnlab.questions.compare.question import MechanismLeftOut, NoGains
from attnlab.questions.compare.replacing import SelectedHeads, plan_replacing
from attnlab.questions.compare.view import answer_of
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mechanisms": ("nobody",)}, "no mechanism 'nobody'"),
        ({"mechanisms": ("top-kk",)}, r"no mechanism 'top-kk' here \(did you mean 'top-k'\?\)"),
        ({"mechanisms": ("bigbird",), "sites": ("cross",)}, "'bigbird' cannot be in cross"),
        ({"budgets": ()}, "There is no budget"),
        ({"budgets": [3, 5, 3]}, "The budget of 3 keys is given twice"),
        ({"mechanisms": ()}, "nothing to compare: name at least one mechanism"),
        ({"plans": (Path("none.json"),)}, "none.json"),
        ({"plans": ("a/plan.json", Path("b/plan.json"))}, "Two plans are called plan.json"),
    ],
)
def test_refusals(small_run: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compare(small_run, **({"sentences": 4, "calibration": 4, "validation": 4} | options))  # type: ignore[arg-type]


def test_a_plan_with_token_ids_of_another_tokenizer_is_refused(
    small_run: Path, tmp_path: Path
) -> None:
    plan = plan_of({"encoder": "keys(tokens=(5,))"}).for_tokenizer("abc")
    write_plan(tmp_path / "blocks.json", plan)
    with pytest.raises(
        InputError, match="The plan blocks.json names token ids of another tokenizer"
    ):
        compare(
            small_run, sentences=4, calibration=4, validation=4, plans=(tmp_path / "blocks.json",)
        )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"encoder.0.2": "band(window=1)"},
            "names 'encoder.0.2', but the model's encoder has attention in layer 0 with 2 heads",
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
    monkeypatch.setattr(opened_model, "calibrated_parts", None)
    with pytest.raises(InputError, match=message):
        compare(small_run, sentences=4, plans=(tmp_path / "unfit.json",))


def mechanism(name: str, level: str, loss: float, heads: int = 8, **more: Any) -> dict[str, Any]:
    return {
        "mechanism": name, "level": level, "budget": 5, "steps": 0, "replaced_heads": heads, "sites": "all",
        "visible_keys": 4.5, "loss_change": loss, "loss_change_low": 0.0,
        "loss_change_high": 1.0, "output_error": 0.2, "output_error_low": 0.1,
        "output_error_high": 0.3,
    } | more  # fmt: skip


def test_the_answer_names_the_cheapest_that_can_be_used_everywhere() -> None:
    rows = [
        mechanism("full", "", 0.0, heads=0), mechanism("top-k", "oracle", 0.1),
        mechanism("bigbird", "calibrated", 0.2, heads=4, sites="encoder"),
        mechanism("band", "calibrated", 0.4), mechanism("linear", "calibrated", 0.5),
        mechanism("wide.json", "", 0.01, visible_keys=6.0),
    ]  # fmt: skip
    assert answer_of(pd.DataFrame(rows)) == [
        "At 5 keys per row, band has the least loss: +0.4 [0.0, +1.0] nats per token.",
        (
            "It replaces 8 heads, the best of 2 mechanisms that can be used. "
            "Next is linear (+0.5 [0.0, +1.0]), a difference that is not tested here."
        ),
    ]
    fitting = mechanism("mine.json", "", 0.01)
    assert "mine.json has the least loss" in answer_of(pd.DataFrame([*rows, fitting]))[0]
    lead, replaced = answer_of(pd.DataFrame([mechanism("band", "calibrated", 0.4, steps=1)]))
    changed = "band changes the loss by +0.4 [0.0, +1.0] nats per token."
    assert lead == f"At 5 keys per row and 1 batch of fine-tuning, {changed}"
    assert replaced == "It replaces 8 heads."
    assert answer_of(pd.DataFrame(rows[:2])) == []


def test_a_plan_may_see_as_many_keys_as_a_mechanism_that_was_set_for_the_budget() -> None:
    full = mechanism("full", "", 0.0, heads=0, sites="all", visible_keys=9.0, budget=None)
    full["loss"] = 1.0
    oracle = mechanism("top-k", "oracle", 0.1, sites="all", visible_keys=9.0)
    elsewhere = mechanism("bigbird", "calibrated", 0.9, heads=4, sites="cross", visible_keys=9.0)
    band = mechanism("band", "calibrated", 0.4, sites="all", visible_keys=5.7)
    plans = [
        mechanism(name, "", loss, sites="all", visible_keys=keys, budget=None)
        for name, loss, keys in (("as.json", 0.2, 5.75), ("more.json", 0.01, 6.0))
    ]
    rows = pd.DataFrame([full, oracle, elsewhere, band, *plans]).astype({"budget": "Int64"})
    (table,) = Result("compare", "", {"summary": rows}, {}, (), {}).terminal()
    assert [row[0] for row in table.rows] == [
        "full", "more.json (more keys)", "as.json (more keys)", "band (more keys)",
        "bigbird (more keys), cross alone", "top-k (oracle)",
    ]  # fmt: skip
    answer, details = table.answers
    assert answer.startswith("At 5 keys per row, as.json has the least loss: +0.2")
    assert details.startswith(
        "It replaces 8 heads, the best of 2 mechanisms that can be used, with 5.75 keys per row on these "
        "sentences. Next is band (+0.4"
    )
    alone = rows[rows["mechanism"].isin(["full", "more.json"])]
    tables = Result("compare", "", {"summary": alone}, {}, (), {"budgets": [6, 5]}).terminal()
    (table,) = tables
    labels = [row[:2] for row in table.rows]
    assert labels == [
        ("full", "6"), ("more.json", "6"), ("full", "5"), ("more.json (more keys)", "5")
    ]  # fmt: skip
    drawn = draw_comparison(
        alone.assign(mass_fraction=0.5, mass_fraction_low=0.4, mass_fraction_high=0.6)
    )
    assert [one.get_title(loc="left") for one in drawn.axes] == ["all", "", ""]


def test_what_is_at_fewer_sites_says_so_and_is_held_against_its_like() -> None:
    parts = [("encoder", 4, 0.1), ("encoder, cross", 8, 0.3), ("encoder, decoder", 8, 0.2)]
    fewer = [
        mechanism(name, "calibrated", loss, heads, sites=sites)
        for name, (sites, heads, loss) in zip(
            ("bigbird", "linformer", "strided"), parts, strict=True
        )
    ]
    full = mechanism("full", "", 0.0, heads=0, budget=None)
    everywhere = [mechanism("band", "calibrated", 0.4), mechanism("linear", "calibrated", 0.5)]
    for rows, named, said in (
        ([full, *fewer, *everywhere], ["band", "linear"], "band has the least loss"),
        ([full, *fewer], [], "linformer in encoder and cross alone changes the loss by"),
    ):
        table = pd.DataFrame(rows).astype({"budget": "Int64"}).assign(
            mass_fraction=0.5, mass_fraction_low=0.4, mass_fraction_high=0.6
        )  # fmt: skip
        result = Result("compare", "", {"summary": table}, {}, (), {"budgets": [5]})
        (shown,) = result.terminal()
        assert [row[0] for row in shown.rows] == [
            "full", *named, "linformer, encoder and cross alone", "strided, encoder and decoder alone",
            "bigbird, encoder alone",
        ]  # fmt: skip
        assert "sites" not in shown.headings
        assert shown.answers[0].startswith(f"At 5 keys per row, {said}")
        first = result.contents().figures[0]
        assert first.name == ("mechanisms_all" if named else "mechanisms_encoder_cross")
        bold = [one.get_text() for one in first.figure.axes[0].get_yticklabels()
                if one.get_fontweight() == "bold"]  # fmt: skip
        assert bold == [named[0] if named else "linformer"], "the ring is that of the sentence"


def test_what_attends_like_the_best_is_named_beside_it_and_is_no_second() -> None:
    rows = [
        mechanism("full", "", 0.0, heads=0), mechanism("band", "calibrated", 0.2 + 1e-9),
        mechanism("longformer", "calibrated", 0.2), mechanism("linear", "calibrated", 0.5),
        mechanism("performer", "calibrated", 0.55, visible_keys=math.nan),
        mechanism("strided", "calibrated", 0.5),
    ]  # fmt: skip
    answer, said = answer_of(pd.DataFrame(rows))
    assert answer.startswith("At 5 keys per row, longformer has the least loss")
    assert "the best of 3 mechanisms that can be used. band attends alike. Next is linear" in said
    gain = {"loss_gain": 0.3, "loss_gain_low": 0.1, "loss_gain_high": 0.5}
    held = pd.DataFrame([*rows[:3], *({**row, **gain} for row in rows[3:])])
    answer, said = answer_of(held, "band")
    assert answer.startswith("At 5 keys per row, band has the least loss")
    assert "longformer attends alike. Next is linear, a loss that is higher by +0.3000" in said
    # Of a second, too, the name that others are held against stands.
    turned = pd.DataFrame([*({**row, "loss_gain": -0.3} for row in rows[:3]), *rows[3:]])
    _, said = answer_of(turned.assign(loss_gain_low=-0.5, loss_gain_high=-0.1), "strided")
    assert "Next is strided, a loss that is higher by +0.3000" in said


def test_the_mechanism_that_is_named_is_the_one_that_is_installed() -> None:
    source, texts = (
        (random_models.llama(), random_models.tokenizer()),
        sorted(random_models.SENTENCES, key=len),
    )
    for against, setting in (("longformer", "longformer("), ("band", "band(")):
        found = compare(
            source, (40,), sentences=texts[:3], calibration=texts[3:5], validation=texts[5:],
            mechanisms=("band", "longformer"), against=against, quick=True,
        )  # fmt: skip
        answer, said, installing = found.contents().answers
        assert f", {against} " in answer
        assert " attends alike." in said
        assert f"'decoder': '{setting}" in installing


def test_a_budget_that_only_plans_fit_has_its_table(small_run: Path, tmp_path: Path) -> None:
    write_plan(tmp_path / "mine.json", plan_of({"encoder": "band(window=1)"}))
    found = compare(
        small_run, (3, 5), sentences=SENTENCES, **QUICK, mechanisms=("bigbird",), sites=("encoder",),
        plans=(tmp_path / "mine.json",), quick=True,
    )  # fmt: skip
    (table,) = found.terminal()
    rows = [row[:2] for row in table.rows]
    assert rows[:2] == [("full", "3"), ("mine.json", "3")]
    assert {row[1] for row in rows[2:]} == {"5"}
    assert table.answers[0].startswith("At 3 keys per row, mine.json changes the loss by")
    alone = compare(
        small_run, (3,), sentences=SENTENCES, **QUICK, mechanisms=(), plans=(tmp_path / "mine.json",),
        quick=True,
    )  # fmt: skip
    assert alone.contents().facts["Keys per row"] == "3"
    (drawn,) = alone.contents().figures
    assert "ring" not in drawn.caption
    assert not any("best" in text.get_text() for one in drawn.figure.legends for text in one.texts)


@pytest.mark.parametrize(
    ("source", "name", "learned"),
    [
        ("marian", "band", ""),
        ("gpt2", "sigma offsets", "calibrate"),
        ("gpt2", "sigma frequency", "load_frequencies"),
        *slow(
            ("marian", "longformer", ""),
            ("gpt2", "linear", ""),
            ("marian", "sigma salience", "calibrate"),
        ),
    ],
)
def test_the_sentence_on_installing_gives_the_loss_of_the_row(
    source: str, name: str, learned: str
) -> None:
    texts = random_models.PAIRS if source == "marian" else random_models.SENTENCES
    model, words = random_models.ALL[source](), random_models.tokenizer()
    found = compare(
        (model, words), [3], sentences=texts[:3], calibration=texts[3:5], validation=texts[5:],
        mechanisms=[name], quick=True,
    )  # fmt: skip
    *_, said = found.contents().answers
    assert said in next(iter(found.terminal())).answers
    call = re.search(r"attnlab\.attention\.install\(model, (\{.*?\})\)", said)
    assert call is not None
    training = load_evaluator((model, words), sentences=texts[3:5])
    evaluator = load_evaluator((model, words), sentences=texts[:3])
    before = evaluator.losses().sum()
    install(model, ast.literal_eval(call[1]))
    assert (f"then {learned}(model" in said) == bool(learned)
    if learned == "calibrate":
        calibrate(model, [batch.inputs for batch in training.batches])
    if learned == "load_frequencies":
        ids = [token for one in training.sentences.usable for token in one.source]
        load_frequencies(model, torch.tensor(ids).bincount(minlength=model.config.vocab_size))
    rows = found.summary[found.summary["mechanism"] == name]
    widest = rows.loc[rows["replaced_heads"].idxmax()]
    change = float((evaluator.losses().sum() - before) / evaluator.tokens.sum())
    assert widest["loss_change"] == pytest.approx(change, abs=1e-5)


def test_nothing_is_said_of_installing_what_is_written_in_words() -> None:
    source, texts = (random_models.gpt2(), random_models.tokenizer()), random_models.SENTENCES
    for name in ("fixed", "top-k"):
        found = compare(
            source, [3], sentences=texts[:3], calibration=texts[3:], validation=texts[3:],
            mechanisms=[name], quick=True,
        )  # fmt: skip
        assert not any("install(" in said for said in found.contents().answers)


@pytest.mark.parametrize(("low", "doubt"), [(-0.1, ", an interval that includes 0."), (0.05, ".")])
def test_a_plan_is_told_from_the_next_by_its_gain_and_one_with_more_keys_is_marked(
    low: float, doubt: str
) -> None:
    gain = {"loss_gain": 0.3, "loss_gain_low": low, "loss_gain_high": 0.5}
    bleus = {"bleu": 70.0, "bleu_change": -2.0, "bleu_change_low": -3.0, "bleu_change_high": -1.0}
    rows = [
        mechanism("full", "", 0.0, heads=0, sites="all", bleu=72.345) | {"loss": 1.0},
        mechanism("mine.json", "", 0.1, sites="all", **bleus),
        mechanism("wide.json", "", 0.0, sites="all", visible_keys=6.0, **bleus),
        mechanism("band", "calibrated", 0.4, sites="all", **bleus, **gain),
    ]
    result = Result(
        "compare", "", {"summary": pd.DataFrame(rows)}, {}, (), {"against": "mine.json"}
    )
    (table,) = result.terminal()
    labels = [row[0] for row in table.rows]
    assert labels == ["full", "wide.json (more keys)", "mine.json", "band"]
    answer, said = table.answers
    assert answer.endswith(" +0.1 [0.0, +1.0] nats per token.")
    assert " BLEU changes by -2.0 [-3.0, -1.0] of 72.3. " in said
    assert said.endswith(
        f" Next is band, a loss that is higher by +0.3000 [{low:+.4f}, +0.5000]{doubt}"
    )
    (gain_at,) = (index for index, name in enumerate(table.headings) if "above" in name)
    assert [row[gain_at] for row in table.rows] == ["", "", "", "+0.30"]
    # The row that others are held against may be the second.
    held = [
        rows[0],
        rows[1] | gain | {"loss_gain": -0.3, "loss_gain_low": -0.5, "loss_gain_high": -low},
    ]
    held.append(mechanism("band", "calibrated", 0.4, sites="all", **bleus))
    _, turned = answer_of(pd.DataFrame(held).assign(budget=5), "band")
    assert turned.endswith(f", a loss that is higher by +0.3000 [{low:+.4f}, +0.5000]{doubt}")
    # Of the keys of a plan with linear attention nothing is known.
    unknown = mechanism("linear.json", "", 0.0, sites="all", visible_keys=math.nan, **bleus)
    (table,) = Result(
        "compare", "", {"summary": pd.DataFrame([*rows, unknown])}, {}, (), {"against": "mine.json"}
    ).terminal()
    assert "linear.json (keys not counted)" in [row[0] for row in table.rows]
    assert "mine.json has the least loss" in table.answers[0]
    (alone,) = Result("compare", "", result.tables, {}, (), {"against": None}).terminal()
    assert "not tested here" in alone.answers[1]


def test_gains_are_those_of_the_row_that_is_named(
    small_run: Path, plans: tuple[Path, Path], intervals_of_six: None
) -> None:
    compared = compare(
        small_run, (3, 6), sentences=SENTENCES, **QUICK, mechanisms=("band", "top-k"), plans=plans[1:],
        against="band", quick=True,
    )  # fmt: skip
    found = compared.summary
    band = found[found["mechanism"] == "band"].set_index(["sites", "budget"])["loss"]
    assert found.loc[found["mechanism"].isin(["band", "full"]), "loss_gain"].isna().all()
    others = found[found["mechanism"] == "top-k"]
    assert len(others) == 8
    for row in others.to_dict("records"):
        expected = row["loss"] - band[row["sites"], row["budget"]]
        assert row["loss_gain"] == pytest.approx(expected, abs=1e-9)
        assert row["loss_gain_low"] <= row["loss_gain"] <= row["loss_gain_high"]
    assert "bleu_gain" not in found
    assert compared.about["Gains of"] == "band"
    assert found.loc[found["mechanism"] == "narrow.json", "loss_gain"].isna().all(), (
        "of two budgets"
    )


def test_a_row_that_there_will_not_be_is_refused_at_once(small_run: Path) -> None:
    with pytest.raises(
        InputError, match="no row that there will be: 'longformer'; choose from: band"
    ):
        compare(small_run, 5, sentences=4, **QUICK, mechanisms=("band",), against="longformer")


@pytest.mark.parametrize("option", [{"against": "band"}, {"per_head": True}, {"loss": "cosine"}])
def test_what_needs_a_loss_is_refused_where_there_is_none(option: dict[str, Any]) -> None:
    model = random_models.marian(), random_models.tokenizer()
    with pytest.raises(
        InputError, match="give pairs, or leave fine_tune, per_head, loss and against"
    ):
        compare(model, sentences=random_models.SENTENCES, mechanisms=("band",), **option)


@pytest.mark.parametrize(("others", "told"), [((), True), (("longformer",), False)])
def test_gains_that_there_are_none_of_are_told(
    small_run: Path, others: tuple[str, ...], told: bool
) -> None:
    found = compare(
        small_run, 5, sentences=4, **QUICK, mechanisms=("band", *others), against="band", quick=True,
        sites=("encoder",),
    )  # fmt: skip
    assert (NoGains("band") in found.notes) is told
    assert ("loss_gain" in found.summary) is not told


@pytest.mark.parametrize("address", ["encoder", "encoder.0", "encoder.0.1"])
def test_a_plan_for_a_site_that_is_not_compared_is_refused(
    small_run: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {address: "band(window=1)", "decoder": "full", "cross.0.0": "band(window=1)"}
    write_plan(tmp_path / "wide.json", plan_of(entries))
    monkeypatch.setattr(opened_model, "calibrated_parts", None)
    said = r"replaces heads of encoder, which are not among the sites that are compared \(cross\)"
    with pytest.raises(InputError, match=said):
        compare(small_run, sentences=4, sites=("cross",), plans=(tmp_path / "wide.json",))


def test_a_plan_replaces_the_heads_that_it_names(tmp_path: Path) -> None:
    write_plan(tmp_path / "one.json", plan_of({"decoder.0.1": "band(window=1)"}))
    model = random_models.ALL["gpt2"](), random_models.tokenizer()
    texts = random_models.SENTENCES
    found = compare(
        model, sentences=texts[:3], calibration=texts[3:], validation=texts[3:], mechanisms=(),
        plans=(tmp_path / "one.json",), quick=True,
    )  # fmt: skip
    assert found.summary["replaced_heads"].tolist() == [0, 1]
