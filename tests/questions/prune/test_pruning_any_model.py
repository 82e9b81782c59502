"""Pruning of models that are no runs: by what they are evaluated by, on sentences that are handed in."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from zoo import random_models
from zoo.random_models import PAIRS, SENTENCES, tokenizer

import attnlab
from attnlab.ablation.ablation import ablated
from attnlab.core.addresses import SITES, Head
from attnlab.core.errors import InputError
from attnlab.evaluation.evaluator import load_evaluator
from attnlab.questions.prune.pruner import load_pruner
from attnlab.questions.prune.question import PruningSettings
from attnlab.reading.reading_notes import SentencesDropped

MODELS = ("gpt2", "llama", "bert", "marian", pytest.param("t5", marks=pytest.mark.slow))


def texts_of(name: str) -> dict[str, Any]:
    texts: list[Any] = list(PAIRS if name in {"marian", "t5"} else SENTENCES)
    return {"sentences": texts[:2], "validation": texts[2:4], "calibration": texts[4:]}


@pytest.mark.parametrize("name", MODELS)
def test_a_pruned_model_loses_what_ablation_of_the_same_heads_costs(name: str) -> None:
    """With the gates alone trained, closing heads is all that changes."""
    model = random_models.ALL[name]().double()
    before = copy.deepcopy(model.state_dict())
    found = attnlab.prune(
        (model, tokenizer()),
        [0.0, 50.0],
        steps=3,
        train_model=False,
        random=False,
        **texts_of(name),
    )
    assert all(torch.equal(part, before[key]) for key, part in model.state_dict().items())
    curve = found.curve[found.curve["split"] == "test"].set_index("penalty")
    gates = found.gates[found.gates["penalty"] == 50.0]
    assert found.about["sites"] == [site for site in SITES if site in set(gates["site"])]
    closed = [Head(row.site, row.layer, row.head) for row in gates.itertuples() if not row.open]
    assert curve.loc[50.0, "heads_left"] == len(gates) - len(closed)
    evaluator = load_evaluator((model, tokenizer()), sentences=texts_of(name)["sentences"])
    whole = evaluator.losses().sum()
    with ablated(evaluator.projections, closed, "zero"):
        change = float((evaluator.losses().sum() - whole) / evaluator.tokens.sum())
    assert curve.loc[50.0, "loss_change"] == pytest.approx(change, rel=1e-9, abs=1e-12)
    assert curve.loc[0.0, "heads_left"] == len(gates), "three steps without a price close no gate"


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_heads_can_be_closed_in_both_kinds_of_projections(name: str) -> None:
    pruner = load_pruner(
        (random_models.ALL[name](), tokenizer()), PruningSettings(**texts_of(name))
    )
    heads = [Head(site, layer, 1) for site, layer in pruner.projections]
    test = pruner.evaluators["test"]
    with ablated(pruner.projections, heads, "zero"):
        expected = test.losses()
    attnlab.ablation.close_heads(pruner.projections, heads)
    torch.testing.assert_close(test.losses(), expected)
    assert attnlab.ablation.closed_heads(pruner.projections) == heads


def test_training_sees_every_batch_once_before_any_again_and_the_same_at_every_call() -> None:
    options = texts_of("gpt2") | {"batch_size": 1}
    pruner = load_pruner((random_models.gpt2(), tokenizer()), PruningSettings(**options, seed=3))
    steps = pruner.training.steps_in_epoch
    assert steps == 3
    first, again = ([batch.numbers for batch in pruner.training.batches(7)] for _ in range(2))
    assert first == again
    assert len(first) == 7
    assert len(set(first[:3])) == len(set(first[3:6])) == 3


def test_the_training_loss_is_that_of_the_model_it_is_measured_by() -> None:
    pruner = load_pruner((random_models.gpt2(), tokenizer()), PruningSettings(**texts_of("gpt2")))
    (batch,) = pruner.training.batches(1)
    inputs = batch.inputs["input_ids"].masked_fill(batch.inputs["attention_mask"] == 0, -100)
    with torch.no_grad():
        expected = pruner.loaded.model(**batch.inputs, labels=inputs).loss
        found = pruner.training.loss(batch)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_the_model_is_trained_along_but_for_what_it_keeps_frozen(name: str) -> None:
    pruner = load_pruner(
        (random_models.ALL[name]().double(), tokenizer()), PruningSettings(**texts_of(name))
    )
    before = copy.deepcopy(pruner.start)
    pruner.tune("Every head", 2)
    frozen = {key for key, one in pruner.loaded.model.named_parameters() if not one.requires_grad}
    assert bool(frozen) == (name == "marian"), "its positions are sines"
    parameters = dict(pruner.loaded.model.named_parameters())
    for key, one in parameters.items():
        assert torch.equal(one, before[key]) == (key in frozen), key
    title = attnlab.prune(
        (pruner.loaded.model, tokenizer()), [1.0], steps=1, **texts_of(name)
    ).title
    assert title == f"Heads left against {'BLEU' if name == 'marian' else 'loss'}"


def test_training_sentences_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "training.txt"
    file.write_text("".join(f"{text}\n" for text in SENTENCES[2:]), encoding="utf-8")
    pruner = load_pruner(
        (random_models.gpt2(), tokenizer()),
        PruningSettings(sentences=SENTENCES[:2], calibration_text=file),
    )
    assert [len(pruner.evaluators[part].tokens) for part in ("test", "validation")] == [2, 2]
    batches = pruner.training.batches(pruner.training.steps_in_epoch)
    assert sum(len(batch.numbers) for batch in batches) == len(SENTENCES[2::2]) == 3


def test_sentences_that_are_too_long_are_told_of_each_part() -> None:
    model = random_models.gpt2()
    most = model.config.n_positions
    # Another in each part: a sentence that is held out is none to train on.
    texts = {
        name: [*part, " ".join([part[0].split()[0]] * (most + number))]
        for number, (name, part) in enumerate(texts_of("gpt2").items(), 1)
    }
    found = attnlab.prune((model, tokenizer()), [1.0], steps=1, random=False, **texts)
    parts = {"test": "sentences", "validation": "validation", "training": "calibration"}
    left_out = {one.part: one for one in found.notes if isinstance(one, SentencesDropped)}
    for part, asked in parts.items():
        total = len(texts[asked])
        assert left_out[part] == SentencesDropped(1, total, most, part)
        assert found.about[f"{part}_sentences"] == total - 1


def test_what_runs_alone_can_is_refused_before_work() -> None:
    model = random_models.gpt2(), tokenizer()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"keep_models": True}, "saving pruned models (keep_models)"),
        ({"batch_tokens": 64}, "counting tokens of a batch (batch_tokens)"),
    ]
    refused.append((refused[0][0] | refused[1][0], f"{refused[0][1]}, {refused[1][1]}"))
    for options, named in refused:
        message = f"Only for runs of attnlab train: {named}; leave that out."
        with pytest.raises(InputError, match=re.escape(message)):
            attnlab.prune(model, [0.1], **texts_of("gpt2"), **options)
    with pytest.raises(InputError, match="has no encoder attention; it has: decoder"):
        attnlab.prune(model, [0.1], sites=["encoder"], **texts_of("gpt2"))
