"""The substitution study over many models: a cell trains a model and replaces its heads."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from attnlab.options import Option
from attnlab.studies.comparison.settings import LEAST_BUDGET
from attnlab.studies.engine.corpora import CORPUS_LOCATIONS, CorpusCellSettings, corpus_of_cell
from attnlab.studies.engine.study import CellKind, Study
from attnlab.studies.settings import words_in
from attnlab.studies.substitution.settings import SCOPES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ModelSettings(CorpusCellSettings):
    """What all models of the study have in common."""

    heads: Annotated[int, Option("Number of heads of a layer.", least=1)] = 8
    epochs: Annotated[int, Option("Number of passes over the training pairs.", least=1)] = 20
    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of visible keys per row; may be given again.", ("--budget",), least=LEAST_BUDGET
        ),
    ] = (LEAST_BUDGET, 9)
    scopes: Annotated[
        Sequence[str],
        Option(
            "What is replaced at a time: any of head, site, model; commas between.",
            choices=SCOPES,
            read=words_in,
        ),
    ] = SCOPES
    test_sentences: Annotated[int, Option("Maximum number of test sentences.", least=2)] = 500
    fine_tune_steps: Annotated[
        int, Option("Number of training batches of a fine-tuning; 0 for none.", least=0)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class ModelCell(ModelSettings):
    """One model."""

    layers: Annotated[int, Option("Number of layers of encoder and decoder.", least=1)]
    seed: Annotated[
        int, Option("Seed of the corpus, of the training and of the bootstrap.", least=0)
    ]


@dataclass(frozen=True, kw_only=True)
class ModelOptions(ModelSettings):
    """What the study can be told."""

    layers: Annotated[
        Sequence[int],
        Option("Number of layers of encoder and decoder; may be given again.", least=1),
    ] = (1, 3)
    seeds: Annotated[int, Option("Number of models of each size.", least=1)] = 1


def model_rows(cell: ModelCell) -> "pd.DataFrame":
    """The rows of `attnlab.substitute` for a model trained with the settings of the cell."""
    import tempfile
    from pathlib import Path

    from rich.console import Console

    from attnlab.studies.substitution.substitution import substitute
    from attnlab.translation.quiet import quiet
    from attnlab.translation.settings import settings_from
    from attnlab.translation.training import train

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
    with tempfile.TemporaryDirectory(prefix="attnlab-substitution-") as folder, quiet():
        run = Path(folder) / "run"
        if train(run, settings, console=Console(quiet=True)).interrupted:
            # Ctrl-C ends a training early, but half a model is no cell.
            raise KeyboardInterrupt
        found = substitute(
            run, budgets=cell.budgets, scopes=cell.scopes, sentences=cell.test_sentences,
            steps=cell.fine_tune_steps, seed=cell.seed,
        )  # fmt: skip
    return found.substitutions


def model_checksum(cell: ModelCell) -> str:
    """Of the corpus of the cell; the seed of a training draws and divides it."""
    return corpus_of_cell(cell, seed=cell.seed).checksum


def model_cells(options: ModelOptions) -> list[ModelCell]:
    """Every size with every seed."""
    shared = {one.name: getattr(options, one.name) for one in fields(ModelSettings)}
    return [
        ModelCell(**shared, layers=layers, seed=seed)
        for layers in options.layers
        for seed in range(options.seeds)
    ]


SUBSTITUTION = Study(
    name="substitution",
    summary="What do loss and BLEU of translation models lose when their heads are replaced?",
    kind=CellKind("substitution", 1, ModelCell, model_rows, model_checksum, CORPUS_LOCATIONS),
    options=ModelOptions,
    cells=model_cells,
)
