"""How the files of each ending are read as sentence pairs: one function and one line of a table each."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, TypeAlias

from attnlab.corpora.rows import Pair
from attnlab.corpora.splits import clean_sentence
from attnlab.errors import InputError
from attnlab.limits import refuse_long_words
from attnlab.plugins import with_plugins
from attnlab.texts import check_characters, iterate_lines

Languages: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Reader:
    """Reads files that hold both sides of sentence pairs.

    Other distributions register one as an entry point of the group `attnlab.corpora`, whose name is the
    ending of the files. Splits, and languages in the names of files, are none of its business.
    """

    holds: str
    """What is in such a file, for the list of corpora: `source, tab, target`."""
    read: Callable[[Path, Languages], Iterable[tuple[Any, Any]]]
    """The two sentences of each row, in the order of the languages; the file may end in .gz."""
    row: str = "row"
    """What a row is called in errors, beside its number from 1."""


def read_sentences(path: Path) -> Iterator[str]:
    """The lines of a file of a corpus, one after another, see `attnlab.texts.iterate_lines`.

    Raises:
        InputError: the file is missing, empty, damaged, not UTF-8, or a line is beyond the limit (with its
            number).
    """
    lines = iterate_lines(path)
    for blank, line in enumerate(lines):
        if line.strip():
            yield from repeat("", blank)
            yield line
            yield from lines
            return
    msg = f"{path} is empty; a corpus needs at least one sentence in each file."
    raise InputError(msg)


def checked_pair(source: Any, target: Any, where: str) -> Pair:
    """Both sentences, cleaned.

    Raises:
        InputError: a side is no text, is empty, or has a word beyond the limit.
    """
    for side, text in (("source", source), ("target", target)):
        if not isinstance(text, str) or not text.strip():
            msg = f"{where} has an empty {side} side; fill it or remove the row."
            raise InputError(msg)
        check_characters(text, f"{where} {side} side,")
        refuse_long_words(text, f"{where} {side} side,")
    return clean_sentence(source), clean_sentence(target)


def refuse_missing(wanted: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raises the error that names the languages there are, unless those wanted are among them.

    Raises:
        InputError: a language that is wanted is not present.
    """
    if not set(wanted) <= set(present):
        msg = (
            f"{where} has no pair {'-'.join(wanted)}; "
            f"its languages are {', '.join(present)}: choose two with pair."
        )
        raise InputError(msg)


def _read_tsv(path: Path, _: Languages) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(read_sentences(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            noun = "column" if len(columns) == 1 else "columns"
            msg = (
                f"{path}, line {number}, has {len(columns)} {noun} instead of two: "
                "source, tab, target."
            )
            if len(columns) > 2:
                msg = f"{msg[:-1]}; cut -f1,2 writes the first two columns of every line."
            raise InputError(msg)
        yield columns[0], columns[1]


def _read_jsonl(path: Path, languages: Languages) -> Iterable[tuple[Any, Any]]:
    for number, line in enumerate(read_sentences(path), start=1):
        where = f"{path}, line {number},"
        try:
            row = json.loads(line)
        # RecursionError: thousands of brackets within each other.
        except (ValueError, RecursionError) as error:
            msg = f"{where} is not valid JSON ({error}); write one object a line."
            raise InputError(msg) from error
        translation = row.get("translation") if isinstance(row, dict) else None
        if not isinstance(translation, dict):
            msg = f'{where} has no object "translation" such as {{"translation": {{"en": "..."}}}}.'
            raise InputError(msg)
        refuse_missing(languages, sorted(translation), where)
        yield translation[languages[0]], translation[languages[1]]


_READERS = {
    "tsv": Reader("source, tab, target", _read_tsv, row="line"),
    "jsonl": Reader('{"translation": {"en": …, "it": …}}', _read_jsonl, row="line"),
}


def readers() -> dict[str, Reader]:
    """Those of attnlab and of other distributions, by the ending of their files.

    Raises:
        InputError: what another distribution registered is no reader, cannot be imported, or is for
            an ending that attnlab reads.
    """
    return with_plugins(
        "attnlab.corpora",
        _READERS,
        "an attnlab.corpora.readers.Reader",
        lambda reader: isinstance(reader, Reader),
    )


def read_rows(path: Path, ending: str, languages: Languages) -> Iterator[Pair]:
    """The sentence pairs of one file, cleaned.

    Raises:
        InputError: a row that is not a pair, with its number.
    """
    reader = readers()[ending]
    for number, (source, target) in enumerate(reader.read(path, languages), start=1):
        yield checked_pair(source, target, f"{path}, {reader.row} {number},")
