"""`attnlab.load` tells apart what stands at a path, and every question takes what it gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.core.errors import InputError
from attnlab.evaluation.sources import model_and_texts
from attnlab.models.run import Run
from attnlab.results.result import Result

TEXTS = ["a dog sees a cat", "the cat sleeps"]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    words = {
        word: number
        for number, word in enumerate(["[PAD]", "a", "dog", "sees", "cat", "the", "sleeps"])
    }
    inner = Tokenizer(models.WordLevel(words, unk_token="[PAD]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=12,
            num_attention_heads=3,
            num_hidden_layers=2,
            intermediate_size=8,
        )
        BertModel(config).save_pretrained(tmp_path / "bert")
    PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]").save_pretrained(
        tmp_path / "bert"
    )
    return tmp_path / "bert"


def test_a_model_that_was_saved_with_its_scores_brings_them(bert: Path) -> None:
    with torch.random.fork_rng():
        BertForMaskedLM(BertConfig.from_pretrained(bert)).save_pretrained(bert)
    assert isinstance(attnlab.load(bert).model, BertForMaskedLM)


def test_a_transformers_model_is_what_questions_take(bert: Path, tmp_path: Path) -> None:
    loaded = attnlab.load(bert)
    assert loaded.model.config.num_attention_heads == 3
    assert not loaded.model.training
    found = attnlab.inspect(loaded, *TEXTS)
    expected = attnlab.inspect(bert, *TEXTS)
    assert found.heads.equals(expected.heads)
    found.save(tmp_path / "result")
    again = attnlab.load(str(tmp_path / "result"))
    assert isinstance(again, Result)
    assert again.notes == found.notes
    pd.testing.assert_frame_equal(again.heads, found.heads, check_dtype=False)


def test_a_run(small_run: Path) -> None:
    run = attnlab.load(small_run)
    assert run.folder == small_run
    assert attnlab.inspect(run, "the cat sleeps").question == "inspect"


def test_of_sentences_that_are_handed_in_words_alone_are_known_whatever_the_corpus(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = attnlab.load(small_run)
    _, brought = model_and_texts(run, sentences=3, gold=True)
    assert brought.gold is not None
    assert brought.gold.trees

    def lost(_: Run) -> None:
        pytest.fail("the corpus may be gone, and is not needed")

    monkeypatch.setattr(Run, "corpus", lost)
    _, given = model_and_texts(run, sentences=brought.texts, gold=True)
    assert given.texts == brought.texts
    assert given.gold is not None
    assert not given.gold.trees


def test_a_plan(tmp_path: Path) -> None:
    plan = attnlab.attention.plan_of({"encoder.0": "band(window=3)"})
    attnlab.attention.write_plan(tmp_path / "plan.json", plan)
    assert attnlab.load(tmp_path / "plan.json") == plan


def test_matrices(tmp_path: Path) -> None:
    np.save(tmp_path / "heads.npy", np.eye(3))
    assert torch.equal(attnlab.load(tmp_path / "heads.npy")[""], torch.eye(3, dtype=torch.float64))


def test_what_is_none_of_these_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match="is not a run directory but holds other files"):
        attnlab.load(tmp_path / "folder")
    (tmp_path / "a.txt").write_text("nothing")
    with pytest.raises(InputError, match="is a file; name a run directory"):
        attnlab.load(tmp_path / "a.txt")
    with pytest.raises(InputError, match="attnlab train"):
        attnlab.load(tmp_path / "absent" / "run")


@pytest.mark.slow
def test_first_guesses_of_a_new_user(small_run: Path, tmp_path: Path) -> None:
    run = attnlab.load(small_run)
    (one,) = run.translate("the cat sleeps", beams=1)
    assert run.translate(["the cat sleeps"], beams=1) == [one]
    few = {"sentences": 4, "calibration": 4, "validation": 4}
    found = attnlab.compare(run, 5, mechanisms="band", sites="encoder", quick=True, **few)
    assert set(found.table["budget"].dropna()) == {5}
    found.save(tmp_path / "comparison")
    again = attnlab.load(tmp_path / "comparison")
    assert again.plot() is not None
    assert "mechanism" in again.to_latex()
    floating = again.to_latex(caption="All of them", label="tab:all")
    assert "\\caption{All of them}\n\\label{tab:all}\n" in floating
    narrow = again.to_latex(columns=["mechanism", "visible_keys"])
    assert next(line for line in narrow.splitlines() if "mechanism" in line).count("&") == 1
    assert again.formatted("csv", ["budget", "mechanism"]).startswith("budget,mechanism\n")
    with pytest.raises(
        InputError, match="There is no column 'nowhere'; choose from: sites, budget, mechanism"
    ):
        again.to_latex(columns=["nowhere"])
    heads = attnlab.analyze(run, sentences=4, quick=True, structure_sentences=2)
    assert attnlab.plot.heads(heads) is not None
    with pytest.raises(TypeError, match="did you mean 'sentences'"):
        attnlab.analyze(run, sentense=4)


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("analyze", {"quick": True, "fit_sentences": 0}),
        ("importance", {"replacements": ["zero"]}),
        ("compare", {"budgets": [2], "mechanisms": ["band"], "calibration": SENTENCES[4:]}),
        ("plan", {"budgets": [2], "families": ["none", "band"], "calibration": SENTENCES[4:]}),
    ],
)
def test_a_model_that_is_handed_in_goes_on_training_as_before(
    question: str, options: dict[str, Any]
) -> None:
    model = random_models.gpt2().train()
    model.transformer.h[0].eval()
    before = [part.training for part in model.modules()]
    getattr(attnlab, question)((model, tokenizer()), sentences=SENTENCES[:4], **options)
    assert [part.training for part in model.modules()] == before
