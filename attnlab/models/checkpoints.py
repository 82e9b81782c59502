"""The checkpoints of a run and the model that comes of them: which is the best, which can be used."""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from safetensors import SafetensorError
from transformers import TrainerState

from attnlab.core import (
    AttnlabError,
    InputError,
    check_files_in,
    reason,
    set_usual_permissions,
)
from attnlab.models.metrics import state_of
from attnlab.models.model import OwnModel
from attnlab.models.run import load_model
from attnlab.models.run_folder import (
    CHECKPOINTS,
    STATE,
    checkpoint_path,
    checkpoint_step,
    complete_checkpoints,
    is_trained,
)
from attnlab.models.safe_loading import UNREADABLE, save_with_checksum
from attnlab.models.tokenizer import Tokenizers
from attnlab.models.training_settings import ModelSettings


@dataclass(frozen=True)
class Beginning:
    """The checkpoint that training goes on from.

    Attributes:
        checkpoint: the newest one that is whole; None where training begins anew.
        damaged: newer ones that cannot be used, and what is wrong with each.
    """

    checkpoint: Path | None
    damaged: Mapping[Path, str]


def beginning(folder: Path, settings: ModelSettings, tokenizers: Tokenizers | None) -> Beginning:
    """The checkpoint that training of the run in `folder` goes on from: the newest one that is whole.

    Raises:
        InputError: no checkpoint is whole though something is trained, so that training would begin anew;
            or the best model up to the checkpoint is gone or damaged, so that it would be forgotten.
    """
    damaged: dict[Path, str] = {}
    for path in complete_checkpoints(folder):
        wrong = damage(path, settings, tokenizers)
        if wrong is None:
            _check_best_kept(folder, path, settings, tokenizers)
            return Beginning(path, damaged)
        damaged[path] = wrong
    for path, wrong in damaged.items():
        raise _damaged(folder, path, wrong)
    checkpoints = folder / CHECKPOINTS
    if is_trained(folder) or (checkpoints.is_symlink() and not checkpoints.exists()):
        msg = (
            f"{checkpoints} holds no complete checkpoint to go on from; put it back, or train anew with: "
            f"attnlab train {folder} --overwrite"
        )
        raise InputError(msg)
    return Beginning(None, damaged)


def damage(path: Path, settings: ModelSettings, tokenizers: Tokenizers | None) -> str | None:
    """The fault of a checkpoint of the run with these settings, in words; None for a whole one.

    Weights and what stands in archives of tensors are compared with their checksums; nothing in them is
    executed.
    """
    try:
        check_files_in(path)
        state = state_of(path)
        TrainerState.load_from_json(str(path / STATE))
        if not (state.global_step == checkpoint_step(path) and state.log_history):
            return f"{STATE} is not that of its step"
        for archive in (*path.glob("*.pt"), *path.glob("*.pth")):
            with ZipFile(archive) as members:
                wrong = members.testzip()
            if wrong is not None:
                return f"{archive.name} differs from its checksum"
        if tokenizers is not None:
            load_model(path, settings, tokenizers)
    except (*UNREADABLE, BadZipFile) as error:
        return reason(error)
    return None


def _check_best_kept(
    folder: Path, checkpoint: Path, settings: ModelSettings, tokenizers: Tokenizers | None
) -> None:
    best = best_checkpoint(checkpoint)
    if best is None or best == checkpoint:
        return
    if not (best / "model.safetensors").is_file():
        msg = (
            f"{best}, which holds the best model so far, is gone; put it back, or train anew with: "
            f"attnlab train {folder} --overwrite"
        )
        raise InputError(msg)
    wrong = damage(best, settings, tokenizers)
    if wrong is not None:
        raise _damaged(folder, best, wrong)


def _damaged(folder: Path, checkpoint: Path, wrong: str) -> InputError:
    return InputError(
        f"The checkpoint {checkpoint} is damaged ({wrong}); put its files back, or train anew with: "
        f"attnlab train {folder} --overwrite"
    )


def best_checkpoint(checkpoint: Path) -> Path | None:
    """The best checkpoint up to this one, whether it is still there or not; None before the first."""
    step = state_of(checkpoint).best_global_step
    return checkpoint_path(checkpoint.parents[1], step) if step else None


def check_epochs(folder: Path, checkpoint: Path | None, epochs: int) -> None:
    """Raises InputError where `checkpoint` is of more than `epochs`, which the settings would deny then."""
    if checkpoint is None:
        return
    trained = state_of(checkpoint).epoch or 0.0
    if epochs < trained:
        msg = (
            f"{folder} is trained for {trained:.4g} epochs already; epochs must be {math.ceil(trained)} or "
            f"more, not {epochs}."
        )
        raise InputError(msg)


def save_model(model: OwnModel, folder: Path) -> None:
    """Writes weights and configuration into `folder`, each file whole or not at all.

    Raises:
        AttnlabError: the disk is full; the model that was there before is unchanged.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".model-") as temporary:
            save_with_checksum(model, temporary)
            set_usual_permissions(Path(temporary))
            for path in sorted(Path(temporary).iterdir()):
                path.replace(folder / path.name)
    except (OSError, SafetensorError) as error:
        msg = f"Could not write the model to {folder}: {error}; what was there before is unchanged."
        raise AttnlabError(msg) from error
