"""Parallel text in local files: line-aligned pairs of files, tables with tabs, JSON lines."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.corpora.splits import SPLITS, Pair, Splits, clean_sentence
from attnlab.errors import InputError
from attnlab.texts import check_characters, read_lines

SPLIT_NAMES = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}
TABLES = ("tsv", "jsonl")
LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Za-z]+)?")
LANGUAGE_PAIR = re.compile(r"([A-Za-z_]+)-([A-Za-z_]+)")
NOT_LANGUAGES = {"csv", "gz", "md", "npy", "npz", "pt", "tsv", "txt", "xml", "zip"}
FORMS = (
    "a .tsv or .jsonl file, a folder with files such as train.en and train.it or "
    "en-it.train.tsv (each may end in .gz), or a folder saved by datasets"
)


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus and what its name says: `en-it.train.tsv.gz`, `train.en`, `all.jsonl`."""

    path: Path
    form: str
    """`tsv`, `jsonl`, or `lines` for one sentence of one language a line."""
    split: str | None
    """None where a single file is the whole corpus, whatever its name says."""
    languages: tuple[str, ...]
    """Both languages of a table whose name holds them, the one of a file of lines, or nothing."""


def describe_file(path: Path) -> CorpusFile | None:
    """What the name of a file says about it, or None where it is no part of a corpus.

    >>> describe_file(Path("en-it.train.tsv.gz")).languages
    ('en', 'it')
    """
    parts = path.name.removesuffix(".gz").split(".")
    before, ending = parts[:-1], parts[-1]
    split = next((SPLIT_NAMES[part] for part in before if part in SPLIT_NAMES), None)
    if ending in TABLES:
        named = [match.groups() for part in before if (match := LANGUAGE_PAIR.fullmatch(part))]
        return CorpusFile(path, ending, split, named[-1] if named else ())
    if split and LANGUAGE.fullmatch(ending) and ending not in NOT_LANGUAGES:
        return CorpusFile(path, "lines", split, (ending,))
    return None


def find_files(path: Path) -> list[CorpusFile]:
    """The files of a corpus: `path` itself, those in the folder, or those whose names it begins.

    Raises:
        InputError: nothing is there, or nothing of a known form.
    """
    if path.is_file():
        single = describe_file(path)
        if single is None or single.form == "lines":
            msg = f"{path} is no corpus that attnlab can read; give {FORMS}."
            raise InputError(msg)
        return [replace(single, split=None)]
    files = list_split_files(path)
    if not any(entry.split == "train" for entry in files):
        msg = f"{path} holds no training file that attnlab can read; give {FORMS}."
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
    """What `pair` can be for these files: pairs of tables, or the languages of files of lines.

    Empty where the names of the files do not tell.
    """
    training = [entry for entry in find_files(path) if entry.split in {"train", None}]
    return sorted({"-".join(entry.languages) for entry in training if entry.languages})


def read_sentences(path: Path) -> list[str]:
    """The lines of a file of a corpus, see `attnlab.texts.read_lines`.

    Raises:
        InputError: the file is missing, empty, damaged, or not UTF-8 (with the number of the line).
    """
    lines = read_lines(path)
    if not any(line.strip() for line in lines):
        msg = f"{path} is empty; a corpus needs at least one sentence in each file."
        raise InputError(msg)
    return lines


def checked_pair(source: Any, target: Any, where: str) -> Pair:
    """Both sentences, cleaned.

    Raises:
        InputError: a side is no text or is empty.
    """
    for side, text in (("source", source), ("target", target)):
        if not isinstance(text, str) or not text.strip():
            msg = f"{where} has an empty {side} side; fill it or remove the row."
            raise InputError(msg)
        check_characters(text, f"{where} {side} side,")
    return clean_sentence(source), clean_sentence(target)


def pick_translation(row: Any, languages: tuple[str, str], where: str) -> Pair:
    """The two sentences of an object such as {"translation": {"en": ..., "it": ...}}.

    Raises:
        InputError: there is no such object, or a language is not in it.
    """
    translation = row.get("translation") if isinstance(row, dict) else None
    if not isinstance(translation, dict):
        msg = f'{where} has no object "translation" such as {{"translation": {{"en": "..."}}}}.'
        raise InputError(msg)
    refuse_missing(languages, sorted(translation), where)
    return checked_pair(translation[languages[0]], translation[languages[1]], where)


def refuse_missing(wanted: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raises the error that names the languages there are, unless those wanted are among them.

    Raises:
        InputError: a language that is wanted is not present.
    """
    if not set(wanted) <= set(present):
        msg = (
            f"{where} has no pair {'-'.join(wanted)}; "
            f"its languages are {', '.join(present)}: choose two with --pair."
        )
        raise InputError(msg)


def read_table(file: CorpusFile, languages: tuple[str, str]) -> list[Pair]:
    """The rows of a .tsv or .jsonl file in the direction of `languages`.

    The first column of a .tsv is the source, unless the file's name says otherwise: in
    `en-it.train.tsv` it is English, whichever direction is wanted.

    Raises:
        InputError: a row that is not a pair, with its line.
    """
    reverse = file.languages == languages[::-1]
    rows = []
    for number, line in enumerate(read_sentences(file.path), start=1):
        where = f"{file.path}, line {number},"
        if file.form == "jsonl":
            try:
                row = json.loads(line)
            except ValueError as error:
                msg = f"{where} is not valid JSON ({error}); write one object a line."
                raise InputError(msg) from error
            rows.append(pick_translation(row, languages, where))
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            noun = "column" if len(columns) == 1 else "columns"
            msg = f"{where} has {len(columns)} {noun} instead of two: source, tab, target."
            raise InputError(msg)
        source, target = checked_pair(columns[0], columns[1], where)
        rows.append((target, source) if reverse else (source, target))
    return rows


def read_line_pair(source: Path, target: Path) -> list[Pair]:
    """The rows of two files of which line n is the same sentence.

    Raises:
        InputError: the files differ in their number of lines, or a line is empty.
    """
    source_lines, target_lines = read_sentences(source), read_sentences(target)
    if len(source_lines) != len(target_lines):
        msg = (
            f"{source} has {len(source_lines)} lines and {target} has {len(target_lines)}; "
            "line n of both must be the same sentence."
        )
        raise InputError(msg)
    sides = enumerate(zip(source_lines, target_lines, strict=True), start=1)
    return [
        checked_pair(*pair, f"Line {number} of {source} and {target}") for number, pair in sides
    ]


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


def read_files(path: Path, languages: tuple[str, str]) -> Splits:
    """The rows of every split that the files at `path` hold.

    Raises:
        InputError: files that are missing, of no known form, or not in these languages.
    """
    files = find_files(path)
    lines = [file for file in files if file.form == "lines"]
    if lines:
        present = sorted({file.languages[0] for file in lines if file.split == "train"})
        refuse_missing(languages, present, str(path))
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
            f"it has {', '.join(find_languages(path))}: choose with --pair."
        )
        raise InputError(msg)
    return {split: read_table(file, languages) for split, file in chosen.items()}
