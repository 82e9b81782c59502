"""What is to be known of a plan search."""

from dataclasses import dataclass

from attnlab.core.errors import Note


@dataclass(frozen=True)
class BudgetNearLength(Note):
    """A budget that saves little, since rows of full attention see few keys more."""

    budget: int
    keys: float
    share: float


@dataclass(frozen=True)
class NoSettingFits(Note):
    """A baseline that is lacking, since all its settings see more keys than the budget."""

    mechanism: str
    budget: int


@dataclass(frozen=True)
class BandInstead(Note):
    """A site where a baseline has a band, since its mechanism has no form there."""

    mechanism: str
    at: str
