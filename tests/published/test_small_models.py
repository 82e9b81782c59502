"""Parts of heads_of_small_models: measured once per weights, and shown as far as they are there."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from attnlab.core.files import write_json, write_table
from experiments.heads_of_small_models import run as experiment
from experiments.heads_of_small_models.summary import (
    measured_parts,
    models_with,
    sites_in_short,
    spearman_interval,
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was measured, in order; nothing is trained."""
    calls: list[str] = []

    def note(part: str) -> Any:
        return lambda *_: calls.append(part) or [f"a note of {part}"]

    monkeypatch.setattr(experiment, "PARTS", {part: note(part) for part in experiment.PARTS})
    monkeypatch.setattr(experiment, "about_model", lambda _: {"pair": "en-it"})
    return calls


def run_with(folder: Path, weights: bytes) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    return SimpleNamespace(folder=folder)


def test_a_part_is_measured_once_for_the_same_weights(tmp_path: Path, measured: list[str]) -> None:
    run, out = run_with(tmp_path / "run", b"first"), tmp_path / "out" / "tatoeba"
    out.mkdir(parents=True)
    assert experiment.measure("importance", run, tmp_path, out)
    assert not experiment.measure("importance", run, tmp_path, out)
    assert experiment.measure("pruning", run, tmp_path, out)
    assert measured == ["importance", "pruning"]
    assert measured_parts(out)["pruning"]["notes"] == ["a note of pruning"]
    assert list(models_with(out.parent, "importance", "pruning")) == ["tatoeba"]
    assert not models_with(out.parent, "labels")


def test_other_weights_are_measured_anew_and_forget_the_parts_of_the_former(
    tmp_path: Path, measured: list[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for weights in (b"first", b"second"):
        experiment.measure("importance", run_with(tmp_path / "run", weights), tmp_path, out)
        if weights == b"first":
            experiment.measure("labels", run_with(tmp_path / "run", weights), tmp_path, out)
    assert measured == ["importance", "labels", "importance"]
    assert list(json.loads((out / "parts.json").read_text(encoding="utf-8"))) == ["importance"]


def test_sites_are_told_as_far_as_they_were_measured(tmp_path: Path) -> None:
    write_json(tmp_path / "tatoeba" / "parts.json", {"importance": {}})
    heads = pd.DataFrame(
        [("encoder", True, False), ("encoder", True, True), ("cross", False, False)],
        columns=["site", "loss_change_significant", "bleu_change_significant"],
    )
    write_table(tmp_path / "tatoeba" / "importance.csv", heads)
    encoder, _, cross = sites_in_short({}, models_with(tmp_path, "importance"))
    assert (encoder["heads"], encoder["loss_changed"], encoder["bleu_changed"]) == (2, 2, 1)
    assert (cross["heads"], cross["loss_changed"]) == (1, 0)
    assert "significant" not in encoder


def test_the_interval_of_a_rank_correlation_holds_it_and_narrows_with_the_count() -> None:
    few, many = spearman_interval(0.8, 24), spearman_interval(0.8, 240)
    assert few[0] < many[0] < 0.8 < many[1] < few[1] < 1
    assert spearman_interval(-0.8, 24) == pytest.approx((-few[1], -few[0]))
