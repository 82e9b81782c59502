"""The substitution study of many models: the rows of a small one."""

import io

import pandas as pd
import pytest

from attnlab.core import Column, Estimate
from attnlab.studies.computing import compute_rows, study_named
from attnlab.studies.study import cell_of
from attnlab.studies.study_results import means_over_seeds
from attnlab.studies.substitution import TABLES, SubstitutionCell


def test_means_over_seeds_are_of_figures_and_of_no_interval_or_p_value() -> None:
    change = Estimate(Column("loss_change", "change", ""), tested=True)
    rows = [
        {"seed": seed, "mechanism": "band", **change.cells(value, value - 1, value + 1, 0.01)}
        for seed, value in enumerate((1.0, 3.0))
    ]
    means = means_over_seeds(pd.DataFrame(rows), ["seed"])
    assert means.to_dict("records") == [{"mechanism": "band", "loss_change": 2.0, "seeds": 2}]


@pytest.mark.slow
def test_a_cell_has_the_rows_of_the_command_after_fine_tuning_too_and_no_setting_twice() -> None:
    settings = SubstitutionCell(
        layers=1, seed=0, budgets=(5,), corpus_size=120, heads=2, epochs=1, test_sentences=4,
        validation=3, calibration=5, scopes=("head", "site"), fine_tune_steps=1,
    )  # fmt: skip
    study = study_named("substitution")
    rows = pd.read_csv(io.StringIO(compute_rows(cell_of(study, settings))))
    assert set(rows) == {*TABLES[0]}
    assert set(rows["scope"]) == {"head", "site", "model"}
    alone = rows[rows["scope"] == "head"]
    assert alone[["replaced_heads", "steps"]].drop_duplicates().to_numpy().tolist() == [[1, 0]]
    assert set(alone["replaced"]) == {
        f"{site}.0.{head}" for site in ("encoder", "decoder", "cross") for head in range(2)
    }
    replaced = rows[(rows["replaced_heads"] > 0) & (rows["scope"] != "head")]
    keys = ["replaced", "mechanism"]
    before, after = (replaced[replaced["steps"] == steps][keys].values.tolist() for steps in (0, 1))
    assert before == after
    assert len(before) > 20
    assert rows[rows["mechanism"] == "full"]["steps"].tolist() == [0, 1]
    assert replaced["settings_tried"].ge(1).all()
    assert replaced["setting"].notna().all()
    counted = rows[["sentences", "validation_sentences", "calibration_sentences"]]
    assert counted.drop_duplicates().to_numpy().tolist() == [[4, 3, 5]]
