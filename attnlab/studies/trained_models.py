"""Cells that read a corpus or train a model on it: their settings, and the run while a cell lasts."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, TypeVar

from attnlab.core import LARGEST_SEED, InputError, Option, Settings
from attnlab.core.installed import __version__
from attnlab.corpora import DEFAULT_PAIR, EMBEDDED, ParallelCorpus, load_corpus
from attnlab.studies.study import canonical

# Goes into `Study.locations`.
CORPUS_LOCATIONS = ("corpus",)
# Corpora in memory, so that cells which alternate between them do not read each again.
KEPT = 4
CORPUS_LIMIT = Option("Maximum number of training pairs.", least=1)


@dataclass(frozen=True, kw_only=True)
class CorpusCellSettings(Settings):
    """Settings of cells that read a corpus; where it lies is a location (`CORPUS_LOCATIONS`)."""

    corpus: Annotated[str, Option("Corpus: embedded, or a path on every worker.")] = EMBEDDED
    pair: Annotated[str, Option("Source and target language.")] = DEFAULT_PAIR
    corpus_size: Annotated[
        int | None, Option("Number of pairs of the embedded corpus.", least=1)
    ] = None
    corpus_limit: Annotated[int | None, CORPUS_LIMIT] = None


def corpus_of_cell(settings: CorpusCellSettings, *, seed: int = 0) -> ParallelCorpus:
    """The corpus that the settings name, kept for the next cells while its files stay as they are.

    Args:
        settings: of the cell.
        seed: which sentences are drawn, and how a corpus without parts is divided.

    Raises:
        InputError: it is not on this machine, or cannot be read.
    """
    values = {field.name: getattr(settings, field.name) for field in fields(CorpusCellSettings)}
    return _loaded(CorpusCellSettings(**values), seed, _files_of(Path(settings.corpus)))


def corpus_checksum(settings: CorpusCellSettings) -> str:
    """SHA-256 over all rows of the corpus that the settings name, as `Study.data_checksum`.

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
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    states = ((str(file), file.stat()) for file in sorted(files))
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in states)


# Goes into `Study.locations`.
MODEL_LOCATIONS = (*CORPUS_LOCATIONS, "runs")
CellOf = TypeVar("CellOf", bound="ModelCell")
LAYERS = Option("Number of layers of encoder and decoder; may be given again.", least=1)
# Of the sentences on which the mechanisms in a model are compared.
TEST_SENTENCES = Option("Maximum number of test sentences.", least=2)
VALIDATION = Option("Maximum number of validation sentences, which choose.", least=1)
CALIBRATION = Option("Maximum number of training sentences, which teach mechanisms.", least=1)


@dataclass(frozen=True, kw_only=True)
class ModelSettings(CorpusCellSettings):
    """Settings that all models of a study have in common."""

    runs: Annotated[
        str | None,
        Option(
            "Folder on every worker that keeps trained models, so that another study of the same "
            "models trains none.",
            shown="none are kept",
        ),
    ] = None
    heads: Annotated[int, Option("Number of heads of a layer.", least=1)] = 8
    epochs: Annotated[int, Option("Number of passes over the training pairs.", least=1)] = 20


@dataclass(frozen=True, kw_only=True)
class ModelCell(ModelSettings):
    """Settings of one model."""

    layers: Annotated[int, Option("Number of layers of encoder and decoder.", least=1)]
    seed: Annotated[
        int,
        Option("Seed of the corpus and of the training.", least=0, most=LARGEST_SEED),
    ]


@dataclass(frozen=True, kw_only=True)
class ModelOptions(ModelSettings):
    """Options of the models that a study trains."""

    layers: Annotated[Sequence[int], LAYERS] = (1, 3)
    seeds: Annotated[int, Option("Number of models of each size.", least=1)] = 1


def cells_of_models(cell: type[CellOf], options: ModelOptions) -> list[CellOf]:
    """Every size with every seed; all other settings of the cells are those of the options.

    Raises:
        InputError: the folder for models is a file.
    """
    if options.runs is not None and Path(options.runs).is_file():
        msg = f"{options.runs} is a file; name a folder for the models (option runs)."
        raise InputError(msg)
    names = {field.name for field in fields(cell)} - {"layers", "seed"}
    shared = {name: getattr(options, name) for name in names}
    return [
        cell(**shared, layers=layers, seed=seed)
        for layers in options.layers
        for seed in range(options.seeds)
    ]


def model_checksum(cell: ModelCell) -> str:
    """The checksum of the corpus of a cell; the seed of a training draws and divides it."""
    return corpus_of_cell(cell, seed=cell.seed).checksum


@contextmanager
def trained_model(cell: ModelCell) -> Iterator[Path]:
    """The run directory of a model trained with the settings of the cell.

    It is deleted afterwards, unless the cell names a folder of runs: there it is kept under the hash of
    its settings and corpus, and used again.
    """
    import tempfile

    from attnlab.core import quiet

    kept = None if cell.runs is None else Path(cell.runs) / _name_of(cell)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    with (
        quiet(),
        tempfile.TemporaryDirectory(prefix=".cell-", dir=kept and kept.parent) as made,
    ):
        if kept is None:
            yield _train(cell, Path(made) / "run")
        else:
            if not kept.exists():
                _keep(_train(cell, Path(made) / "run"), kept)
            yield kept


def _keep(run: Path, kept: Path) -> None:
    """Moves a run to where it is kept, unless another study has kept the same one since."""
    from attnlab.models import is_run

    try:
        run.rename(kept)
    except OSError:
        if not is_run(kept):
            raise


def _name_of(cell: ModelCell) -> str:
    """The name of a kept run: readable settings, then the hash of all that decides the model."""
    names = {field.name for field in fields(ModelCell)} - set(MODEL_LOCATIONS)
    decisive = {name: getattr(cell, name) for name in names}
    text = canonical([decisive, model_checksum(cell), __version__])
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{Path(cell.corpus).name}-{cell.layers}-{cell.seed}-{digest}"


def _train(cell: ModelCell, run: Path) -> Path:
    """Trains a model into the folder."""
    from rich.console import Console

    from attnlab.models import settings_from, train

    settings = settings_from(
        {
            "corpus": {
                "name": cell.corpus, "pair": cell.pair, "limit": cell.corpus_limit,
                **({} if cell.corpus_size is None else {"size": cell.corpus_size}),
            },
            "model": {
                "encoder_layers": cell.layers, "decoder_layers": cell.layers, "heads": cell.heads,
            },
            "optimizer": {"epochs": cell.epochs, "seed": cell.seed},
        }
    )  # fmt: skip
    if train(run, settings, console=Console(quiet=True)).interrupted:
        # Ctrl-C ends a training early, but half a model is no cell.
        raise KeyboardInterrupt
    return run
