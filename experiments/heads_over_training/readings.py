"""What heads do and how well the model predicts, at one step of a training."""

from pathlib import Path

import numpy as np
import pandas as pd

from attnlab.core import HEAD_COLUMNS
from attnlab.evaluation import Evaluator
from attnlab.models import Run
from attnlab.questions.across.comparing import CONTROL_SEED, across
from attnlab.questions.detect.detecting import detect
from attnlab.questions.detect.question import DUPLICATE, INDUCTION, PREVIOUS

COLUMNS = [
    "step", *HEAD_COLUMNS, "label", "strength", "shuffled_strength", "value", "detail",
]  # fmt: skip
# Random tokens that are read twice: together no longer than the verses of training.
RANDOM_TOKENS, CONTEXT = 30, 60
ON_RANDOM = " (random)"
PREVIOUS_TOKEN, DUPLICATE_TOKEN, INDUCTION_HEAD = (
    one.estimate.column.heading + ON_RANDOM for one in (PREVIOUS, DUPLICATE, INDUCTION)
)
# What heads of a language model do with random tokens, by the detector.
DETECTED = {PREVIOUS: PREVIOUS_TOKEN, DUPLICATE: DUPLICATE_TOKEN, INDUCTION: INDUCTION_HEAD}


def strengths(run: Run, sentences: int, treebank: Path | None = None) -> pd.DataFrame:
    """How near every head comes to every label at each checkpoint, and on shuffled words.

    On the test sentences, or those of a treebank.
    """
    found = across(run, checkpoints=True, treebank=treebank, sentences=sentences, seed=run.seed)
    names = {
        "training_step": "step", "what": "label", "degree": "strength",
        "shuffled_degree": "shuffled_strength",
    }  # fmt: skip
    return found.tables["degrees"].rename(columns=names)[COLUMNS]


def on_trees(run: Run, sentences: int, data: Path) -> pd.DataFrame:
    """How near every head comes to a syntactic one, on sentences with gold trees."""
    found = strengths(run, sentences, data / "pud" / "en.conllu.gz")
    return found[found["label"] == "syntactic"]


def on_random_tokens(run: Run) -> pd.DataFrame:
    """The scores of every head as a previous-token, duplicate-token and induction head."""
    found = detect(run, tokens=RANDOM_TOKENS, context=CONTEXT, seed=run.seed + CONTROL_SEED)
    heads, tables = found.tables["detectors"], []
    for detector, label in DETECTED.items():
        mixed = heads[detector.control] if detector.shuffled else np.nan
        own = heads[[*HEAD_COLUMNS]].assign(
            label=label, strength=heads[detector.name], shuffled_strength=mixed
        )
        tables.append(own.assign(value=own["strength"], detail=""))
    return pd.concat(tables)


def loss_of(evaluator: Evaluator) -> float:
    """Of the test sentences, in nats per token."""
    return float(evaluator.losses().sum() / evaluator.tokens.sum())
