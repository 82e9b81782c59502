"""The substitution study of many models: the rows of a small one."""

import pytest

from attnlab.studies.engine.cells import cell_of
from attnlab.studies.engine.computing import compute_rows
from attnlab.studies.engine.registry import study_named
from attnlab.studies.substitution.columns import SUBSTITUTIONS
from attnlab.studies.substitution.study import SubstitutionCell


@pytest.mark.slow
def test_a_cell_has_the_rows_of_the_command_and_no_setting_twice() -> None:
    settings = SubstitutionCell(
        layers=1, seed=0, budgets=(5,), corpus_size=120, heads=2, epochs=1, test_sentences=4,
        scopes=("site",),
    )  # fmt: skip
    kind = study_named("substitution").kind
    rows = compute_rows(cell_of(kind, settings)).splitlines()
    assert rows[0].split(",") == [column.name for column in SUBSTITUTIONS.columns]
    assert len(rows) > 20
