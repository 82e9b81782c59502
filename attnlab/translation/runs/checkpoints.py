"""The checkpoints of a run and the model that comes of them: which is the best, which can be used."""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from attnlab.errors import AttnlabError, InputError, reason
from attnlab.translation.loading import UNREADABLE
from attnlab.translation.model import TranslationModel
from attnlab.translation.runs.files import (
    CHECKPOINTS,
    STATE,
    checkpoint_path,
    is_trained,
    last_complete_checkpoint,
)
from attnlab.translation.runs.run import load_model
from attnlab.translation.settings import ModelSettings
from attnlab.translation.tokenizer import Tokenizers


def refuse_lost_checkpoints(folder: Path) -> None:
    """Raises where training would begin anew, or forget the best model, since checkpoints are gone.

    Raises:
        InputError: see above, or the newest checkpoint's `trainer_state.json` cannot be read.
    """
    checkpoints, newest = folder / CHECKPOINTS, last_complete_checkpoint(folder)
    if newest is None and (is_trained(folder) or _leads_nowhere(checkpoints)):
        msg = (
            f"{checkpoints} holds no complete checkpoint to go on from; put it back, or train anew with: "
            f"attnlab train {folder} --overwrite"
        )
        raise InputError(msg)
    best = None if newest is None else best_checkpoint(newest)
    if best is not None and not (best / "model.safetensors").is_file():
        msg = (
            f"{best}, which holds the best model so far, is gone; put it back, or train anew with: "
            f"attnlab train {folder} --overwrite"
        )
        raise InputError(msg)


def refuse_damaged_checkpoints(
    folder: Path, settings: ModelSettings, tokenizers: Tokenizers
) -> None:
    """Raises InputError where the newest or the best checkpoint is not a whole model of the run."""
    newest = last_complete_checkpoint(folder)
    if newest is None:
        return
    for path in sorted({newest, best_checkpoint(newest) or newest}):
        try:
            load_model(path, settings, tokenizers)
        except UNREADABLE as error:
            msg = (
                f"The checkpoint {path} is damaged ({reason(error)}); put its files back, or train anew "
                f"with: attnlab train {folder} --overwrite"
            )
            raise InputError(msg) from error


def best_checkpoint(checkpoint: Path) -> Path | None:
    """The best checkpoint up to this one, whether it is still there or not; None before the first.

    Raises:
        InputError: `trainer_state.json` cannot be read.
    """
    step = _state(checkpoint, "best_global_step")
    return checkpoint_path(checkpoint.parents[1], step) if step else None


def refuse_fewer_epochs(folder: Path, epochs: int) -> None:
    """Raises where the run is trained for more than `epochs`, which its settings would then deny.

    Raises:
        InputError: see above, or the newest checkpoint's `trainer_state.json` cannot be read.
    """
    newest = last_complete_checkpoint(folder)
    trained = 0.0 if newest is None else float(_state(newest, "epoch"))
    if epochs < trained:
        msg = (
            f"{folder} is trained for {trained:.4g} epochs already; epochs must be {math.ceil(trained)} or "
            f"more, not {epochs}."
        )
        raise InputError(msg)


def _state(checkpoint: Path, name: str) -> Any:
    """A value of the Trainer's state in a checkpoint.

    Raises:
        InputError: `trainer_state.json` cannot be read, or lacks it.
    """
    path = checkpoint / STATE
    try:
        return json.loads(path.read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, LookupError, TypeError) as error:
        msg = (
            f"{path} is damaged ({error}); delete {checkpoint} to go on from an earlier checkpoint."
        )
        raise InputError(msg) from error


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def save_model(model: TranslationModel, folder: Path) -> None:
    """Writes weights and configuration into `folder`, each file whole or not at all.

    Raises:
        AttnlabError: the disk is full; the model that was there before is unchanged.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".model-") as temporary:
            model.save_pretrained(temporary)
            for path in sorted(Path(temporary).iterdir()):
                path.replace(folder / path.name)
    except (OSError, SafetensorError) as error:
        msg = f"Could not write the model to {folder}: {error}; what was there before is unchanged."
        raise AttnlabError(msg) from error
