"""The plan search over many models: a cell trains a model and searches a plan for every budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from attnlab.core import Option, Settings
from attnlab.results import question_named
from attnlab.studies.study import Primary, Study
from attnlab.studies.trained_models import (
    CALIBRATION,
    CORPUS_LIMIT,
    LAYERS,
    MODEL_LOCATIONS,
    TEST_SENTENCES,
    VALIDATION,
    ModelCell,
    ModelOptions,
    cells_of_models,
    model_checksum,
    trained_model,
)

if TYPE_CHECKING:
    import pandas as pd

# The budgets of the claim that a searched plan keeps more than uniform patterns do.
BUDGETS = tuple(range(3, 14))
DEFAULT_PAIRS = 5_000


@dataclass(frozen=True, kw_only=True)
class SearchedPlans(Settings):
    """Options of the search in every model; by default a model takes a few minutes."""

    corpus_limit: Annotated[int | None, CORPUS_LIMIT] = DEFAULT_PAIRS
    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, on average over all heads; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = BUDGETS
    criterion: Annotated[
        str, Option("What plans are chosen by on validation sentences, as for `attnlab plan`.")
    ] = "loss"
    test_sentences: Annotated[int, TEST_SENTENCES] = 300
    validation: Annotated[int, VALIDATION] = 200
    calibration: Annotated[int, CALIBRATION] = 500


@dataclass(frozen=True, kw_only=True)
class PlanSearchCell(SearchedPlans, ModelCell):
    """Settings of a cell: one model and the search in it."""


@dataclass(frozen=True, kw_only=True)
class PlanSearchOptions(SearchedPlans, ModelOptions):
    """Options of the study."""

    layers: Annotated[Sequence[int], LAYERS] = (1,)


def plan_search_rows(cell: PlanSearchCell) -> "pd.DataFrame":
    """The rows of `attnlab.plan` for a model trained with the settings of the cell."""
    with trained_model(cell) as run:
        result = question_named("plan").verb(
            run, cell.budgets, criterion=cell.criterion, sentences=cell.test_sentences,
            validation=cell.validation, calibration=cell.calibration, seed=cell.seed,
        )  # fmt: skip
    summary: pd.DataFrame = result.summary
    return summary.drop(columns=["sites", "steps", "settings_tried"]).assign(
        sentences=result.about["Held-out sentences"],
        validation_sentences=result.about["Validation sentences"],
        calibration_sentences=result.about["Training sentences"],
    )


PLAN_SEARCH = Study(
    name="plan_search",
    summary="Does a searched plan of mechanisms keep more BLEU than uniform ones at equal budgets?",
    options=PlanSearchOptions,
    cells=partial(cells_of_models, PlanSearchCell),
    settings=PlanSearchCell,
    rows=plan_search_rows,
    # 3: plans are chosen by loss, and scored by what `attnlab compare` scores.
    schema=3,
    data_checksum=model_checksum,
    locations=MODEL_LOCATIONS,
    primary=Primary("bleu_change", "change of BLEU", larger=True, within=("layers", "budget")),
)
