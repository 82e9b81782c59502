"""What a notebook shows of a run or a result is one line, whatever its size."""

from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from attnlab.attention.plan import plan_of
from attnlab.core.representations import ShortRepr, summarised
from attnlab.models.run import load
from attnlab.reading.keeping import KeptMatrices

RESULTS = [
    "attnlab.reading.capture.Capture",
    "attnlab.reading.keeping.KeptMatrices",
    "attnlab.labels.gold.Gold",
    "attnlab.evaluation.evaluator.Evaluator",
    "attnlab.reading.matrix_files.KeptSource",
    "attnlab.reading.matrix_files.MatrixSource",
    "attnlab.evaluation.sources.Texts",
    "attnlab.corpora.corpus.ParallelCorpus",
    "attnlab.models.tokenizer.Tokenizers",
    "attnlab.models.training.Trained",
    "attnlab.attention.bridge.installing.Installed",
    "attnlab.matrices.fit.Fit",
    "attnlab.matrices.labels.Labels",
    "attnlab.studies.running.Collected",
]


def test_a_run_names_what_it_is(small_run: Path) -> None:
    run = load(small_run)
    shown = repr(run)
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    shape = run.settings.model
    for part in (
        str(small_run), "en-it", f"{shape.encoder_layers} encoder", f"{shape.decoder_layers} decoder",
        f"{shape.heads} heads", f"dim {shape.dim}", f"{parameters:,} parameters",
    ):  # fmt: skip
        assert part in shown
    assert "\n" not in shown
    assert len(shown) < 150 + len(str(small_run))
    assert len(repr(run.tokenizers)) < 300


@pytest.mark.parametrize("path", RESULTS)
def test_every_result_is_one_line_whatever_it_holds(path: str) -> None:
    module, name = path.rsplit(".", 1)
    kind: Any = getattr(import_module(module), name)
    assert is_dataclass(kind)
    found = object.__new__(kind)
    large = [
        pd.DataFrame({"head": range(999)}),
        torch.zeros(7, 99, 99),
        dict.fromkeys(range(999), "word" * 99),
        "word\n" * 99,
        tuple(range(999)),
    ]
    for number, field in enumerate(fields(kind)):
        object.__setattr__(found, field.name, large[number % len(large)])
    shown = repr(found)
    assert shown.startswith(f"{name}({fields(kind)[0].name}=DataFrame[999, 1]")
    assert "\n" not in shown
    assert len(shown) < 90 * len(fields(kind))


def test_values_in_a_few_words() -> None:
    @dataclass(frozen=True, repr=False)
    class Study(ShortRepr):
        table: pd.DataFrame
        sentences: int
        kept: KeptMatrices

    shown = repr(Study(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), 7, KeptMatrices()))
    assert shown.startswith("Study(table=DataFrame[2, 2], sentences=7, kept=KeptMatrices(matrices=")
    assert summarised(torch.zeros(2, 3)) == "Tensor[2, 3]"
    assert summarised(torch.nn.Linear(2, 3)) == "Linear"
    assert summarised({"a": 1}) == "dict of 1"
    assert summarised(("a", "b")) == "tuple of 2"
    assert summarised(frozenset()) == "frozenset of 0"
    assert summarised(None) == "None"
    assert summarised(0.5) == "0.5"
    assert summarised("a" * 60) == repr("a" * 60)
    assert summarised("a" * 61) == repr("a" * 57 + "...")


def test_a_plan_shows_its_first_entries() -> None:
    plan = plan_of({f"encoder.{layer}": "band(window=3)" for layer in range(9)})
    shown = repr(plan)
    assert shown.startswith("AttentionPlan(encoder.0: band(window=3), encoder.1: band(window=3)")
    assert shown.endswith("and 5 more)")
    assert repr(plan_of({"cross": "full"})) == "AttentionPlan(cross: full)"
