"""Local files in every form: what is read, and every refusal with the file and line that caused it."""

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest

from attnlab.core.errors import InputError
from attnlab.corpora.corpus import load_corpus
from attnlab.corpora.readers import is_text_file

ROWS = [(f"sentence {n}", f"frase {n}") for n in range(47)]


def write(path: Path, text: str) -> Path:
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def table(rows: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in rows)


def side(rows: list[tuple[str, str]], number: int) -> str:
    return "".join(f"{row[number]}\n" for row in rows)


def rows_of(part) -> list[tuple[str, str]]:
    return list(zip(part["source"], part["target"], strict=True))


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("validation", ["val", "validation", "valid", "dev"])
def test_line_pairs(tmp_path: Path, ending: str, validation: str) -> None:
    parts = {"train": ROWS[:31], validation: ROWS[31:42], "test": ROWS[42:]}
    for split, rows in parts.items():
        for number, language in enumerate(("en", "it")):
            write(tmp_path / f"{split}.{language}{ending}", side(rows, number))
    write(tmp_path / "README.md", "about")
    corpus = load_corpus(str(tmp_path))
    assert rows_of(corpus.train) == ROWS[:31]
    assert rows_of(corpus.validation) == ROWS[31:42]
    assert rows_of(corpus.test) == ROWS[42:]
    turned = load_corpus(str(tmp_path), pair="it-en")
    assert rows_of(turned.test) == [(target, source) for source, target in ROWS[42:]]
    assert (turned.source_language, turned.target_language) == ("it", "en")


@pytest.mark.parametrize("name", ["", "en-it"], ids=["folder", "prefix"])
def test_tables_chosen_by_pair(tmp_path: Path, name: str) -> None:
    for split, rows in {"train": ROWS[:31], "val": ROWS[31:42], "test": ROWS[42:]}.items():
        write(tmp_path / f"en-it.{split}.tsv.gz", table(rows))
        write(tmp_path / f"en-fr.{split}.tsv", "other\tautre\n")
    write(tmp_path / "en-it.pivot.tsv.gz", "more\tpiù\n")
    corpus = load_corpus(str(tmp_path / name))
    assert rows_of(corpus.train) == ROWS[:31]
    assert rows_of(corpus.validation) == ROWS[31:42]
    turned = load_corpus(str(tmp_path / name), pair="it-en")
    assert rows_of(turned.train) == [(target, source) for source, target in ROWS[:31]]


@pytest.mark.parametrize("name", ["all.tsv", "all.tsv.gz", "train.tsv"])
def test_single_table_is_source_tab_target(tmp_path: Path, name: str) -> None:
    corpus = load_corpus(str(write(tmp_path / name, table(ROWS))), pair="xx-yy")
    parts = [rows_of(part) for part in (corpus.train, corpus.validation, corpus.test)]
    assert sorted(chain(*parts)) == sorted(ROWS)
    assert all(parts)


def test_jsonl_in_both_directions(tmp_path: Path) -> None:
    lines = [json.dumps({"translation": {"en": a, "it": b, "fr": "-"}}) for a, b in ROWS]
    path = write(tmp_path / "all.jsonl.gz", "\n".join(lines) + "\n")
    corpus = load_corpus(str(path), pair="it-en")
    assert set(rows_of(corpus.train)) < {(b, a) for a, b in ROWS}


def test_lines_end_only_at_line_feeds_and_text_is_normalised(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "\ufeffone\u2028two\r\nthree\n" + side(ROWS, 0))
    write(tmp_path / "train.it", "uno\u2028due\r\nperche\u0301 \n" + side(ROWS, 1))
    corpus = load_corpus(str(tmp_path))
    rows = [row for part in (corpus.train, corpus.validation, corpus.test) for row in rows_of(part)]
    assert ("one\u2028two", "uno\u2028due") in rows
    assert ("three", "perch\u00e9") in rows


def refused(path: Path | str, match: str, **options: object) -> None:
    with pytest.raises(InputError, match=match) as caught:
        load_corpus(str(path), **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"all\.tsv(\.gz)? is empty"),
        (" \n\n", r"all\.tsv(\.gz)? is empty"),
        ("a\tb\nonly one\n", r"all\.tsv(\.gz)?, line 2, has 1 column instead of two"),
        ("a\tb\nc\td\ne\tf\tg\n", r"line 3, has 3 columns instead of two: .*; cut -f1,2 writes"),
        ("a\tb\n\nc\td\n", r"line 2, has 1 column"),
        ("a\tb\nc\t \n", r"line 2, has an empty target side"),
        ("\tb\n", r"line 1, has an empty source side"),
        ("a\tb\n", r"has 1 different sentences, too few"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, ending: str, match: str) -> None:
    refused(write(tmp_path / f"all.tsv{ending}", text), match)


def test_invalid_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "all.tsv"
    path.write_bytes("à\tè\nb\tc\n".encode() + b"d\t\xe8\ne\tf\n")
    refused(path, r"all\.tsv, line 3, is not valid UTF-8")


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{", r"line 2, is not valid JSON"),
        ("[1]", r'line 2, has no object "translation"'),
        ('{"text": "a"}', r'line 2, has no object "translation"'),
        ('{"translation": {"en": "a", "fr": "b"}}', r"no pair en-it; its languages are en, fr"),
        ('{"translation": {"en": "a", "it": null}}', r"line 2, has an empty target side"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, match: str) -> None:
    good = '{"translation": {"en": "a", "it": "b"}}'
    refused(write(tmp_path / "all.jsonl", f"{good}\n{line}\n"), match)


def test_sides_of_different_length(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "a\nb\nc\n")
    write(tmp_path / "train.it", "d\ne\n")
    refused(tmp_path, r"train\.en has 3 lines and .*train\.it has 2")


def test_an_empty_line_on_one_side(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "a\n\nc\n")
    write(tmp_path / "train.it", "d\ne\nf\n")
    refused(tmp_path, r"Line 2 of .*train\.en and .*train\.it has an empty source side")


def test_unknown_pairs_name_those_that_exist(tmp_path: Path) -> None:
    for language in ("en", "de", "cs"):
        write(tmp_path / f"train.{language}", "a\n")
    refused(tmp_path, "no pair en-it; its languages are cs, de, en")
    tables = tmp_path / "tables"
    tables.mkdir()
    for pair in ("en-fr", "de-en"):
        write(tables / f"{pair}.train.tsv", "a\tb\n")
    refused(tables, "no pair en-it; it has de-en, en-fr")
    refused(tables / "en-fr.train.tsv", "no pair en-it; it has en-fr")


def test_files_that_contradict_each_other(tmp_path: Path) -> None:
    for name in ("train.en", "train.it", "val.en"):
        write(tmp_path / name, "a\n")
    refused(tmp_path, "has validation in only one of en and it")
    for name in ("val.it", "dev.en"):
        write(tmp_path / name, "a\n")
    refused(tmp_path, r"two files for validation, dev\.en and val\.en")


@pytest.mark.parametrize("name", ["none.tsv", "no/such/folder", "./x", "~/no-such-corpus-here/"])
def test_missing_paths(name: str) -> None:
    refused(name, "There is no file or folder")


def test_paths_of_no_known_form(tmp_path: Path) -> None:
    refused(tmp_path, "holds no training file")
    refused(write(tmp_path / "corpus.csv", "a,b\n"), "is no corpus that attnlab can read")
    write(tmp_path / "test.en", "a\n")
    refused(tmp_path, "holds no training file")


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "all.tsv.gz"
    path.write_bytes(b"plain text")
    refused(path, "not a whole gzip file")
    path.write_bytes(gzip.compress(table(ROWS).encode())[:-20])
    refused(path, "not a whole gzip file")


def test_a_text_file_is_a_file_whose_name_says_so(tmp_path: Path) -> None:
    (tmp_path / "folder.txt").mkdir()
    for name in ("plain.txt", "packed.txt.gz", "pairs.tsv", "txt"):
        (tmp_path / name).write_text("a")
    names = ("folder.txt", "plain.txt", "packed.txt.gz", "pairs.tsv", "txt", "absent.txt")
    assert [name for name in names if is_text_file(tmp_path / name)] == list(names[1:3])
