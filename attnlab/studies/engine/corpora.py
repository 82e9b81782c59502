"""Cells that read a corpus: their settings name it, and what it holds decides what the cell is."""

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from attnlab.corpora.corpus import DEFAULT_PAIR, EMBEDDED, ParallelCorpus, load_corpus
from attnlab.options import Option, Settings

# Goes into `CellKind.locations`.
CORPUS_LOCATIONS = ("corpus",)
# Corpora in memory, so that cells which alternate between them do not read each again.
KEPT = 4


@dataclass(frozen=True, kw_only=True)
class CorpusCellSettings(Settings):
    """Of cells that read a corpus; where it lies is a location (`CORPUS_LOCATIONS`)."""

    corpus: Annotated[str, Option("Corpus: embedded, or a path on every worker.")] = EMBEDDED
    pair: Annotated[str, Option("Source and target language.")] = DEFAULT_PAIR
    corpus_size: Annotated[
        int | None, Option("Number of pairs of the embedded corpus.", least=1)
    ] = None
    corpus_limit: Annotated[int | None, Option("Maximum number of training pairs.", least=1)] = None


def corpus_of_cell(settings: CorpusCellSettings, *, seed: int = 0) -> ParallelCorpus:
    """The corpus that the settings name, kept for the next cells while its files stay as they are.

    Args:
        settings: of the cell.
        seed: which sentences are drawn, and how a corpus without parts is divided.

    Raises:
        InputError: it is not on this machine, or cannot be read.
    """
    own = {field.name: getattr(settings, field.name) for field in fields(CorpusCellSettings)}
    return _loaded(CorpusCellSettings(**own), seed, _files_of(Path(settings.corpus)))


def corpus_checksum(settings: CorpusCellSettings) -> str:
    """SHA-256 over all rows of the corpus that the settings name, as `CellKind.data_checksum`.

    Raises:
        InputError: it is not on this machine, or cannot be read.
    """
    return corpus_of_cell(settings).checksum


@lru_cache(maxsize=KEPT)
def _loaded(
    settings: CorpusCellSettings,
    seed: int,
    files: tuple[tuple[str, int, int], ...],  # noqa: ARG001 - other files are another corpus
) -> ParallelCorpus:
    return load_corpus(
        settings.corpus,
        pair=settings.pair,
        size=settings.corpus_size,
        limit=settings.corpus_limit,
        seed=seed,
    )


def _files_of(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Path, size and time of change of every file there; nothing for a corpus that is no path."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    found = ((str(one), one.stat()) for one in sorted(files))
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)
