"""What a study is: a list of independent cells, each of one value of settings and rows."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from attnlab.core import Settings, option_fields

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
            `attnlab.studies.cells_of_models.corpus_checksum`; None where it reads nothing.
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


@dataclass(frozen=True)
class Cell:
    """Which rows are wanted.

    Attributes:
        kind: name of its kind.
        schema: version of the kind's rows.
        settings: by name, in the types of JSON, without the locations.
        data: checksum of the data that the cell reads; None where it reads none.
        locations: the settings that say where the data lies.
    """

    kind: str
    schema: int
    settings: Mapping[str, Any]
    data: str | None = None
    locations: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __hash__(self) -> int:
        return hash(self.address)

    @cached_property
    def address(self) -> str:
        """SHA-256 of the canonical JSON of everything but the locations."""
        identity = {
            "kind": self.kind,
            "schema": self.schema,
            "settings": self.settings,
            "data": self.data,
        }
        return hashlib.sha256(canonical(identity).encode()).hexdigest()

    @property
    def key_columns(self) -> dict[str, Any]:
        """The settings, locations among them, as values of a table."""
        return {
            name: canonical(value) if isinstance(value, list | dict) else value
            for name, value in {**self.settings, **self.locations}.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """In the types of JSON, as `Cell(**...)` takes it."""
        return {
            "kind": self.kind,
            "schema": self.schema,
            "settings": dict(self.settings),
            "data": self.data,
            "locations": dict(self.locations),
        }


def cell_of(kind: CellKind, settings: Settings) -> Cell:
    """The cell of these settings; its data is read once for the checksum.

    Raises:
        InputError: the data cannot be read.
    """
    values = plain_settings(settings)
    return Cell(
        kind=kind.name,
        schema=kind.schema,
        settings={name: one for name, one in values.items() if name not in kind.locations},
        data=None if kind.data_checksum is None else kind.data_checksum(settings),
        locations={name: values[name] for name in kind.locations},
    )


def settings_of(kind: CellKind, cell: Cell) -> Settings:
    """The settings of a cell as its kind declares them.

    Raises:
        InputError: a value that cannot be used.
    """
    values = {**cell.settings, **cell.locations}
    return kind.settings(**{name: _fixed(value) for name, value in values.items()})


def canonical(value: Any) -> str:
    """JSON that is the same for equal values: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain_settings(settings: Settings) -> dict[str, Any]:
    """The options of the settings by name, in the types of JSON, so that 1 and 1.0 are one setting."""
    values = {}
    for option in option_fields(type(settings)):
        value = plain(getattr(settings, option.name))
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and float in option.kinds() and int not in option.kinds():
            value = float(value)
        values[option.name] = value
    return values


def plain(value: Any) -> Any:
    """A value in the types of JSON.

    Raises:
        TypeError: it holds what JSON has no type for.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [plain(one) for one in value]
    msg = f"settings of a cell cannot hold {value!r}"
    raise TypeError(msg)


def _fixed(value: Any) -> Any:
    """Lists as tuples, so that settings can be compared and hashed."""
    return tuple(_fixed(one) for one in value) if isinstance(value, list) else value
