"""What `attnlab approximate` can be told, and what its columns mean; nothing heavy is imported."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from attnlab.core import (
    HEAD_KEYS,
    InputError,
    Option,
    Progress,
    Settings,
    Table,
    read_columns,
)
from attnlab.evaluation import words_in
from attnlab.labels import BEST_FAMILY, BITS_PER_ROW, FAMILY, FAMILY_MARGIN, MEMBER
from attnlab.matrices import ERROR_BOUND, FAMILIES, FITTED, NUM_POS, WINDOW
from attnlab.questions.approximate import LISTED
from attnlab.reading import AXES_OPTION, check_axes
from attnlab.results import Question

COLUMNS = read_columns(__file__)
# Columns that say which matrix it is, where the file does.
ADDRESS = ("sentence", *HEAD_KEYS)

APPROXIMATION = Table(
    "approximation.csv",
    "matrix and family",
    (
        *COLUMNS.of("matrix sentence site layer head"),
        FAMILY,
        *COLUMNS.of(
            "values window_left window_right num_pos dropout error_nnz error_bound max_entries"
        ),
        MEMBER,
        *COLUMNS.of("nnz l1 mean_error relative frobenius kl"),
        BITS_PER_ROW,
        BEST_FAMILY,
        *reversed(FAMILY_MARGIN),
        COLUMNS["seconds"],
    ),
    keys=("matrix", "family"),
    further="attnlab.matrices.distances:further_columns",
    heading="Every matrix and family",
)
BITS = Table(
    "bits.csv",
    "matrix and family that has a description length, fitted or not",
    (APPROXIMATION["matrix"], FAMILY, BITS_PER_ROW),
    keys=("matrix", "family"),
)


_DEFAULT = tuple(name for name, family in FAMILIES.items() if family.by_default)


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


# What a result says of the room that fits had.
LIMITS_SHOWN = ("Window", "Entries", "Sparse error")


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

    array: Annotated[str | None, Option("Name of the array, in a file of several.")] = None
    axes: Annotated[Sequence[str] | None, AXES_OPTION] = None
    normalize: Annotated[
        str, Option("Divide every row by its sum (rows), or not (none).", choices=("rows", "none"))
    ] = "none"
    window: Annotated[
        int | tuple[int, int],
        Option(
            "Reach of the offsets, in tokens: one number, or LEFT,RIGHT.", least=0, read=window_in
        ),
    ] = WINDOW
    num_pos: Annotated[int, Option("Maximum number of rare columns per matrix.", least=0)] = NUM_POS
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
    error_bound: Annotated[float, Option("Largest entry of the sparse error.", least=0)] = (
        ERROR_BOUND
    )
    families: Annotated[
        Sequence[str] | None,
        Option(
            f"Families to fit: any of {', '.join(FITTED)}; commas between.",
            choices=FITTED,
            shown=f"of {', '.join(_DEFAULT)} those that can have the values",
            read=words_in,
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
        check_axes(self.axes)
        self.error_entries(1)
        if not self.fitted:
            msg = f"Name at least one family; choose from: {', '.join(FITTED)}."
            raise InputError(msg)
        for name in self.fitted:
            if not self._has_values(name):
                msg = f"The family {name} has free values only; leave it out for {self.values} values."
                raise InputError(msg)

    @property
    def fitted(self) -> tuple[str, ...]:
        """The families that are fitted: those named, else those of the default that have such values."""
        named = filter(self._has_values, _DEFAULT) if self.families is None else self.families
        return tuple(named)

    def _has_values(self, name: str) -> bool:
        return self.values == "free" or "values" in FAMILIES[name].options

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


QUESTION = Question(
    **vars(LISTED),
    what="approximation",
    settings=ApproximationSettings,
    tables=(APPROXIMATION, BITS),
    shows=("matrix", FAMILY.name, MEMBER.name, "nnz", "l1", "relative", BITS_PER_ROW.name),
    run="attnlab.questions.approximate.approximation:approximate",
    source="Attention matrices: .npz, .npy or .safetensors, one array or one of each layer, or "
    "matrices.safetensors of an analysis.",
    sources=("matrices",),
)
