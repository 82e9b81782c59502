"""Reading lines and showing strings: every reader, and every drawer with a nasty list of tokens."""

import gzip
import json
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
import torch

from attnlab.attention.plan import load_plan
from attnlab.cli.commands.train import _read_settings as load_settings
from attnlab.cli.commands.translate import _sentences
from attnlab.core.columns import Column
from attnlab.core.errors import InputError
from attnlab.core.options import option_fields
from attnlab.core.texts import check_characters, path_label, shown, texts_of
from attnlab.corpora.readers import read_line_pair, read_rows
from attnlab.evaluation.sources import read_texts
from attnlab.figures.canvas import write_figure
from attnlab.figures.heatmaps import draw_heads
from attnlab.labels.treebank import load_treebank
from attnlab.results.page.rendering import PageFigure, Section, page_table, render_page
from attnlab.results.question import own_questions

SENTENCES = ["A cat", "öäü ß", "last one"]
TREE = "1\t{}\t_\tX\t_\t_\t0\troot\t_\t_\n\n"
NASTY = [
    "$5^$", "$x_1$", "a_b^c", "\\alpha", "\\", "{", "<b>&amp;", "]]>", "'\"", "\x00", "\x07", "\x1b[31m",
    "\n", "\r", "\t", "\x85", "\u2028", "\u200b", "\u200d\u200c", "\ufeff", "\u202eabc", "\ud800",
    "\udfff", "\ufffe", "\ue000", "\xa0", " ", "", "\u0301", "שלום", "猫", "🙂", "[/red]", "%s",
    "<|endoftext|>",
]  # fmt: skip


def _line_pair(path: Path) -> list[str]:
    return [source for source, _ in read_line_pair(path, path)]


def _table(path: Path) -> list[str]:
    lines = path.read_bytes()
    doubled = path.with_suffix(".tsv")
    for end in (b"\r\n", b"\n", b"\r"):
        if end in lines:
            break
    start = b"\xef\xbb\xbf" if lines.startswith(b"\xef\xbb\xbf") else b""
    rows = lines.removeprefix(start).split(end)
    doubled.write_bytes(start + end.join(row + b"\t" + row if row else row for row in rows))
    found = list(read_rows(doubled, "tsv", ("en", "it")))
    assert all(source == target for source, target in found)
    return [source for source, _ in found]


READERS: dict[str, Callable[[Path], Sequence[object]]] = {
    "translate --input": lambda path: _sentences(None, path),
    "--text": read_texts,
    "corpus of lines": _line_pair,
    "corpus table": _table,
}
FORMS = {
    "line feeds": lambda text: text.encode(),
    "carriage returns and line feeds": lambda text: text.replace("\n", "\r\n").encode(),
    "carriage returns": lambda text: text.replace("\n", "\r").encode(),
    "byte-order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "byte-order mark and carriage returns": lambda text: (
        b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    ),
    "no last line feed": lambda text: text.removesuffix("\n").encode(),
    "no last line feed, carriage returns": lambda text: (
        text.removesuffix("\n").replace("\n", "\r\n").encode() + b"\r"
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_every_form(reader: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(FORMS[form]("".join(f"{line}\n" for line in SENTENCES)))
    assert list(READERS[reader](path)) == SENTENCES


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_treebanks_plans_and_settings_are_read_in_every_form(
    form: str, packed: bool, tmp_path: Path
) -> None:
    trees = "".join(TREE.format(line.split()[0]) for line in SENTENCES)
    path = tmp_path / ("trees.conllu.gz" if packed else "trees.conllu")
    content = FORMS[form](trees)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert [one.text for one in load_treebank(path)] == ["A", "öäü", "last"]
    plan = {"format": "attnlab attention plan 2", "mechanisms": {"encoder": "band(window=3)"}}
    (tmp_path / "plan.json").write_bytes(FORMS[form](json.dumps(plan, indent=1) + "\n"))
    assert load_plan(tmp_path / "plan.json").as_dict() == plan["mechanisms"]
    (tmp_path / "settings.toml").write_bytes(FORMS[form]("[training]\nepochs = 3\n"))
    assert load_settings(tmp_path / "settings.toml") == {"training": {"epochs": 3}}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines(end: str, tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(end.join(["one", "", "three", "", ""]).encode())
    assert _sentences(None, path) == ["one", "", "three", ""]
    assert read_texts(path) == ("one", "three")
    for reader in (_line_pair, _table):
        with pytest.raises(InputError, match=r"[Ll]ine 2[ ,]"):
            reader(path)


def test_a_line_ends_at_no_other_character(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    text = "one\x0btwo\x0cthree\x1cfour\x85five\u2028six\rseven"
    path.write_text(f"{text}\nlast\n", encoding="utf-8", newline="")
    assert _sentences(None, path) == [text, "last"]
    assert len(read_texts(path)) == len(_line_pair(path)) == 2


ALL_READERS = READERS | {
    "treebank": load_treebank,
    "plan": lambda path: [load_plan(path)],
    "settings": lambda path: [load_settings(path)],
}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
@pytest.mark.parametrize("reader", sorted(ALL_READERS.keys() - {"corpus table"}))
def test_other_encodings_are_refused(reader: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes("one\nzweiß\n".encode(encoding))
    expected = {
        "utf-16": "is UTF-16 text, not UTF-8; convert it",
        "utf-16-le": "line 1, holds a zero character|line 2, is not valid UTF-8",
        "utf-32": "is UTF-32 text, not UTF-8; convert it",
        "latin-1": "line 2, is not valid UTF-8",
    }[encoding]
    with pytest.raises(InputError, match=expected) as refused:
        ALL_READERS[reader](path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a b", r"must be a list of texts, not the text 'a b'; write \w+=\['a b'\]"),
        ([[5, 2], [7]], r"Sentence 1 is \[5, 2\], .* hand in the text itself"),
        (["a", 5], "Sentence 2 is 5, "),
        ([b"a"], "Sentence 1 is b'a', "),
        ([None], "Sentence 1 is None, "),
        ([["a", "b"]], r"Sentence 1 is \['a', 'b'\], "),
        ([("a", "b", "c")], r"Sentence 1 is \('a', 'b', 'c'\), "),
        ([("a", None)], r"Sentence 1 is \('a', None\), "),
        (["\ud800 a"], "^The sentence .* half a character"),
        (["a", "b\udc00"], "^The sentence .* half a character"),
        ([("\ud800", "b")], "^The sentence .* half a character"),
        ([("b", "\udc00")], "^The sentence .* half a character"),
        ({"a": "b"}, "must be a list of texts or of pairs"),
        (b"a", "must be a list of texts or of pairs"),
        ([], "There are no sentences"),
        (["a", ("b", "c")], "Either every sentence has a translation or none"),
    ],
)
def test_sentences_are_texts_or_pairs_of_texts_in_every_question(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        texts_of(given)
    asked = 0
    for question in own_questions().values():
        for name in {"sentences", "calibration", "validation"} & {
            field.name
            for field in option_fields(question.settings)
            if "tuple[str, str]" in str(field.kind)
        }:
            asked += 1
            with pytest.raises(InputError, match=message):
                question.verb("nowhere", **{name: given})
    assert asked >= 8


def test_sentences_may_come_as_any_sequence_of_texts() -> None:
    for given in (["a b"], ("a b",), iter(["a b"]), np.array(["a b"]), pd.Series(["a b"])):
        assert texts_of(given) == ["a b"]
    assert texts_of([("a", "b")]) == [("a", "b")]
    with pytest.raises(InputError, match="make a pair a tuple"):
        texts_of([["a dog", "ein Hund"]])


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("https://me:p@ss@host/d", "https://host/d"),
        ("https://host/d?token=abc#here", "https://host/d"),
        ("file:///home/me/x.tsv", "x.tsv"),
        ("C:\\Users\\me\\x.tsv", "x.tsv"),
        ("s3://bucket/a/x.tsv", "s3://bucket/a/x.tsv"),
        ("runs/a@b", "runs/a@b"),
    ],
)
def test_labels_of_paths_name_no_place_and_no_password(path: str, label: str) -> None:
    assert path_label(path) == label


def test_half_characters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sentence has \\ud800, half a character"):
        check_characters("a\ud800", "The sentence")
    check_characters("".join(map(chr, [0x41, 0x1F642])), "The sentence")
    row = {"translation": {"en": "a\ud800", "it": "b"}}
    (tmp_path / "all.jsonl").write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(InputError, match=r"line 1, source side, has \\ud800"):
        list(read_rows(tmp_path / "all.jsonl", "jsonl", ("en", "it")))
    with pytest.raises(InputError, match="half a character"):
        _sentences("\udcff", None)


def test_what_is_shown_can_be_seen() -> None:
    for token in NASTY:
        found = shown(token)
        found.encode()
        assert found.isprintable(), ascii(token)
        assert found.strip() or token == ""
    letters = ["$5^$", "a_b", "\\alpha", "<b>", "שלום", "猫", "🙂", "two words"]
    assert [shown(letter) for letter in letters] == letters
    assert shown("a\u202eb\n") == "a\\u202eb\\n"
    assert shown("  ") == "'  '"
    assert shown("\u0301") == "\u25cc\u0301"


class _Cells(HTMLParser):
    """Keeps the text of every cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "td":
            self.inside = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += data


@pytest.mark.parametrize("rectangular", [False, True])
def test_figures_and_pages_stand_any_token(tmp_path: Path, rectangular: bool) -> None:
    queries = NASTY[:7] if rectangular else NASTY
    weights = torch.rand(2, len(queries), len(NASTY)).softmax(-1)
    figure = draw_heads(weights, queries, NASTY, title="Sentence 0", names=["a", "b"])
    svg = write_figure(figure, tmp_path, "heads")
    root = ET.fromstring((tmp_path / "heads.svg").read_bytes())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("$5^$") == texts.count("\\alpha") == 4
    assert texts.count("\\x07") == (2 if rectangular else 4)
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    table = pd.DataFrame({"label": NASTY, "detail": NASTY}, dtype=object)
    section = Section(
        "nasty", "\x07", "\ud800", (page_table(table, [Column(name, name, name) for name in table]),),
        (PageFigure("heads", svg, "\u202e"),),
    )  # fmt: skip
    page = render_page("\x00 $5^$", {"Source": "\ud800\x01"}, ["\x1b[31m"], [section])
    page.encode()
    assert not [letter for letter in page if letter < " " and letter != "\n"]
    parser = _Cells()
    parser.feed(page)
    for token in NASTY:
        assert shown(token) in parser.cells
