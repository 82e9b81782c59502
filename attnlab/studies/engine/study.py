"""What a study is: a list of independent cells, each of one value of settings and rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnlab.options import Settings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CellKind:
    """How the rows of a cell follow from its settings.

    Rows are the same whichever process computes them: a cell runs in one torch thread, and random
    states that it does not seed itself are seeded from its address.

    Attributes:
        name: of the kind, no other kind's.
        schema: version of the rows; raise it when the same settings give other rows than before.
        settings: class of the settings: texts, numbers, and sequences of them.
        rows: function of a module from settings to a tidy table, whose columns are no settings.
        data_checksum: checksum of what a cell reads beside its settings, such as
            `attnlab.studies.engine.corpora.corpus_checksum`; None where it reads nothing.
        locations: settings that say where the data lies. The checksum says what it is, so they do not
            enter the address of a cell.
    """

    name: str
    schema: int
    settings: type[Settings]
    rows: Callable[[Any], "pd.DataFrame"]
    data_checksum: Callable[[Any], str] | None = None
    locations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Primary:
    """The measure by which the rows of a study answer its question.

    Attributes:
        column: of the rows.
        words: what it is, with its unit.
        larger: whether the largest value is the best; otherwise the smallest is.
        within: columns of what rows are compared among each other: at one budget, of one structure.
    """

    column: str
    words: str
    larger: bool
    within: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A question that is answered by the rows of many cells.

    Attributes:
        name: on the command line.
        summary: the question, in one sentence.
        kind: of its cells.
        options: class of what it can be told.
        cells: function from such options to the settings of the cells, in the order of the table.
        primary: by what its rows are compared; None where no row is better than another.
    """

    name: str
    summary: str
    kind: CellKind
    options: type[Settings]
    cells: Callable[[Any], Sequence[Settings]]
    primary: Primary | None = None
