"""Every question that takes the folder of a run takes the run that `load` returns, with the same answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import attnlab
from attnlab.attention.bridge.installing import use
from attnlab.models.opening import Source

FEW = {"sentences": 8}
LEARNING = {"calibration": 4, "validation": 4}
# Of each verb, a table of what it finds.
VERBS: dict[str, Callable[[Source], pd.DataFrame]] = {
    "align": lambda run: attnlab.align(run, **FEW, quick=True).systems,
    "analyze": lambda run: attnlab.analyze(run, **FEW, quick=True, structure_sentences=2).heads,
    "check": lambda run: attnlab.check(run).properties,
    "detect": lambda run: attnlab.detect(run, **FEW, sequences=2, context=40).detectors,
    "importance": lambda run: attnlab.importance(run, **FEW, bleu=()).importance,
    "compare": lambda run: (
        attnlab.compare(run, [5], **FEW, **LEARNING, mechanisms=["band"], quick=True).summary
    ),
    "inspect": lambda run: attnlab.inspect(run, "the dog sees the cat").heads,
    "neighbours": lambda run: attnlab.neighbours(run, ["the"], count=3).table,
    "plan": lambda run: attnlab.plan(run, (2,), **FEW, **LEARNING, quick=True).summary,
    "prune": lambda run: attnlab.prune(run, [0.1], steps=3, **FEW).curve,
    "rollout": lambda run: attnlab.rollout(run, "the dog sees the cat").table,
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_loaded_run_is_taken_as_its_folder_is_and_left_as_it_was(
    verb: str, small_run: Path
) -> None:
    run = attnlab.load(small_run)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    found, expected = VERBS[verb](run), VERBS[verb](small_run)
    timed = [name for name in expected if "time" in name or "seconds" in name]
    pd.testing.assert_frame_equal(found.drop(columns=timed), expected.drop(columns=timed))
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())


def test_every_verb_with_a_source_is_here() -> None:
    others = {
        "approximate",
        "assert_attends",
        "capture",
        "embed",
        "load",
        "resume",
        "run_study",
    }
    others |= {"attention", "matrices", "plot", "train", "view", "__version__", "Result"}
    assert set(VERBS) == set(attnlab.__all__) - others


def test_the_model_of_a_loaded_run_is_the_one_that_is_read(small_run: Path) -> None:
    run = attnlab.load(small_run)
    with use(run.model, {"encoder": "band(window=0)"}):
        heads: Any = VERBS["analyze"](run)
    assert (heads.loc[heads["site"] == "encoder", "mass_at_offset_0"] == 1).all()


def test_the_page_names_the_folder_of_a_loaded_run(small_run: Path) -> None:
    found = attnlab.analyze(attnlab.load(small_run), **FEW, quick=True, structure_sentences=2)
    assert str(found.about["Source"]).endswith(small_run.name)
