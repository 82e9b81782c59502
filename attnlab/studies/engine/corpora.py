"""Cells that read a corpus: their settings name it, and what it holds decides what the cell is."""

from dataclasses import dataclass
from functools import lru_cache
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


def corpus_of_cell(settings: CorpusCellSettings) -> ParallelCorpus:
    """The corpus that the settings name, kept for the next cells that read it.

    Raises:
        InputError: it is not on this machine, or cannot be read.
    """
    return _loaded(settings.corpus, settings.pair, settings.corpus_size, settings.corpus_limit)


def corpus_checksum(settings: CorpusCellSettings) -> str:
    """SHA-256 over all rows of the corpus that the settings name, as `CellKind.data_checksum`.

    Raises:
        InputError: it is not on this machine, or cannot be read.
    """
    return corpus_of_cell(settings).checksum


@lru_cache(maxsize=KEPT)
def _loaded(name: str, pair: str, size: int | None, limit: int | None) -> ParallelCorpus:
    return load_corpus(name, pair=pair, size=size, limit=limit)
