"""Files of word alignments: read sentence by sentence, with the line in every error, and written.

Four forms are read. Indices are turned into those of words from 0, source before target; possible links
that are also sure are sure.

* Pharaoh, a line a sentence: `0-0 1p2`, from 0, `-` for sure and `p` or `?` for possible links. Read so by
  lilt/alignment-scripts scripts/aer.py (`-`, `p`) and clab/sp2016.11-731 hw1/grade (`-`, `?`). The number of
  the sentence, from 0 or from 1, and a tab may stand before the links.
* NAACL, a line a link: `sentence source target [S|P] [confidence]`, all from 1, `S` unless told, the last two
  in any order. Read so by wa_eval_align.pl of the workshops of 2003 and 2005 (robertostling/eflomal
  3rdparty/). Word 0, which stands for no word, is refused; `awk '$2 && $3'` removes such lines.
* XL-WA, a line a sentence: source, tab, target, tab, links as in Pharaoh (SapienzaNLP/XL-WA).
* GIZA A3, three lines a sentence: `# Sentence pair (1) ...`, one sentence, and the other with the words of
  the first that each of its words is linked to, from 1: `NULL ({ }) house ({ 1 2 })`. The other is taken as
  the source, as lilt/alignment-scripts scripts/a3ToTalp.py does.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attnlab.alignment.links import GoldLinks, Link, gold_links
from attnlab.core import InputError, briefly, check_file_exists, counted, iterate_lines, replacing

Words: TypeAlias = tuple[str, ...]
LinkForm: TypeAlias = Literal["pharaoh", "naacl", "xlwa", "giza"]

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")
_NUMBER = re.compile(r"[0-9]{1,9}")
_CONFIDENCE = re.compile(r"[0-9.]+(?:[eE][-+]?[0-9]+)?")
_GIZA = re.compile(r"#.*?\(([0-9]{1,9})\)")
_NUMBERED = re.compile(r"([0-9]{1,9})\t(.*)", re.DOTALL)
# How the names of files end, without .gz; where another ending stands, their first line decides.
_ENDINGS: Mapping[str, LinkForm] = {
    "pharaoh": "pharaoh", "talp": "pharaoh", "align": "pharaoh", "links": "pharaoh",
    "naacl": "naacl", "wa": "naacl", "nonullalign": "naacl",
    "tsv": "xlwa",
    "a3": "giza", "final": "giza",
}  # fmt: skip
# Of these names the first line decides too, since not all such files are of one form.
_UNSURE = {"tsv"}


@dataclass(frozen=True)
class LinkedPair:
    """The words of two sentences and the gold links between them."""

    source: Words
    target: Words
    links: GoldLinks


def form_of(path: str | Path) -> LinkForm:
    """The form of a file of links by the end of its name, or else by its first line.

    Raises:
        InputError: neither tells.

    >>> form_of("test.en-it.naacl.gz"), form_of("en-it.A3.final")
    ('naacl', 'giza')
    """
    ending = Path(path).name.removesuffix(".gz").rpartition(".")[2].lower()
    if ending in _ENDINGS and ending not in _UNSURE:
        return _ENDINGS[ending]
    check_file_exists(path, "name a file of word alignments")
    line = next(line for _, line in _lines(path) if line.strip())
    form = _form_of_line(line) or _ENDINGS.get(ending)
    if form is None:
        msg = (
            f"Neither the name of {path} nor its first line, {briefly(line)}, tells the form of its links; "
            "write links such as 0-0 1-1 (Pharaoh), or give the name one of the endings "
            f"{', '.join('.' + suffix for suffix in _ENDINGS)}."
        )
        raise InputError(msg)
    return form


def _form_of_line(line: str) -> LinkForm | None:
    """The form that a first line is of; None of a line that could be of none or of any."""
    # The sentences before its links may look like the beginning of another form.
    columns = line.split("\t")
    if len(columns) == 3 and all(map(_LINK.fullmatch, columns[2].split())):
        return "xlwa"
    numbered = _NUMBERED.fullmatch(line)
    if all(map(_LINK.fullmatch, (numbered[2] if numbered else line).split())):
        return "pharaoh"
    if line.startswith("#"):
        return "giza"
    if len(line.split()) >= 3 and all(map(_NUMBER.fullmatch, line.split()[:3])):
        return "naacl"
    return "xlwa" if line.count("\t") == 2 else None


def read_links(
    path: str | Path,
    pairs: Iterable[tuple[Words, Words]] | None = None,
    *,
    form: LinkForm | None = None,
    first_index: int | None = None,
) -> Iterator[LinkedPair]:
    """The sentence pairs of a file of links, one after another; the file may end in .gz.

    Args:
        path: of the file.
        pairs: the words of both sides, without which Pharaoh and NAACL have no sentences; a file that has
            its own must have the same.
        form: None: as `form_of` says.
        first_index: of the first word of a sentence, 0 or 1; None: 1 in NAACL and GIZA, else 0.

    Raises:
        InputError: the file cannot be read, is empty or not UTF-8, a line is not of the form, a link is
            outside its sentence, or there are more or fewer sentences than pairs; with the line.
    """
    check_file_exists(path, "name a file of word alignments")
    form = form or form_of(path)
    first = int(form in ("naacl", "giza")) if first_index is None else first_index
    if form == "giza" and first == 0:
        msg = f"{path} is of the form GIZA, whose words are counted from 1; leave first_index out."
        raise InputError(msg, options=["first_index"])
    if form in ("xlwa", "giza"):
        linked_pairs, lines = (_xlwa(path, first), 1) if form == "xlwa" else (_giza(path), 3)
        return linked_pairs if pairs is None else _compared(path, linked_pairs, pairs, lines)
    if pairs is None:
        msg = f"{path} holds links without their sentences; give the sentence pairs too."
        raise InputError(msg)
    return (_pharaoh if form == "pharaoh" else _naacl)(path, pairs, first)


def read_pairs(path: str | Path) -> Iterator[tuple[Words, Words]]:
    """The words of sentence pairs from a file of source, tab, target; columns behind them are left alone.

    Words are what stands between spaces. Blank lines at the end do no harm.

    Raises:
        InputError: the file cannot be read, is empty or not UTF-8, or a line has no tab or an empty side.
    """
    check_file_exists(path, "name a file with source, tab, target on each line")
    for where, line in _to_the_last(_lines(path)):
        yield _pair(line.split("\t"), where)


def _lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """Each line and what it is called in errors.

    Raises:
        InputError: all are blank.
    """
    lines = ((f"{path}, line {n},", line) for n, line in enumerate(iterate_lines(path), start=1))
    blank: list[tuple[str, str]] = []
    for where, line in lines:
        blank.append((where, line))
        if line.strip():
            yield from blank
            yield from lines
            return
    msg = f"{path} is empty; write a line for each sentence pair to it."
    raise InputError(msg)


def _to_the_last(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The lines without the blank ones at the end."""
    blank: list[tuple[str, str]] = []
    for where, line in lines:
        blank.append((where, line))
        if line.strip():
            yield from blank
            blank.clear()


def _pair(columns: Sequence[str], where: str) -> tuple[Words, Words]:
    if len(columns) < 2:
        what = "has no tab" if columns[0].strip() else "is blank"
        msg = f"{where} {what}; write source, tab, target."
        raise InputError(msg)
    source, target = (tuple(side.split()) for side in columns[:2])
    if not source or not target:
        msg = f"{where} has an empty {'target' if source else 'source'} side; fill it or remove the line."
        raise InputError(msg)
    return source, target


def _pharaoh(
    path: str | Path, pairs: Iterable[tuple[Words, Words]], first: int
) -> Iterator[LinkedPair]:
    rest, lines, sentences, start = iter(pairs), 0, 0, None
    for where, line in _lines(path):
        pair = next(rest, None)
        # Blank lines behind the last sentence do no harm.
        lines += pair is not None or bool(line.strip())
        if pair is not None:
            match = _NUMBERED.fullmatch(line)
            if match is not None and sentences == 0:
                start = min(int(match[1]), 1)
            links = line if start is None else _of_number(match, start + sentences, where)
            sentences += 1
            yield LinkedPair(*pair, _parsed(links, pair, where, path, first))
    _check_count(path, lines, sentences + sum(1 for _ in rest))


def _of_number(match: re.Match[str] | None, number: int, where: str) -> str:
    """The text behind the number of a sentence.

    Raises:
        InputError: the line begins with another number, or none.
    """
    if match is None or int(match[1]) != number:
        begins = "no number of a sentence" if match is None else f"number {int(match[1])}"
        msg = (
            f"{where} begins with {begins}, where {number} comes next; number all sentences in order, also "
            "those without links, or none."
        )
        raise InputError(msg)
    return match[2]


def _parsed(
    text: str, pair: tuple[Words, Words], where: str, path: str | Path, first: int = 0
) -> GoldLinks:
    """The links of a line of Pharaoh in `path`, where the first word of a sentence has the index `first`."""
    links: dict[bool, list[Link]] = {True: [], False: []}
    for part in text.split():
        match = _LINK.fullmatch(part)
        if match is None:
            msg = f"{where} has {briefly(part)} for a link; write links such as 0-0, possible ones as 0p0."
            raise InputError(msg)
        link = int(match[1]) - first, int(match[3]) - first
        beyond = [index - len(side) for index, side in zip(link, pair, strict=True)]
        if first == 0 and max(beyond) == 0 and _counts_from_1(path):
            _check_inside(link, pair, where, advice=_FROM_1)
        _check_inside(link, pair, where, first)
        links[match[2] == "-"].append(link)
    return gold_links(links[True], links[False])


def _counts_from_1(path: str | Path) -> bool:
    """Whether no link of a file has the index 0."""
    links = (_LINK.fullmatch(part) for _, line in _lines(path) for part in line.split())
    return not any(0 in (int(link[1]), int(link[3])) for link in links if link)


_FROM_1 = "no link of the file has the index 0, so it seems to count words from 1: say so with first_index 1"
_TOGETHER = "check that links and sentences belong together"


def _check_inside(
    link: Link, pair: tuple[Words, Words], where: str, first: int = 0, advice: str = _TOGETHER
) -> None:
    """Raises InputError for a link to a word that there is not; `first` is the index of first words."""
    for name, index, words in zip(("source", "target"), link, pair, strict=True):
        if not 0 <= index < len(words):
            msg = (
                f"{where} links {name} word {index + first}, and the {name} sentence has "
                f"{counted(len(words), 'word')}, from {first} to {len(words) - 1 + first}; {advice}."
            )
            raise InputError(msg, options=["first_index"])


def _check_count(path: str | Path, sentences: int, pairs: int, lines: int = 1) -> None:
    """Raises InputError where there are not as many sentences with links as pairs; `lines` of each."""
    if sentences == pairs:
        return
    where = (
        f"{path}, line {pairs * lines + 1}, is of sentence {pairs + 1}"
        if sentences > pairs
        else f"{path} ends at line {sentences * lines}, with sentence {sentences}"
    )
    pair_count = counted(pairs, "sentence pair")
    msg = f"{where}, and there are {pair_count}; give the links of the same sentences."
    raise InputError(msg)


def _naacl(
    path: str | Path, pairs: Iterable[tuple[Words, Words]], first: int
) -> Iterator[LinkedPair]:
    rest, sentence = enumerate(pairs, start=1), 0
    for number, group in groupby(_naacl_lines(path, first), lambda line: line[1]):
        lines = list(group)
        where = lines[0][0]
        if number <= sentence:
            msg = f"{where} is of sentence {number}, after links of later ones; sort the lines with sort -n."
            raise InputError(msg)
        for sentence, pair in rest:
            if sentence == number:
                break
            yield LinkedPair(*pair, gold_links(()))
        else:
            pair_count = counted(sentence, "sentence pair")
            msg = f"{where} is of sentence {number}, and there are {pair_count}; give the same sentences."
            raise InputError(msg)
        for where, _, link, _ in lines:
            _check_inside(link, pair, where, first)
        sure, possible = ([row[2] for row in lines if row[3] is kind] for kind in (True, False))
        yield LinkedPair(*pair, gold_links(sure, possible))
    yield from (LinkedPair(*pair, gold_links(())) for _, pair in rest)


def _naacl_lines(path: str | Path, first: int) -> Iterator[tuple[str, int, Link, bool]]:
    """Yields each link's line, its sentence from 1, its words from 0, and whether it is sure."""
    for where, line in _lines(path):
        if not line.strip():
            continue
        numbers, further = line.split()[:3], line.split()[3:]
        kinds = [word for word in further if word in ("S", "P")]
        others = [word for word in further if word not in kinds]
        if (
            len(numbers) < 3
            or not all(map(_NUMBER.fullmatch, numbers))
            or max(len(kinds), len(others)) > 1
            or not all(map(_CONFIDENCE.fullmatch, others))
        ):
            msg = (
                f"{where} is {briefly(line)}; write sentence, source word, target word, and where known S or "
                "P and a confidence."
            )
            raise InputError(msg)
        sentence, source, target = map(int, numbers)
        if sentence == 0 or (first and 0 in (source, target)):
            what = ("sentence", "source word", "target word")[(sentence, source, target).index(0)]
            msg = (
                f"{where} has {what} 0, and all are counted from 1 there; remove links to no word, or say "
                "with first_index 0 that words are counted from 0."
            )
            raise InputError(msg, options=["first_index"])
        yield where, sentence, (source - first, target - first), kinds != ["P"]


def _xlwa(path: str | Path, first: int) -> Iterator[LinkedPair]:
    for where, line in _to_the_last(_lines(path)):
        columns = line.split("\t")
        if len(columns) != 3:
            noun = counted(len(columns), "column")
            msg = f"{where} has {noun} instead of three: source, tab, target, tab, links."
            raise InputError(msg)
        pair = _pair(columns, where)
        yield LinkedPair(*pair, _parsed(columns[2], pair, where, path, first))


def _giza(path: str | Path) -> Iterator[LinkedPair]:
    lines = _to_the_last(_lines(path))
    for number, (where, line) in enumerate(lines, start=1):
        match = _GIZA.match(line)
        if match is None or int(match[1]) != number:
            msg = (
                f"{where} should begin '# Sentence pair ({number})', as the first of the three lines of a "
                "sentence; merge and sort the parts of an aligner of several processes."
            )
            raise InputError(msg)
        second, third = next(lines, None), next(lines, None)
        if second is None or third is None:
            msg = f"{where} begins a sentence that ends too early; three lines belong to each."
            raise InputError(msg)
        target = tuple(second[1].split())
        source, links = _giza_words(third[1], third[0])
        pair = source, target
        for link in links:
            _check_inside(link, pair, third[0], first=1)
        yield LinkedPair(*pair, gold_links(links))


def _giza_words(line: str, where: str) -> tuple[Words, list[Link]]:
    """The words of `NULL ({ 1 }) house ({ 2 3 })` but the first, and their links."""
    parts, position = line.split(), 0
    words: list[str] = []
    links: list[Link] = []
    while position < len(parts):
        word, after = parts[position], parts[position + 1 : position + 2]
        try:
            end = parts.index("})", position + 2)
        except ValueError:
            end = -1
        numbers = parts[position + 2 : end]
        if after != ["({"] or end < 0 or not all(map(_NUMBER.fullmatch, numbers)):
            msg = (
                f"{where} is not of words with their links, as in 'NULL ({{ }}) house ({{ 1 2 }})'."
            )
            raise InputError(msg)
        links += ((len(words) - 1, int(number) - 1) for number in numbers if words)
        words.append(word)
        position = end + 1
    if not words or words[0] != "NULL":
        msg = (
            f"{where} does not begin with the word NULL; it should be the third line of a sentence."
        )
        raise InputError(msg)
    return tuple(words[1:]), links


def _compared(
    path: str | Path, linked: Iterator[LinkedPair], pairs: Iterable[tuple[Words, Words]], lines: int
) -> Iterator[LinkedPair]:
    """Yields the sentences, `lines` of the file each, as long as they have the words of the pairs."""
    rest, number, sentences = iter(pairs), 0, 0
    for number, sentence in enumerate(linked, start=1):
        pair = next(rest, None)
        sentences += pair is not None
        if pair is not None and (sentence.source, sentence.target) != pair:
            msg = (
                f"Sentence {number} of {path} is {briefly(' '.join(sentence.source))} with "
                f"{briefly(' '.join(sentence.target))}, and the pair is {briefly(' '.join(pair[0]))} with "
                f"{briefly(' '.join(pair[1]))}; give the links of the same sentences."
            )
            raise InputError(msg)
        if pair is not None:
            yield sentence
    _check_count(path, number, sentences + sum(1 for _ in rest), lines)


def pharaoh_line(links: GoldLinks | Collection[Link]) -> str:
    """The links of a sentence as a line of Pharaoh, sorted; those that are only possible with a `p`.

    >>> pharaoh_line([(1, 2), (0, 0)])
    '0-0 1-2'
    """
    gold = links if isinstance(links, GoldLinks) else gold_links(links)
    return " ".join(
        f"{source}{'-' if (source, target) in gold.sure else 'p'}{target}"
        for source, target in sorted(gold.possible)
    )


def write_pharaoh(path: str | Path, links: Iterable[GoldLinks | Collection[Link]]) -> None:
    """Writes a line of Pharaoh a sentence, atomically, one after another as they come."""
    _write_lines(path, map(pharaoh_line, links))


@dataclass(frozen=True)
class FoundLinks:
    """Links that were found, each with its weight.

    Attributes:
        source: the words of the source.
        target: those of the target.
        weights: from 0 to 1, by link.
    """

    source: Words
    target: Words
    weights: Mapping[Link, float]


def write_json_lines(path: str | Path, sentences: Iterable[FoundLinks]) -> None:
    """Writes an object a sentence, atomically, one after another as they come.

    Its keys: `source` and `target`, lists of words; `links`, a list of [source word, target word], from 0;
    `weights`, of the links in their order.
    """
    _write_lines(path, (json.dumps(_object(links), ensure_ascii=False) for links in sentences))


def _object(sentence: FoundLinks) -> dict[str, Any]:
    links = sorted(sentence.weights)
    return {
        "source": sentence.source,
        "target": sentence.target,
        "links": links,
        "weights": [sentence.weights[link] for link in links],
    }


def _write_lines(path: str | Path, lines: Iterable[str]) -> None:
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(chain.from_iterable(zip(lines, repeat("\n"))))
