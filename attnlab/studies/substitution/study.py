"""The substitution study over many models: a cell trains a model and replaces its heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attnlab.core.options import Option, Settings
from attnlab.evaluation.shared_settings import words_in
from attnlab.studies.cells_of_models import (
    ModelCell,
    ModelOptions,
    study_of_models,
    trained_model,
)
from attnlab.studies.study import Primary
from attnlab.studies.substitution.settings import DEFAULT_BUDGET, SCOPES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class ReplacedHeads(Settings):
    """What is replaced in every model."""

    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, counted, on average over the heads of a site; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = (DEFAULT_BUDGET, 9)
    scopes: Annotated[
        Sequence[str],
        Option(
            "What is replaced at a time: any of head, site, model; commas between.",
            choices=SCOPES,
            read=words_in,
        ),
    ] = SCOPES
    test_sentences: Annotated[int, Option("Maximum number of test sentences.", least=2)] = 500
    validation: Annotated[
        int, Option("Maximum number of validation sentences, which choose.", least=1)
    ] = 200
    calibration: Annotated[
        int, Option("Maximum number of training sentences, which teach mechanisms.", least=1)
    ] = 500
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
            validation=cell.validation, calibration=cell.calibration, steps=cell.fine_tune_steps,
            seed=cell.seed,
        )  # fmt: skip
    return found.substitutions


SUBSTITUTION = study_of_models(
    "substitution",
    "What do loss and BLEU of translation models lose when their heads are replaced?",
    cell=SubstitutionCell,
    options=SubstitutionOptions,
    rows=substitution_rows,
    # 2: settings are chosen on validation sentences.
    schema=2,
    primary=Primary(
        "loss_change_nats",
        "change of loss in nats",
        larger=False,
        within=("layers", "scope", "budget"),
    ),
)
