"""What a study is: independent cells, each of one value of settings and rows; and how it is run."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnlab.core import InputError, Option, Progress, Settings, option_fields, path_label

if TYPE_CHECKING:
    import pandas as pd


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


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question that is answered by the rows of many cells.

    Rows are the same whichever process computes them: a cell runs in one torch thread, and random
    states that it does not seed itself are seeded from its address.

    Attributes:
        name: on the command line, and in the address of its cells.
        summary: the question, in one sentence.
        options: class of what it can be told.
        cells: function from such options to the settings of the cells, in the order of the table.
        settings: class of the settings of a cell: texts, numbers, and sequences of them.
        rows: function of a module from settings to a tidy table, whose columns are no settings.
        schema: version of the rows; raise it when the same settings give other rows than before.
        data_checksum: checksum of what a cell reads beside its settings, such as
            `attnlab.studies.corpus_checksum`; None where it reads nothing.
        locations: settings that say where the data lies. The checksum says what it is, so they do not
            enter the address of a cell.
        primary: by what its rows are compared; None where no row is better than another.
    """

    name: str
    summary: str
    options: type[Settings]
    cells: Callable[[Any], Sequence[Settings]]
    settings: type[Settings]
    rows: Callable[[Any], "pd.DataFrame"]
    schema: int = 1
    data_checksum: Callable[[Any], str] | None = None
    locations: tuple[str, ...] = ()
    primary: Primary | None = None


@dataclass(frozen=True)
class Cell:
    """A cell of a study: one value of its settings, and the rows that belong to it.

    Attributes:
        kind: name of its study.
        schema: version of the study's rows.
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
        identity = asdict(self)
        del identity["locations"]
        return hashlib.sha256(canonical(identity).encode()).hexdigest()

    @property
    def key_columns(self) -> dict[str, Any]:
        """The settings, and labels of the locations among them, as values of a table."""
        return {
            name: canonical(value) if isinstance(value, list | dict) else value
            for name, value in {**self.settings, **labels(self.locations)}.items()
        }


@dataclass(frozen=True)
class Plan:
    """The options and cells that a study was last run with.

    Attributes:
        study: its name.
        options: by name, in the types of JSON.
        cells: in the order of the table.
        format: of the file.
    """

    study: str
    options: Mapping[str, Any]
    cells: tuple[Cell, ...]
    format: Literal["attnlab study 1"] = "attnlab study 1"

    @property
    def varied(self) -> list[str]:
        """The settings in which cells differ; all where there is one cell."""
        columns = [cell.key_columns for cell in self.cells]
        names = list(columns[0]) if columns else []
        return [name for name in names if len({values[name] for values in columns}) > 1] or names


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Settings):
    """The folder of a study."""

    folder: Annotated[
        str | Path | None,
        Option("Folder of the study.", ("--out",), shown="studies/NAME"),
    ] = None

    def folder_of(self, study: str) -> Path:
        """The folder of a study of that name."""
        return Path("studies", study) if self.folder is None else Path(self.folder)


@dataclass(frozen=True, kw_only=True)
class RunningSettings(FolderSettings):
    """Options of `attnlab study run`.

    Attributes:
        options: of the study, by name; those that are not given are as they were in the folder's last
            run, or else their defaults.
        progress: called with (what is being done, done, in all).
        begun: called with the plan and every cell before it is computed; never where cells run in other
            processes.
        connected: called with Dask's client once the cluster answers.

    Raises:
        InputError: both ways to run on several processes at once, or the dashboard of none.
    """

    jobs: Annotated[
        int | None,
        Option(
            "Number of processes of this machine, one thread each.",
            least=1,
            most=1024,
            shown="this one",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        Option("Address of a running Dask scheduler, such as tls://host:8786, instead of --jobs."),
    ] = None
    dashboard: Annotated[
        bool,
        Option(
            "Open the dashboard of --jobs on loopback, where every user of this machine can read it.",
            ("--dashboard",),
        ),
    ] = False
    options: Mapping[str, Any] | None = None
    progress: Progress | None = None
    begun: Callable[[Plan, Cell], None] | None = None
    connected: Callable[[Any], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jobs is not None and self.cluster is not None:
            msg = "Give either jobs or cluster, not both."
            raise InputError(msg)
        if self.dashboard and self.jobs is None:
            msg = "dashboard is that of the processes of jobs; give jobs too."
            raise InputError(msg)


def cell_of(study: Study, settings: Settings) -> Cell:
    """The cell of these settings; its data is read once for the checksum.

    Raises:
        InputError: the data cannot be read.
    """
    values = plain_settings(settings)
    return Cell(
        kind=study.name,
        schema=study.schema,
        settings={name: value for name, value in values.items() if name not in study.locations},
        data=None if study.data_checksum is None else study.data_checksum(settings),
        locations={name: values[name] for name in study.locations},
    )


def settings_of(study: Study, cell: Cell) -> Settings:
    """The settings of a cell as its study declares them.

    Raises:
        InputError: a value that cannot be used.
    """
    values = {**cell.settings, **cell.locations}
    return study.settings(**{name: _fixed(value) for name, value in values.items()})


def labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, with labels for paths, see `path_label`."""
    return {
        name: [_label(item) for item in value] if isinstance(value, list) else _label(value)
        for name, value in values.items()
    }


def _label(value: Any) -> Any:
    return path_label(value) if isinstance(value, str) else value


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
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [plain(part) for part in value]
    msg = f"settings of a cell cannot hold {value!r}"
    raise TypeError(msg)


def _fixed(value: Any) -> Any:
    """Lists as tuples, so that settings can be compared and hashed."""
    return tuple(_fixed(item) for item in value) if isinstance(value, list) else value
