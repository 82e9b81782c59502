"""What a study of importance says: planted heads, parts kept apart, controls, refusals."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.architectures import columns
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.ablation.ablation import ablated, mean_outputs
from attnlab.ablation.projections import all_heads
from attnlab.ablation.significance import add_significance, rank_agreement
from attnlab.core.addresses import Head
from attnlab.core.columns import LOSS_CHANGE
from attnlab.core.errors import AttnlabError, InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.evaluation.shared_settings import FewForIntervals, RepeatedTexts
from attnlab.models.run import load
from attnlab.models.scoring import score
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import NotAblated
from attnlab.questions.compare.comparison import compare
from attnlab.questions.importance.importance import importance, orders_of
from attnlab.questions.importance.question import LOSS_TESTED, NoMeans, NotUniform
from attnlab.questions.importance.view import WAY_COLOURS, _needed, removable
from attnlab.questions.plan.planning import plan
from attnlab.questions.prune.pruning import prune
from attnlab.reading.reading_notes import SentencesDropped
from attnlab.results.result import Result

USELESS = Head("decoder", 0, 1)


@pytest.fixture(scope="module")
def planted(small_run: Path):
    """The small run with a decoder head that adds nothing."""
    run = load(small_run)
    with torch.no_grad():
        columns(run.model.decoder.layers[0].attention.output, 2, 1).zero_()
    texts = [(row["source"], row["target"]) for row in run.corpus().test][:11]
    return (run.model.double(), run.tokenizers), texts


@pytest.fixture(scope="module")
def found(planted) -> Result:
    source, texts = planted
    return importance(source, sentences=texts, replacements=["zero", "uniform"], bleu=(), seed=3)


def row_of(table: pd.DataFrame, head: Head, way: str | None = None) -> pd.Series:
    chosen = (table["site"] == head.site) & (table["layer"] == head.layer)
    if way is not None:
        chosen &= table["way"] == way
    return table[chosen & (table["head"] == head.head)].iloc[0]


def test_a_head_that_adds_nothing_is_worth_nothing(found: Result) -> None:
    assert row_of(found.importance, USELESS)["gradient_importance"] == 0
    for name in ("zero", "uniform"):
        useless = row_of(found.replaced, USELESS, name)
        assert useless["loss_change"] == 0
        assert useless["loss_change_low"] == useless["loss_change_high"] == 0
        assert useless["loss_change_p"] == 1
        assert not useless["loss_change_significant"]
    others = found.importance[found.importance["loss_change"] != 0]
    assert len(others) == 5
    assert (others["gradient_importance"] > 0).all()
    first = found.cumulative[found.cumulative["heads_removed"] == 1].set_index("order")
    assert first["removed"]["gradient"] == str(USELESS)


def test_changes_are_those_of_the_evaluator(found: Result, planted) -> None:
    source, texts = planted
    evaluator = load_evaluator(source, sentences=texts)
    before = evaluator.losses()
    for head in all_heads(evaluator.projections):
        for name in ("zero", "uniform"):
            with ablated(evaluator.projections, [head], name):
                change = float((evaluator.losses() - before).sum() / evaluator.tokens.sum())
            row = row_of(found.replaced, head, name)
            assert row["loss_change"] == pytest.approx(change, abs=1e-12)
            assert row["loss_change_low"] <= change + 1e-12
            assert row["loss_change_high"] >= change - 1e-12


def test_the_table_of_heads_has_what_changes_with_each_head_zeroed(found: Result) -> None:
    assert set(found.replaced["way"]) == {"zero", "uniform"}
    zeroed = found.replaced[found.replaced["way"] == "zero"].drop(columns="way")
    pd.testing.assert_frame_equal(found.importance[list(zeroed)], zeroed.reset_index(drop=True))


def test_orders_are_chosen_and_reported_apart(found: Result, planted) -> None:
    source, texts = planted
    evaluator = load_evaluator(source, sentences=texts)
    choosing, reporting = evaluator.on(texts[::2]), evaluator.on(texts[1::2])
    heads = all_heads(evaluator.projections)
    before = choosing.losses().sum()
    changes = []
    for head in heads:
        with ablated(evaluator.projections, [head], "zero"):
            changes.append(float(choosing.losses().sum() - before))
    expected = [str(heads[index]) for index in np.argsort(changes, kind="stable")]
    curve = found.cumulative[found.cumulative["order"] == "loss"]
    assert curve["removed"].tolist() == ["", *expected]
    for count in range(len(heads) + 1):
        removed = [head for head in heads if str(head) in expected[:count]]
        with ablated(evaluator.projections, removed, "zero"):
            loss = float(reporting.losses().sum() / reporting.tokens.sum())
        assert curve["loss"].iloc[count] == pytest.approx(loss, abs=1e-12)
    assert set(curve["chosen_on"]) == {"5 sentences: 1st, 3rd, ..."}
    assert set(curve["reported_on"]) == {"5 sentences: 2nd, 4th, ..."}


def test_the_answer_names_the_head_that_the_loss_rises_most_without() -> None:
    zero, unit = LOSS_TESTED, "nats per token"
    heads = pd.DataFrame({"site": "encoder", "layer": 0, "head": range(4), "way": "zero"})

    def said(changes: list[float], significant: list[bool | None]) -> str:
        return _needed(
            heads.assign(**zero.cells(math.nan), **{zero.significant: significant}).assign(
                **{zero.name: changes}
            ),
            "zero",
            unit,
        ).replace(unit, "nats")

    changes, zeroed = [0.01, 0.3, 0.2, -0.4], "the loss beyond chance when replaced by zero"
    raised = f"1 of 4 heads raises {zeroed}, most encoder.0.2 (+0.20 nats)"
    assert said(changes, [False, False, True, True]) == raised
    raised = f"3 of 4 heads raise {zeroed}, most encoder.0.1 (+0.30 nats)"
    assert said(changes, [True] * 4) == raised
    none = f"None of 4 heads raises {zeroed}"
    most = f"{none}; it rises most with encoder.0.1 (+0.30 nats)"
    assert said(changes, [False] * 4) == most
    assert said([0.0, -0.1, -0.2, 0.0], [False] * 4) == none
    untested = "(+0.30 nats) replaced by zero, of too few sentences to test that"
    assert said(changes, [None] * 4).endswith(untested)


def test_heads_without_which_nothing_changes_can_all_go() -> None:
    curves = pd.DataFrame({"order": "loss", "heads_removed": range(4)})
    for width, said in (
        (0.0, "3 of 3 heads can be removed together "),
        (0.1, "These sentences are too few to say which heads can be removed"),
    ):
        cells = LOSS_CHANGE.cells(0.0, -width, width)
        assert removable(curves.assign(**cells), "nats")[0].startswith(said)


def test_the_answer_stands_first_everywhere(found: Result) -> None:
    (table,) = found.terminal()
    assert table.answers == found.answers == tuple(found.contents().answers)
    assert "replaced by zero" in found.answers[0]
    assert found._repr_html_().index(found.answers[0][:20]) < found._repr_html_().index("<table")


def test_every_order_ends_with_all_heads_removed(found: Result) -> None:
    curves = found.cumulative
    assert list(dict.fromkeys(curves["order"])) == ["gradient", "loss", "random"]
    for _, curve in curves.groupby("order"):
        assert sorted(curve["removed"])[1:] == sorted(
            f"{site}.0.{head}" for site in ("encoder", "decoder", "cross") for head in (0, 1)
        )
    ends = curves[curves["heads_removed"] == 6]["loss"]
    assert ends.max() - ends.min() < 1e-12
    starts = curves[curves["heads_removed"] == 0]
    assert (starts["loss_change"] == 0).all()
    # The half that reports has four sentences, of which there is no interval.
    assert FewForIntervals(5, "reporting") in found.notes
    assert curves[["loss_change_low", "loss_change_high"]].isna().all(axis=None)
    assert removable(curves, "nats") == []


def test_bleu_and_means_of_a_run(small_run: Path) -> None:
    told = []
    found = attnlab.importance(
        small_run, sentences=9, replacements=["mean"], points=3, calibration=11, sites=["cross"],
        progress=lambda *step: told.append(step),
    )  # fmt: skip
    evaluator = load_evaluator(small_run, sentences=9)
    learning = evaluator.on_split("train", 11)
    means = mean_outputs(evaluator.projections, learning.batches, learning.run, learning.real)
    before = evaluator.losses()
    whole = score(evaluator.translations(), evaluator.references).bleu
    for head in (Head("cross", 0, 0), Head("cross", 0, 1)):
        with ablated(evaluator.projections, [head], "mean", means):
            change = float((evaluator.losses() - before).sum() / evaluator.tokens.sum())
            bleu = score(evaluator.translations(), evaluator.references).bleu
        row = row_of(found.replaced, head, "mean")
        assert row["loss_change"] == pytest.approx(change, abs=1e-6)
        assert row["bleu_change"] == pytest.approx(bleu - whole, abs=1e-3)
    assert len(found.importance) == len(found.replaced) == 2
    assert not {"loss_change", "bleu_change"} & set(found.importance), "no head was zeroed"
    assert found.cumulative["bleu"].notna().all()
    assert set(found.cumulative["replacement"]) == {"mean"}
    done = {what: (count, total) for what, count, total in told}
    assert len(done) == 5
    assert all(count == total for count, total in done.values())


def test_a_terminal_shows_the_heads_that_are_needed_most(
    found: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = found.terminal()
    assert len(whole.rows) == len(found.importance) == 6
    assert whole.caption is None, "all rows where the output is kept in a file"
    monkeypatch.setattr("attnlab.results.result.is_terminal", lambda: True)
    monkeypatch.setattr("attnlab.results.result.MOST_ROWS", 2)
    (first,) = found.terminal()
    assert first.caption == "and 4 more rows in importance.csv"
    needed = found.importance.sort_values("loss_change", ascending=False).head(2)
    expected = [f"{row.site}.{row.layer}.{row.head}" for row in needed.itertuples()]
    assert [row[0] for row in first.rows] == expected


def test_a_figure_has_whichever_replacements_the_table_has(found: Result) -> None:
    one = found.replaced[found.replaced["way"] == "uniform"]
    drawn = attnlab.plot.importance(one, found.cumulative)
    assert drawn.axes[0].get_legend_handles_labels()[1] == ["uniform"]
    both = attnlab.plot.importance(found.replaced, found.cumulative)
    sites = found.replaced.groupby("site", sort=False)
    for axes, (site, rows) in zip(both.axes, sites, strict=False):
        assert axes.get_title() == site
        # Without those of the legend, which are empty.
        points = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
        ways = [way for way in WAY_COLOURS if way in set(rows["way"])]
        for line, bars, way in zip(points, axes.collections, ways, strict=True):
            own = rows[rows["way"] == way]
            assert line.get_xdata().tolist() == own["loss_change"].tolist()
            heights = line.get_ydata()
            assert np.round(heights).tolist() == list(range(len(own))), "each at its own head"
            np.testing.assert_allclose(
                [bar[:, 1] for bar in bars.get_segments()], np.stack([heights] * 2, 1)
            )
            ends = own[["loss_change_low", "loss_change_high"]].to_numpy()
            np.testing.assert_array_equal([bar[:, 0] for bar in bars.get_segments()], ends)
    panels = [axes.get_window_extent() for axes in both.axes]
    assert len(panels) > 1
    for place, box in enumerate(panels):
        assert both.bbox.x0 <= box.x0 < box.x1 <= both.bbox.x1
        assert both.bbox.y0 <= box.y0 < box.y1 <= both.bbox.y1
        assert not any(box.overlaps(other) for other in panels[:place])
    with pytest.raises(InputError, match="lacks way"):
        attnlab.plot.importance(found.importance, found.cumulative)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["lm_head", "model.layers.0.self_attn.q_proj"])
def test_a_model_whose_loss_is_no_number_is_refused(broken: float, where: str) -> None:
    model = random_models.llama()
    model.get_submodule(where).weight.data[3] = broken
    source = model, tokenizer()
    given = {"calibration": SENTENCES[3:5], "validation": SENTENCES[5:]}
    asked = {
        importance: {"sentences": SENTENCES},
        prune: {"sentences": SENTENCES[:3], **given},
        compare: {"sentences": SENTENCES[:3], **given},
        plan: {"sentences": SENTENCES[:3], **given},
    }
    for question, options in asked.items():
        with pytest.raises(
            InputError, match="is no finite number on these sentences; look for weights"
        ):
            question(source, **options)
    if where == "lm_head":
        found = analyze(source, sentences=SENTENCES, structure_sentences=0)
        assert any(isinstance(note, NotAblated) for note in found.notes)
        with pytest.raises(InputError, match="is no finite number"):
            analyze(source, sentences=SENTENCES, structure_sentences=0, ablation=True)
    else:
        with pytest.raises(AttnlabError, match="decoder layer 0: some are NaN, so these are no"):
            analyze(source, sentences=SENTENCES)


def test_a_language_model_has_no_bleu() -> None:
    source = (random_models.llama(), tokenizer())
    found = importance(source, sentences=SENTENCES)
    assert "bleu_change" not in {*found.importance, *found.replaced}
    assert found.cumulative["bleu"].isna().all()
    assert "mean" not in set(found.replaced["way"])
    assert found.notes[0] == FewForIntervals(len(SENTENCES))
    assert isinstance(found.notes[1], NoMeans)
    assert found.notes[1].reason == (
        "A model without a folder brings no training sentences; give a file of them "
        "(calibration_text), or in Python a list (calibration)."
    )
    with pytest.raises(InputError, match="LlamaForCausalLM translates nothing; leave BLEU out"):
        importance(source, sentences=SENTENCES, bleu=["zero"])


@pytest.mark.parametrize("listed", [True, False])
def test_training_sentences_that_are_handed_in_give_the_mean(tmp_path: Path, listed: bool) -> None:
    source = (random_models.gpt2().double(), tokenizer())
    held_out, others = SENTENCES[:4], SENTENCES[4:]
    long = " ".join(SENTENCES[4].split() * 9)
    # Who is held out is no training sentence, and the third of the rest is one too many.
    there = [held_out[0], *others, long]
    file = tmp_path / "others.txt"
    file.write_text("\n".join(there), encoding="utf-8")
    given = {"calibration": there} if listed else {"calibration_text": file, "calibration": 2}
    found = importance(source, sentences=held_out, replacements=["mean"], **given)
    evaluator = load_evaluator(source, sentences=held_out)
    learning = evaluator.on(others if listed else others[:2])
    means = mean_outputs(evaluator.projections, learning.batches, learning.run, learning.real)
    before = evaluator.losses()
    for head in all_heads(evaluator.projections):
        with ablated(evaluator.projections, [head], "mean", means):
            change = float((evaluator.losses() - before).sum() / evaluator.tokens.sum())
        row = row_of(found.replaced, head, "mean")
        assert row["loss_change"] == pytest.approx(change, abs=1e-9)
    assert not any(isinstance(note, NoMeans) for note in found.notes)
    assert found.about["Training sentences"] == ("3" if listed else "2")
    dropped = [SentencesDropped(1, 4, 37, part="training")]
    assert [n for n in found.notes if isinstance(n, SentencesDropped)] == dropped * listed


def test_what_the_mean_cannot_be_of_is_refused(tmp_path: Path) -> None:
    source, held_out = (random_models.gpt2(), tokenizer()), SENTENCES[:4]
    file = tmp_path / "others.txt"
    file.write_text("\n".join(held_out), encoding="utf-8")
    refused: list[tuple[dict[str, object], str]] = [
        (
            {},
            r"add zero\. Heads are not replaced by their mean: .* give a file of them \(calibration_text\)",
        ),
        ({"calibration_text": file}, "Every calibration sentence is among the held-out"),
        ({"calibration": held_out}, "Every calibration sentence is among the held-out"),
        ({"calibration_text": tmp_path / "none.txt"}, "none.txt"),
    ]
    for options, message in refused:
        with pytest.raises(InputError, match=message):
            importance(source, sentences=held_out, replacements=["mean"], **options)
    for name, value in (("calibration_text", file), ("calibration", list(SENTENCES[4:]))):
        with pytest.raises(InputError, match=f"{name} is for the mean; name mean among"):
            importance(source, sentences=held_out, replacements=["zero"], **{name: value})


def test_a_corpus_that_was_changed_leaves_the_mean_out(small_run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    shutil.copytree(small_run, copied)
    record = json.loads((copied / "settings.json").read_text(encoding="utf-8"))
    record["corpus"]["checksum"] = "0" * len(record["corpus"]["checksum"])
    (copied / "settings.json").write_text(json.dumps(record), encoding="utf-8")
    texts = [("Maria sleeps .", "Maria dorme .")] * 5
    found = importance(
        copied, sentences=texts, replacements=["zero", "mean"], bleu=(), sites=["cross"]
    )
    assert set(found.replaced["way"]) == {"zero"}
    (told,) = (note for note in found.notes if isinstance(note, NoMeans))
    assert "its checksum differs" in told.reason


def test_uniform_is_left_out_where_it_cannot_be_done() -> None:
    source = (random_models.t5(), tokenizer())
    found = importance(source, sentences=PAIRS, replacements=["zero", "uniform"], bleu=())
    count = found.replaced["way"].value_counts()
    assert count.get("uniform", 0) < count["zero"] == len(found.importance)
    assert found.importance["loss_change"].notna().all()
    (told,) = (note for note in found.notes if isinstance(note, NotUniform))
    assert "encoder.0" in told.layers
    with pytest.raises(InputError, match="can be done for every head here; add zero"):
        importance(source, sentences=PAIRS, replacements=["uniform"], bleu=())


def test_marian_and_its_orders() -> None:
    source = (random_models.marian(), tokenizer())
    found = importance(
        source, sentences=PAIRS, replacements=["zero"], points=2, sites=["encoder"], seed=1
    )
    assert found.importance["bleu_change"].notna().all()
    known = found.cumulative[found.cumulative["bleu"].notna()]
    assert set(known["heads_removed"]) == {0, 6}


def test_significance_is_corrected_for_the_number_of_tests() -> None:
    table = pd.DataFrame({LOSS_TESTED.p: [0.04, 0.02, 0.01]})
    add_significance(table, LOSS_TESTED)
    # Holm compares 0.01, 0.02, 0.04 with 0.05 / 3, 0.05 / 2, 0.05 / 1.
    assert table["loss_change_significant"].tolist() == [True, True, True]
    table = pd.DataFrame({LOSS_TESTED.p: [0.04, 0.03, 0.01]})
    add_significance(table, LOSS_TESTED)
    assert table["loss_change_significant"].tolist() == [False, False, True]
    table = pd.DataFrame({LOSS_TESTED.p: [math.nan, math.nan]})
    add_significance(table, LOSS_TESTED)
    assert table["loss_change_significant"].isna().all()
    table = pd.DataFrame({LOSS_TESTED.p: [0.03, math.nan, 0.01]})
    add_significance(table, LOSS_TESTED)
    assert table["loss_change_significant"].dropna().to_dict() == {0: True, 2: True}


def test_ranks_and_orders() -> None:
    measures = pd.DataFrame({"one": [1.0, 5.0, 3.0, np.nan], "two": [9.0, 1.0, 2.0, 0.0]})
    table = rank_agreement(measures.assign(flat=2.0))
    assert table["spearman"].iloc[0] == pytest.approx(-1)
    assert table["head_count"].tolist() == [3, 3, 4]
    assert table["spearman"].iloc[1:].isna().all()
    heads = [Head("cross", 0, number) for number in range(4)]
    orders = orders_of(heads, measures[["two"]], seed=0)
    assert [head.head for head in orders["two"]] == [3, 1, 2, 0]
    assert sorted(orders["random"]) == heads
    shuffles = {tuple(orders_of(heads, measures[["two"]], seed=s)["random"]) for s in range(9)}
    assert len(shuffles) > 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"replacements": []}, "No replacement is named; choose from: zero, mean, uniform"),
        ({"replacements": ["zero"], "bleu": ["mean"]}, "BLEU of mean needs mean among"),
        ({"sentences": 3}, "sentences must be at least 4, not 3"),
        ({"sentences": [*PAIRS[:3], ("", "")]}, "Only 3 sentences can be used"),
        (
            {"source": "llama", "sites": ["cross"], "sentences": SENTENCES},
            "The model has no cross attention; it has: deco",
        ),
    ],
)
def test_what_cannot_be_studied_is_refused(options: dict[str, object], words: str) -> None:
    model = random_models.ALL[options.pop("source", "marian")]()
    with pytest.raises(InputError, match=words):
        importance((model, tokenizer()), **({"sentences": PAIRS} | options))


def test_sentences_that_repeat_are_told(small_run: Path) -> None:
    pairs = [("the cat sees a dog", "il gatto vede un cane")] * 12
    options = {"replacements": ("zero",), "bleu": (), "sites": ["cross"], "points": 2}
    found = importance(small_run, sentences=pairs, **options)
    assert RepeatedTexts(11, 12) in found.notes
    # Other translations of one source are not independent of one another either.
    others = [("the cat sees a dog", f"il gatto vede {n}") for n in range(12)]
    assert RepeatedTexts(11, 12) in importance(small_run, sentences=others, **options).notes
    assert not [
        note
        for note in importance(small_run, sentences=12, **options).notes
        if isinstance(note, RepeatedTexts)
    ]
