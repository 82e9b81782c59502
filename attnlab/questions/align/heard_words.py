"""Words of audio, how all cross-attention heads of Whisper attend to them, and when these were spoken.

The recipe of times is that of `_extract_token_timestamps` (transformers, models/whisper/generation_whisper),
which goes back to timing.py of whisper: weights are standardized over tokens, smoothed over frames by a
running median, averaged over heads, and the path of largest weight that never goes back is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from attnlab.alignment import Pieces
from attnlab.core import (
    InputError,
    Note,
    briefly,
    check_file_exists,
    check_memory,
    counted,
    iterate_lines,
)
from attnlab.labels import Alignment, align_corpus, gold_of_texts
from attnlab.models import Model
from attnlab.questions.align.question import AlignmentSettings
from attnlab.reading import (
    FRAME_SECONDS,
    Audio,
    LayerWeights,
    Sentences,
    audio_of,
    prepare,
    read_audio,
    read_audio_file,
)

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
    spoken = list(islice(pairs, count))
    if not spoken:
        msg = f"There is no audio in {given if from_file else 'the pairs'}; give at least one."
        raise InputError(msg)
    return spoken


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
        words = list(group)
        try:
            audio = read_audio_file(Path(path).parent / name, model)
        except InputError as error:
            msg = f"{words[0][0]} names audio that cannot be used: {error}"
            raise InputError(msg) from error
        yield _checked(audio, [(where, row[3], row[1], row[2]) for where, row in words])


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
            isinstance(word, str) or not isinstance(word, Sequence) or len(word) != 3
            for word in words
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
            audio, [(f"{where}, word {n},", *word) for n, word in enumerate(words, start=1)]
        )


def _checked(audio: Audio, rows: Sequence[tuple[str, Any, Any, Any]]) -> SpokenWords:
    """The words with their times in order and within the audio."""
    words: list[Word] = []
    before = 0.0
    for where, text, start, end in rows:
        try:
            word = Word(str(text), float(start), float(end))
        except (TypeError, ValueError) as error:
            msg = (
                f"{where} has {briefly(start)} and {briefly(end)} for start and end; give seconds."
            )
            raise InputError(msg) from error
        problem = _problem(word, before, audio)
        if problem:
            msg = f"{where} {problem}."
            raise InputError(msg)
        words.append(word)
        before = word.start
    if not words:
        msg = f"{audio.name} has no words; leave it out."
        raise InputError(msg)
    return SpokenWords(audio, tuple(words))


def _problem(word: Word, before: float, audio: Audio) -> str | None:
    """What is wrong with a word, and what to do."""
    if len(word.word.split()) != 1:
        return f"has {briefly(word.word)} for a word; give one without spaces"
    if not 0 <= word.start <= word.end:
        return f"begins at {word.start:g} s and ends at {word.end:g} s; let it end where it begins or later"
    if word.start < before:
        return f"begins at {word.start:g} s, before the word before it ({before:g} s); sort words by start"
    # Of a time that is rounded.
    if word.end > audio.seconds + FRAME_SECONDS:
        return f"ends at {word.end:g} s, and {audio.name} at {audio.seconds:.2f} s; mend the times"
    return None


def smoothed(
    weights: Float[Tensor, "head token frame"], width: int
) -> Float[Tensor, "head token frame"]:
    """Weights in standard deviations over tokens, then the median of `width` frames around each.

    A frame with equal weight on all tokens gives NaN, as in transformers.

    Args:
        weights: of the tokens that have times, over the frames of audio alone.
        width: an odd number, `median_filter_width` of the configuration.
    """
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, correction=0)
    standard, half = (weights - mean) / deviation, width // 2
    if standard.shape[-1] <= half:
        return standard
    padded = torch.nn.functional.pad(standard, (half, half), mode="reflect")
    # NaN comes last, so that the median of few is a number.
    return padded.unfold(-1, width, 1).sort(-1).values[..., half]


def token_frames(
    weights: Float[Tensor, "head token frame"],
) -> Int[np.ndarray, "head token"]:
    """The first frame of each token on the path of largest weight from first to last of both.

    Dynamic time warping: each step goes on by a token, a frame or both. Steps of equal cost are decided, and
    sums rounded to float32, as transformers does.

    Cost: O(head * token * frame), some 60 ms for 150 heads, 30 tokens and 5 s.
    """
    gain = weights.double().numpy()
    heads, tokens, frames = gain.shape
    cost = np.full((heads, tokens + 1, frames + 1), np.inf, np.float32)
    steps = np.zeros(cost.shape, np.int8)
    cost[:, 0, 0] = 0
    for place in range(2, tokens + frames + 1):
        row = np.arange(max(1, place - frames), min(tokens, place - 1) + 1)
        column = place - row
        both, token, frame = (
            cost[:, row - 1, column - 1],
            cost[:, row - 1, column],
            cost[:, row, column - 1],
        )
        choice = np.where(
            (both < token) & (both < frame),
            _BOTH,
            np.where((token < both) & (token < frame), _TOKEN, _FRAME),
        )
        before = np.choose(choice, (both, token, frame))
        cost[:, row, column] = before - gain[:, row - 1, column - 1]
        steps[:, row, column] = choice
    return _first_frames(steps)


_BOTH, _TOKEN, _FRAME = range(3)


def _first_frames(
    steps: Int[np.ndarray, "head row column"],
) -> Int[np.ndarray, "head token"]:
    """Where the path to the last token and frame enters each token; rows and columns have one before them."""
    heads, tokens, frames = steps.shape
    steps[:, 0], steps[:, :, 0] = _FRAME, _TOKEN
    every = np.arange(heads)
    row, column = np.full(heads, tokens - 1), np.full(heads, frames - 1)
    entered = np.zeros((heads, tokens), np.int64)
    while ((row > 0) | (column > 0)).any():
        entered[every, row] = column - 1
        step = steps[every, row, column]
        ended = (row == 0) & (column == 0)
        row, column = (
            row - ((step != _FRAME) & ~ended),
            column - ((step != _TOKEN) & ~ended),
        )
    return entered[:, 1:]


_BYTES = 4
_FEWER = "take less audio (sentences), leave long ones out, or raise the limit (memory, in GB)"


@dataclass(frozen=True)
class HeardWords:
    """One audio as all heads attend to it.

    Attributes:
        spoken: the audio with its words.
        weights: of the tokens that have times, see `smoothed`; heads layer by layer.
        words: numbers of the words that have a token.
        firsts: the first token of each.
    """

    spoken: SpokenWords
    weights: Float[Tensor, "head token frame"]
    words: Int[np.ndarray, " word"]
    firsts: Int[np.ndarray, " word"]

    @property
    def starts(self) -> Float64[np.ndarray, " word"]:
        """When the words begin, in seconds."""
        return np.array([self.spoken.words[number].start for number in self.words])

    def starts_by_each(
        self, weights: Float[Tensor, "system token frame"]
    ) -> Float64[np.ndarray, "system word"]:
        """When the words begin by each of these weights, in seconds."""
        return token_frames(weights)[:, self.firsts] * FRAME_SECONDS

    def starts_by(self, heads: Sequence[int]) -> Float64[np.ndarray, " word"]:
        """When the words begin by the mean over some heads, in seconds."""
        return self.starts_by_each(self.weights[sorted(heads)].mean(0, keepdim=True))[0]

    def errors(self, starts: Float64[np.ndarray, "*system word"]) -> Float64[Tensor, "*system 2"]:
        """The sum of absolute errors in seconds, and the number of words."""
        sums = np.abs(starts - self.starts).sum(-1)
        return torch.tensor(np.stack([sums, np.full_like(sums, len(self.words))], -1))


class Hearing(NamedTuple):
    """What a model attends to in audio.

    Attributes:
        shape: decoder layers, and heads of each.
        heard: the audio whose words have tokens.
        unaligned: of the rest why they have none, by number.
        notes: on what was read.
    """

    shape: tuple[int, int]
    heard: tuple[HeardWords, ...]
    unaligned: dict[int, str]
    notes: tuple[Note, ...]


def hear(
    model: Model,
    given: Sequence[SpokenWords],
    settings: AlignmentSettings,
    *,
    what: str = "Reading audio",
    twin: object = None,
) -> Hearing:
    """What the heads attend to, all audio in memory.

    Args:
        model: a Whisper with its tokenizer.
        given: audio with its words.
        settings: those of the question.
        what: is being done, for the progress.
        twin: another model of the same class and configuration that reads it; None: `model`.

    Raises:
        InputError: audio that the model cannot take, words without tokens everywhere, or too little memory.
    """
    pairs = [(spoken.audio, " ".join(word.word for word in spoken.words)) for spoken in given]
    sentences = read_audio(model, pairs)
    reading = prepare(model, sentences, ["cross"], memory=settings.memory, weights=settings.weights)
    layers, heads = len(reading.attention_sites.layers["cross"]), reading.attention_sites.heads
    spans, reasons = _tokens_of_words(model, sentences, settings)
    if not spans:
        number, why = next(iter(reasons.items()))
        msg = f"None of the {len(given)} transcripts has its words in tokens; of audio {number + 1}: {why}."
        raise InputError(msg)
    cells = sum((rows.stop - rows.start) * (given[n].audio.count // 2) for n, rows in spans.items())
    whom = f"The attention of {layers * heads} heads to {len(spans)} audio files"
    check_memory(_BYTES * layers * heads * cells, whom, _FEWER, memory=settings.memory)
    heard: dict[int, HeardWords] = {}
    batch: list[Tensor] = []

    def update(layer: LayerWeights) -> None:
        batch.append(layer.weights.float().cpu())
        if len(batch) < layers:
            return
        for index, number in enumerate(layer.sentences):
            if number in spans:
                rows, frames = spans[number], given[number].audio.count // 2
                weights = torch.cat(
                    [part[index, :, rows.start : rows.stop, :frames] for part in batch]
                )
                smooth = smoothed(weights, model.model.config.median_filter_width)
                heard[number] = HeardWords(given[number], smooth, rows.words, rows.firsts)
        batch.clear()

    tell = settings.progress and partial(settings.progress, what)
    reading = reading if twin is None else reading.by(twin)
    reading.feed([Receiver(update)], batch_size=settings.batch_size, progress=tell)
    in_order = tuple(heard[number] for number in sorted(heard))
    return Hearing((layers, heads), in_order, reasons, reading.notes)


class _Rows(NamedTuple):
    """The rows of weights that belong to a transcript, and among them the first of each word."""

    start: int
    stop: int
    words: Int[np.ndarray, " word"]
    firsts: Int[np.ndarray, " word"]


def _tokens_of_words(
    model: Model, sentences: Sentences, settings: AlignmentSettings
) -> tuple[dict[int, _Rows], dict[int, str]]:
    """The rows of each transcript, by number; and of those whose tokens do not match their words why."""
    gold = gold_of_texts([text.text[1] for text in sentences.texts])
    tokens = [text.target for text in sentences.texts if text.target is not None]
    aligned = align_corpus(model.both_tokenizers.target, gold.source, tokens)
    spans, reasons = {}, {}
    for number, alignment in enumerate(aligned.alignments):
        sentence = gold.source[number]
        words: Sequence[int | None] = ()
        if alignment is not None:
            labels = len(sentences.usable[number].labels)
            words = pieces_of(alignment, len(sentence.spans)).words[-labels:]
        rows = _rows(words, settings.row == "output")
        if rows is None:
            reasons[number] = aligned.reasons.get(sentence.identifier, "no token is of a word")
        else:
            spans[number] = rows
    return spans, reasons


def _rows(words: Sequence[int | None], output: bool) -> _Rows | None:
    """Rows from the first to the last token of a transcript; None without any.

    Args:
        words: the word of each token that is predicted, None for special tokens.
        output: whether the row of a token is the one that predicts it, where that of the end is there too, as
            OpenAI's Whisper and CTranslate2 have it, or the next, which reads it.
    """
    places = [place for place, word in enumerate(words) if word is not None]
    if not places:
        return None
    first, stop = places[0], min(places[-1] + 2, len(words))
    firsts = {words[place]: place - first for place in reversed(places)}
    start = first if output else first + 1
    kept = sorted(word for word, row in firsts.items() if word is not None and row < stop - start)
    if not kept:
        return None
    return _Rows(start, stop, np.array(kept), np.array([firsts[word] for word in kept]))


def pieces_of(alignment: Alignment | None, count: int) -> Pieces:
    """Which word each token belongs to; words between spaces share no token, so a unit is a word."""
    if alignment is None:
        return Pieces((), count)
    first = {unit: word for word, unit in reversed(list(enumerate(alignment.unit_of_word)))}
    words = (None if unit is None else first[unit] for unit in alignment.unit_of_token)
    return Pieces(tuple(words), count)


@dataclass(frozen=True)
class Receiver:
    """A function as a consumer of layers."""

    update: Callable[[LayerWeights], None]
