"""Checkpoints are written whole, and training goes on from the newest one that is."""

import io
import json
import math
import os
from errno import ENOSPC
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load, load_file, save_file
from small_run import bleu_of, small_settings, snapshot

from attnlab.core.errors import AttnlabError, InputError
from attnlab.models.checkpoints import best_checkpoint
from attnlab.models.run_folder import (
    UNFINISHED,
    complete_checkpoints,
    last_complete_checkpoint,
)
from attnlab.models.trainer import TranslationTrainer
from attnlab.models.training import kept_evaluation, resume, train


def without_a_tensor(path: Path) -> None:
    tensors = load_file(path)
    name = next(name for name in tensors if "norm" in name)
    save_file({key: tensors[key] for key in tensors if key != name}, path, {"format": "pt"})


def with_another_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # In the middle of an archive stand tensors, and at its end its table of contents.
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def with_another_weight(path: Path) -> None:
    """A bit of the last number's fraction: the file reads as before, and every number is finite."""
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "a flipped bit in a weight": ("model.safetensors", with_another_weight),
    "a tensor is missing": ("model.safetensors", without_a_tensor),
    "half a model": ("model.safetensors", lambda path: os.truncate(path, 5_000)),
    "empty optimizer": ("optimizer.pt", lambda path: os.truncate(path, 0)),
    "half an optimizer": ("optimizer.pt", lambda path: os.truncate(path, 5_000)),
    "a flipped bit": ("optimizer.pt", with_another_bit),
    "no schedule": ("scheduler.pt", lambda path: path.write_text("no archive")),
    "random state": ("rng_state.pth", lambda path: os.truncate(path, 100)),
    "empty state": ("trainer_state.json", lambda path: os.truncate(path, 0)),
    "a list for a state": ("trainer_state.json", lambda path: path.write_text("[]")),
    "an epoch that is no number": (
        "trainer_state.json",
        lambda path: path.write_text(
            json.dumps(json.loads(path.read_text()) | {"epoch": math.inf})
        ),
    ),
    "state of another step": (
        "trainer_state.json",
        lambda path: path.write_text(path.read_text().replace("global_step", "other")),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_is_passed_over_and_made_again(
    copied_run: Path, damage: str
) -> None:
    newest, before = complete_checkpoints(copied_run)
    expected = load((newest / "model.safetensors").read_bytes())
    name, spoil = DAMAGES[damage]
    spoil(newest / name)
    output = io.StringIO()
    trained = resume(copied_run, console=Console(file=output, width=1_000))
    assert f"checkpoint {newest} is damaged (" in output.getvalue()
    assert f"going on from {before}." in output.getvalue()
    assert [row["epoch"] for row in trained.metrics] == [1.0, 2.0]
    assert complete_checkpoints(copied_run) == [newest, before]
    for tensor, weight in load_file(newest / "model.safetensors").items():
        assert torch.equal(weight, expected[tensor]), tensor


def test_resume_refuses_where_a_bit_is_flipped_in_every_checkpoint(copied_run: Path) -> None:
    checkpoints = complete_checkpoints(copied_run)
    for path in checkpoints:
        with_another_weight(path / "model.safetensors")
    before = snapshot(copied_run)
    message = (
        rf"{checkpoints[0]} is damaged \(.*model\.safetensors.*checksum differs\); .*--overwrite"
    )
    with pytest.raises(InputError, match=message):
        resume(copied_run, epochs=3)
    assert snapshot(copied_run) == before


def test_resume_refuses_where_a_bit_is_flipped_in_the_best_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.models.training.scorer", bleu_of(9.0, 8.0))
    run = tmp_path / "run"
    train(run, small_settings())
    newest, best = complete_checkpoints(run)
    assert best_checkpoint(newest) == best
    with_another_weight(best / "model.safetensors")
    with pytest.raises(InputError, match=rf"{best} is damaged \(.*checksum differs\)"):
        resume(run, epochs=3)


def test_a_full_disk_while_the_checksum_is_written_leaves_the_checkpoints_before(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = complete_checkpoints(copied_run)

    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr("safetensors.torch.save_file", full)
    message = rf"Could not write a checkpoint to {copied_run}/checkpoints: .*{os.strerror(ENOSPC)}; earlier"
    with pytest.raises(AttnlabError, match=message) as failed:
        resume(copied_run, epochs=3)
    assert UNFINISHED not in str(failed.value)
    assert complete_checkpoints(copied_run) == before
    assert not (copied_run / "checkpoints" / UNFINISHED).exists()


def test_resume_refuses_where_no_checkpoint_is_whole(copied_run: Path) -> None:
    for path in complete_checkpoints(copied_run):
        without_a_tensor(path / "model.safetensors")
    before = snapshot(copied_run)
    message = rf"{last_complete_checkpoint(copied_run)} is damaged \(1 tensor is missing: .*norm"
    with pytest.raises(InputError, match=message):
        resume(copied_run, epochs=3)
    assert snapshot(copied_run) == before


def test_the_best_checkpoint_of_the_one_before_the_newest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = (9.0, 8.0, 7.0, 10.0)
    monkeypatch.setattr("attnlab.models.training.scorer", bleu_of(*scores))
    run = tmp_path / "run"
    train(run, small_settings(optimizer={"epochs": 4}))
    newest, before, best = complete_checkpoints(run)
    assert best_checkpoint(newest) == newest
    assert best_checkpoint(before) == best
    (newest / "optimizer.pt").write_bytes(b"")
    monkeypatch.setattr("attnlab.models.training.scorer", bleu_of(8.5))
    assert kept_evaluation(resume(run))["validation_bleu"] == 9.0


def test_a_process_killed_while_it_writes_a_checkpoint_leaves_the_one_before(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = complete_checkpoints(copied_run)

    class Killed(BaseException):
        pass

    def killed(self: TranslationTrainer, folder: str) -> None:
        (Path(folder) / "optimizer.pt").write_bytes(b"half")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(TranslationTrainer, "_save_optimizer_and_scheduler", killed)
        patch.setattr("attnlab.models.run_folder.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            resume(copied_run, epochs=3)
    assert complete_checkpoints(copied_run) == before
    assert (copied_run / "checkpoints" / UNFINISHED).is_dir()
    resume(copied_run, epochs=3)
    assert not (copied_run / "checkpoints" / UNFINISHED).exists()
