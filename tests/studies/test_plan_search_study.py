"""The plan search of many models: the rows of a small one."""

import io

import pandas as pd
import pytest

from attnlab.budget import COMPARED
from attnlab.studies.computing import compute_rows, study_named
from attnlab.studies.plan_search import (
    BUDGETS,
    DEFAULT_PAIRS,
    PlanSearchCell,
    PlanSearchOptions,
)
from attnlab.studies.study import cell_of

EXTRA = {"sentences", "validation_sentences", "calibration_sentences"}


def test_without_options_one_small_model_is_searched_for_the_budgets_of_the_claim() -> None:
    assert BUDGETS == (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    (cell,) = study_named("plan_search").cells(PlanSearchOptions())
    assert (cell.layers, cell.seed, cell.budgets) == (1, 0, BUDGETS)
    assert cell.corpus_limit == DEFAULT_PAIRS


@pytest.mark.slow
def test_a_cell_has_a_row_a_budget_and_plan_and_no_setting_twice() -> None:
    settings = PlanSearchCell(
        layers=1, seed=0, budgets=(3, 6), corpus_size=120, heads=2, epochs=1, test_sentences=4,
        validation=3, calibration=5,
    )  # fmt: skip
    study = study_named("plan_search")
    rows = pd.read_csv(io.StringIO(compute_rows(cell_of(study, settings))), keep_default_na=False)
    assert set(rows) - EXTRA < {column.name for column in COMPARED.columns}
    assert set(rows) > EXTRA
    assert rows["mechanism"].tolist()[0] == "full"
    assert {"searched", "band", "longformer", "bigbird"} <= set(rows["mechanism"])
    assert set(rows["budget"].astype(str)) == {"", "3", "6"}
    counts = rows[["sentences", "validation_sentences", "calibration_sentences"]]
    assert counts.drop_duplicates().to_numpy().tolist() == [[4, 3, 5]]
