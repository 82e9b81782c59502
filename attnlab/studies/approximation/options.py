"""The options of `attnlab approximate` as text, read into settings."""

import re

from attnlab.errors import InputError
from attnlab.matrices.supports import Window
from attnlab.studies.approximation.approximation import SHOWN, Settings

FORMATS = ("table", "csv", "json")


def read_settings(
    queries: int,
    *,
    window: str,
    num_pos: int,
    budget: int,
    values: str,
    dropout: float | None,
    error_nnz: str,
    error_bound: float,
    causal: bool,
    families: str | None,
) -> Settings:
    """The settings that the options describe, for matrices with this many rows.

    Raises:
        InputError: an option cannot be read or is out of range.
    """
    return Settings(
        window=read_window(window),
        num_pos=num_pos,
        budget=budget,
        values=values,
        dropout=dropout,
        error_nnz=read_error_nnz(error_nnz, queries),
        error_bound=error_bound,
        causal=causal,
        families=_families(families, values),
    )


def _families(text: str | None, values: str) -> tuple[str, ...]:
    """Those named; else those shown by default that have such values."""
    if text is not None:
        return tuple(word.strip() for word in text.split(",") if word.strip())
    return tuple(name for name in SHOWN if name != "additive" or values == "free")


def read_window(text: str) -> Window:
    """`3` as (3, 3) and `2,1` as (2, 1).

    Raises:
        InputError: no whole number from 0 up, and no pair of them.

    >>> read_window("2,1")
    (2, 1)
    """
    if not re.fullmatch(r"\d+(,\d+)?", text):
        msg = f"--window is a number from 0 up or LEFT,RIGHT (such as 3 or 2,1), not '{text}'."
        raise InputError(msg)
    numbers = [int(number) for number in text.split(",")]
    return numbers[0], numbers[-1]


def read_error_nnz(text: str, queries: int) -> int:
    """`12` as 12, `n` and `2n` as so many times the rows of a matrix.

    Raises:
        InputError: neither a number from 0 up nor a multiple of n.

    >>> read_error_nnz("2n", 16)
    32
    """
    parts = re.fullmatch(r"(\d*)(n?)", text)
    if not text or parts is None:
        msg = f"--error-nnz is a number from 0 up or a multiple of the rows (n, 2n), not '{text}'."
        raise InputError(msg)
    number = int(parts[1] or 1)
    return number * queries if parts[2] else number


def chosen_format(text: str) -> str:
    """`text` itself, if it is a way of printing.

    Raises:
        InputError: it is none.
    """
    if text not in FORMATS:
        msg = f"There is no format '{text}'; choose from: {', '.join(FORMATS)}."
        raise InputError(msg)
    return text
