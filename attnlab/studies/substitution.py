"""Mechanisms compared over many models: a cell trains a model and replaces its heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from attnlab.budget import REPLACED
from attnlab.core import Column, Option, Settings, Table, read_columns
from attnlab.evaluation import words_in
from attnlab.results import question_named
from attnlab.studies.study import Primary, Study
from attnlab.studies.trained_models import (
    CALIBRATION,
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

SCOPES = ("head", "site", "model")
_COLUMNS = read_columns(__file__)
TABLES = (
    Table(
        "substitutions.csv",
        "replaced heads, mechanism, budget and steps",
        (
            *_COLUMNS.of("scope replaced"),
            *REPLACED,
            Column("sentences", "sentences", "Number of test sentences."),
            *_COLUMNS.of("validation_sentences calibration_sentences"),
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class ReplacedHeads(Settings):
    """Options of the heads that are replaced in every model."""

    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, counted, on average over the heads of a site; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = (5, 9)
    scopes: Annotated[
        Sequence[str],
        Option(
            "What is replaced at a time: any of head, site, model; commas between.",
            choices=SCOPES,
            read=words_in,
        ),
    ] = SCOPES
    test_sentences: Annotated[int, TEST_SENTENCES] = 500
    validation: Annotated[int, VALIDATION] = 200
    calibration: Annotated[int, CALIBRATION] = 500
    fine_tune_steps: Annotated[
        int, Option("Number of training batches of a fine-tuning; 0 for none.", least=0)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class SubstitutionCell(ReplacedHeads, ModelCell):
    """Settings of a cell: one model and the heads replaced in it."""


@dataclass(frozen=True, kw_only=True)
class SubstitutionOptions(ReplacedHeads, ModelOptions):
    """Options of the study."""


def substitution_rows(cell: SubstitutionCell) -> "pd.DataFrame":
    """The rows of `attnlab.compare` for a model trained with the settings of the cell.

    A row is of one head, of all heads of a site or of all heads (`scope`), and `replaced` names them; the
    model with full attention replaces none.
    """
    import pandas as pd

    with trained_model(cell) as run:
        result = question_named("compare").verb(
            run, budgets=cell.budgets, per_head="head" in cell.scopes,
            sentences=cell.test_sentences, validation=cell.validation,
            calibration=cell.calibration, fine_tune=cell.fine_tune_steps, seed=cell.seed,
        )  # fmt: skip
    together = result.summary.rename(columns={"sites": "replaced"})
    together.insert(0, "scope", "site")
    together.loc[together["replaced"] == "all", "scope"] = "model"
    full = together["replaced_heads"] == 0
    together.loc[full, ["scope", "replaced"]] = "model", ""
    reported = full | together["scope"].isin(cell.scopes)
    # Of sites where a mechanism can be, but not of all of them.
    reported &= ~together["replaced"].str.contains(",")
    parts = [together[reported]]
    if "head" in cell.scopes:
        alone = result.mechanisms_by_head.dropna(subset=["budget"])
        names = alone["site"] + "." + alone["layer"].astype(str) + "." + alone["head"].astype(str)
        alone = alone.assign(scope="head", replaced=names, replaced_heads=1, steps=0).drop(
            columns=["site", "layer", "head"]
        )
        parts.append(alone)
    return pd.concat(parts, ignore_index=True).assign(
        sentences=result.about["Held-out sentences"],
        validation_sentences=result.about["Validation sentences"],
        calibration_sentences=result.about["Training sentences"],
    )


SUBSTITUTION = Study(
    name="substitution",
    summary="What do loss and BLEU of translation models lose when their heads are replaced?",
    options=SubstitutionOptions,
    cells=partial(cells_of_models, SubstitutionCell),
    settings=SubstitutionCell,
    rows=substitution_rows,
    # 3: intervals are named after their figures; captured attention and output error have some.
    schema=3,
    data_checksum=model_checksum,
    locations=MODEL_LOCATIONS,
    primary=Primary(
        "loss_change",
        "change of loss in nats",
        larger=False,
        within=("layers", "scope", "budget"),
    ),
)
