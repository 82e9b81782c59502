"""Published strengths and closest roles are those that the tables of controls beside them give today."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.shared.readme import read_table
from experiments.shared.strengths import labelled, tables_again

LABELLED = list(labelled())


@pytest.mark.parametrize(
    ("folder", "ending"), LABELLED, ids=[f"{folder.name}{ending}" for folder, ending in LABELLED]
)
def test_strengths_and_roles_are_those_of_the_controls_beside_them(
    folder: Path, ending: str
) -> None:
    for name, again in zip(("labels", "controls"), tables_again(folder, ending), strict=True):
        pd.testing.assert_frame_equal(
            again, read_table(folder, f"{name}{ending}"), check_dtype=False, rtol=1e-4
        )


def test_tables_of_both_experiments_are_computed_again() -> None:
    assert {folder.parts[-1] for folder, _ in LABELLED} == {"heads_of_minilm", "tatoeba"}
