"""Transformers folders that were saved with mechanisms in them, as attnlab's commands read them."""

from pathlib import Path

import pytest
import torch
from zoo import random_models

from attnlab.attention.bridge.installing import PLAN_FILE, install
from attnlab.attention.bridge.sites import attention_modules, mechanism_of
from attnlab.attention.plan import plan_of, write_plan
from attnlab.core.errors import InputError
from attnlab.evaluation.sources import model_and_texts
from attnlab.questions.compare.comparison import compare

SENTENCES = random_models.SENTENCES


@pytest.mark.parametrize("name", random_models.ALL)
def test_the_plan_comes_with_the_model(name: str, tmp_path: Path) -> None:
    random_models.ALL[name]().save_pretrained(tmp_path / "plain")
    # Read back, since Marian's positions follow from its configuration and not from the file.
    model = type(random_models.ALL[name]()).from_pretrained(tmp_path / "plain")
    sites = {at.site for at in attention_modules(model)}
    install(model, dict.fromkeys(sites, "sigma(window=1, columns='first')"))
    model.save_pretrained(tmp_path)
    random_models.tokenizer().save_pretrained(tmp_path)
    texts = random_models.PAIRS if name in random_models.TWO_STACKS else SENTENCES
    subject, _ = model_and_texts(tmp_path, sentences=texts, scores=True)
    found = attention_modules(subject.model)
    assert {mechanism_of(at.module).name for at in found} == {"sigma"}
    given = {"input_ids": torch.tensor([[1, 5, 6, 7, 2]])}
    if name in random_models.TWO_STACKS:
        given["decoder_input_ids"] = given["input_ids"]
    with torch.no_grad():
        assert torch.equal(subject.model(**given)[0], model.eval()(**given)[0])


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    random_models.bert().save_pretrained(tmp_path)
    random_models.tokenizer().save_pretrained(tmp_path)
    write_plan(tmp_path / PLAN_FILE, plan_of({"decoder": "band(window=1)"}))
    with pytest.raises(InputError, match="does not fit the model"):
        model_and_texts(tmp_path, sentences=SENTENCES)


def test_a_model_with_mechanisms_is_not_compared_with_full_attention(tmp_path: Path) -> None:
    model = random_models.bert()
    install(model, "band(window=1)")
    with pytest.raises(InputError, match="give a run or a model that has it"):
        compare(
            (model, random_models.tokenizer()),
            [5],
            sentences=SENTENCES[:4],
            calibration=SENTENCES[4:],
        )
