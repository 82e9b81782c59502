"""Files of texts that look like tables of another form are read as they are, and said to look so."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from zoo import random_models

import attnlab
from attnlab.corpora.table_notes import HeadingRead, QuotesRead, notes_on_tables
from attnlab.questions.align.question import AlignmentSettings, notes_on_pairs

PLAIN = '"I sleep."\tIo dormo.\nshe said "no"\tdisse "no"\nthe cat sleeps\til gatto dorme\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, []),
        ("source\ttarget\n" + PLAIN, [HeadingRead("FILE", "source\ttarget")]),
        ("en\tIT\n" + PLAIN, [HeadingRead("FILE", "en\tIT")]),
        ("Source sentence\tTarget_id\n", [HeadingRead("FILE", "Source sentence\tTarget_id")]),
        ("text\nthe cat sleeps\n", [HeadingRead("FILE", "text")]),
        ("text of the cat\ttesto\n", []),
        ('"a dog"\t"un cane"\n"a cat"\t"un gatto"\n', [QuotesRead("FILE", 1)]),
        ('a\tb\nc\t"he said ""no"""\n' * 3, [QuotesRead("FILE", 2)]),
        ('"source"\t"target"\n"a dog"\t"un cane"\n',
         [HeadingRead("FILE", '"source"\t"target"'), QuotesRead("FILE", 1)]),
        ('"a dog sleeps."\n', []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_signs_of_another_form(
    text: str, expected: list[Any], packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("FILE.gz" if packed else "FILE")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    notes = notes_on_tables(path, None, [("a", "b")])
    assert [vars(one) | {"path": "FILE"} for one in notes] == [vars(one) for one in expected]
    assert list(map(type, notes)) == list(map(type, expected))
    for sentence in map(str, notes):
        assert str(path) in sentence
        assert sentence.endswith(".")


def test_files_of_a_corpus_are_looked_at_and_other_things_passed_over(tmp_path: Path) -> None:
    for name, text in {
        "train.en": "text\na\n", "train.it": "b\nb\n", "test.tsv": "en\tit\na\tb\n",
        "dev.jsonl": '{"en": ""}\n', "README.md": "text\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    lines = {one.line for one in notes_on_tables(tmp_path) if isinstance(one, HeadingRead)}
    assert lines == {"text", "en\tit"}
    (tmp_path / "train.fr").touch()
    assert {one.line for one in notes_on_tables(tmp_path) if isinstance(one, HeadingRead)} == lines
    assert notes_on_tables("embedded", tmp_path / "nowhere", tmp_path / "dev.jsonl") == []


def test_a_result_notes_a_heading(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("sentence\na dog runs .\nthe cat sees the dog .\n")
    model = (random_models.bert(), random_models.tokenizer())
    found = attnlab.analyze(model, text=path, labels=False)
    assert HeadingRead("texts.tsv", "sentence") in found.notes
    settings = AlignmentSettings(path, gold=path, calibration=path)
    noted = notes_on_pairs(settings, "pairs", 3, 3, None)
    assert noted == [HeadingRead("texts.tsv", "sentence")] * 3
