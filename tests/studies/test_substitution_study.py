"""The substitution study of many models: its cells, and the rows of a small one."""

import pytest
from small_run import small_settings

from attnlab.studies.engine.cells import cell_of
from attnlab.studies.engine.computing import compute_rows
from attnlab.studies.engine.registry import study_named
from attnlab.studies.substitution.columns import SUBSTITUTIONS
from attnlab.studies.substitution.study import (
    ModelCell,
    ModelOptions,
    model_cells,
    model_checksum,
    model_rows,
)
from attnlab.translation.runs.run import corpus_of

SMALL = {"corpus_size": 120, "heads": 2, "epochs": 1, "test_sentences": 4, "scopes": ("site",)}


def test_a_cell_for_every_size_and_seed() -> None:
    cells = model_cells(ModelOptions(layers=(1, 2), seeds=2, **SMALL))  # type: ignore[arg-type]
    assert [(cell.layers, cell.seed) for cell in cells] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert {cell.epochs for cell in cells} == {1}


def test_the_checksum_is_that_of_the_corpus_that_is_trained_on() -> None:
    for seed in (0, 1):
        cell = ModelCell(layers=1, seed=seed, **SMALL)  # type: ignore[arg-type]
        trained_on = corpus_of(small_settings(corpus={"size": 120}, optimizer={"seed": seed}))
        assert model_checksum(cell) == trained_on.checksum


def test_half_a_model_is_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        interrupted = True

    monkeypatch.setattr("attnlab.translation.training.train", lambda *_, **__: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        model_rows(ModelCell(layers=1, seed=0, **SMALL))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_cell_has_the_rows_of_the_command_and_no_setting_twice() -> None:
    settings = ModelCell(layers=1, seed=0, budgets=(5,), **SMALL)  # type: ignore[arg-type]
    kind = study_named("substitution").kind
    rows = compute_rows(cell_of(kind, settings)).splitlines()
    assert rows[0].split(",") == [column.name for column in SUBSTITUTIONS.columns]
    assert len(rows) > 20
