"""Replacing a run by a new one: the old one stays in the folder until the new one is trained.

What a killed process leaves tells the next one what to do, so every step is a rename within the folder:

1. The old run's files go one by one into `.moving-run`, the settings first.
2. `.moving-run` becomes `.replaced-run`.
3. The new run is written, its settings first, and trained.
4. `.replaced-run` becomes `.deleted-run`, which is deleted.

To go back, the new files are deleted, settings first, and `.replaced-run` becomes `.moving-run`, from
where the old files return, the settings last. So `.moving-run` never stands beside new files.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EEXIST
from pathlib import Path
from typing import Any

from attnlab.core import (
    AttnlabError,
    check_no_links,
    check_not_read,
    check_writable,
    delete,
    reason,
)
from attnlab.models.run_folder import (
    CHECKPOINTS,
    DELETED,
    MOVING,
    REPLACED,
    SETTINGS,
    TOKENIZERS,
    check_no_run,
    check_not_run_file,
    delete_unfinished,
    is_aside,
    is_trained,
    read_record,
    remove_run,
    replaced_run,
    run_paths,
    ways_on,
)


def recover(folder: Path, *, overwrite: bool = False) -> None:
    """Undoes or ends what a killed process began in `folder`, so that it holds one whole run or none.

    Args:
        folder: where a run is to be trained.
        overwrite: whether a run that was begun instead of another is undone too, as long as nothing
            of it is trained.

    Raises:
        InputError: where an older run would be set aside there is a link.
        AttnlabError: an older run was put back and `overwrite` is False, so that nobody trains
            another run than intended; or files cannot be moved or deleted.
    """
    if not folder.is_dir():
        return
    check_no_links(folder, [f"{name}/*" for name in (MOVING, REPLACED)])
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


def prepare_folder(
    folder: Path, *, overwrite: bool, inputs: Mapping[Path, str] | None = None
) -> None:
    """Brings `folder` into a state in which a new run can be trained in it, or refuses.

    Args:
        folder: of the run.
        overwrite: whether an older run is replaced.
        inputs: what the training reads, by path, with the name of its setting.

    Raises:
        InputError: something is there that training would damage, or nothing can be written there.
        AttnlabError: see `recover`.
    """
    check_not_run_file(folder)
    recover(folder, overwrite=overwrite)
    check_no_run(folder, overwrite=overwrite)
    check_not_read(run_paths(folder), inputs or {}, result=folder)
    check_writable(folder)


def prepare_resuming(folder: Path) -> dict[str, Any]:
    """Brings `folder` into a state in which its run can be trained on, or refuses; returns its record.

    Raises:
        InputError: there is no run, nothing can be written there, or what is written would go behind a link.
        AttnlabError: see `recover`.
    """
    recover(folder)
    record = read_record(folder)
    tokenizers = [name for name in TOKENIZERS if (folder / name).exists()]
    check_no_links(folder, [f"{name}/*" for name in (CHECKPOINTS, *tokenizers)])
    check_writable(folder)
    return record


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
    """A sentence on a replaced run that is still there."""
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
