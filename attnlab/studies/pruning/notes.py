"""What is to be known of a pruning: penalties that tell little."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class GatesNotSettled(Note):
    """Many gates are neither 0 nor 1 at the end.

    Attributes:
        penalty: at which.
        count: how many gates.
        heads: out of how many.
        probability: what neither 0 nor 1 reaches.
    """

    penalty: float
    count: int
    heads: int
    probability: float


@dataclass(frozen=True)
class AllHeadsClosed(Note):
    """A penalty that left no head.

    Attributes:
        penalty: which.
        heads: how many there were.
    """

    penalty: float
    heads: int


@dataclass(frozen=True)
class NoHeadClosed(Note):
    """A penalty that closed no head."""

    penalty: float
