"""Writing the files of a result so that a folder never mixes those of two results."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnlab.errors import AttnlabError
from attnlab.files import delete_leftovers, flush_to_disk
from attnlab.locking import locked
from attnlab.signals import note_written, noting_written, undisturbed

# What is being written; a killed process leaves it behind, and the next one deletes it.
UNFINISHED = ".unfinished"
# By these readers tell that a folder holds a result, or a run; they are never there beside half of one.
RESULT_MARK = "result.json"
RUN_MARK = "settings.json"
MARKS = (RESULT_MARK, RUN_MARK)
# One of them is in every folder that save_pretrained wrote, of a model or of an adapter.
PRETRAINED_MARKS = ("config.json", "adapter_config.json")


def _nothing(_: Path) -> Iterable[Path]:
    return ()


@contextmanager
def replacing_result(
    folder: str | Path, last: str, older: Callable[[Path], Iterable[Path]] = _nothing
) -> Iterator[Path]:
    """Yields an empty folder; when the block ends well, what was written in it takes its place in `folder`.

    Only then is an older result touched: first its file `last` and its `MARKS` are deleted, then files are
    replaced one by one, then come the new marks, and the new `last` at the end. So a folder with a mark
    holds the whole of what it marks, whenever the process is killed. If the block raises, `folder` is as
    it was. Signals wait while files are replaced.

    Args:
        folder: where the result is to stand; it is made where it is missing.
        last: the file without which the result is not whole.
        older: the files of an older result in a folder; those that the new one lacks are deleted.

    Raises:
        InputError: another process writes there.
        AttnlabError: the disk is full or cannot be written; the message tells whether an older result
            is still whole.
    """
    folder = Path(folder)
    with locked(folder):
        aside = folder / UNFINISHED
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(aside)
            aside.mkdir()
        except OSError as error:
            msg = (
                f"Could not write to {folder}: {error.strerror or error}; nothing in it is changed."
            )
            raise AttnlabError(msg) from error
        try:
            # What is written aside is no result yet.
            with noting_written():
                yield aside
            with undisturbed():
                _put_in_place(aside, folder, last, older)
                note_written(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _put_in_place(
    aside: Path, folder: Path, last: str, older: Callable[[Path], Iterable[Path]]
) -> None:
    new = [path.relative_to(aside) for path in sorted(aside.rglob("*")) if not path.is_dir()]
    new.sort(key=lambda path: (path == Path(last), path.name in MARKS))
    changed = False
    try:
        for path in new:
            flush_to_disk(aside / path)
        for path in new:
            delete_leftovers((folder / path).parent, [path.name])
        replaced = {path.relative_to(folder) for path in older(folder)} | set(new)
        superfluous = replaced - set(new)
        changed = True
        for path in (Path(last), *sorted(one for one in replaced if one.name in MARKS)):
            _delete(folder / path)
        for path in sorted(superfluous):
            (folder / path).unlink(missing_ok=True)
            _delete_empty(folder / path.parent, folder)
        for path in new:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (aside / path).rename(folder / path)
            flush_to_disk((folder / path).parent)
    except OSError as error:
        reason = error.strerror or error
        msg = f"Could not write to {folder}: {reason}; nothing in it is changed."
        if changed:
            msg = (
                f"Could not write to {folder}: {reason}; it holds files of an older and of a new result, "
                f"and no {last}: mend the cause and do it again, with overwrite."
            )
        raise AttnlabError(msg) from error


def _delete(path: Path) -> None:
    if path.parent.is_dir():
        path.unlink(missing_ok=True)
        flush_to_disk(path.parent)


def _delete_empty(folder: Path, top: Path) -> None:
    """Deletes the folder, and those that it is in, up to `top`, as far as nothing stands in them."""
    while folder != top and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
