"""Readers of sentence pairs by the ending of files: one function and one line of a table each."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from attnlab.core import (
    InputError,
    check_characters,
    check_word_length,
    iterate_lines,
    with_plugins,
)
from attnlab.corpora.rows import SPLITS, Pair, Splits, clean_sentence

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
    """The lines of a file of a corpus, one after another, see `attnlab.core.texts.iterate_lines`.

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
        check_word_length(text, f"{where} {side} side,")
    return clean_sentence(source), clean_sentence(target)


def check_present(required: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raises the error that names the languages there are, unless those wanted are among them.

    Raises:
        InputError: a language that is wanted is not present.
    """
    if not set(required) <= set(present):
        msg = (
            f"{where} has no pair {'-'.join(required)}; "
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
        check_present(languages, sorted(translation), where)
        yield translation[languages[0]], translation[languages[1]]


_READERS = {
    "tsv": Reader("source, tab, target", _read_tsv, row="line"),
    "jsonl": Reader('{"translation": {"en": …, "it": …}}', _read_jsonl, row="line"),
}


def readers_by_ending() -> dict[str, Reader]:
    """Readers of attnlab and of other distributions, by the ending of their files.

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
    reader = readers_by_ending()[ending]
    for number, (source, target) in enumerate(reader.read(path, languages), start=1):
        yield checked_pair(source, target, f"{path}, {reader.row} {number},")


SPLIT_NAMES = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}
LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Za-z]+)?")
LANGUAGE_PAIR = re.compile(r"([A-Za-z_]+)-([A-Za-z_]+)")
NOT_LANGUAGES = {"csv", "gz", "md", "npy", "npz", "pt", "txt", "xml", "zip"}
LINES = "lines"


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus and what its name says: `en-it.train.tsv.gz`, `train.en`, `all.jsonl`."""

    path: Path
    form: str
    """The ending of a file that holds pairs, or `LINES` for one sentence of one language per line."""
    split: str | None
    """None where a single file is the whole corpus, whatever its name says."""
    languages: tuple[str, ...]
    """Both languages of a table whose name holds them, the one of a file of lines, or nothing."""


def describe_file(path: Path) -> CorpusFile | None:
    """The parts of a corpus that a file name names, or None where it is no part of a corpus.

    >>> describe_file(Path("en-it.train.tsv.gz")).languages
    ('en', 'it')
    """
    parts = path.name.removesuffix(".gz").split(".")
    before, ending = parts[:-1], parts[-1]
    split = next((SPLIT_NAMES[part] for part in before if part in SPLIT_NAMES), None)
    if ending in readers_by_ending():
        named = [match.groups() for part in before if (match := LANGUAGE_PAIR.fullmatch(part))]
        return CorpusFile(path, ending, split, named[-1] if named else ())
    if split and LANGUAGE.fullmatch(ending) and ending not in NOT_LANGUAGES:
        return CorpusFile(path, LINES, split, (ending,))
    return None


def forms() -> str:
    """The forms of a corpus on this machine, as a phrase."""
    single = " or ".join(f".{ending}" for ending in readers_by_ending())
    return (
        f"a {single} file, a folder with files such as train.en and train.it or en-it.train.tsv "
        "(each may end in .gz), or a folder saved by datasets"
    )


def looks_like_a_path(name: str) -> bool:
    """Whether the name of a corpus is that of a file or folder rather than one on the hub."""
    endings = {*readers_by_ending(), "gz", "txt", "csv", "json"}
    return bool(re.search(r"^[./~]|\\|/.*/|/$", name)) or name.rpartition(".")[2] in endings


def find_files(path: Path) -> list[CorpusFile]:
    """The files of a corpus: `path` itself, those in the folder, or those whose names it begins.

    Raises:
        InputError: nothing is there, or nothing of a known form.
    """
    if path.is_file():
        single = describe_file(path)
        if single is None or single.form == LINES:
            msg = f"{path} is no corpus that attnlab can read; give {forms()}."
            raise InputError(msg)
        return [replace(single, split=None)]
    files = list_split_files(path)
    if not any(entry.split == "train" for entry in files):
        msg = f"{path} holds no training file that attnlab can read; give {forms()}."
        raise InputError(msg)
    return files


def list_split_files(path: Path) -> list[CorpusFile]:
    """Files that hold a split: those in the folder `path`, or beside it with names it begins."""
    folder, beginning = (path, "") if path.is_dir() else (path.parent, f"{path.name}.")
    if not folder.is_dir():
        return []
    entries = sorted(entry for entry in folder.iterdir() if entry.name.startswith(beginning))
    described = (describe_file(entry) for entry in entries if entry.is_file())
    return [entry for entry in described if entry and entry.split]


def find_languages(path: Path) -> list[str]:
    """Values of `pair` for these files: pairs of tables, or the languages of files of lines.

    Empty where the names of the files do not tell.
    """
    training = [entry for entry in find_files(path) if entry.split in {"train", None}]
    return sorted({"-".join(entry.languages) for entry in training if entry.languages})


def read_line_pair(source: Path, target: Path) -> Iterator[Pair]:
    """The rows of two files of which line n is the same sentence.

    Raises:
        InputError: the files differ in their number of lines, or a line is empty.
    """
    lines = [0, 0]
    for sides in zip_longest(read_sentences(source), read_sentences(target)):
        lines = [count + (side is not None) for count, side in zip(lines, sides, strict=True)]
        if lines[0] == lines[1]:
            where = f"Line {lines[0]} of {source} and {target}"
            yield checked_pair(*sides, where)
    if lines[0] != lines[1]:
        msg = (
            f"{source} has {lines[0]} lines and {target} has {lines[1]}; "
            "line n of both must be the same sentence."
        )
        raise InputError(msg)


def one_per_split(files: Sequence[CorpusFile], path: Path) -> dict[str, CorpusFile]:
    """Each split's file; a file whose name says no split is for training.

    Raises:
        InputError: two files are for the same split.
    """
    chosen: dict[str, CorpusFile] = {}
    for file in files:
        other = chosen.setdefault(file.split or "train", file)
        if other is not file:
            msg = (
                f"{path} has two files for {file.split}, {other.path.name} and {file.path.name}; "
                "remove one, or name a single file."
            )
            raise InputError(msg)
    return {split: chosen[split] for split in SPLITS if split in chosen}


def read_files(path: Path, languages: Languages) -> Splits:
    """The rows of every split that the files at `path` hold.

    Raises:
        InputError: files that are missing, of no known form, or not in these languages.
    """
    files = find_files(path)
    lines = [file for file in files if file.form == LINES]
    if lines:
        present = sorted({file.languages[0] for file in lines if file.split == "train"})
        check_present(languages, present, str(path))
        source, target = (
            one_per_split([file for file in lines if file.languages == (language,)], path)
            for language in languages
        )
        if source.keys() != target.keys():
            unpaired = ", ".join(sorted(source.keys() ^ target.keys()))
            msg = f"{path} has {unpaired} in only one of {' and '.join(languages)}; add its other side."
            raise InputError(msg)
        return {split: read_line_pair(source[split].path, target[split].path) for split in source}
    named = [file for file in files if set(file.languages) == set(languages)]
    chosen = one_per_split(named or [file for file in files if not file.languages], path)
    if "train" not in chosen:
        msg = (
            f"{path} has no pair {'-'.join(languages)}; "
            f"it has {', '.join(find_languages(path))}: choose with pair."
        )
        raise InputError(msg)
    return {split: _directed_rows(file, languages) for split, file in chosen.items()}


def is_text_file(path: Path) -> bool:
    """Whether `path` is a file that ends in .txt, or in .txt.gz."""
    return path.is_file() and path.name.removesuffix(".gz").endswith(".txt")


def read_pair_file(path: Path, languages: Languages) -> Iterator[Pair]:
    """The rows of a single file that holds both sides, read as one of a corpus.

    Raises:
        InputError: it is of no known form, cannot be read, or a row is no pair in these languages.
    """
    (file,) = find_files(path)
    return _directed_rows(file, languages)


def read_text_file(path: Path) -> Splits:
    """The lines of a text file that hold something, each as both sides of a row for training.

    Raises:
        InputError: the file is empty, damaged or not UTF-8.
    """
    lines = (line for line in read_sentences(path) if line.strip())
    return {"train": (checked_pair(line, line, str(path)) for line in lines)}


def _directed_rows(file: CorpusFile, languages: Languages) -> Iterator[Pair]:
    """The rows of a file; where its name tells the languages, its columns are in their order."""
    if file.languages != languages[::-1]:
        return read_rows(file.path, file.form, languages)
    turned = read_rows(file.path, file.form, languages[::-1])
    return ((target, source) for source, target in turned)
