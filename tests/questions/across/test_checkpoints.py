"""Checkpoints that a training keeps, and heads over them."""

import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_run import small_settings, snapshot
from transformers import TrainerCallback

import attnlab
from attnlab.core import InputError
from attnlab.models.callbacks import log_spaced_steps
from attnlab.models.run import Run, load
from attnlab.models.run_folder import KEPT, WEIGHTS, kept_path, kept_steps
from attnlab.models.training import resume, train
from attnlab.questions.across.question import DamagedCheckpoint
from attnlab.questions.across.view import answers

SETTINGS = small_settings(optimizer={"keep_checkpoints": 4}, corpus={"size": 120})


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "run"
    train(folder, SETTINGS)
    return folder


class Cut(TrainerCallback):
    """Ends a training as a kill would, behind a checkpoint."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.epoch > 1.3:
            raise MemoryError


def test_steps_are_spaced_by_their_logarithm() -> None:
    ratios = np.diff(np.log(log_spaced_steps(20, 1_000_000)[1:]))
    assert ratios == pytest.approx(np.full(18, ratios.mean()), abs=0.06)
    steps = log_spaced_steps(20, 1000)
    assert (steps[:4], steps[-2:], len(steps)) == ([0, 8, 10, 14], [765, 1000], 20)
    assert log_spaced_steps(1, 9) == [0]
    assert log_spaced_steps(0, 9) == []


def test_a_training_keeps_its_checkpoints(kept_run: Path) -> None:
    steps = kept_steps(kept_run)
    assert steps == log_spaced_steps(4, steps[-1])
    run = load(kept_run)
    assert run.settings.optimizer.keep_checkpoints == 4
    assert run.kept_steps == steps
    first, last = (run.at_step(step).model.state_dict() for step in (steps[0], steps[-1]))
    assert any(not torch.equal(first[name], last[name]) for name in first)


def test_keeping_checkpoints_changes_nothing(kept_run: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", small_settings(corpus={"size": 120}))
    plain, kept = (load_file(folder / WEIGHTS) for folder in (tmp_path / "run", kept_run))
    assert all(torch.equal(kept[name], tensor) for name, tensor in plain.items())


def test_a_training_that_goes_on_keeps_the_same(kept_run: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryError):
        train(tmp_path / "run", SETTINGS, callbacks=[Cut()])
    assert kept_steps(tmp_path / "run") == kept_steps(kept_run)[:-1]
    resume(tmp_path / "run")
    again, whole = (snapshot(folder / KEPT) for folder in (tmp_path / "run", kept_run))
    assert again.keys() == whole.keys()
    for name in whole:
        assert again[name] == whole[name] or not name.endswith(WEIGHTS), name


def test_the_end_is_kept_where_patience_brings_it(tmp_path: Path) -> None:
    # Weights that stay as they are get no better.
    still: dict[str, Any] = {"learning_rate": 1e-30, "warmup": 1, "patience": 1, "epochs": 9}
    optimizer = replace(SETTINGS.optimizer, **still)
    trained = train(tmp_path / "run", replace(SETTINGS, optimizer=optimizer))
    # Behind the second evaluation of nine.
    end = trained.metrics[-1]["step"]
    planned = log_spaced_steps(4, end * 9 // 2)
    assert end not in planned
    assert kept_steps(tmp_path / "run") == [*(step for step in planned if step < end), end]


def test_heads_over_a_training(
    kept_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[weakref.ref[Any]] = []
    at_step = Run.at_step

    def alone(run: Run, step: int) -> Run:
        assert not any(model() for model in loaded), "two checkpoints are in memory"
        found = at_step(run, step)
        loaded.append(weakref.ref(found.model))
        return found

    monkeypatch.setattr(Run, "at_step", alone)
    shutil.copytree(kept_run, tmp_path / "run")
    steps = kept_steps(kept_run)
    damaged = kept_path(tmp_path / "run", steps[1]) / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    found = attnlab.across(tmp_path / "run", checkpoints=True, sentences=12)
    read = [step for step in steps if step != steps[1]]
    assert found.across["training_step"].drop_duplicates().tolist() == read
    assert [note.step for note in found.notes if isinstance(note, DamagedCheckpoint)] == [steps[1]]
    assert set(found.matching["training_step"]) == set(read[:-1])
    assert (found.formation["untrained_low"] <= found.formation["untrained_high"]).all()
    assert "differences" not in found.tables
    assert answers(found)


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_that_keeps_less_than_two_is_told_how(
    count: int, kept_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(kept_run, tmp_path / "run")
    for step in kept_steps(kept_run)[count:]:
        (kept_path(tmp_path / "run", step) / WEIGHTS).write_bytes(b"damaged")
    read = Mock()
    with pytest.raises(
        InputError, match=rf"run keeps {count} .*\(attnlab train --keep-checkpoints 12\)"
    ):
        attnlab.across(tmp_path / "run", checkpoints=True, sentences=2, progress=read)
    read.assert_not_called()
