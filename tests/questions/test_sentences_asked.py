"""What the questions to a model tell of its sentences: fewer than asked for, and words unknown to it."""

import copy
from pathlib import Path
from typing import Any

import pytest
from grids import first
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.evaluation.shared_settings import FewerThanAsked, UnknownTokens

# What keeps each question short.
QUESTIONS: dict[str, dict[str, Any]] = {
    "importance": {"replacements": ["zero"]},
    "compare": {"budgets": [2], "mechanisms": ["band"], "calibration": SENTENCES[5:]},
    "plan": {"budgets": [2], "families": ["none", "band"], "calibration": SENTENCES[5:]},
    "prune": {"penalties": [1.0], "steps": 1, "random": False, "calibration": SENTENCES[5:]},
}


@pytest.mark.parametrize("name", first(QUESTIONS, but={"compare", "plan"}))
def test_fewer_sentences_are_told_where_a_number_was_asked_for(name: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(SENTENCES[:5]), encoding="utf-8")
    ask = getattr(attnlab, name)
    model = random_models.gpt2(), tokenizer()

    def told(**more: Any) -> list[FewerThanAsked]:
        notes = ask(model, text=text, **QUESTIONS[name], **more).notes
        return [note for note in notes if isinstance(note, FewerThanAsked)]

    assert told() == []
    assert told(sentences=99) == [FewerThanAsked(99, "text.txt", 5)]


# Of 5 and 4 tokens 3 and 1 are unknown; below a fifth in the last.
FOREIGN = ["the hund och katt runs", "sjunger the old cat", "the cat sees a dog , a red tupp ."]
LEARNED = {"replacements": ["mean"], "calibration": [FOREIGN[2], "hund och katt"]}
ASKED: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "analyze": ({"labels": False, "fit_sentences": 0, "keep_matrices": 0}, {"": 4 / 9}),
    "importance": (LEARNED, {"held-out": 4 / 9, "training": 4 / 13}),
    "compare": (QUESTIONS["compare"], {"held-out": 4 / 9}),
    "plan": (QUESTIONS["plan"], {"held-out": 4 / 9}),
    "prune": (QUESTIONS["prune"], {"test": 4 / 9}),
}


def unknown_in(found: Any) -> list[UnknownTokens]:
    return [note for note in found.notes if isinstance(note, UnknownTokens)]


@pytest.mark.parametrize("name", first(ASKED, but={"compare", "plan"}))
def test_texts_of_unknown_words_are_told_with_their_share(name: str) -> None:
    options, shares = ASKED[name]
    texts = FOREIGN[:2] * 2
    found = getattr(attnlab, name)((random_models.gpt2(), tokenizer()), sentences=texts, **options)
    (note,) = unknown_in(found)
    assert dict(note.shares) == pytest.approx(shares)
    text = str(note)
    assert "Of the word tokens 44%" in text
    assert "give texts in the language" in text


def test_a_few_unknown_words_are_not_told_nor_any_without_an_unknown_token() -> None:
    model, options = random_models.gpt2(), ASKED["analyze"][0]
    assert not unknown_in(attnlab.analyze((model, tokenizer()), sentences=FOREIGN[2:], **options))
    # As of GPT-2, whose tokenizer names the mark of the beginning as its unknown token too.
    named = copy.deepcopy(tokenizer())
    named.unk_token = named.bos_token
    assert not unknown_in(attnlab.analyze((model, named), sentences=FOREIGN[:2], **options))


def test_translations_count_beside_their_sources() -> None:
    pairs = [("the cat runs", "un chat court"), ("a dog runs", "un chien court")]
    model, options = random_models.small_marian(), ASKED["analyze"][0] | {"structure_sentences": 0}
    (note,) = unknown_in(attnlab.analyze((model, tokenizer()), sentences=pairs, **options))
    assert note == UnknownTokens((("", 0.5),))
