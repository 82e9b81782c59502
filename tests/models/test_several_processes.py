"""Several processes train what one trains: the same batches, losses, weights, scores and files."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerControl, TrainerState
from two_processes import BATCH_TOKENS, STOPPED_AT, exactly, settings, signalled

from attnlab.core.processes import Processes
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.preparing import prepare
from attnlab.models.run import load
from attnlab.models.run_folder import checkpoints_by_step
from attnlab.models.trainer import StepSeeds
from attnlab.models.training import resume, train
from attnlab.models.training_batches import (
    Collator,
    LengthGroupedBatches,
    SharedBatches,
    TokenPairs,
    encode_corpus,
)

ROOT = Path(__file__).resolve().parents[2]


def with_torchrun(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Two processes that torchrun starts on this machine."""
    paths = f"{ROOT}:{ROOT / 'tests'}"
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", str(script), str(folder)]
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@dataclass(frozen=True)
class Trainings:
    """Runs of one and of two processes, and what the two were told."""

    one: Path
    two: Path
    told: list[dict[str, Any]]
    printed: str


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    with exactly():
        train(one / "whole", settings())
        with signalled(signal.SIGINT, process=0):
            assert train(two / "begun_by_one", settings()).interrupted
        found = with_torchrun(ROOT / "tests" / "two_processes.py", two)
        told = [json.loads(path.read_text()) for path in sorted(two.glob("told_*.json"))]
        assert len(told) == 2, found.stderr
        shutil.copytree(two / "stopped", one / "begun_by_two")
        resume(one / "begun_by_two")
    return Trainings(one, two, told, found.stdout + found.stderr)


def assert_same_run(found: Path, expected: Path, *, digits: int, epochs: int = 2) -> None:
    """Weights and metrics agree; times and the words that describe scores are left out."""
    weights = load_file(expected / "model.safetensors")
    for name, weight in load_file(found / "model.safetensors").items():
        torch.testing.assert_close(weight, weights[name], rtol=0, atol=10.0**-digits)
    rows, others = load(found).metrics(), load(expected).metrics()
    assert len(rows) == epochs
    assert rows[0]["step"] > STOPPED_AT
    for row, other in zip(rows, others, strict=True):
        for name in (
            "step",
            "training_loss",
            "training_sample_loss",
            *(key for key in row if key.startswith("validation_")),
        ):
            assert row[name] == pytest.approx(other[name], rel=10.0**-digits), name


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(trainings: Trainings) -> None:
    assert_same_run(trainings.two / "whole", trainings.one / "whole", digits=9)
    files = [
        {str(path.relative_to(run)) for path in run.rglob("*") if path.name != "rng_state.pth"}
        for run in (trainings.two / "whole", trainings.one / "whole")
    ]
    assert files[0] == files[1]
    runs = trainings.one / "whole", trainings.two / "whole"
    assert [load(run).record["processes"] for run in runs] == [1, 2]


@pytest.mark.slow
def test_training_goes_on_with_another_number_of_processes(trainings: Trainings) -> None:
    assert_same_run(trainings.two / "begun_by_one", trainings.one / "whole", digits=9)
    assert_same_run(trainings.one / "begun_by_two", trainings.one / "whole", digits=9)


@pytest.mark.slow
def test_a_signal_to_one_process_ends_all_after_the_same_step(trainings: Trainings) -> None:
    assert [told["stopped"] for told in trainings.told] == [True, True]
    assert [told["whole"] for told in trainings.told] == [False, False]
    assert list(checkpoints_by_step(trainings.two / "stopped")) == [STOPPED_AT]
    assert (trainings.two / "stopped" / "model.safetensors").exists()


@pytest.mark.slow
def test_dropout_goes_on_as_without_an_interruption(trainings: Trainings) -> None:
    assert_same_run(
        trainings.two / "dropout_stopped", trainings.two / "dropout", digits=12, epochs=1
    )


@pytest.mark.slow
def test_of_a_refusal_one_process_tells(trainings: Trainings) -> None:
    first, second = trainings.told
    for name, words in {"exists": "already holds a run", "gone": "not a run directory"}.items():
        assert first[name][0] == "InputError"
        assert words in first[name][1]
        assert second[name] == ["ReportedElsewhereError", first[name][1]]
    assert first["full"][0] == "AttnlabError"
    assert "Could not write a checkpoint" in first["full"][1]
    assert second["full"][0] == "ReportedElsewhereError"
    assert "[transformers]" not in trainings.printed


@pytest.mark.slow
def test_the_command_refuses_once(trainings: Trainings) -> None:
    first, second = trainings.told
    status, shown = first["command"]
    assert status == 2
    assert shown.startswith(f"Error: {trainings.two / 'whole'} already holds a run; go on with")
    assert len(shown.splitlines()) == 1
    assert second["command"] == [2, ""]
    assert "--layers" in first["option"][1]
    assert [told["option"][0] for told in trainings.told] == [2, 2]
    assert second["option"][1] == ""
    assert not (trainings.two / "new").exists()


@pytest.fixture(scope="module")
def prepared(small_run: Path) -> Any:
    run = load(small_run)
    with exactly():
        corpus = run.corpus()
        encoded = encode_corpus(corpus, run.tokenizers, max_tokens=40)
        return prepare(small_run, settings(), corpus, run.tokenizers, encoded)


def batches_of(pairs: TokenPairs) -> LengthGroupedBatches:
    return LengthGroupedBatches(
        pairs.source_lengths, pairs.target_lengths, batch_tokens=BATCH_TOKENS
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_make_up_every_batch(prepared: Any, count: int) -> None:
    shares = [SharedBatches(batches_of(prepared.pairs), Processes(n, count)) for n in range(count)]
    sizes = set()
    for epoch in range(2):
        whole = batches_of(prepared.pairs)
        for one in (whole, *shares):
            one.set_epoch(epoch)
        for batch, *parts in zip(whole, *shares, strict=True):
            assert sorted(batch) == sorted(pair for part in parts for pair in part)
            sizes |= {len(part) for part in parts}
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert (0 in sizes) == (count > 1)


def test_parts_have_the_gradient_of_the_batch(prepared: Any) -> None:
    """The largest batch and one of a single pair, which leaves two of three processes without any."""
    model, pairs = prepared.model.train(), prepared.pairs
    batches = sorted(batches_of(pairs), key=len)
    assert len(batches[0]) == 1
    for batch in (batches[0], batches[-1]):
        whole = Collator()([pairs[index] for index in batch])
        expected = gradients(model, [whole])
        parts = [Collator()([pairs[index] for index in batch[n::3]]) for n in range(3)]
        for found, wanted in zip(gradients(model, parts), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-13)


def gradients(model: torch.nn.Module, parts: list[dict[str, torch.Tensor]]) -> list[torch.Tensor]:
    """Of the loss over the tokens of all parts; every parameter has one from each part."""
    model.zero_grad()
    tokens = sum((part["labels"] != IGNORED_LABEL).sum() for part in parts)
    for part in parts:
        model(**part, num_items_in_batch=tokens).loss.backward()
        assert all(one.grad is not None for one in model.parameters())
    return [one.grad.clone() for one in model.parameters()]


def test_processes_draw_differently_at_every_step(prepared: Any) -> None:
    drawn = set()
    for index in range(2):
        seeds = StepSeeds(Processes(index, 2), seed=3)
        for step in (0, 1, 0):
            state = TrainerState(global_step=step)
            seeds.on_step_begin(prepared.arguments, state, TrainerControl())
            drawn.add((index, step, float(torch.rand(()))))
    assert len(drawn) == len({number for *_, number in drawn}) == 4
