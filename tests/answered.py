"""Every question, asked once of each kind of model; what it answered, and what asking left behind.

Tests that look at tables, notes, page, folder or command of an answer read these, and leave them as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_run import snapshot

import attnlab
from attnlab.core.options import option_fields, words_typed
from attnlab.results import Question, Result, own_question

TEXT = "the old cat sees the red bird ."
# What a question cannot be asked without.
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "claim": {"claims": ["encoder.0.0: offset -1"]}, "inspect": {"sentence": TEXT},
    "neighbours": {"words": ["the"]}, "rollout": {"sentence": TEXT},
}  # fmt: skip
LEARNING = {"calibration": 4, "validation": 4}
PAIRS = {"text": "pairs.tsv", "batch_size": 3}
# A model beside itself.
ITSELF = {"others": ["itself"]}
COMPARED = {"budgets": [5], "mechanisms": ["band", "top-k"], "sentences": 6, **LEARNING}
PLANNED = {"budgets": [5], "families": ["none", "band"], "sentences": 6, **LEARNING}
PRUNED = {"penalties": [0.1], "steps": 1, "sentences": 4}
LITTLE = {"structure_sentences": 2, "fit_sentences": 2, "keep_matrices": 2}
ANALYZED = {"sentences": 12, **LITTLE}
CLAIMS = [
    "encoder.0.0: offset -1",
    "decoder.0.1 attends to the previous word",
    "cross.0.0: aligned",
    "encoder.0.1: dep nsubj",
]
# By question and kind of its source, what keeps it short.
ASKED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("across", "run"): {**ITSELF, "sentences": 12, "patterns": ["offset -1"], "ablation": True},
    ("across", "language"): {**ITSELF, "sentences": 12},
    ("across", "marian"): {**ITSELF, **PAIRS, "seeds": ["itself"]},
    ("align", "run"): {"sentences": 12},
    ("align", "marian"): {"pairs": "pairs.tsv", "quick": True},
    ("analyze", "run"): {**ANALYZED, "keep_fits": True, "labels": True, "ablation": True, "generation": True},
    ("analyze", "language"): {**ANALYZED, "labels": True},
    ("analyze", "recurrent"): {**ANALYZED, "labels": True},
    ("analyze", "marian"): {**PAIRS, **LITTLE, "quick": True},
    ("analyze", "matrices"): {**LITTLE, "sites": ["encoder"]},
    ("approximate", "matrices"): {"families": ["band", "diagonal", "rare_columns"]},
    ("check", "run"): {"tokens": 12},
    ("check", "marian"): {"tokens": 12},
    ("claim", "run"): {"claims": CLAIMS, "sentences": 12},
    ("claim", "marian"): {"claims": ["encoder.0.2: offset -1 | rarest"], **PAIRS},
    ("compare", "run"): {**COMPARED, "per_head": True, "against": "band"},
    ("compare", "language"): {**COMPARED, "fine_tune": 1},
    ("compare", "recurrent"): COMPARED,
    ("detect", "run"): {"sentences": 12, "sequences": 2, "context": 40},
    ("detect", "language"): {"sentences": 12, "sequences": 2, "context": 40},
    ("detect", "marian"): {"patterns": ["offset -1", "rarest"], **PAIRS},
    ("detect", "recurrent"): {"sentences": 30, "sequences": 2, "context": 40, "controls": False},
    ("importance", "run"): {"sentences": 12, "calibration": 6, "points": 2, "bleu": ["zero"]},
    ("importance", "language"): {"sentences": 6, "calibration": 6},
    ("importance", "recurrent"): {"sentences": 6, "calibration": 6, "bleu": ()},
    ("inspect", "run"): {"sentence": TEXT, "other": "a cat runs"},
    ("inspect", "marian"): {"sentence": TEXT},
    ("neighbours", "run"): {"words": ["the", "a"], "count": 3},
    ("plan", "run"): PLANNED,
    ("plan", "language"): PLANNED,
    ("plan", "recurrent"): PLANNED,
    ("prune", "run"): PRUNED,
    ("prune", "language"): PRUNED,
    ("rollout", "run"): {"sentence": TEXT, "translation": "il gatto", "top": 3},
    ("rollout", "marian"): {"sentence": TEXT, "translation": "il gatto"},
    ("size", "run"): {"tokens": 12, "mechanisms": ["band(window=2)"]},
    ("size", "marian"): {"tokens": 12},
}  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """An answer, saved with its page, and what asking for it did.

    Attributes:
        question: what was asked.
        source: path of what it was asked about.
        options: as keyword arguments.
        result: the answer.
        folder: where it was saved.
        steps: what the question and saving told of their progress.
        changed: what asking left otherwise than before, by name; nothing of a question that behaves.
    """

    question: Question
    source: Path
    options: Mapping[str, Any]
    result: Result
    folder: Path
    steps: list[tuple[str, int, int]]
    changed: list[str]

    def words(self) -> list[str]:
        """What one types to ask the same."""
        words = words_typed(self.question.settings(**self.options))
        assert words is not None
        return [self.question.name, str(self.source), *words]


def answered(question: str, kind: str, source: Path, folder: Path) -> Answered:
    """Asks a question of a loaded model, or of a file, and saves the answer."""
    asked = own_question(question)
    names = {field.name: field for field in option_fields(asked.settings)}
    options = {
        name: str(source.with_name(value))
        if value == "pairs.tsv"
        else [str(source)]
        if value == ["itself"]
        else value
        for name, value in ASKED[question, kind].items()
    }
    words = {name: value for name, value in options.items() if names[name].option.argument}
    steps: list[tuple[str, int, int]] = []
    given = {name: value for name, value in options.items() if name not in words}
    if "progress" in asked.settings.__dataclass_fields__:
        given["progress"] = lambda *step: steps.append(step)
    loaded = source if kind == "matrices" else attnlab.load(source)
    before = _state(loaded, source)
    result = getattr(attnlab, question)(loaded, *words.values(), **given)
    after = _state(loaded, source)
    changed = [name for name, value in before.items() if not _equal(value, after.get(name))]
    saved = result.save(folder, progress=lambda *step: steps.append(step))
    return Answered(asked, source, options, result, saved, steps, changed)


def _state(loaded: Any, source: Path) -> dict[str, Any]:
    """All that a question must leave alone: files, random numbers, the model."""
    files = snapshot(source) if source.is_dir() else {source.name: source.read_bytes()}
    # Not that of Python's `random`, which the checks of types draw from.
    state = {"files": files, "torch": torch.get_rng_state(), "numpy": str(np.random.get_state())}
    model = getattr(loaded, "model", None)
    if model is not None:
        modules = dict(model.named_modules())
        state |= {f"weight {name}": value.clone() for name, value in model.state_dict().items()}
        state["training"] = {name: module.training for name, module in modules.items()}
        state["modules"] = {name: type(module) for name, module in modules.items()}
        # Transformers leaves its own where attentions were asked for.
        state["hooks"] = [
            (name, hook)
            for name, module in modules.items()
            for hook in (
                *module._forward_hooks.values(),
                *module._forward_pre_hooks.values(),
                module.forward,
            )
            if str(getattr(hook, "__module__", "attnlab")).startswith("attnlab")
        ]
        state["gradients"] = {
            name: (value.grad is None, value.requires_grad) for name, value in model.named_parameters()
        }  # fmt: skip
        state["attention"] = getattr(model.config, "_attn_implementation", None)
    return state


def _equal(one: Any, other: Any) -> bool:
    tensors = isinstance(one, torch.Tensor)
    return torch.equal(one, other) if tensors else one == other
