"""Corpora of cells are kept in memory only while their files stay as they are."""

from pathlib import Path

import pytest
from small_run import write_pairs

from attnlab.studies import run_study, write_study
from attnlab.studies.trained_models import CorpusCellSettings, corpus_checksum, corpus_of_cell


def test_a_corpus_whose_file_changes_is_read_again(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs.tsv", [(f"old {n}", f"vecchio {n}") for n in range(20)])
    settings = CorpusCellSettings(corpus=str(path))
    before = corpus_of_cell(settings)
    assert corpus_of_cell(settings) is before
    write_pairs(path, [(f"newer {n}", f"nuovo {n}") for n in range(20)])
    assert corpus_checksum(settings) != before.checksum
    assert corpus_of_cell(settings).train["source"][0].startswith("newer")


def test_a_study_names_paths_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_pairs(tmp_path / "pairs.tsv", [(f"old {n}", f"vecchio {n}") for n in range(20)])
    folder = tmp_path / "study"
    found = run_study("toy_corpus", folder=folder, options={"corpus": str(path)})
    write_study(found, folder, question="What?")
    files = {one.name: one.read_text() for one in folder.rglob("*") if one.is_file()}
    assert {name for name, text in files.items() if str(tmp_path) in text} == {"local_paths.json"}
    assert "pairs.tsv" in files["table.csv"]
    # The next run finds the corpus again, from any folder; cells are those that are there.
    monkeypatch.chdir(folder)
    again = run_study("toy_corpus", folder=folder)
    assert again.plan == found.plan
    assert again.text == found.text
    run_study("toy_corpus", folder=folder, options={"corpus": "../pairs.tsv"})
    assert run_study("toy_corpus", folder=folder).text == found.text
