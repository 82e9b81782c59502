"""The files of a run directory by name: which are there, how they are deleted; nothing heavy is imported."""

import itertools
import os
import re
import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from attnlab.errors import AttnlabError, InputError
from attnlab.files import delete_leftovers, flush_to_disk, set_usual_permissions
from attnlab.translation.runs.folder import SETTINGS, is_run

CHECKPOINTS = "checkpoints"
# A result in the folder of a run, which training deletes with the run alone.
ANALYSIS = "analysis"
# The settings come first: a folder without them is no run, so that half a run is never one.
RUN_FILES = (
    SETTINGS, "config.json", "generation_config.json", "model.safetensors", "metrics.jsonl",
    "tokenizer.json", "tokenizer_config.json", "token_counts.json", CHECKPOINTS,
    "source_tokenizer", "target_tokenizer", ANALYSIS,
)  # fmt: skip
STATE = "trainer_state.json"
# The Trainer begins with a new optimizer where either of the last two is missing.
COMPLETE = ("model.safetensors", "optimizer.pt", "scheduler.pt")
# A checkpoint that is being written; a killed process leaves it behind.
UNFINISHED = ".unfinished"
_CHECKPOINT = re.compile(r"checkpoint-([0-9]+)")


def run_paths(folder: Path) -> list[Path]:
    """What training wrote into `folder`, its settings first, and the folder `analysis`.

    Among them are the temporary files of a process that was killed while it wrote one of these.
    """
    paths = [folder / name for name in RUN_FILES if os.path.lexists(folder / name)]
    patterns = (".model-*", *(f".{name}.*" for name in RUN_FILES))
    return paths + [path for pattern in patterns for path in sorted(folder.glob(pattern))]


def refuse_run(folder: str | Path, what: str) -> None:
    """Raises where `what` is to be written straight into a run, or into a folder that training keeps.

    Raises:
        InputError: see above.
    """
    if is_run(folder):
        msg = f"{folder} is a run, which the {what} leaves as it is; name another folder, or one in it."
        raise InputError(msg)
    refuse_run_files(folder)


def refuse_run_files(path: str | Path) -> None:
    """Raises where something is to be written to or among the files that training writes and deletes.

    Raises:
        InputError: see above.
    """
    whole = Path(path).absolute()
    for inner, folder in itertools.pairwise((whole, *whole.parents)):
        if inner.name in RUN_FILES and inner.name != ANALYSIS and is_run(folder):
            msg = (
                f"{path} is among the files of the run in {folder}, which training replaces and "
                "deletes; name another place."
            )
            raise InputError(msg)


def delete_unfinished(folder: Path) -> None:
    """Deletes what a process that was killed while it wrote files of a run left of them.

    Raises:
        OSError: something cannot be deleted.
    """
    for path in folder.glob(".model-*"):
        delete(path)
    delete_leftovers(folder, RUN_FILES)
    for tokenizer in ("source_tokenizer", "target_tokenizer"):
        delete_leftovers(folder / tokenizer, ("tokenizer.json", "tokenizer_config.json"))


def delete(path: Path) -> None:
    """Deletes a file, a link or a folder with all that is in it; nothing is deleted through a link.

    Raises:
        OSError: it cannot be deleted; part of a folder may be gone.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def remove_run(folder: Path) -> None:
    """Deletes what training wrote into `folder`, and the folder `analysis`; all else stays.

    Raises:
        AttnlabError: something cannot be deleted; the folder is no run any more then.
    """
    for path in run_paths(folder):
        try:
            delete(path)
        except OSError as error:
            msg = f"Could not delete {path}: {error.strerror or error}; delete it by hand."
            raise AttnlabError(msg) from error


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the run in `folder` keeps its checkpoint of this optimizer step."""
    return folder / CHECKPOINTS / f"checkpoint-{step}"


def checkpoint_step(path: str | Path) -> int | None:
    """The optimizer step that a checkpoint is named after; None for a name that is no checkpoint's.

    >>> checkpoint_step("run/checkpoints/checkpoint-34"), checkpoint_step("checkpoint-34-backup")
    (34, None)
    """
    found = _CHECKPOINT.fullmatch(Path(path).name)
    return None if found is None else int(found[1])


def checkpoints_by_step(folder: Path) -> dict[int, Path]:
    """The checkpoints of the run in `folder`, the oldest first, whether complete or not."""
    steps = {path: checkpoint_step(path) for path in (folder / CHECKPOINTS).glob("checkpoint-*")}
    return dict(sorted((step, path) for path, step in steps.items() if step is not None))


def complete_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that hold all their files, the newest first; whether these can be read is not asked."""
    newest_first = reversed(checkpoints_by_step(folder).values())
    return [
        path for path in newest_first if all((path / name).exists() for name in (STATE, *COMPLETE))
    ]


def last_complete_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that holds all its files."""
    return next(iter(complete_checkpoints(folder)), None)


@contextmanager
def new_checkpoint(folder: Path, step: int) -> Iterator[Path]:
    """Yields a folder in which to write `checkpoint-STEP`; it takes its place when the block ends well.

    A checkpoint of that step that is there, a damaged one say, is deleted then. If the block raises,
    all is as it was.

    Raises:
        OSError: the disk is full or cannot be written.
    """
    target = checkpoint_path(folder, step)
    unfinished = target.parent / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        yield unfinished
        written = unfinished / target.name
        set_usual_permissions(written)
        for path in (*written.iterdir(), written):
            flush_to_disk(path)
        if os.path.lexists(target):
            delete(target)
        written.rename(target)
        flush_to_disk(target.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def delete_older_checkpoints(folder: Path, keep: Container[int | None]) -> None:
    """Deletes all checkpoints but the two newest and those of the steps in `keep`.

    The Trainer's own limit also deletes copies such as `checkpoint-34-backup`.
    """
    for step, path in list(checkpoints_by_step(folder).items())[:-2]:
        if step not in keep:
            shutil.rmtree(path, ignore_errors=True)


def is_trained(folder: Path) -> bool:
    """Whether something of the run in `folder` is trained: there is a model or a complete checkpoint."""
    model = os.path.lexists(folder / "model.safetensors")
    return model or last_complete_checkpoint(folder) is not None
