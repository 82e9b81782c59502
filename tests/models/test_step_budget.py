"""Batch size and warm-up follow the corpus; patience and the choice of a checkpoint wait for them."""

import io
import json
import re
from pathlib import Path

import datasets
import pytest
from rich.console import Console
from small_run import small_settings, write_pairs
from transformers import TrainerControl, TrainerState

from attnlab.core.errors import InputError
from attnlab.models.callbacks import Patience
from attnlab.models.run import load
from attnlab.models.trainer import choice, training_arguments
from attnlab.models.training import resume, train
from attnlab.models.training_batches import TokenPairs, step_budget
from attnlab.models.training_settings import OptimizerSettings, settings_from


def pairs_of(count: int, length: int = 9) -> TokenPairs:
    ids = [list(range(length))] * count
    return TokenPairs(datasets.Dataset.from_dict({"input_ids": ids, "labels": ids}))


@pytest.mark.parametrize(
    ("count", "fewest", "most"), [(1000, 1000, 1500), (3000, 1500, 2500), (10_000, 1500, 2500)]
)
def test_small_corpora_get_enough_steps_and_warm_up_ends_early(
    count: int, fewest: int, most: int
) -> None:
    """Eleven steps an epoch and a warm-up longer than the training taught a small model nothing."""
    budget = step_budget(pairs_of(count), OptimizerSettings())
    assert fewest <= budget.steps <= most
    assert budget.warmup == pytest.approx(budget.steps / 10, abs=1)
    assert 256 <= budget.batch_tokens <= 4096


def told_of_batches(tmp_path: Path, **optimizer: int | None) -> str:
    console = Console(file=io.StringIO(), width=80)
    settings = small_settings(optimizer=SHORT | optimizer, corpus={"size": 1200, "max_tokens": 40})
    train(tmp_path / "run", settings, console=console)
    return console.file.getvalue()  # type: ignore[attr-defined]


SHORT = {"precision": "fp32", "validation_sentences": 2, "epochs": 1}


@pytest.mark.slow
def test_other_epochs_that_change_the_batch_are_told(tmp_path: Path) -> None:
    told = told_of_batches(tmp_path, batch_tokens=None)
    usual = json.loads((tmp_path / "run/settings.json").read_text())["settings"]["optimizer"]
    assert usual["batch_tokens"] == 256
    assert re.search(
        r"batches of 256 tokens, for 1,500 steps in 1 epoch; a run of 20 epochs would have .* of \d+",
        told,
    )


@pytest.mark.slow
def test_batches_that_were_asked_for_are_not_told(tmp_path: Path) -> None:
    assert "batches of" not in told_of_batches(tmp_path, batch_tokens=600)


def test_a_large_corpus_keeps_the_largest_batch_and_the_longest_warm_up() -> None:
    budget = step_budget(pairs_of(100_000), OptimizerSettings())
    assert (budget.batch_tokens, budget.warmup) == (4096, 400)


def test_more_epochs_of_a_small_corpus_mean_larger_batches() -> None:
    few, many = (step_budget(pairs_of(3000), OptimizerSettings(epochs=n)) for n in (10, 80))
    assert few.batch_tokens < many.batch_tokens
    assert min(few.steps, many.steps) >= 1500


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_what_is_set_is_kept(count: int) -> None:
    budget = step_budget(pairs_of(count), OptimizerSettings(batch_tokens=333, warmup=7))
    assert (budget.batch_tokens, budget.warmup) == (333, 7)


def test_one_pair_and_one_epoch_can_be_trained_on() -> None:
    budget = step_budget(pairs_of(1), OptimizerSettings(epochs=1))
    assert (budget.steps, budget.warmup) == (1, 1)


def test_the_run_records_what_was_chosen_and_goes_on_with_it(tmp_path: Path) -> None:
    open_settings = small_settings(optimizer={"batch_tokens": None, "warmup": None})
    trained = train(tmp_path / "run", open_settings)
    chosen = load(tmp_path / "run").settings.optimizer
    assert chosen.batch_tokens == trained.record["settings"]["optimizer"]["batch_tokens"] == 256
    assert chosen.warmup is not None
    steps = trained.metrics[-1]["step"]
    assert chosen.warmup == max(round(steps / 10), 1)
    resume(tmp_path / "run", epochs=3)
    assert load(tmp_path / "run").settings.optimizer.warmup == chosen.warmup


@pytest.mark.parametrize("key", ["batch_tokens", "warmup"])
def test_numbers_that_no_training_can_use_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=f"optimizer.{key} must be a number above 0 and at most"):
        train(tmp_path / "run", small_settings(optimizer={key: 0}))
    with pytest.raises(InputError, match=f"optimizer.{key} must be a whole number"):
        settings_from({"optimizer": {key: "many"}})


@pytest.mark.parametrize("best", ["bleu", "loss"])
def test_evaluations_during_warm_up_do_not_use_up_patience(tmp_path: Path, best: str) -> None:
    arguments = training_arguments(
        OptimizerSettings(best=best, precision="fp32"), tmp_path, target_limit=9, warmup=5
    )
    name = f"eval_{arguments.metric_for_best_model}"
    sign = 1 if best == "bleu" else -1
    state = TrainerState(best_metric=sign * 9.0, best_global_step=0)
    patience, control = Patience(2, warmup=5), TrainerControl()
    asked = []
    for step in range(1, 9):
        state.global_step = step
        patience.on_evaluate(arguments, state, control, {name: sign * 1.0})
        asked.append(control.should_training_stop)
    assert asked.index(True) == 6, "the second evaluation after step 5 is the last"
    state.log_history = [{name: sign * (9.0 - step), "step": step} for step in range(8)]
    later = Patience(5, warmup=5)
    later.on_train_begin(arguments, state, control)
    assert later.early_stopping_patience_counter == 2


def test_loss_decides_while_no_translation_can_be_read() -> None:
    assert choice(0.2, 6.49) > choice(0.4, 7.15)
    assert choice(2.9, 5.0) > choice(0.0, 5.1)
    assert choice(3.0, 9.0) > choice(2.9, 1.0)
    assert choice(20.0, 3.0) > choice(19.9, 2.0)


def test_an_end_that_cannot_be_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from typer.testing import CliRunner

    from attnlab.cli.app import app

    rows = [(f"word{n} goes", f"parola{n} va") for n in range(60)]
    corpus = write_pairs(tmp_path / "pairs.tsv", rows)
    words = (
        f"train {tmp_path / 'run'} --corpus {corpus} --epochs 1 --dim 16 --heads 2 --precision fp32"
    )
    found = CliRunner().invoke(app, words.split())
    assert found.exit_code == 0, found.output
    assert "with a BLEU below 3 no translation can be read" in " ".join(found.output.split())
