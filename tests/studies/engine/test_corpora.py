"""Corpora of cells are kept in memory only while their files stay as they are."""

from pathlib import Path

from small_run import write_pairs

from attnlab.studies.trained_models import CorpusCellSettings, corpus_checksum, corpus_of_cell


def test_a_corpus_whose_file_changes_is_read_again(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs.tsv", [(f"old {n}", f"vecchio {n}") for n in range(20)])
    settings = CorpusCellSettings(corpus=str(path))
    before = corpus_of_cell(settings)
    assert corpus_of_cell(settings) is before
    write_pairs(path, [(f"newer {n}", f"nuovo {n}") for n in range(20)])
    assert corpus_checksum(settings) != before.checksum
    assert corpus_of_cell(settings).train["source"][0].startswith("newer")
