"""What torchrun and accelerate launch tell a process of the others: read from the environment alone."""

import os

from attnlab.core.errors import InputError

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launched() -> tuple[int, int, int] | None:
    """The number of this process, how many there are, and its number here; None without a launcher.

    Raises:
        InputError: what should be a number is none.
    """
    if not all(os.environ.get(name) for name in _VARIABLES):
        return None
    index, count = _number("RANK"), _number("WORLD_SIZE")
    if index >= count:
        msg = (
            f"The environment variable RANK is {index}, and WORLD_SIZE counts {count} from 0; unset both, or "
            "start all with torchrun."
        )
        raise InputError(msg)
    return index, count, _number("LOCAL_RANK") if os.environ.get("LOCAL_RANK") else index


def with_launcher() -> bool:
    """Whether torchrun, or accelerate by it, started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def one_of_several() -> bool:
    """Whether this process was started with others, as the libraries that train see it too."""
    placement = launched()
    if placement is not None:
        return placement[1] > 1
    return bool(os.environ.get("LOCAL_RANK") and os.environ.get("WORLD_SIZE")) and (
        _number("WORLD_SIZE") > 1
    )


def _number(name: str) -> int:
    value = os.environ[name]
    if not value.isdecimal():
        msg = f"The environment variable {name} is '{value}' and no number; unset it."
        raise InputError(msg)
    return int(value)
