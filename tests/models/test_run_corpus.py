"""A run finds its corpus from any folder, and says what to do when it is gone."""

import json
from pathlib import Path

import pytest
from small_run import small_settings, write_pairs

from attnlab.core.errors import InputError
from attnlab.core.files import write_json
from attnlab.corpora.corpus import ParallelCorpus, load_corpus
from attnlab.models.run import corpus_of, new_record, recorded_corpus
from attnlab.models.run_folder import read_record
from attnlab.models.training import resume
from attnlab.models.training_settings import settings_from


def found(folder: Path) -> ParallelCorpus:
    record = read_record(folder)
    return recorded_corpus(folder, settings_from(record["settings"]), record)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose corpus was typed as `data/pairs.tsv` in the folder `begun`; now we are in `elsewhere`."""
    for name in ("begun", "elsewhere", "run"):
        (tmp_path / name).mkdir()
    rows = [(f"a cat sees {n} dogs.", f"un gatto vede {n} cani.") for n in range(50)]
    (tmp_path / "begun" / "data").mkdir()
    write_pairs(tmp_path / "begun" / "data" / "pairs.tsv", rows)
    monkeypatch.chdir(tmp_path / "begun")
    settings = small_settings(corpus={"name": "data/pairs.tsv", "size": None})
    record = new_record(settings, corpus_of(settings), {}, "attnlab train")
    write_json(tmp_path / "run" / "settings.json", record)
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "run"


def test_the_corpus_is_found_from_another_folder(folder: Path) -> None:
    record = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert record["settings"]["corpus"]["name"] == "data/pairs.tsv", "as it was typed"
    assert record["corpus"]["path"] == str(folder.parent / "begun" / "data" / "pairs.tsv")
    corpus = found(folder)
    assert corpus.checksum == record["corpus"]["checksum"]
    assert corpus.name == "data/pairs.tsv"


def test_a_corpus_that_moved_is_found_where_its_name_leads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "begun").rename(folder.parent / "other")
    message = (
        r"not at .*begun/data/pairs\.tsv any more; put it back there, or give the command in a"
    )
    for look in (found, resume):
        with pytest.raises(InputError, match=message):
            look(folder)
    monkeypatch.chdir(folder.parent / "other")
    assert found(folder).checksum == read_record(folder)["corpus"]["checksum"]


def test_runs_that_hold_the_name_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = read_record(folder)
    del record["corpus"]["path"]
    write_json(folder / "settings.json", record)
    with pytest.raises(InputError, match=r"from which data/pairs\.tsv leads to it"):
        found(folder)
    monkeypatch.chdir(folder.parent / "begun")
    assert found(folder).checksum == record["corpus"]["checksum"]


def test_the_embedded_corpus_lies_nowhere(folder: Path) -> None:
    settings = small_settings()
    record = new_record(settings, corpus_of(settings), {}, "attnlab train")
    assert record["corpus"]["path"] is None
    write_json(folder / "settings.json", record)
    assert found(folder).checksum == record["corpus"]["checksum"]


def test_a_corpus_of_a_text_pair_keeps_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that only begins the names of files has a path too."""
    for language, line in (("en", "a cat {}."), ("it", "un gatto {}.")):
        lines = "".join(line.format(n) + "\n" for n in range(40))
        (tmp_path / f"news.train.{language}").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = small_settings(corpus={"name": "news", "size": None})
    record = new_record(settings, corpus_of(settings), {}, "attnlab train")
    assert record["corpus"]["path"] == str(tmp_path / "news")
    assert load_corpus(record["corpus"]["path"]).checksum == record["corpus"]["checksum"]
