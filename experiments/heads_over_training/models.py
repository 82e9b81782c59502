"""Small translation and language models, trained with their weights kept at chosen steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.models import WEIGHTS, Run, RunSettings, load, settings_from, train

CHECKPOINTS = 20
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


def language_model_settings(seed: int, data: Path) -> RunSettings:
    """Those of a language model of two layers on English verses; `data` is the folder of the corpora."""
    chosen = LANGUAGE_MODEL
    return settings_from(
        chosen
        | {"corpus": {**chosen["corpus"], "name": str(data / "bible")}}
        | {"optimizer": {**chosen["optimizer"], "seed": seed}}
    )


def model_of(folder: Path, settings: RunSettings) -> Run:
    """The run in a folder with its checkpoints, trained where not all of them are there."""
    optimizer = replace(settings.optimizer, keep_checkpoints=CHECKPOINTS)
    if not (folder / WEIGHTS).exists() or len(load(folder).kept_steps) < CHECKPOINTS:
        train(folder, replace(settings, optimizer=optimizer), overwrite=True)
    return load(folder)


def set_step(run: Run, step: int) -> None:
    """Gives the model of a run the weights of a checkpoint."""
    run.model.load_state_dict(run.at_step(step).model.state_dict())
