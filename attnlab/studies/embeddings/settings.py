"""Options of `attnlab embed` and `attnlab neighbours`; nothing heavy is imported."""

from dataclasses import dataclass
from typing import Annotated

from attnlab.core.addresses import SIDES, Side
from attnlab.core.options import Option, Settings

BOTH = "both"


@dataclass(frozen=True, kw_only=True)
class SideSettings(Settings):
    """Which language of a corpus is read."""

    side: Annotated[
        str,
        Option("Language of the pairs that is read.", choices=(*SIDES, BOTH)),
    ] = BOTH

    @property
    def sides(self) -> tuple[Side, ...]:
        """The columns of the corpus that are read."""
        return tuple(side for side in SIDES if self.side in {side, BOTH})


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(Settings):
    """Which neighbours are looked for."""

    count: Annotated[int, Option("Number of neighbours per word.", least=1)] = 10
    side: Annotated[
        str, Option("Embedding of a run with two vocabularies.", choices=tuple(SIDES))
    ] = "source"
