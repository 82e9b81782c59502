"""What is to be known of a pruning: penalties that tell little."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class GatesNotSettled(Note):
    """Gates, out of all heads', that end neither 0 nor 1 with at least this probability."""

    penalty: float
    count: int
    heads: int
    probability: float


@dataclass(frozen=True)
class AllHeadsClosed(Note):
    """A penalty that left none of the heads."""

    penalty: float
    heads: int


@dataclass(frozen=True)
class NoHeadClosed(Note):
    """A penalty that closed no head."""

    penalty: float


@dataclass(frozen=True)
class NoRandomHeads(Note):
    """A penalty beside which no random heads stand, since they are the ones that it closed."""

    penalty: float
