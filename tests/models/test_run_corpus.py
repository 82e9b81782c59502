"""A run finds its corpus from any folder, and says what to do when it is gone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_run import small_settings, write_pairs

from attnlab.core.errors import InputError
from attnlab.core.files import write_json
from attnlab.corpora.corpus import ParallelCorpus, load_corpus
from attnlab.models.run import corpus_of, local_paths, new_record, recorded_corpus, settings_here
from attnlab.models.run_folder import LOCAL, LocalPaths, read_local, read_record, write_local
from attnlab.models.training import resume
from attnlab.models.training_settings import settings_from


def found(folder: Path) -> ParallelCorpus:
    return recorded_corpus(folder, settings_from(read_record(folder)["settings"]))


def written(folder: Path, corpus: Any, **more: Any) -> dict[str, Any]:
    """The record of a run of this corpus, which is written with the paths on this machine."""
    settings = small_settings(corpus={"name": str(corpus), "size": None}, **more)
    record = new_record(settings, corpus_of(settings), {}, "attnlab train")
    write_json(folder / "settings.json", record)
    write_local(folder, local_paths(settings))
    return record


# How the corpus is typed in the folder `begun`, and what `settings.json` says.
TYPED = {
    "data/pairs.tsv": "data/pairs.tsv",
    "ABSOLUTE/data/pairs.tsv": "pairs.tsv",
    "../begun/data/pairs.tsv": "pairs.tsv",
    # The label is not taken for the embedded corpus, nor looked for on the hub.
    "ABSOLUTE/data/embedded": "./embedded",
}


@pytest.fixture(params=TYPED)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A run whose corpus was typed in the folder `begun`; now we are in `elsewhere`."""
    for name in ("begun/data/embedded", "elsewhere", "run"):
        (tmp_path / name).mkdir(parents=True)
    rows = [(f"a cat sees {n} dogs.", f"un gatto vede {n} cani.") for n in range(50)]
    write_pairs(tmp_path / "begun" / "data" / "pairs.tsv", rows)
    write_pairs(tmp_path / "begun" / "data" / "embedded" / "train.tsv", rows)
    monkeypatch.chdir(tmp_path / "begun")
    written(tmp_path / "run", request.param.replace("ABSOLUTE", str(tmp_path / "begun")))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "run"


def test_the_corpus_is_found_from_another_folder(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    text = (folder / "settings.json").read_text(encoding="utf-8")
    label = TYPED[request.node.callspec.params["folder"]]
    record = json.loads(text)
    assert record["settings"]["corpus"]["name"] == label
    assert str(folder.parent) not in text
    path = folder.parent / "begun" / "data" / Path(label).name
    assert read_local(folder).corpus == str(path)
    corpus = found(folder)
    assert corpus.checksum == record["corpus"]["checksum"]
    assert corpus.name == label
    # `attnlab train --settings-of RUN` reads the text from any folder too.
    assert settings_here(folder, settings_from(record["settings"])).corpus.name == str(path)


def test_a_corpus_that_moved_is_found_where_its_name_leads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = read_record(folder)["settings"]["corpus"]["name"]
    (folder.parent / "begun").rename(folder.parent / "other")
    message = r"not at .*begun/data/\S+ any more; put it back there, or give the command in a"
    for look in (found, resume):
        with pytest.raises(InputError, match=message):
            look(folder)
    monkeypatch.chdir(folder.parent / "other" / ("" if label.startswith("data") else "data"))
    assert found(folder).checksum == read_record(folder)["corpus"]["checksum"]


def test_a_run_that_was_handed_on_holds_the_name_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / LOCAL).unlink()
    label = read_record(folder)["settings"]["corpus"]["name"]
    with pytest.raises(InputError, match=rf"from which {re.escape(label)} leads to it"):
        found(folder)
    monkeypatch.chdir(folder.parent / "begun" / ("" if label.startswith("data") else "data"))
    assert found(folder).checksum == read_record(folder)["corpus"]["checksum"]


def test_the_embedded_corpus_lies_nowhere(tmp_path: Path) -> None:
    settings = small_settings()
    assert local_paths(settings) == LocalPaths()
    record = new_record(settings, corpus_of(settings), {}, "attnlab train")
    write_json(tmp_path / "settings.json", record)
    assert found(tmp_path).checksum == record["corpus"]["checksum"]


def test_a_corpus_of_a_text_pair_keeps_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that only begins the names of files has a path too."""
    for language, line in (("en", "a cat {}."), ("it", "un gatto {}.")):
        lines = "".join(line.format(n) + "\n" for n in range(40))
        (tmp_path / f"news.train.{language}").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    record = written(tmp_path, "news")
    path = read_local(tmp_path).corpus
    assert path == str(tmp_path / "news")
    assert load_corpus(path).checksum == record["corpus"]["checksum"]
