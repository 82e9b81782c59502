"""The checkpoints of a run and the model that comes of them: which is the best, which can be used."""

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EEXIST
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile, ZipFile

from annotated_types import Ge
from safetensors import SafetensorError
from transformers import TrainerState

from attnlab.core import (
    AttnlabError,
    InputError,
    check_files_in,
    check_writable,
    document_text,
    fitting,
    parse_json,
    reason,
    set_usual_permissions,
)
from attnlab.models.model import OwnModel
from attnlab.models.run import load_model
from attnlab.models.run_folder import (
    CHECKPOINTS,
    DELETED,
    MOVING,
    REPLACED,
    SETTINGS,
    STATE,
    check_no_run,
    check_not_run_file,
    checkpoint_path,
    checkpoint_step,
    complete_checkpoints,
    delete,
    delete_unfinished,
    is_aside,
    is_trained,
    remove_run,
    replaced_run,
    run_paths,
    ways_on,
)
from attnlab.models.safe_loading import UNREADABLE, save_with_checksum
from attnlab.models.tokenizer import Tokenizers
from attnlab.models.training_settings import ModelSettings


@dataclass(frozen=True)
class _State:
    """What is relied on in the state that the Trainer writes."""

    global_step: Annotated[int, Ge(0)]
    log_history: tuple[Mapping[str, Any], ...]
    epoch: Annotated[float, Ge(0)] | None = None
    best_global_step: Annotated[int, Ge(0)] | None = None
    best_metric: float | None = None
    best_model_checkpoint: str | None = None
    stateful_callbacks: Mapping[str, Any] | None = None
    max_steps: int = 0
    num_train_epochs: int = 0
    train_batch_size: int | None = None


def _state_of(checkpoint: Path) -> _State:
    """The state of training at a checkpoint.

    Raises:
        InputError: it is damaged; the message says how, without its path.
    """
    # The loss of a training that diverges is NaN.
    return fitting(_State, parse_json(document_text(checkpoint / STATE), finite=False))


@dataclass(frozen=True)
class Beginning:
    """Where training goes on.

    Attributes:
        checkpoint: the newest one that is whole; None where training begins anew.
        damaged: newer ones that cannot be used, and what is wrong with each.
    """

    checkpoint: Path | None
    damaged: Mapping[Path, str]


def beginning(folder: Path, settings: ModelSettings, tokenizers: Tokenizers | None) -> Beginning:
    """Where training of the run in `folder` goes on: from the newest checkpoint that is whole.

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
    if is_trained(folder) or _leads_nowhere(checkpoints):
        msg = (
            f"{checkpoints} holds no complete checkpoint to go on from; put it back, or train anew with: "
            f"attnlab train {folder} --overwrite"
        )
        raise InputError(msg)
    return Beginning(None, damaged)


def damage(path: Path, settings: ModelSettings, tokenizers: Tokenizers | None) -> str | None:
    """What is wrong with a checkpoint of the run that has these settings; None for a whole one.

    Weights and what stands in archives of tensors are compared with their checksums; nothing in them is
    executed.
    """
    try:
        check_files_in(path)
        state = _state_of(path)
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
    step = _state_of(checkpoint).best_global_step
    return checkpoint_path(checkpoint.parents[1], step) if step else None


def check_epochs(folder: Path, checkpoint: Path | None, epochs: int) -> None:
    """Raises InputError where `checkpoint` is of more than `epochs`, which the settings would deny then."""
    if checkpoint is None:
        return
    trained = _state_of(checkpoint).epoch or 0.0
    if epochs < trained:
        msg = (
            f"{folder} is trained for {trained:.4g} epochs already; epochs must be {math.ceil(trained)} or "
            f"more, not {epochs}."
        )
        raise InputError(msg)


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


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


def recover(folder: Path, *, overwrite: bool = False) -> None:
    """Undoes or ends what a killed process began in `folder`, so that it holds one whole run or none.

    Args:
        folder: where a run is to be trained.
        overwrite: whether a run that was begun instead of another is undone too, as long as nothing
            of it is trained.

    Raises:
        AttnlabError: an older run was put back and `overwrite` is False, so that nobody trains
            another run than intended; or files cannot be moved or deleted.
    """
    if not folder.is_dir():
        return
    with suppress(OSError):  # what stays of it does no harm
        delete_unfinished(folder)
        if (folder / DELETED).is_dir():
            delete(folder / DELETED)
    try:
        _delete_leftovers(folder)
        undone = _undo(folder, unfinished=overwrite)
    except OSError as error:
        msg = f"Could not put the run in {folder} back: {error}; move what is in the way and try again."
        raise AttnlabError(msg) from error
    if undone and not overwrite:
        msg = (
            f"A replacement of the run in {folder} was cut short, and the old run is back; go on "
            f"with attnlab train {folder} --resume, or replace it with overwrite."
        )
        raise AttnlabError(msg)


def prepare_folder(folder: Path, *, overwrite: bool) -> None:
    """Brings `folder` into a state in which a new run can be trained in it, or refuses.

    Raises:
        InputError: something is there that training would damage, or nothing can be written there.
        AttnlabError: see `recover`.
    """
    check_not_run_file(folder)
    recover(folder, overwrite=overwrite)
    check_no_run(folder, overwrite=overwrite)
    check_writable(folder)


@contextmanager
def restoring_on_failure(folder: Path) -> Iterator[None]:
    """Brings a run that was set aside back when the block raises and nothing of the new one is trained.

    Raises:
        AttnlabError: instead of what the block raises, where a run is set aside: it says where that
            run is. An interruption after which all is as it was remains one.
    """
    try:
        yield
    except BaseException as error:
        if not is_aside(folder):
            raise
        if replaced_run(folder) is not None and is_trained(folder):
            msg = f"{_reason(error)}; {ways_on(folder)}."
            raise AttnlabError(msg) from error
        with suppress(OSError, AttnlabError):
            _undo(folder, unfinished=True)
        if is_aside(folder):
            msg = (
                f"The run in {folder} is not replaced ({_reason(error)}) and could not be put back; put it "
                f"back with: attnlab train {folder} --overwrite"
            )
            raise AttnlabError(msg) from error
        if isinstance(error, KeyboardInterrupt):
            raise
        # What a message says beside the cause holds for a folder that has no other run.
        msg = f"The run in {folder} is not replaced and is as it was: {_reason(error.__cause__ or error)}."
        raise AttnlabError(msg) from error


def back_up(folder: Path) -> None:
    """Moves the run in `folder` to `.replaced-run` in it, links as links; the rest stays.

    Raises:
        AttnlabError: something cannot be moved; `restoring_on_failure` then moves the rest back.
    """
    try:
        (folder / MOVING).mkdir()
        for path in run_paths(folder):
            path.rename(folder / MOVING / path.name)
        (folder / MOVING).rename(folder / REPLACED)
    except OSError as error:
        msg = f"Could not move the run in {folder} aside: {_reason(error)}."
        raise AttnlabError(msg) from error


def delete_replaced(folder: Path) -> Path | None:
    """Deletes the run that was set aside; returns where it, or its rest, is when that cannot be done."""
    path = replaced_run(folder)
    if path is None:
        return None
    try:
        path = path.rename(folder / DELETED)
        delete(path)
    except OSError:
        return path
    return None


def report_replaced(folder: Path, replaced: Path, *, interrupted: bool) -> str:
    """What a user is told of a replaced run that is still there, as a sentence."""
    if interrupted:
        return f"Two runs: {ways_on(folder)}."
    return f"Warning: the replaced run could not be deleted; delete {replaced} by hand."


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "Training was interrupted"
    return reason(error)


def _undo(folder: Path, *, unfinished: bool) -> bool:
    """Whether a run had to be put back: one half moved, or one whose successor is not begun."""
    begun = os.path.lexists(folder / SETTINGS)
    if replaced_run(folder) is not None and (not begun or (unfinished and not is_trained(folder))):
        remove_run(folder)
        (folder / REPLACED).rename(folder / MOVING)
    if not (folder / MOVING).is_dir():
        return False
    for path in reversed(run_paths(folder / MOVING)):
        target = folder / path.name
        if os.path.lexists(target):
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(target))
        path.rename(target)
    (folder / MOVING).rmdir()
    return True


def _delete_leftovers(folder: Path) -> None:
    """Empties a folder in which a process was killed before it had written any settings."""
    paths = list(folder.iterdir())
    if all(path.name.startswith(f".{SETTINGS}.") for path in paths):
        for path in paths:
            delete(path)
