"""Every question about a model notes of which of its weights the result is."""

from pathlib import Path
from typing import Any

import pytest

import attnlab
from attnlab.core.files import file_checksum
from attnlab.models.run import load
from attnlab.results.question import questions

pytestmark = pytest.mark.usefixtures("no_page")

# What keeps each question short.
SHORT: dict[str, dict[str, Any]] = {
    "align": {"sentences": 4},
    "analyze": {"sentences": 4, "labels": False, "fit_sentences": 0, "keep_matrices": 0},
    "check": {"tokens": 12},
    "compare": {"budgets": [2], "mechanisms": ["band"], "quick": True, "sentences": 4},
    "detect": {"sentences": 4},
    "importance": {"replacements": ["zero"], "bleu": [], "sentences": 9},
    "inspect": {},
    "plan": {"budgets": [2], "families": ["none", "band"], "sentences": 4},
    "prune": {"penalties": [1.0], "steps": 1, "random": False, "quick": True, "sentences": 4},
    "rollout": {},
}
# They read no model: embeddings, matrices.
OTHERS = {"neighbours", "approximate"}


def test_every_question_is_here() -> None:
    assert set(questions()) == set(SHORT) | OTHERS


@pytest.mark.parametrize("name", SHORT)
def test_a_result_is_of_the_weights_of_its_run(name: str, small_run: Path) -> None:
    texts = load(small_run).corpus().test["source"][:1] if name in {"inspect", "rollout"} else []
    found = getattr(attnlab, name)(small_run, *texts, **SHORT[name])
    assert found.weights == file_checksum(small_run / "model.safetensors")
