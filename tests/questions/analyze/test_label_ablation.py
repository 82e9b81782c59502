"""What the loss loses with each head, beside its label."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import ConvBertConfig, ConvBertModel
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

from attnlab.core import LOSS_CHANGE
from attnlab.core.errors import InputError
from attnlab.core.processes import Processes
from attnlab.evaluation.changes import changes_without_heads
from attnlab.evaluation.evaluator import Evaluator, evaluator_of
from attnlab.models.loaded import Model
from attnlab.models.run import load
from attnlab.models.run_folder import SETTINGS
from attnlab.questions.analyze import model_analysis
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.analyze.analysis_notes import NotAblated
from attnlab.questions.importance.importance import importance
from attnlab.reading.sentences import read_sentences
from attnlab.reading.weights import rows_of_view


def evaluated(model: object, texts: list[Any]) -> Evaluator:
    loaded = Model(model, tokenizer())
    return evaluator_of(loaded, read_sentences(loaded, texts), 3)


HEADS_ALONE = {"keep_matrices": 0, "fit_sentences": 0, "structure_sentences": 0}
COLUMNS = [column.name for column in LOSS_CHANGE]


def test_loss_change_is_that_of_a_model_without_the_heads_columns() -> None:
    model = random_models.marian().double()
    pairs = [*PAIRS, *PAIRS[:3]]
    analysis = analyze((model, tokenizer()), sentences=pairs, labels=True, **HEADS_ALONE)
    labels = rows_of_view(analysis.labels, "all")
    found = labels.set_index(["site", "layer", "head"])
    evaluator = evaluated(model, pairs)
    before = evaluator.losses().sum() / evaluator.tokens.sum()
    for site, number, stack in (("encoder", 1, "encoder"), ("cross", 0, "decoder")):
        for head in (0, 2):
            other = copy.deepcopy(model)
            block = getattr(other.model, stack).layers[number]
            attention = block.encoder_attn if site == "cross" else block.self_attn
            size = attention.head_dim
            with torch.no_grad():
                attention.out_proj.weight[:, head * size : (head + 1) * size] = 0
            after = evaluated(other, pairs).losses().sum()
            row = found.loc[(site, number, head)]
            expected = float(after / evaluator.tokens.sum() - before)
            assert row["loss_change"] == pytest.approx(expected, abs=1e-12)
            low, high = LOSS_CHANGE.ends(row.to_dict())
            assert low <= row["loss_change"] <= high
    assert labels[COLUMNS].notna().all(axis=None)


def test_what_forbids_ablation_is_said_before_anything_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_analysis, "measure", None)
    broken = random_models.gpt2()
    broken.lm_head.weight.data[3] = torch.nan
    sizes = {"num_attention_heads": 4, "hidden_size": 24, "intermediate_size": 32}
    config = ConvBertConfig(vocab_size=len(tokenizer()), num_hidden_layers=2, **sizes)
    for model, said in (
        (broken, "is no finite number"),
        (ConvBertModel(config), "mixes its heads"),
    ):
        with pytest.raises(InputError, match=said):
            analyze((model, tokenizer()), sentences=SENTENCES, ablation=True, **HEADS_ALONE)
    monkeypatch.undo()
    found = analyze((ConvBertModel(config), tokenizer()), sentences=SENTENCES, **HEADS_ALONE)
    assert [
        "mixes its heads" in note.reason for note in found.notes if isinstance(note, NotAblated)
    ] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("sentences", [9, None])
def test_labels_and_importance_leave_out_the_same_pairs(
    small_run: Path, tmp_path: Path, sentences: int | None
) -> None:
    """The run was trained on pairs of at most a few tokens; of its test part some are longer."""
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    settings = json.loads((folder / SETTINGS).read_text())
    lengths = sorted(
        len(load(folder).tokenizers.source(one)["input_ids"])
        for one in load(folder).corpus().test["source"][:9]
    )
    settings["settings"]["corpus"]["max_tokens"] = lengths[4]
    (folder / SETTINGS).write_text(json.dumps(settings))
    many = {} if sentences is None else {"sentences": sentences}
    labelled = analyze(folder, labels=True, **many, **HEADS_ALONE)
    weighed = importance(folder, replacements=["zero"], bleu=(), **many)
    assert any("left out" in str(note) for note in weighed.notes)
    keys = ["site", "layer", "head"]
    both = rows_of_view(labelled.labels, "all").merge(
        weighed.importance, on=keys, validate="one_to_one", suffixes=("", "_zeroed")
    )
    assert len(both) == len(weighed.importance)
    for end in ("", "_low", "_high"):
        pd.testing.assert_series_equal(
            both[f"loss_change{end}"],
            both[f"loss_change{end}_zeroed"],
            check_names=False,
            rtol=0,
            atol=1e-6,
        )


def test_processes_deal_out_the_heads() -> None:
    evaluator = evaluated(random_models.gpt2().double(), SENTENCES)
    alone = changes_without_heads(evaluator)

    class Two(Processes):
        """The second of two, which meets what the first would have sent."""

        def gather(self, value):
            return [alone.iloc[0::2].to_dict("records"), value]

    shared = changes_without_heads(evaluator, processes=Two(1, 2))
    assert shared.equals(alone)


def test_a_language_model_has_a_loss_and_an_encoder_has_none(tmp_path) -> None:
    for name, kind in (("gpt2", random_models.gpt2()), ("bert", random_models.bert())):
        kind.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    options = {"sentences": [*SENTENCES, *SENTENCES[:3]], "labels": True, **HEADS_ALONE}
    found = analyze(tmp_path / "gpt2", **options)
    assert found.labels[COLUMNS].notna().all(axis=None)
    lacking = analyze(tmp_path / "bert", **options)
    assert not set(COLUMNS) & set(lacking.labels)
    assert "BertModel" in lacking.about["Model"]
    (note,) = (note for note in lacking.notes if isinstance(note, NotAblated))
    assert "there is no loss" in note.reason
    with pytest.raises(InputError, match="BertModel scores no tokens"):
        analyze(tmp_path / "bert", ablation=True, **options)


def test_what_is_asked_for_and_cannot_be() -> None:
    model = random_models.marian(), tokenizer()
    with pytest.raises(InputError, match="Ablation needs labels"):
        analyze(model, sentences=PAIRS, labels=False, ablation=True)
    without = analyze(model, sentences=PAIRS, labels=True, ablation=False, **HEADS_ALONE)
    assert not set(COLUMNS) & set(without.labels)
    assert not any(isinstance(note, NotAblated) for note in without.notes)
    one_sided = analyze(model, sentences=SENTENCES, labels=True, **HEADS_ALONE)
    (note,) = (note for note in one_sided.notes if isinstance(note, NotAblated))
    assert "An encoder-decoder is evaluated on pairs" in note.reason
