"""The substitution study over many models: a cell trains a model and replaces its heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attnlab.options import Option, Settings
from attnlab.studies.comparison.settings import LEAST_BUDGET
from attnlab.studies.engine.models import (
    MODEL_LOCATIONS,
    ModelCell,
    ModelOptions,
    cells_of_models,
    model_checksum,
    trained_model,
)
from attnlab.studies.engine.study import CellKind, Study
from attnlab.studies.settings import words_in
from attnlab.studies.substitution.settings import SCOPES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ReplacedHeads(Settings):
    """What is replaced in every model."""

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
class SubstitutionCell(ReplacedHeads, ModelCell):
    """One model."""


@dataclass(frozen=True, kw_only=True)
class SubstitutionOptions(ReplacedHeads, ModelOptions):
    """What the study can be told."""


def substitution_rows(cell: SubstitutionCell) -> "pd.DataFrame":
    """The rows of `attnlab.substitute` for a model trained with the settings of the cell."""
    from attnlab.studies.substitution.substitution import substitute

    with trained_model(cell) as run:
        found = substitute(
            run, budgets=cell.budgets, scopes=cell.scopes, sentences=cell.test_sentences,
            steps=cell.fine_tune_steps, seed=cell.seed,
        )  # fmt: skip
    return found.substitutions


def substitution_cells(options: SubstitutionOptions) -> list[SubstitutionCell]:
    """Every size with every seed."""
    return cells_of_models(SubstitutionCell, options)


SUBSTITUTION = Study(
    name="substitution",
    summary="What do loss and BLEU of translation models lose when their heads are replaced?",
    kind=CellKind(
        "substitution", 1, SubstitutionCell, substitution_rows, model_checksum, MODEL_LOCATIONS
    ),
    options=SubstitutionOptions,
    cells=substitution_cells,
)
