"""What is handed in as a model: refused in a sentence where it is none, or lacks what a question needs."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.core import InputError

VERBS = ("analyze", "importance", "detect", "align", "inspect", "load")


@pytest.mark.parametrize("verb", VERBS)
def test_a_model_without_its_tokenizer_is_asked_for_a_pair(
    verb: str, as_users_call_it: None
) -> None:
    told: dict[str, Any] = {"sentences": SENTENCES} if verb in {"analyze", "importance"} else {}
    more = {"inspect": ("a cat",), "align": ([("a cat", "un gatto")],)}.get(verb, ())
    call = partial(getattr(attnlab, verb), **told)
    model = random_models.gpt2()
    with pytest.raises(
        InputError, match=r"GPT2LMHeadModel is a model without its tokenizer; .*pair"
    ):
        call(model, *more)
    for pair in ((model,), (model, model), (tokenizer(), model), (model, tokenizer(), 3)):
        with pytest.raises(InputError, match=r"is no model with its tokenizer; .*pair"):
            call(pair, *more)
    with pytest.raises(InputError, match=r"3 is no model; give a folder, a name"):
        call(3, *more)
    weights = (torch.ones(1, 2, 1, 1),) * 2
    arrays = (weights[0].numpy(), {"a": weights[0]})
    for given in (weights, {"attentions": weights}, {"cross_attentions": weights}, *arrays):
        with pytest.raises(InputError, match=r"attnlab.show\(weights, tokens\) shows .* a file of"):
            call(given, *more)
    for given in ({"weight": 2 * weights[0]}, [torch.tensor([1, 2]).numpy()]):
        with pytest.raises(InputError, match="is no model"):
            call(given, *more)
    if verb not in {"load", "align"}:
        with pytest.raises(InputError, match="GPT2LMHeadModel has no tokenizer here"):
            call((model, None), *more)


class Elsewhere(os.PathLike):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_lists_and_paths_of_any_kind_are_taken(tmp_path: Path, as_users_call_it: None) -> None:
    model = random_models.gpt2()
    told: dict[str, Any] = {"sentences": SENTENCES, "labels": False, "fit_sentences": 0}
    of_pair = attnlab.analyze((model, tokenizer()), **told).heads
    pd.testing.assert_frame_equal(attnlab.analyze([model, tokenizer()], **told).heads, of_pair)
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    pd.testing.assert_frame_equal(attnlab.analyze(Elsewhere(tmp_path), **told).heads, of_pair)


def test_what_a_model_attends_to_is_checked_without_a_tokenizer(tmp_path: Path) -> None:
    random_models.gpt2().save_pretrained(tmp_path / "model")
    found = attnlab.check(tmp_path / "model", tokens=8)
    assert (found.properties["outcome"] != "mismatch").all()
    with pytest.raises(InputError, match="it holds no tokenizer"):
        attnlab.analyze(tmp_path / "model", sentences=SENTENCES)
