"""Every study takes the run of a language model: its decoder site, and its loss where there is no BLEU."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from answered import Answered
from typer.testing import CliRunner

import attnlab
from attnlab.ablation.ablation import ablated
from attnlab.attention.bridge.installing import use
from attnlab.cli.app import app
from attnlab.core.addresses import Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.models.run import load, score_language_model
from attnlab.questions.plan.planning import plans_of
from attnlab.questions.prune.view import draw_pruning

HEADS = {("decoder", layer, head) for layer in (0, 1) for head in (0, 1)}


def heads_of(table) -> set[tuple[str, int, int]]:
    return set(zip(table["site"], table["layer"], table["head"], strict=True))


def test_the_evaluator_counts_what_score_counts(language_run: Path) -> None:
    evaluator = load_evaluator(language_run, sentences=1000)
    mean = float(evaluator.losses().sum() / evaluator.tokens.sum())
    found = score_language_model(load(language_run))
    assert int(evaluator.tokens.sum()) == found["tokens"]
    assert mean == pytest.approx(found["loss_nats"], rel=1e-5)
    assert not evaluator.translates


def test_analysis_and_labels(answer: Callable[[str, str], Answered]) -> None:
    found = answer("analyze", "language").result
    assert heads_of(found.heads) == HEADS
    assert heads_of(found.labels) == HEADS
    assert found.about["Best validation perplexity"]


def test_comparison(answer: Callable[[str, str], Answered]) -> None:
    found = answer("compare", "language").result
    assert heads_of(found.mechanisms_by_head) == HEADS
    assert set(found.summary["sites"]) == {"decoder"}
    assert np.isfinite(found.summary["loss"]).all()
    assert set(found.summary["steps"]) == {0, 1}
    assert not [name for name in found.summary if "bleu" in name]


def test_importance(language_run: Path, answer: Callable[[str, str], Answered]) -> None:
    found = answer("importance", "language").result
    assert heads_of(found.importance) == HEADS
    assert not [name for name in found.importance if "bleu" in name]
    evaluator = load_evaluator(language_run, sentences=6)
    before = evaluator.losses()
    with ablated(evaluator.projections, [Head("decoder", 1, 0)], "zero"):
        change = float((evaluator.losses() - before).sum() / evaluator.tokens.sum())
    row = found.importance[(found.importance["layer"] == 1) & (found.importance["head"] == 0)].iloc[
        0
    ]
    assert row["loss_change"] == pytest.approx(change, abs=1e-6)
    with pytest.raises(InputError, match="translates nothing; leave BLEU out"):
        attnlab.importance(language_run, sentences=4, replacements=["zero"], bleu=["zero"])


def test_pruning_goes_by_loss(
    language_run: Path, tmp_path: Path, answer: Callable[[str, str], Answered]
) -> None:
    found = answer("prune", "language").result
    assert {"unpruned", "fine-tuned", "pruned"} <= set(found.curve["kind"])
    assert found.curve["bleu"].isna().all()
    assert np.isfinite(found.curve["loss"]).all()
    assert "decoder_left" in found.curve
    assert "encoder_left" not in found.curve
    titles = {axes.get_title(loc="left") for axes in draw_pruning(found.curve).axes}
    assert "Change of test loss by heads left" in titles
    folder = tmp_path / "pruning"
    result = CliRunner().invoke(
        app,
        ["prune", str(language_run), "--sentences", "6", "--penalty", "5", "--steps", "3",
         "--out", str(folder), "--save"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "BLEU" not in result.output
    pruned = next((folder / "models").iterdir())
    assert load(pruned).model.config.task == "language-model"


def test_plan(language_run: Path, answer: Callable[[str, str], Answered]) -> None:
    found = answer("plan", "language").result
    assert set(plans_of(found)) == {5}
    assert "bleu" not in found.summary
    run = load(language_run)
    with use(run.model, plans_of(found)[5]), torch.no_grad():
        ids = torch.tensor([run.tokenizers.source("Maria sleeps.")["input_ids"]])
        assert torch.isfinite(run.model(ids).logits).all()
