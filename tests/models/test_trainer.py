"""What the optimizer does at each step: learning rate, weight decay, clipping; what is scored."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.optimizer import AcceleratedOptimizer
from oracles import schedules
from small_run import small_settings
from torch import nn
from transformers import EvalPrediction

from attnlab.models.callbacks import Metrics
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.model import TranslationModel
from attnlab.models.run import load
from attnlab.models.scoring import score
from attnlab.models.tokenizer import Tokenizers, train_tokenizer
from attnlab.models.trainer import TranslationTrainer
from attnlab.models.training import scorer, train


class Steps:
    """What the optimizer was given at each step, and the model and optimizer of the last one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rates: list[float] = []
        self.gradient_norms: list[float] = []

        def note(_: Metrics, args: Any, state: Any, control: Any, **parts: Any) -> None:
            self.model: TranslationModel = parts["model"]
            self.optimizer: AcceleratedOptimizer = parts["optimizer"]
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            self.gradient_norms.append(float(nn.utils.get_total_norm(gradients)))

        monkeypatch.setattr(Metrics, "on_pre_optimizer_step", note)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


@pytest.mark.parametrize("name", ["inverse_sqrt", "linear", "cosine"])
def test_every_step_has_the_learning_rate_of_the_schedule(
    steps: Steps, tmp_path: Path, name: str
) -> None:
    options = {"schedule": name, "learning_rate": 3e-3, "warmup": 7, "epochs": 1}
    train(tmp_path / "run", small_settings(optimizer=options | {"batch_tokens": 200}))
    count = len(steps.rates)
    assert count > 2 * 7
    formula = getattr(schedules, name)
    expected = [formula(step, peak=3e-3, warmup=7, steps=count) for step in range(count)]
    assert steps.rates == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"norm": "pre", "positions": "learned", "tie_word_embeddings": False},
        {
            "attention": {
                "encoder": "longformer(window=2, global_tokens=[0])",
                "decoder": "linear(features=6)",
                "cross": "linear(features=6)",
            },
            "global_projections": True,
        },
    ],
    ids=["tied", "untied", "mechanisms"],
)
def test_weights_decay_but_for_biases_and_layer_norms(
    steps: Steps, tmp_path: Path, model: dict[str, Any]
) -> None:
    options = {"weight_decay": 0.037, "epochs": 1}
    train(tmp_path / "run", small_settings(model=model, optimizer=options))
    exempt = {
        id(parameter)
        for module in steps.model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if isinstance(module, nn.LayerNorm) or name == "bias"
    }
    found = {
        id(parameter): group["weight_decay"]
        for group in steps.optimizer.param_groups
        for parameter in group["params"]
    }
    for name, parameter in steps.model.named_parameters():
        assert found.pop(id(parameter)) == (0.0 if id(parameter) in exempt else 0.037), name
    assert not found
    assert exempt
    assert isinstance(steps.optimizer.optimizer, torch.optim.AdamW)
    assert {(g["betas"], g["eps"]) for g in steps.optimizer.param_groups} == {((0.9, 0.98), 1e-9)}


def test_gradients_are_clipped_to_the_norm_of_the_settings(steps: Steps, tmp_path: Path) -> None:
    train(tmp_path / "run", small_settings(optimizer={"clip": 0.02, "epochs": 1}))
    assert steps.gradient_norms == pytest.approx([0.02] * len(steps.gradient_norms), rel=1e-3)


REFERENCES = [
    "the old cat sees the red bird in the house today",
    "the zebra sees the old cat in the red house",
    "today the red bird sees the old house and the quokka",
]


def test_predictions_are_scored_against_the_text_as_written() -> None:
    """Label ids as predictions: the unknown words are missing from them, not from the references."""
    tokenizer = train_tokenizer([*REFERENCES, *REFERENCES[:1]], "word", 13)
    known = set(tokenizer.get_vocab())
    decoded = [" ".join(w for w in text.split() if w in known) for text in REFERENCES]
    assert decoded != REFERENCES
    rows = [tokenizer(text)["input_ids"][1:] for text in REFERENCES]
    labels = np.full((len(rows), max(map(len, rows))), IGNORED_LABEL)
    for row, ids in zip(labels, rows, strict=True):
        row[: len(ids)] = ids
    scores = scorer(Tokenizers(tokenizer, tokenizer, {}, {}), REFERENCES)
    found = scores(EvalPrediction(predictions=labels, label_ids=labels))
    expected = score(decoded, REFERENCES)
    assert found == expected.as_dict()
    assert 5 < expected.bleu < 95


def test_validation_scores_are_against_the_text_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels instead of translations: decoded references would give 100, another order far less."""
    original = TranslationTrainer.prediction_step

    def perfect(self: TranslationTrainer, *arguments: Any, **options: Any) -> Any:
        loss, _, labels = original(self, *arguments, **options)
        return loss, labels, labels

    monkeypatch.setattr(TranslationTrainer, "prediction_step", perfect)
    count = 8
    trained = train(
        tmp_path / "run",
        small_settings(
            tokenizer={"kind": "word", "vocabulary": 200},
            optimizer={"epochs": 1, "batch_tokens": 60, "validation_sentences": count},
        ),
    )
    run = load(tmp_path / "run")
    written = run.corpus().validation["target"][:count]
    ids = run.tokenizers.target(written)["input_ids"]
    decoded = run.tokenizers.target.batch_decode(ids, skip_special_tokens=True)
    expected = score(decoded, written)
    assert 5 < expected.bleu < 95
    assert score(decoded[1:] + decoded[:1], written).bleu < expected.bleu - 1
    row = trained.metrics[0]
    assert row["validation_bleu"] == pytest.approx(expected.bleu)
    assert row["validation_chrf"] == pytest.approx(expected.chrf)
    assert row["validation_sentences"] == count
