"""Folders of results: locked, replaced as a whole, and nothing written where it must not be.

A folder that a user names may be a link. What stands below it may be anyone's: a link in the place of a
folder is refused, and one in the place of a file is itself replaced or deleted.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnlab.core.documents import read_json
from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import check_no_dangling_link, delete_leftovers, flush_to_disk
from attnlab.core.signals import note_written, noting_written, undisturbed
from attnlab.core.texts import nearest

# A folder that others delete while it is being locked is made so often.
ATTEMPTS = 20
# Who looks whether a folder is locked holds the lock for a moment, which is waited for.
_LOOKS, _BETWEEN_LOOKS = 10, 0.02


@contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Until the block ends, no other process can lock `folder`.

    The operating system holds the lock on the folder itself and takes it back when the process ends,
    however it ends. A folder that is not there is made, and deleted again where it stays empty.
    File systems without such locks (NFS) refuse nobody.

    Raises:
        InputError: another process writes there, which is named where the system tells it.
        AttnlabError: the folder cannot be made or opened.
    """
    handle, made = _made_and_locked(Path(folder))
    try:
        yield
    finally:
        # Still locked: nobody else writes in what is deleted.
        with suppress(OSError):  # something stands in it
            for path in made:
                path.rmdir()
        os.close(handle)


def _made_and_locked(folder: Path) -> tuple[int, list[Path]]:
    """The locked folder, and which folders had to be made, the deepest first."""
    check_no_dangling_link(folder)
    made: set[Path] = set()
    try:
        for attempt in range(1, ATTEMPTS + 1):
            made |= {path for path in (folder, *folder.parents) if not os.path.lexists(path)}
            try:
                if not folder.exists():
                    folder.mkdir(parents=True, exist_ok=True)
                handle = os.open(folder, os.O_RDONLY)
            except FileNotFoundError:  # deleted since
                if attempt == ATTEMPTS:
                    raise
                continue
            if _lock(handle, folder):
                return handle, sorted(made, key=lambda path: len(path.parts), reverse=True)
    except OSError as error:
        msg = f"Could not make the folder {folder}: {error.strerror or error}; choose another one."
        raise AttnlabError(msg) from error
    msg = f"Other processes keep deleting the folder {folder}; choose another one."
    raise AttnlabError(msg)


def _lock(handle: int, folder: Path) -> bool:
    """Whether what is locked is still the folder; closed where it is not, or another process writes there."""
    try:
        is_alone = _takes_lock(handle)
    except OSError:  # a file system without locks
        return True
    if not is_alone:
        holder = _holder(os.fstat(handle))
        os.close(handle)
        who = "Another process" if holder is None else f"Another process ({holder})"
        msg = f"{who} is writing to {folder}; wait until it ends, or choose another folder."
        raise InputError(msg)
    try:
        is_kept = os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        is_kept = False
    if not is_kept:
        os.close(handle)
    return is_kept


def _takes_lock(handle: int) -> bool:
    for look in range(_LOOKS):
        if look:
            time.sleep(_BETWEEN_LOOKS)
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def is_locked(folder: str | Path) -> bool:
    """Whether a process has locked `folder`; False where that cannot be told."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


def _holder(folder: os.stat_result) -> int | None:
    """The number of the process that holds the lock; None where Linux does not list it."""
    device = f"{os.major(folder.st_dev):02x}:{os.minor(folder.st_dev):02x}:{folder.st_ino}"
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    except OSError:
        return None
    holders = [int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == device]
    return holders[0] if holders else None


# What is being written; a killed process leaves it behind, and the next one deletes it.
UNFINISHED = ".unfinished"
# By these readers tell that a folder holds a result, or a run; they are never there beside half of one.
RESULT_MARK = "result.json"
# As it calls a model that was exported.
EXPORT = "export"
RUN_MARK = "settings.json"
MARKS = (RESULT_MARK, RUN_MARK)
# One of them is in every folder that save_pretrained wrote, of a model or of an adapter.
PRETRAINED_MARKS = ("config.json", "adapter_config.json")


def holds_result(folder: str | Path) -> bool:
    """Whether a folder is that of a result, and of no model; one that was exported has the mark of both."""
    path = Path(folder)
    no_model = not any((path / name).is_file() for name in (*PRETRAINED_MARKS, RUN_MARK))
    return no_model and (path / RESULT_MARK).is_file()


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
        InputError: another process writes there, or a link leads out of the folder.
        AttnlabError: the disk is full or cannot be written; the message tells whether an older result
            is still whole.
    """
    folder = Path(folder)
    with locked(folder):
        aside = folder / UNFINISHED
        try:
            if aside.is_symlink():
                aside.unlink()
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
        except _MixedResultError:
            # By the record that is left in it the folder is known for attnlab's, where no mark is.
            raise
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        shutil.rmtree(aside, ignore_errors=True)


class _MixedResultError(AttnlabError):
    """A folder holds files of two results, and no mark."""


def recorded_result(folder: str | Path) -> str | None:
    """The kind of result whose record stands in a folder; None where there is none that can be read."""
    path = Path(folder) / RESULT_MARK
    if not path.is_file():
        return None
    try:
        kind = read_json(path, dict[str, Any], finite=False).get("result")
    except InputError:
        return None
    return kind if isinstance(kind, str) else None


def interrupted_result(folder: str | Path) -> str | None:
    """The kind of result of which a killed writer put some files, but not yet the record, in a folder.

    None where there is none. The record waits among what is unfinished until the other files are in place.
    """
    return recorded_result(Path(folder) / UNFINISHED)


def is_of_attnlab(folder: str | Path, marks: Iterable[str] = ()) -> bool:
    """Whether attnlab wrote to a folder: it holds a record, a mark, or a record that a killed writer left."""
    records = (recorded_result(folder), interrupted_result(folder))
    return any(records) or any((Path(folder) / name).exists() for name in marks)


def _put_in_place(
    aside: Path, folder: Path, last: str, older: Callable[[Path], Iterable[Path]]
) -> None:
    new = [path.relative_to(aside) for path in sorted(aside.rglob("*")) if not path.is_dir()]
    new.sort(key=lambda path: (path == Path(last), path.name in MARKS))
    changed = False
    try:
        for path in new:
            flush_to_disk(aside / path)
        replaced = {path.relative_to(folder) for path in older(folder)} | set(new)
        check_no_links(folder, replaced)
        for path in new:
            delete_leftovers((folder / path).parent, [path.name])
        superfluous = replaced - set(new)
        changed = True
        for path in (Path(last), *sorted(mark for mark in replaced if mark.name in MARKS)):
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
        if changed:
            msg = (
                f"Could not write to {folder}: {reason}; it holds files of an older and of a new result, "
                f"and no {last}: mend the cause and do it again, with overwrite."
            )
            raise _MixedResultError(msg) from error
        msg = f"Could not write to {folder}: {reason}; nothing in it is changed."
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


def similar_folder(path: str | Path) -> str:
    """A question that names the folder nearby whose name is most like that of `path`; empty where none is."""
    path = Path(path)
    try:
        names = [
            sibling.name
            for sibling in path.parent.iterdir()
            if sibling.is_dir() and sibling != path
        ]
    except OSError:
        return ""
    near = nearest(path.name, sorted(names))
    return f" Did you mean {path.parent / near}?" if near else ""


def check_no_links(folder: str | Path, paths: Iterable[str | Path]) -> None:
    """Raises where something is to be written or deleted below a folder, and a link is on the way to it.

    Args:
        folder: that the user named; it may be a link itself.
        paths: below it, of files; `figures/*` stands for whatever there is in `figures`.

    Raises:
        InputError: see above.
    """
    folder = Path(folder)
    # The last parent is the folder itself.
    inner = {parent: None for path in paths for parent in reversed(Path(path).parents[:-1])}
    for path in (folder / parent for parent in inner):
        if path.is_symlink():
            msg = (
                f"{path} is a link to {path.readlink()}, and nothing is written or deleted behind a link in "
                f"{folder}; put a folder in its place, or name another folder."
            )
            raise InputError(msg)


def paths_in(settings: Mapping[str, Any]) -> dict[Path, str]:
    """The paths among settings and in lists of theirs where something is, each with the name of its setting.

    A link to nothing is none. Words such as `plan=plan.json` name one too.
    """
    paths: dict[Path, str] = {}
    for name, value in settings.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, str | Path):
                words = (str(item), str(item).partition("=")[2])
                # A text may be too long for the name of a file, which `Path.exists` raises for.
                existing = (word for word in words if word and os.path.exists(word))  # noqa: PTH110
                paths |= {Path(word): name for word in existing}
    return paths


def check_not_read(
    replaced: Iterable[str | Path], inputs: Mapping[Path, str], *, result: str | Path | None = None
) -> None:
    """Raises where what is to be replaced is an input of the same command, or one of them holds the other.

    Args:
        replaced: files and folders that would be replaced or deleted.
        inputs: see `paths_in`.
        result: the folder whose result they are of; an input may hold the whole of it, as a model does.

    Raises:
        InputError: see above.
    """
    around: set[Path] = set()
    if result is not None:
        whole = Path(result).resolve()
        around = {whole, *whole.parents}
    for output in map(Path, replaced):
        # Of a link the link itself is replaced.
        place = output.parent.resolve() / output.name
        for path, name in inputs.items():
            source = path.resolve()
            holds = source in place.parents and source not in around
            if holds or place in source.parents or (output.exists() and output.samefile(path)):
                msg = (
                    f"{output} is not replaced, since {path} is read by the same command ({name}); name "
                    "another file or folder to write to."
                )
                raise InputError(msg)
