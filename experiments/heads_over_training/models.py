"""Small translation and language models, trained with their weights kept at chosen steps."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_model
from transformers import TrainerCallback

from attnlab.models import (
    WEIGHTS,
    OwnModel,
    Run,
    RunSettings,
    load,
    save_model,
    settings_from,
    train,
)

# The first step after the start, when the learning rate is still rising, up to the last.
CHECKPOINTS, FIRST = 20, 8
KEPT = "kept_steps"
# Verses: on texts of eight joined ones a model of these sizes attended to nothing after 1,264 steps.
LANGUAGE_MODEL: dict[str, Any] = {
    "corpus": {"pair": "en-it", "lowercase": True, "max_tokens": 64},
    "tokenizer": {"vocabulary": 2000},
    "model": {
        "task": "language-model", "dim": 128, "heads": 8, "feed_forward": 512, "decoder_layers": 2,
        "norm": "pre",
    },
    "optimizer": {
        "epochs": 10, "batch_tokens": 2048, "learning_rate": 3e-3, "warmup": 200, "schedule": "cosine",
        "validation_sentences": 300,
    },
}  # fmt: skip


def chosen_steps(total: int) -> list[int]:
    """The start, and steps whose logarithms are evenly spaced from the first chosen one to the last.

    >>> chosen_steps(1000)[:4], chosen_steps(1000)[-2:], len(chosen_steps(1000))
    ([0, 8, 10, 14], [765, 1000], 20)
    """
    ratio = (total / FIRST) ** (1 / (CHECKPOINTS - 2))
    return [0, *(round(FIRST * ratio**power) for power in range(CHECKPOINTS - 1))]


class KeepSteps(TrainerCallback):
    """Keeps the weights at the chosen steps, in a folder of the run each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_begin(self, _: Any, state: Any, *__: Any, **rest: Any) -> None:
        """Keeps the first weights."""
        self.steps = chosen_steps(state.max_steps)
        self._keep(state.global_step, rest["model"])

    def on_step_end(self, _: Any, state: Any, *__: Any, **rest: Any) -> None:
        """Keeps the weights of a chosen step."""
        self._keep(state.global_step, rest["model"])

    def _keep(self, step: int, model: OwnModel) -> None:
        if step in self.steps:
            path = self.folder / KEPT / str(step)
            path.mkdir(parents=True, exist_ok=True)
            save_model(model, path)


def language_model_settings(seed: int, data: Path) -> RunSettings:
    """Those of a language model of two layers on English verses; `data` is the folder of the corpora."""
    chosen = LANGUAGE_MODEL
    return settings_from(
        chosen
        | {"corpus": {**chosen["corpus"], "name": str(data / "bible")}}
        | {"optimizer": {**chosen["optimizer"], "seed": seed}}
    )


def model_of(folder: Path, settings: RunSettings) -> Run:
    """The run in a folder, trained where not all of its steps are there."""
    if not (folder / WEIGHTS).exists() or len(steps_of(folder)) < CHECKPOINTS:
        train(folder, settings, overwrite=True, callbacks=[KeepSteps(folder)])
    return load(folder)


def steps_of(folder: Path) -> list[int]:
    """The steps whose weights are kept."""
    return sorted(int(path.parent.name) for path in (folder / KEPT).glob(f"*/{WEIGHTS}"))


def at_step(run: Run, step: int) -> Run:
    """The run, whose model now has the weights of a step."""
    load_model(run.model, run.folder / KEPT / str(step) / WEIGHTS)
    return run
