"""What the callbacks of training count: the bar agrees with metrics.jsonl, patience outlives a resumption."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from small_run import small_settings
from transformers import TrainerControl, TrainerState

from attnlab.core.errors import InputError
from attnlab.models.callbacks import Metrics, Patience, ProgressBar
from attnlab.models.metrics import read_metrics
from attnlab.models.trainer import choice, training_arguments, training_device
from attnlab.models.training import resume, train
from attnlab.models.training_settings import OptimizerSettings


@pytest.mark.parametrize(
    ("scores", "waited"),
    [([], 0), ([3.0], 0), ([3.0, 5.0], 0), ([5.0, 3.0, 4.0], 2), ([5.0, 5.0], 1)],
)
@pytest.mark.parametrize("best", ["bleu", "loss"])
def test_patience_goes_on_from_the_checkpoint(
    tmp_path: Path, scores: list[float], waited: int, best: str
) -> None:
    arguments = training_arguments(
        OptimizerSettings(best=best, precision="fp32"), tmp_path, target_limit=9, warmup=0
    )
    sign = 1 if best == "bleu" else -1
    name = f"eval_{arguments.metric_for_best_model}"
    logged = [{name: sign * score, "step": n} for n, score in enumerate(scores)]
    state = TrainerState(log_history=[{"loss": 9.0, "step": 0}, *logged], global_step=9)
    state.best_metric = max(scores) * sign if scores else None
    patience = Patience(3)
    patience.on_train_begin(arguments, state, TrainerControl())
    assert patience.early_stopping_patience_counter == waited
    control = TrainerControl()
    for count in range(1, 3 - waited + 1):
        worse = {name: sign * 1.0}
        patience.on_evaluate(arguments, state, control, worse)
        assert control.should_training_stop == (bool(scores) and count == 3 - waited)


@pytest.mark.parametrize(
    ("rows", "kept", "waited"),
    [([(5.0, 3.0), (3.0, 2.0), (4.0, 2.0)], 0, 2), ([(0.0, 9.0), (0.0, 8.0)], 0, 0)],
)
def test_runs_that_were_begun_with_bleu_alone_go_on_by_bleu_and_loss(
    tmp_path: Path, rows: list[tuple[float, float]], kept: int, waited: int
) -> None:
    arguments = training_arguments(
        OptimizerSettings(precision="fp32"), tmp_path, target_limit=9, warmup=0
    )
    logged = [{"eval_bleu": b, "eval_loss": x, "step": n} for n, (b, x) in enumerate(rows)]
    state = TrainerState(log_history=[{"loss": 9.0, "step": 0}, *logged])
    state.best_metric, state.best_global_step = rows[kept][0], kept
    state.best_model_checkpoint = f"elsewhere/checkpoint-{kept}"
    Metrics(tmp_path, 1).on_train_begin(arguments, state, TrainerControl())
    assert state.best_metric == choice(*rows[kept])
    assert state.best_model_checkpoint == str(tmp_path / "checkpoints" / f"checkpoint-{kept}")
    patience = Patience(3)
    patience.on_train_begin(arguments, state, TrainerControl())
    assert patience.early_stopping_patience_counter == waited


def test_the_count_is_taken_up_when_a_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No evaluation is better than the first: with a patience of 3 the third after it is the last."""
    scores = iter([9.0, 8.0, 7.0, 6.0, 5.0, 4.0])

    def scorer(*_: object) -> object:
        return lambda _: {
            "bleu": next(scores), "chrf": 0.0, "sentences": 4,
            "bleu_signature": "", "chrf_signature": "",
        }  # fmt: skip

    monkeypatch.setattr("attnlab.models.training.scorer", scorer)
    train(tmp_path / "run", small_settings(optimizer={"epochs": 2, "patience": 3}))
    went_on = resume(tmp_path / "run", epochs=6)
    assert [row["validation_bleu"] for row in went_on.metrics] == [9.0, 8.0, 7.0, 6.0]


def test_the_bar_ends_with_the_figures_of_the_last_evaluation(tmp_path: Path) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, color_system=None)
    train(tmp_path / "run", small_settings(), console=console)
    row = read_metrics(tmp_path / "run")[-1]
    last = [line for line in shown.getvalue().split("\r") if "BLEU" in line][-1]
    assert f"BLEU {row['validation_bleu']:.1f}" in last
    assert f"{row['target_tokens_per_second']:,.0f} tokens/s" in last
    assert "training loss " in last
    assert "100%" in last
    assert "0:00:00" in last, "the remaining time is not cut"


def test_training_prints_lines_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 1.0, 11.0, 12.0])
    monkeypatch.setattr("attnlab.models.callbacks.time.monotonic", lambda: next(now))
    file = io.StringIO()
    bar = ProgressBar(Metrics(tmp_path, 100), Console(file=file, width=100))
    arguments = training_arguments(
        OptimizerSettings(precision="fp32"), tmp_path, target_limit=9, warmup=0, device="cpu"
    )
    state = TrainerState(max_steps=40, epoch=0.0)
    bar.on_train_begin(arguments, state, TrainerControl())
    for state.global_step in (1, 2, 3):
        bar.on_step_end(arguments, state, TrainerControl())
    bar.close()
    lines = [line for line in file.getvalue().splitlines() if line.startswith("step")]
    assert len(lines) == 1, "ten seconds between two of them"
    assert lines[0].startswith("step 2 of 40")
    assert file.getvalue().strip() == lines[0], "no bar behind them"


def test_the_bar_of_a_resumed_training_begins_where_the_training_does(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    bar = ProgressBar(Metrics(tmp_path, 100), console)
    arguments = training_arguments(
        OptimizerSettings(precision="fp32"), tmp_path, target_limit=9, warmup=0, device="cpu"
    )
    state = TrainerState(max_steps=40, global_step=30, epoch=1.0)
    bar.on_train_begin(arguments, state, TrainerControl())
    assert bar.bar.tasks[0].completed == 30
    state.global_step = 31
    bar.on_step_end(arguments, state, TrainerControl())
    assert bar.bar.tasks[0].completed == 31
    bar.close()


def test_a_training_takes_a_device_that_is_there() -> None:
    assert training_device("cpu").type == "cpu"
    with pytest.raises(InputError, match="Device 'abacus' cannot be used here"):
        training_device("abacus")
