"""Signs that a table of texts is of another form than it is read in: a heading line, fields in CSV quotes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from attnlab.core import Note, briefly, iterate_lines, path_label
from attnlab.corpora.readers import LINES, list_split_files

# Lines that are looked at.
_LOOKED_AT = 100
# Columns are called by these words; a heading has no others.
_HEADINGS = frozenset(
    re.findall(
        r"\w+",
        "source target src tgt trg text texts sentence sentences sentence1 sentence2 translation "
        "translations input output reference links alignment id label word start end audio language lang "
        "english italian german french spanish portuguese dutch czech russian chinese japanese polish "
        "romanian turkish arabic en it de fr es pt nl cs ru zh ja pl ro tr ar",
    )
)
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class HeadingRead(Note):
    """A first line that looks like a heading, and was read as a row.

    Attributes:
        path: the file.
        line: its first line.
    """

    path: str
    line: str

    def __str__(self) -> str:
        return (
            f"The first line of {self.path}, {briefly(self.line)}, looks like a heading and is read as a "
            "row; if it is one, remove it (tail -n +2)."
        )


@dataclass(frozen=True)
class QuotesRead(Note):
    """Fields in the quotes of CSV, which were read as part of the texts.

    Attributes:
        path: the file.
        line: the number of the first line with such a field, from 1.
    """

    words = (
        "Line {line} of {path} is the first with fields in quotes as in CSV, which are read as part of the "
        "texts; write it without them, with a tab between columns."
    )

    path: str
    line: int


def notes_on_tables(*paths: object) -> list[Note]:
    """Signs of a heading and of CSV quotes in files with a row on each line, none of other things.

    Args:
        paths: files, or what a corpus is called by; whatever is no file or folder of such is passed over.
    """
    return [note for path in paths if isinstance(path, str | Path) for note in _notes(Path(path))]


def _notes(path: Path) -> Iterator[Note]:
    if not path.is_file():
        for file in list_split_files(path):
            # A file of lines is of one language, a folder of datasets no text.
            if file.form in {LINES, "tsv"}:
                yield from _notes(file.path)
        return
    if path.name.removesuffix(".gz").endswith((".jsonl", ".wav", ".npy", ".parquet", ".arrow")):
        return
    rows = [line.split("\t") for line in islice(iterate_lines(path), _LOOKED_AT)]
    if not rows:
        return
    first = [re.split(r"[\s_-]+", column.strip(' "').casefold()) for column in rows[0]]
    if _HEADINGS.issuperset(word for words in first for word in words):
        yield HeadingRead(path_label(path), "\t".join(rows[0]))
    quoted = [any(map(_QUOTED.fullmatch, map(str.strip, row))) for row in rows]
    escaped = any(
        '""' in column for row in rows for column in row if _QUOTED.fullmatch(column.strip())
    )
    # A sentence of direct speech stands in quotes too.
    if escaped or (len(rows) > 1 and 2 * sum(quoted) > len(rows)):
        yield QuotesRead(path_label(path), quoted.index(True) + 1)
