"""Whether a folder may be written to: what a user already has there is not replaced unasked."""

from collections.abc import Sequence
from pathlib import Path

from attnlab.errors import InputError


def refuse_taken(
    folder: Path, *, what: str, finished: str | None, written: Sequence[str], overwrite: bool
) -> None:
    """Raises when `folder` holds a finished result, or files of its names, that may not be replaced.

    Args:
        folder: where the result is to be written.
        what: the result in one word, such as `analysis`.
        finished: the file that is written last; None where any file may be.
        written: every file and folder that the result writes.
        overwrite: whether they may be replaced.

    Raises:
        InputError: see above, or `folder` is a file.
    """
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file; name a folder to write the {what} to."
        raise InputError(msg)
    if finished is not None and (folder / finished).exists() and not overwrite:
        msg = (
            f"{folder} holds a finished {what}; add --overwrite to replace it, "
            "or name another folder with --out."
        )
        raise InputError(msg)
    taken = [name for name in written if (folder / name).exists()]
    if taken and not overwrite:
        msg = (
            f"{folder} already holds {', '.join(taken)}, which the {what} would write; name "
            "another folder with --out, or add --overwrite to replace them."
        )
        raise InputError(msg)
