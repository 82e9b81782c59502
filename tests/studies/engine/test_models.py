"""Cells that train a model: which there are, what they train, and models that are kept."""

import json
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from small_run import small_settings

from attnlab.core.errors import InputError
from attnlab.models.run import corpus_of
from attnlab.studies.computing import study_named
from attnlab.studies.study import cell_of
from attnlab.studies.trained_models import ModelCell, model_checksum, trained_model

SMALL: dict[str, Any] = {"corpus_size": 120, "corpus_limit": None, "heads": 2, "epochs": 1}
STUDIES = ("substitution", "plan_search")
TRAIN = "attnlab.models.train"


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where models were trained, though none is."""
    made = []

    class Whole:
        interrupted = False

    def train(folder: Path, *_: Any, **__: Any) -> Whole:
        folder.mkdir()
        made.append(folder)
        return Whole()

    monkeypatch.setattr(TRAIN, train)
    return made


@pytest.mark.parametrize("name", STUDIES)
def test_a_cell_for_every_size_and_seed(name: str) -> None:
    study = study_named(name)
    options: Any = study.options(layers=(1, 2), seeds=2, test_sentences=7, budgets=(6,), **SMALL)  # type: ignore[call-arg]
    cells: list[Any] = list(study.cells(options))
    assert [(cell.layers, cell.seed) for cell in cells] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert {(cell.epochs, cell.test_sentences, cell.budgets) for cell in cells} == {(1, 7, (6,))}


@pytest.mark.parametrize("name", STUDIES)
def test_a_file_is_no_folder_for_models(name: str, tmp_path: Path) -> None:
    study, file = study_named(name), tmp_path / "models"
    file.touch()
    with pytest.raises(
        InputError, match=r"models is a file; name a folder for the models \(option runs\)"
    ):
        study.cells(study.options(runs=str(file)))  # type: ignore[call-arg]


@pytest.mark.parametrize("name", STUDIES)
def test_where_corpus_and_models_lie_does_not_make_another_cell(name: str) -> None:
    study = study_named(name)
    cells = [
        cell_of(study, study.settings(layers=1, seed=0, runs=runs, **SMALL))  # type: ignore[call-arg]
        for runs in (None, "here")
    ]
    assert cells[0].address == cells[1].address
    assert cells[1].locations["runs"] == "here"


def test_the_checksum_is_that_of_the_corpus_that_is_trained_on() -> None:
    for seed in (0, 1):
        cell = ModelCell(layers=1, seed=seed, **SMALL)
        trained_on = corpus_of(small_settings(corpus={"size": 120}, optimizer={"seed": seed}))
        assert model_checksum(cell) == trained_on.checksum


def test_half_a_model_is_no_cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Interrupted:
        interrupted = True

    monkeypatch.setattr(TRAIN, lambda *_, **__: Interrupted())
    cell = ModelCell(layers=1, seed=0, runs=str(tmp_path), **SMALL)
    with pytest.raises(KeyboardInterrupt), trained_model(cell):
        pass
    assert not list(tmp_path.iterdir())


def test_a_model_is_deleted_after_its_cell(trained: list[Path]) -> None:
    cell = ModelCell(layers=1, seed=0, **SMALL)
    with trained_model(cell) as run:
        assert run.is_dir()
    assert not run.exists()
    assert trained == [run]


@pytest.mark.parametrize("is_other_run", [True, False])
def test_a_run_that_another_study_keeps_meanwhile_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trained: list[Path], *, is_other_run: bool
) -> None:
    def train(folder: Path, *_: Any, **__: Any) -> None:
        kept.mkdir()
        record = {"format": 1, "settings": {}, "corpus": {}} if is_other_run else {}
        (kept / "settings.json").write_text(json.dumps(record))
        return whole(folder)

    whole = import_module("attnlab.models").train
    cell = ModelCell(layers=1, seed=0, runs=str(tmp_path), **SMALL)
    with trained_model(cell) as kept:
        kept.rmdir()
    monkeypatch.setattr(TRAIN, train)
    refusal = nullcontext() if is_other_run else pytest.raises(OSError, match="not empty")
    with refusal, trained_model(cell) as run:
        assert run == kept
    assert len(trained) == 2
    assert list(tmp_path.iterdir()) == [kept]


def test_a_kept_model_serves_all_studies_of_its_settings(
    trained: list[Path], tmp_path: Path
) -> None:
    kept: dict[str, Any] = {"runs": str(tmp_path / "runs"), **SMALL}
    folders = []
    for name in STUDIES:
        cell: Any = study_named(name).settings(layers=1, seed=0, **kept)  # type: ignore[call-arg]
        with trained_model(cell) as run:
            folders.append(run)
    assert folders[0] == folders[1]
    assert folders[0].is_dir()
    assert len(trained) == 1
    for other in ({"layers": 2, "seed": 0}, {"layers": 1, "seed": 1}):
        with trained_model(ModelCell(**other, **kept)) as run:
            assert run not in folders
    assert len(trained) == 3
    assert len(list((tmp_path / "runs").iterdir())) == 3
