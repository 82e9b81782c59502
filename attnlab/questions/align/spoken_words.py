"""Audio with the words that are spoken in it and when each begins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from attnlab.core import InputError, briefly, check_file_exists, counted, iterate_lines
from attnlab.models import Model
from attnlab.reading import FRAME_SECONDS, Audio, audio_of, read_audio_file

_COLUMNS = "audio file, start, end, word"


class Word(NamedTuple):
    """A word with its beginning and end in seconds."""

    word: str
    start: float
    end: float


@dataclass(frozen=True)
class SpokenWords:
    """Audio with its words in order."""

    audio: Audio
    words: tuple[Word, ...]


def spoken_words(model: Model, given: Any, count: int | None) -> list[SpokenWords]:
    """Audio with its words.

    Args:
        model: says what audio it reads.
        given: a file of lines of audio file, start, end and word, where lines of one file stand together and
            paths are from the folder of that file; or pairs of audio (features, `Audio` or a file) and words
            (word, start, end).
        count: how many at most; None: all.

    Raises:
        InputError: a file cannot be read, or words do not stand in order within their audio.
    """
    if given is None:
        msg = f"{model.label} reads audio; give pairs of audio and words with start and end."
        raise InputError(msg)
    from_file = isinstance(given, str | Path)
    pairs = _in_file(given, model) if from_file else _handed_in(given, model)
    found = list(islice(pairs, count))
    if not found:
        msg = f"There is no audio in {given if from_file else 'the pairs'}; give at least one."
        raise InputError(msg)
    return found


def check_is_text(path: str | Path) -> None:
    """Raises InputError for a file that `spoken_words` would read: its first line names a file of audio."""
    check_file_exists(path, "name a file with source, tab, target on each line")
    columns = next(iterate_lines(path), "").split("\t")
    if len(columns) == 4 and Path(columns[0]).suffix.lower() in {".npy", ".wav"}:
        msg = f"{path}, line 1, names audio, and the model reads text; give a Whisper, or pairs of sentences."
        raise InputError(msg)


def _in_file(path: str | Path, model: Model) -> Iterator[SpokenWords]:
    check_file_exists(path, f"name a file with {_COLUMNS} on each line")
    lines = ((f"{path}, line {n},", line) for n, line in enumerate(iterate_lines(path), start=1))
    rows = ((where, _columns(line, where, model)) for where, line in lines if line.strip())
    for name, group in groupby(rows, lambda row: row[1][0]):
        own = list(group)
        try:
            audio = read_audio_file(Path(path).parent / name, model)
        except InputError as error:
            msg = f"{own[0][0]} names audio that cannot be used: {error}"
            raise InputError(msg) from error
        yield _checked(audio, [(where, row[3], row[1], row[2]) for where, row in own])


def _columns(line: str, where: str, model: Model) -> list[str]:
    columns = line.split("\t")
    if len(columns) != 4:
        noun = counted(len(columns), "column")
        msg = f"{where} has {noun} instead of four, {_COLUMNS}; {model.label} reads audio."
        raise InputError(msg)
    return columns


def _handed_in(given: Sequence[Any], model: Model) -> Iterator[SpokenWords]:
    for number, (source, words) in enumerate(given, start=1):
        where = f"pair {number}"
        listed = isinstance(words, Sequence) and not isinstance(words, str)
        if not listed or any(
            isinstance(one, str) or not isinstance(one, Sequence) or len(one) != 3 for one in words
        ):
            msg = (
                f"{where} has {briefly(words)} for words; {model.label} reads audio, so give (audio, words), "
                "each word as (word, start, end)."
            )
            raise InputError(msg)
        if isinstance(source, str | Path):
            audio = read_audio_file(source, model)
        else:
            audio = source if isinstance(source, Audio) else audio_of(source, where)
        yield _checked(
            audio, [(f"{where}, word {n},", *one) for n, one in enumerate(words, start=1)]
        )


def _checked(audio: Audio, rows: Sequence[tuple[str, Any, Any, Any]]) -> SpokenWords:
    """The words with their times in order and within the audio."""
    words: list[Word] = []
    before = 0.0
    for where, word, start, end in rows:
        try:
            one = Word(str(word), float(start), float(end))
        except (TypeError, ValueError) as error:
            msg = (
                f"{where} has {briefly(start)} and {briefly(end)} for start and end; give seconds."
            )
            raise InputError(msg) from error
        problem = _problem(one, before, audio)
        if problem:
            msg = f"{where} {problem}."
            raise InputError(msg)
        words.append(one)
        before = one.start
    if not words:
        msg = f"{audio.name} has no words; leave it out."
        raise InputError(msg)
    return SpokenWords(audio, tuple(words))


def _problem(one: Word, before: float, audio: Audio) -> str | None:
    """What is wrong with a word, and what to do."""
    if len(one.word.split()) != 1:
        return f"has {briefly(one.word)} for a word; give one without spaces"
    if not 0 <= one.start <= one.end:
        return f"begins at {one.start:g} s and ends at {one.end:g} s; let it end where it begins or later"
    if one.start < before:
        return f"begins at {one.start:g} s, before the word before it ({before:g} s); sort words by start"
    # Of a time that is rounded.
    if one.end > audio.seconds + FRAME_SECONDS:
        return f"ends at {one.end:g} s, and {audio.name} at {audio.seconds:.2f} s; mend the times"
    return None
