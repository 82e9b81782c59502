"""English-Italian training texts, several corpora in one file."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from attnlab.alignment import read_links, words_of
from attnlab.core import iterate_lines, write_text

CORPORA = ("europarl", "bible", "tatoeba")


def write_corpus(data: Path, gold: Sequence[Path], file: Path) -> None:
    """One line a pair, lower-cased, words and punctuation apart by spaces, as gold alignments have them.

    Of the training parts of the corpora; pairs that stand there twice and those of which a side stands in the
    gold files are left out. Lines are in the order of their SHA-1.

    Args:
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
        for name in CORPORA
        for sides in map(_split, _pairs(data / name))
        if all(sides) and not reported & {_key(side) for side in sides}
    }
    ordered = sorted(lines, key=lambda line: hashlib.sha1(line.encode()).digest())  # noqa: S324
    write_text(file, "".join(f"{line}\n" for line in ordered))


def _pairs(folder: Path) -> Iterator[tuple[str, str]]:
    together = folder / "en-it.train.tsv.gz"
    if together.exists():
        for line in iterate_lines(together):
            source, target = line.split("\t")
            yield source, target
    else:
        sides = (iterate_lines(folder / f"train.{language}.gz") for language in ("en", "it"))
        yield from zip(*sides, strict=True)


def _split(pair: tuple[str, str]) -> tuple[str, str]:
    source, target = (" ".join(words_of(side.lower())) for side in pair)
    return source, target


def _key(text: str) -> str:
    """Letters and digits of a text alone, in one case."""
    return "".join(filter(str.isalnum, text.casefold()))
