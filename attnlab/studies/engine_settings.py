"""How a study is run: where its folder is, and on what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from attnlab.core import InputError, Option, Settings
from attnlab.evaluation import Progress


@dataclass(frozen=True)
class Connection:
    """A cluster that answers.

    Attributes:
        scheduler: address of its scheduler.
        dashboard: address of its dashboard.
        workers: how many workers it has now.
    """

    scheduler: str
    dashboard: str
    workers: int


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Settings):
    """Where a study is kept."""

    folder: Annotated[
        str | Path | None,
        Option("Folder of the study.", ("--out",), shown="studies/NAME"),
    ] = None

    def folder_of(self, study: str) -> Path:
        """The folder of a study of that name."""
        return Path("studies", study) if self.folder is None else Path(self.folder)


@dataclass(frozen=True)
class CellBegun:
    """A cell whose computation begins.

    Attributes:
        number: of the cell in the plan, from 1.
        cells: how many the plan has.
        varied: the settings in which its cells differ, by name.
    """

    number: int
    cells: int
    varied: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunningSettings(FolderSettings):
    """What `attnlab study run` can be told.

    Attributes:
        options: of the study, by name; those that are not given are as they were in the folder's last
            run, or else their defaults.
        progress: called with (what is being done, done, in all).
        begun: called with every cell before it is computed; never where cells run in other processes.
        connected: called with the cluster once it answers.

    Raises:
        InputError: both ways to run on several processes at once.
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
        Option("Address of a running Dask scheduler, such as tcp://host:8786, instead of --jobs."),
    ] = None
    options: Mapping[str, Any] | None = None
    progress: Progress | None = None
    begun: Callable[[CellBegun], None] | None = None
    connected: Callable[[Connection], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jobs is not None and self.cluster is not None:
            msg = "Give either jobs or cluster, not both."
            raise InputError(msg)
