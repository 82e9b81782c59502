"""How a column of a table is headed, explained and written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """How a column is headed, explained and written.

    Attributes:
        heading: short, with the unit.
        meaning: one or two sentences for a reader who knows what attention is.
        digits: decimals shown; None for text and whole numbers.
    """

    heading: str
    meaning: str
    digits: int | None = None
