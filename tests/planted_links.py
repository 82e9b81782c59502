"""Links in the places of what commands write and delete below a folder, and what is outside."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.core.errors import AttnlabError

Action = Callable[[Path], object]
# What a link leads to: what stood in its place, a folder or file of somebody else, nothing.
KINDS = ("moved", "folder", "file", "nothing")
REFUSED, FAILED = 3, 4
# Names that are drawn come again as others.
_RANDOM = re.compile(r"\..*\.[0-9a-f]{8}|\.[0-9a-f]{16}|\.model-.*")
_CHANGES = {
    "os.rename": (0, 1),
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"), (0,)),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def forked(action: Callable[[], object]) -> tuple[int, list[str]]:
    """The end of a forked process (0, `REFUSED` or `FAILED`), and the paths that it changes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            text = told.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, list(dict.fromkeys(json.loads(text)))
    changed: list[str] = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        places = _CHANGES.get(event, ())
        if event == "open" and (arguments[2] or 0) & _WRITING:
            places = (0,)
        changed.extend(str(arguments[at]) for at in places if isinstance(arguments[at], str | Path))

    status = FAILED
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.addaudithook(watch)
        action()
        status = 0
    except AttnlabError:
        status = REFUSED
    finally:
        with os.fdopen(writer, "w") as told:
            json.dump(changed, told)
        os._exit(status)


def content(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: files with what they hold, folders, links with what they lead to."""
    found: dict[str, bytes | None] = {}
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent) / name for name in (*folders, *files)):
            is_file = path.is_file() and not path.is_symlink()
            link = os.fsencode(path.readlink()) if path.is_symlink() else None
            found[str(path.relative_to(folder))] = path.read_bytes() if is_file else link
    return found


def written_below(folder: Path, action: Action) -> list[Path]:
    """The paths below a folder that an action changes, relative to it; the folder is as it was afterwards."""
    copy = Path(shutil.copytree(folder, folder.with_name("watched"), symlinks=True))
    status, paths = forked(lambda: action(copy))
    assert status == 0, "what is to be watched ends well"
    shutil.rmtree(copy)
    inside = (Path(path) for path in paths if Path(path).is_relative_to(copy))
    names = {path.relative_to(copy) for path in inside} - {Path()}
    return sorted(path for path in names if not any(map(_RANDOM.fullmatch, path.parts)))


def planted(folder: Path, path: Path, kind: str) -> bool:
    """Puts a link in the place of a path below a folder; False where such a link cannot be."""
    outside, place = folder.parent / "outside", folder / path
    outside.mkdir()
    (outside / "mine").write_text("mine")
    if any(parent.is_file() for parent in place.parents):
        return False
    target = outside / "target"
    if kind == "moved":
        if not place.exists():
            return False
        place.rename(target)
    else:
        if os.path.lexists(place):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            target.mkdir()
            (target / "mine").write_text("mine")
        if kind == "file":
            target.write_text("mine")
    place.symlink_to(target)
    return True


def assert_nothing_gets_outside(
    folder: Path, action: Action, *, fewest: int, every: bool = True
) -> None:
    """Tries links at every path that an action changes below a folder.

    The action is refused in a sentence or ends well, and what is outside is as it was.

    Args:
        folder: is left as it is.
        action: given a copy of it.
        fewest: paths that the action changes, so that none is missed.
        every: tries every kind of link at each path, or the kinds in turn.
    """
    paths = written_below(folder, action)
    assert len(paths) >= fewest, paths
    scratch = folder.with_name("scratch")
    for number, path in enumerate(paths):
        for kind in KINDS if every else (KINDS[number % len(KINDS)],):
            copy = Path(shutil.copytree(folder, scratch / "folder", symlinks=True))
            if planted(copy, path, kind):
                before = content(scratch / "outside")
                status, _ = forked(lambda copy=copy: action(copy))
                assert content(scratch / "outside") == before, (
                    f"a link to {kind} at {path} is followed"
                )
                assert status != FAILED, f"a link to {kind} at {path} is told in no sentence"
            shutil.rmtree(scratch)
