"""Heads whose output is nothing: left out by a plan, or closed by pruning; the others are analyzed."""

import pytest
import torch
from torch import nn
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

from attnlab.attention.bridge.installing import install
from attnlab.core.errors import InputError
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import (
    ClosedHeads,
    HeadsWithoutWeight,
    RowsWithoutKeys,
)
from attnlab.results.result import Result


def analyzed(model: nn.Module) -> Result:
    return analyze(
        (model, tokenizer()), sentences=SENTENCES, quick=True, keep_matrices=0, fit_sentences=3
    )


def test_heads_that_a_plan_leaves_out_are_named_and_the_others_analyzed() -> None:
    model = random_models.bert().eval()
    install(model, {"encoder.0.0": "none", "encoder.1": "none"})
    found = analyzed(model)
    left_out = next(note.heads for note in found.notes if isinstance(note, HeadsWithoutWeight))
    summary = found.summary.set_index(["layer", "head"])
    assert left_out == ("encoder.0.0", *(f"encoder.1.{head}" for head in summary.loc[1].index))
    assert RowsWithoutKeys not in set(map(type, found.notes)), "it is said of these heads once"
    assert set(summary.loc[1, "output"]) == {"none"}
    assert set(summary.loc[1, "structure"]) == {""}
    assert (summary.loc[(0, 1), "output"], summary.loc[(0, 0), "output"]) == ("", "none")
    assert summary.loc[(0, 1), "structure"]


def test_rows_of_other_than_probabilities_beside_them_are_still_refused() -> None:
    model = random_models.bert().eval()
    install(model, {"encoder.0.0": "none", "encoder.1": "linformer(k=3, max_length=37)"})
    with pytest.raises(InputError, match="'linformer' applies in the encoder are no probabilities"):
        analyzed(model)


def test_closed_heads_are_named() -> None:
    model = random_models.bert().eval()
    whole = analyzed(model)
    assert "output" not in whole.summary
    output = model.encoder.layer[1].attention.output.dense
    with torch.no_grad():
        output.weight.unflatten(1, (model.config.num_attention_heads, -1))[:, 1] = 0
    found = analyzed(model)
    assert ClosedHeads(("encoder.1.1",)) in found.notes
    assert "Head encoder.1.1 is" in str(ClosedHeads(("encoder.1.1",)))
    assert "Heads cross.0.1, encoder.1.1 are" in str(ClosedHeads(("cross.0.1", "encoder.1.1")))
    assert list(found.summary["output"]).count("pruned") == 1
