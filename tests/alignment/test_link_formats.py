"""Files of links: what is read, what is refused, and what is written is read again."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.alignment import (
    FoundLinks,
    form_of,
    gold_links,
    pharaoh_line,
    read_links,
    read_pairs,
    turned,
    write_json_lines,
    write_pharaoh,
)
from attnlab.alignment.link_formats import _parsed
from attnlab.core import InputError

PAIRS = [
    (("the", "house"), ("la", "casa")),
    (("yes",), ("sì",)),
    (("she", "does", "n't", "go"), ("non", "va")),
]
GOLD = [
    gold_links([(0, 0), (1, 1)]),
    gold_links([]),
    gold_links([(2, 0), (3, 1)], [(1, 0), (0, 1)]),
]
PHARAOH = "0-0 1-1\n\n2-0 3-1 1p0 0?1\n"
NAACL = "1 1 1\n1 2 2 S\n0003 3 1 0.9\n3 4 2 S 0.5\n3 2 1 P\n3 1 2 0.1 P\n"
XLWA = "the house\tla casa\t0-0 1-1\nyes\tsì\t\nshe does n't go\tnon va\t2-0 3-1 1p0 0p1\n"
GIZA = (
    "# Sentence pair (1) source length 2 target length 2 alignment score : 0.1\nla casa\n"
    "NULL ({ }) the ({ 1 }) house ({ 2 })\n"
    "# Sentence pair (2) source length 1 target length 1 alignment score : 1e-05\nsì\n"
    "NULL ({ 1 }) yes ({ })\n"
    "# Sentence pair (3) source length 4 target length 2 alignment score : 1\nnon va\n"
    "NULL ({ }) she ({ }) does ({ }) n't ({ 1 }) go ({ 2 })\n"
)
FILES = {"gold.pharaoh": PHARAOH, "gold.naacl": NAACL, "gold.tsv": XLWA, "en-it.A3.final": GIZA}


@pytest.fixture
def write(tmp_path: Path):
    def written(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return written


def refused(message: str, path: Path, pairs: list | None = PAIRS, **options) -> None:
    with pytest.raises(InputError, match=message) as error:
        list(read_links(path, pairs, **options))
    assert str(error.value).count("\n") == 0
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_holds_the_same(name: str, packed: bool, write) -> None:
    text = FILES[name].encode()
    path = write(f"{name}.gz", gzip.compress(text)) if packed else write(name, text)
    found = list(read_links(path, PAIRS))
    assert [(one.source, one.target) for one in found] == PAIRS
    gold = [gold_links(one.sure) for one in GOLD] if "A3" in name else GOLD
    assert [one.links for one in found] == gold
    if name.endswith((".tsv", ".final")):
        assert list(read_links(path)) == found


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8), st.booleans())
def test_a_line_that_is_written_is_read_again(links: list, possible: bool) -> None:
    gold = gold_links(links[::2], links[1::2]) if possible else gold_links(links)
    words = ("w",) * 10
    assert _parsed(pharaoh_line(gold), (words, words), "here", "no file") == gold


def test_files_that_are_written(tmp_path: Path) -> None:
    path = tmp_path / "found.pharaoh"
    write_pharaoh(path, iter([*GOLD[:2], {(3, 1), (0, 0)}]))
    assert path.read_text() == "0-0 1-1\n\n0-0 3-1\n"
    assert [one.links.sure for one in read_links(path, PAIRS)][2] == {(0, 0), (3, 1)}
    write_json_lines(
        tmp_path / "found.jsonl",
        (FoundLinks(*pair, {(0, 0): 0.25}) for pair in PAIRS),
    )
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert lines[1] == {"source": ["yes"], "target": ["sì"], "links": [[0, 0]], "weights": [0.25]}


def test_what_is_written_before_an_error_is_gone(tmp_path: Path) -> None:
    def links():
        yield {(0, 0)}
        raise InputError("no more")

    path = tmp_path / "found.pharaoh"
    path.write_text("0-1\n")
    with pytest.raises(InputError, match="no more"):
        write_pharaoh(path, links())
    assert path.read_text() == "0-1\n"
    assert [one.name for one in tmp_path.iterdir()] == ["found.pharaoh"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "0-0 2-1",
            "line 1, links source word 2, and the source sentence has 2 words, from 0 to 1",
        ),
        ("0-0 1p2", "line 1, links target word 2, and the target sentence has 2 words"),
        ("0-0 1:1", "line 1, has '1:1' for a link; write links such as 0-0"),
        ("0-0 -1-0", "line 1, has '-1-0' for a link"),
        ("0-x", "line 1, has '0-x' for a link"),
        ("0-" + "9" * 5000, "line 1, has '0-9.* for a link"),
    ],
)
def test_a_line_of_pharaoh(line: str, message: str, write) -> None:
    refused(message, write("gold.pharaoh", f"{line}\n\n\n"))
    refused(message, write("gold.tsv", f"the house\tla casa\t{line}\n"), None)


@pytest.mark.parametrize("name", ["gold.pharaoh", "gold.talp"])
def test_numbers_of_sentences(name: str, write) -> None:
    refused("ends at line 2, with sentence 2, and there are 3 sentence", write(name, "0-0\n0-0\n"))
    refused("line 4, is of sentence 4, and there are 3", write(name, "0-0\n0-0\n0-0\n0-0\n"))
    # Blank lines at the end are none of a sentence that is not there.
    assert len(list(read_links(write(name, "0-0\n0-0\n0-0\n\n\n"), PAIRS))) == 3
    assert len(list(read_links(write(name, "0-0\n\n\n"), PAIRS))) == 3
    more = [*PAIRS, PAIRS[0]]
    refused("line 3, is of sentence 3, and there are 2", write("gold.tsv", XLWA), PAIRS[:2])
    refused("ends at line 3, with sentence 3, and there are 4", write("gold.tsv", XLWA), more)
    refused("line 7, is of sentence 3, and there are 2", write("gold.A3", GIZA), PAIRS[:2])
    refused("ends at line 9, with sentence 3, and there are 4", write("gold.A3", GIZA), more)
    refused("Sentence 1 of .* is 'the house' with 'la casa', and", write("g.tsv", XLWA), PAIRS[1:])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 1\n4 1 1\n", "line 2, is of sentence 4, and there are 3 sentence pairs"),
        ("1 1 1\n3 1 1\n1 2 2\n", "line 3, is of sentence 1, after links of later ones; sort"),
        ("1 0 1\n", "line 1, has source word 0, and all are counted from 1"),
        ("0 1 1\n", "line 1, has sentence 0"),
        (
            "1 1 3\n",
            "line 1, links target word 3, and the target sentence has 2 words, from 1 to 2",
        ),
        ("1 1\n", "line 1, is '1 1'; write sentence, source word, target word"),
        ("1 1 1 X\n", "line 1, is '1 1 1 X'"),
        ("1 1 1 S P\n", "line 1, is '1 1 1 S P'"),
        ("1 1 1 S 1 2\n", "line 1, is"),
        ("one 1 1\n", "line 1, is 'one 1 1'"),
    ],
)
def test_a_line_of_naacl(text: str, message: str, write) -> None:
    refused(message, write("gold.naacl", text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(2) source", "(3) source", "line 4, should begin '# Sentence pair \\(2\\)'"),
        ("house ({ 2 })", "house ({ 3 })", "line 3, links target word 3"),
        ("house ({ 2 })", "house ({ 0 })", "line 3, links target word 0, .* from 1 to 2"),
        ("house ({ 2 })", "house ({ two })", "line 3, is not of words with their links"),
        ("house ({ 2 })", "house ({ 2", "line 3, is not of words with their links"),
        ("house ({ 2 })", "house", "line 3, is not of words with their links"),
        ("NULL ({ }) the", "the", "line 3, does not begin with the word NULL"),
        (
            "NULL ({ }) she ({ }) does ({ }) n't ({ 1 }) go ({ 2 })\n",
            "",
            "line 7, begins a sentence",
        ),
    ],
)
def test_a_line_of_giza(old: str, new: str, message: str, write) -> None:
    assert old in GIZA
    refused(message, write("en-it.A3", GIZA.replace(old, new, 1)), None)


def test_brackets_can_be_words(write) -> None:
    text = "# Sentence pair (1)\na b\nNULL ({ }) ({ ({ 1 }) }) ({ 2 })\n"
    (found,) = read_links(write("one.A3", text))
    assert found.source == ("({", "})")
    assert turned(found.links.sure) == {(0, 0), (1, 1)}


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_used(name: str, write, tmp_path: Path) -> None:
    refused("is empty; write a line for each", write(name, ""))
    refused("is empty; write a line for each", write(name, "\n \n"))
    refused("line 1, is not valid UTF-8", write(name, b"\xff\n"))
    refused("There is no file .*; name a file of word alignments", tmp_path / f"absent.{name}")
    refused("is a folder", tmp_path, form=form_of(write(name, FILES[name])))


def test_tab_separated(write) -> None:
    refused("line 2, has 2 columns instead of three", write("g.tsv", "a\tb\t0-0\na\tb\n"), None)
    refused("line 1, has an empty target side", write("g.tsv", "a\t \t0-0\n"), None)
    path = write("pairs.tsv", "the house\tla casa\t0-0\nyes\tsì\n")
    assert list(read_pairs(path)) == PAIRS[:2]
    with pytest.raises(InputError, match="line 1, has no tab"):
        list(read_pairs(write("pairs.tsv", "the house\n")))


def test_blank_lines_at_the_end_do_no_harm(write) -> None:
    pairs = "the house\tla casa\nyes\tsì\n"
    assert list(read_pairs(write("pairs.tsv", f"{pairs}\n \n"))) == PAIRS[:2]
    with pytest.raises(InputError, match="line 2, is blank; write source"):
        list(read_pairs(write("pairs.tsv", pairs.replace("\n", "\n\n", 1))))
    for name, text in {"gold.tsv": XLWA, "en-it.A3": GIZA}.items():
        plain = list(read_links(write(name, text)))
        assert list(read_links(write(name, f"{text}\n\n"))) == plain
        refused("line 1", write(name, f"\n{text}"), None)


def test_what_a_name_says(write) -> None:
    with pytest.raises(
        InputError, match="Neither the name of .* nor its first line, 'a b', tells"
    ) as error:
        form_of(write("gold.xyz", "\na b\n"))
    assert "name the form" not in str(error.value)
    found = list(read_links(write("gold.naacl", PHARAOH), PAIRS, form="pharaoh"))
    assert [one.links for one in found] == GOLD
    refused("holds links without their sentences", write("gold.naacl", NAACL), None)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("ending", ["gold", "txt", "txt.gz", "tsv", "GOLD", "xyz"])
def test_where_the_name_does_not_tell_the_first_line_does(name: str, ending: str, write) -> None:
    text = FILES[name].encode()
    path = write(f"it.{ending}", gzip.compress(text) if ending.endswith("gz") else text)
    assert form_of(path) == form_of(write(name, text))
    assert list(read_links(path, PAIRS)) == list(read_links(write(name, text), PAIRS))


@pytest.mark.parametrize("source", ["# 1", "1 2 3", "1 2", "0-0"])
def test_sentences_that_look_like_links_are_those_of_xlwa(source: str, write) -> None:
    path = write("gold.tsv", f"{source}\t3 4\t0-0\n")
    assert form_of(path) == "xlwa"
    assert [one.links.sure for one in read_links(path)] == [frozenset({(0, 0)})]


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", ["gold.pharaoh", "gold.txt", "gold.tsv"])
def test_numbers_may_stand_before_links(name: str, start: int, write) -> None:
    lines = PHARAOH.splitlines()
    numbered = "".join(f"{n}\t{line}\n" for n, line in enumerate(lines, start=start))
    assert [one.links for one in read_links(write(name, numbered), PAIRS)] == GOLD
    for old, new, message in (
        (
            f"{start + 2}\t",
            f"{start + 5}\t",
            f"line 3, begins with number {start + 5}, where {start + 2} comes",
        ),
        (f"{start + 1}\t", "", f"line 2, begins with no number of a sentence, where {start + 1}"),
        (f"{start}\t", "7\t", "line 1, begins with number 7, where 1 comes next"),
    ):
        refused(message, write("it.pharaoh", numbered.replace(old, new, 1)))


def from_1(text: str) -> str:
    return re.sub(r"\b(\d)([-p?])(\d)\b", lambda m: f"{int(m[1]) + 1}{m[2]}{int(m[3]) + 1}", text)


@pytest.mark.parametrize(("name", "text"), [("gold.pharaoh", PHARAOH), ("gold.tsv", XLWA)])
def test_words_that_are_counted_from_1_are_recognized(name: str, text: str, write) -> None:
    path = write(name, from_1(text))
    assert [one.links for one in read_links(path, PAIRS, first_index=1)] == GOLD
    refused("no link of the file has the index 0, so it .* with first_index 1", path)
    refused("links source word 0, .* from 1 to 2", write(name, text), first_index=1)
    # A 0 further on, or an index beyond the one behind the last: something else is wrong.
    for other in (from_1(text).rstrip() + " 0-0\n", from_1(text).replace("2-2", "5-2", 1)):
        refused("check that links and sentences belong together", write(name, other))


def test_words_that_are_counted_from_0_in_naacl(write) -> None:
    changed = [line.split() for line in NAACL.splitlines()]
    text = "".join(
        " ".join([n, str(int(s) - 1), str(int(t) - 1), *rest]) + "\n" for n, s, t, *rest in changed
    )
    path = write("gold.naacl", text)
    assert [one.links for one in read_links(path, PAIRS, first_index=0)] == GOLD
    refused("with first_index 0 that words are counted from 0", path)
    refused("GIZA, whose words are counted from 1", write("it.A3", GIZA), first_index=0)


@pytest.mark.parametrize("name", sorted({*FILES} - {"gold.naacl"}))
def test_no_more_is_read_than_is_taken(name: str, write) -> None:
    taken = []

    def pairs():
        for pair in PAIRS:
            taken.append(pair)
            yield pair

    # What comes after the sentences that are taken is wrong, and nobody looks at it.
    found = read_links(write(name, f"{FILES[name]}\nx\n" * 2), pairs())
    assert [next(found).source, next(found).source] == [one for one, _ in PAIRS[:2]]
    assert taken == PAIRS[:2]
