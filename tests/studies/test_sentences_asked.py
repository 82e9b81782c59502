"""A number of sentences that nobody asked for is not missed where a file has fewer."""

from pathlib import Path
from typing import Any

import pytest
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.evaluation.shared_settings import FewerThanAsked

# What keeps each question short.
QUESTIONS: dict[str, dict[str, Any]] = {
    "importance": {"replacements": ["zero"]},
    "compare": {"budgets": [2], "mechanisms": ["band"], "calibration": SENTENCES[5:]},
    "plan": {"budgets": [2], "families": ["none", "band"], "calibration": SENTENCES[5:]},
    "prune": {"penalties": [1.0], "steps": 1, "random": False, "calibration": SENTENCES[5:]},
}


@pytest.mark.parametrize("name", QUESTIONS)
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
