"""The texts that models are trained on, several corpora in one file, and their gold links."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from attnlab.alignment import read_links, words_of
from attnlab.core import iterate_lines, write_text


class Text(NamedTuple):
    """Corpora of one pair of languages, and the parts of XL-WA with links of it.

    Attributes:
        languages: source and target, in words.
        corpora: folders of the training text, their names as in a sentence behind them.
        reported: the part that is reported on.
        chosen_on: the part that heads are chosen on; None: every other pair of `reported`.
        says_nothing_of: what models of this text leave open, and why, as a sentence; empty where nothing
            is to be said.
    """

    languages: tuple[str, str]
    corpora: Mapping[str, str]
    reported: str
    chosen_on: str | None
    says_nothing_of: str = ""


_TATOEBA, _BIBLE = {"tatoeba": "tatoeba"}, {"bible": "the Bible"}
TEXTS = {
    "en-it": Text(
        ("English", "Italian"), {"europarl": "europarl"} | _BIBLE | _TATOEBA, "it.test", "it.dev"
    ),
    # XL-WA's test part of Spanish is not among the data.
    "en-es": Text(
        ("English", "Spanish"),
        _BIBLE | _TATOEBA,
        "es.dev",
        None,
        "Spanish in general: those models read verses and short sentences alone, and are asked about "
        "sentences of an encyclopedia; the English-Italian ones read speeches of a parliament too.",
    ),
}


class Gold(NamedTuple):
    """Files of links: those that are reported on, and those that heads are chosen on."""

    test: Path | None
    calibration: Path | None

    def files(self) -> list[Path]:
        """All of them."""
        return [file for file in self if file is not None]


def gold_of(text: str, data: Path) -> Gold:
    """Where the links of a text stand in the folder of the corpora."""
    chosen = TEXTS[text]
    test, calibration = (
        None if part is None else data / "xlwa" / f"{part}.tsv.gz"
        for part in (chosen.reported, chosen.chosen_on)
    )
    return Gold(test, calibration)


def write_corpus(text: str, data: Path, gold: Sequence[Path], file: Path) -> None:
    """One line a pair, lower-cased, words and punctuation apart by spaces, as gold alignments have them.

    Of the training parts of the corpora; pairs that stand there twice and those of which a side stands in the
    gold files are left out. Lines are in the order of their SHA-1.

    Args:
        text: one of `TEXTS`.
        data: the folder of the corpora.
        gold: files of XL-WA.
        file: that is written.
    """
    reported = {
        _key(" ".join(words))
        for path in gold
        for pair in read_links(path)
        for words in (pair.source, pair.target)
    }
    lines = {
        "\t".join(sides)
        for name in TEXTS[text].corpora
        for sides in map(_split, _pairs(data / name, text))
        if all(sides) and not reported & {_key(side) for side in sides}
    }
    ordered = sorted(lines, key=lambda line: hashlib.sha1(line.encode()).digest())  # noqa: S324
    write_text(file, "".join(f"{line}\n" for line in ordered))


def write_exchanged(file: Path, exchanged: Path) -> None:
    """The lines of a text with source and target exchanged, for models of the other direction."""
    sides = (line.split("\t") for line in iterate_lines(file))
    write_text(exchanged, "".join(f"{target}\t{source}\n" for source, target in sides))


def _pairs(folder: Path, text: str) -> Iterator[tuple[str, str]]:
    together = folder / f"{text}.train.tsv.gz"
    if together.exists():
        for line in iterate_lines(together):
            source, target = line.split("\t")
            yield source, target
    else:
        sides = (iterate_lines(folder / f"train.{language}.gz") for language in text.split("-"))
        yield from zip(*sides, strict=True)


def _split(pair: tuple[str, str]) -> tuple[str, str]:
    source, target = (" ".join(words_of(side.lower())) for side in pair)
    return source, target


def _key(text: str) -> str:
    """Letters and digits of a text alone, in one case."""
    return "".join(filter(str.isalnum, text.casefold()))
