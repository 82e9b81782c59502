"""What a command may write over: nothing behind a link below the folder that its user named, and no input.

A folder that a user names may be a link. What stands below it may be anyone's: a link in the place of a
folder is refused, and one in the place of a file is itself replaced or deleted.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attnlab.core.errors import InputError


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
