"""Options of the fits of matrices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from attnlab.core.errors import InputError
from attnlab.core.options import Option, Settings
from attnlab.evaluation.shared_settings import Progress

FITTED_FAMILIES = ("diagonal", "band", "rare_columns", "column", "column_band", "additive", "union")
DEFAULT_FAMILIES = ("diagonal", "band", "rare_columns", "additive")


def window_in(text: str) -> tuple[int, int]:
    """`3` as (3, 3) and `2,1` as (2, 1).

    Raises:
        InputError: no whole number from 0 up, and no pair of them.

    >>> window_in("2,1")
    (2, 1)
    """
    if not re.fullmatch(r"\d+(,\d+)?", text):
        msg = f"window must be a number from 0 up or LEFT,RIGHT (such as 3 or 2,1), not '{text}'."
        raise InputError(msg)
    numbers = [int(number) for number in text.split(",")]
    return numbers[0], numbers[-1]


def count_in(text: str) -> int | str:
    """A number as a number; `n` and its multiples as they are."""
    return int(text) if text.isdecimal() else text


def families_in(text: str) -> tuple[str, ...]:
    """The names of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


@dataclass(frozen=True, kw_only=True)
class ApproximationSettings(Settings):
    """What is fitted to matrices.

    Every family may use `budget` entries per row and `error_nnz` for E. The diagonal and the rare
    columns have one entry per row by nature and use no more; of the band its largest entries are used,
    unless `dropout` says how many (0: all of them, whatever the budget); a column with a band is whole.

    Attributes:
        progress: called with (what is being done, done, in all).

    Raises:
        InputError: a value out of range, an unknown family, or one that has no such values.
    """

    window: Annotated[
        int | tuple[int, int],
        Option(
            "Reach of the offsets, in tokens: one number, or LEFT,RIGHT.", least=0, read=window_in
        ),
    ] = 3
    num_pos: Annotated[int, Option("Maximum number of rare columns per matrix.", least=0)] = 2
    budget: Annotated[
        int,
        Option(
            "Maximum number of entries per row, E apart. Diagonal and rare columns have one.",
            least=1,
        ),
    ] = 1
    values: Annotated[str, Option("Entries of the support: binary, free or stochastic.")] = "free"
    error_nnz: Annotated[
        int | str,
        Option(
            "Maximum number of non-zeros of the sparse error: a number, n (the rows) or 2n.",
            least=0,
            read=count_in,
        ),
    ] = "n"
    error_bound: Annotated[float, Option("Largest entry of the sparse error.", least=0)] = 0.5
    families: Annotated[
        Sequence[str] | None,
        Option(
            "Families to fit: any of diagonal, band, rare_columns, column, column_band, additive, "
            "union; commas between.",
            choices=FITTED_FAMILIES,
            shown="diagonal, band, rare_columns and, with free values, additive",
            read=families_in,
        ),
    ] = None
    dropout: Annotated[
        float | None,
        Option(
            "Share of the band that stays empty; 0 for the whole band, whatever the budget.",
            least=0,
            most=1,
            shown="its largest entries are used, as many as the budget allows",
        ),
    ] = None
    causal: Annotated[bool, Option("Let no query attend to a later key.", ("--causal",))] = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.error_entries(1)
        if not self.fitted:
            msg = f"Name at least one family; choose from: {', '.join(FITTED_FAMILIES)}."
            raise InputError(msg)
        if "additive" in self.fitted and self.values != "free":
            msg = (
                f"The family additive has free values only; leave it out for {self.values} values."
            )
            raise InputError(msg)

    @property
    def fitted(self) -> tuple[str, ...]:
        """The families that are fitted: those named, else those of the default that have such values."""
        if self.families is not None:
            return tuple(self.families)
        return tuple(
            name for name in DEFAULT_FAMILIES if name != "additive" or self.values == "free"
        )

    def error_entries(self, rows: int) -> int:
        """How many non-zeros E may have beside a matrix with so many rows.

        Raises:
            InputError: neither a number from 0 up nor a multiple of n.

        >>> ApproximationSettings(error_nnz="2n").error_entries(16)
        32
        """
        if isinstance(self.error_nnz, int):
            return self.error_nnz
        parts = re.fullmatch(r"(\d*)n", self.error_nnz)
        if parts is None:
            msg = (
                "error nnz must be a number from 0 up or a multiple of the rows (n, 2n), not "
                f"'{self.error_nnz}'."
            )
            raise InputError(msg)
        return int(parts[1] or 1) * rows
