"""How all cross-attention heads of Whisper attend to the words of audio, and when these were spoken.

The recipe of times is that of `_extract_token_timestamps` (transformers, models/whisper/generation_whisper),
which goes back to timing.py of whisper: weights are standardized over tokens, smoothed over frames by a
running median, averaged over heads, and the path of largest weight that never goes back is taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from attnlab.core import InputError, check_memory
from attnlab.labels import align_corpus, gold_of_texts
from attnlab.models import Model
from attnlab.questions.align.question import AlignmentSettings
from attnlab.questions.align.spoken_words import SpokenWords
from attnlab.questions.align.word_reading import pieces_of
from attnlab.reading import FRAME_SECONDS, LayerWeights, Sentences, prepare, read_audio


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
    beside = torch.nn.functional.pad(standard, (half, half), mode="reflect")
    # NaN comes last, so that the median of few is a number.
    return beside.unfold(-1, width, 1).sort(-1).values[..., half]


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
    found = np.zeros((heads, tokens), np.int64)
    while ((row > 0) | (column > 0)).any():
        found[every, row] = column - 1
        step = steps[every, row, column]
        ended = (row == 0) & (column == 0)
        row, column = (
            row - ((step != _FRAME) & ~ended),
            column - ((step != _TOKEN) & ~ended),
        )
    return found[:, 1:]


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

    def found(
        self, weights: Float[Tensor, "system token frame"]
    ) -> Float64[np.ndarray, "system word"]:
        """When the words begin by each of these weights, in seconds."""
        return token_frames(weights)[:, self.firsts] * FRAME_SECONDS

    def found_by(self, heads: Sequence[int]) -> Float64[np.ndarray, " word"]:
        """When the words begin by the mean over some heads, in seconds."""
        return self.found(self.weights[sorted(heads)].mean(0, keepdim=True))[0]

    def errors(self, found: Float64[np.ndarray, "*system word"]) -> Float64[Tensor, "*system 2"]:
        """The sum of absolute errors in seconds, and the number of words."""
        sums = np.abs(found - self.starts).sum(-1)
        return torch.tensor(np.stack([sums, np.full_like(sums, len(self.words))], -1))


class Hearing(NamedTuple):
    """What a model attends to in audio.

    Attributes:
        shape: decoder layers, and heads of each.
        heard: the audio whose words have tokens.
        unaligned: of the rest why they have none, by number.
    """

    shape: tuple[int, int]
    heard: tuple[HeardWords, ...]
    unaligned: dict[int, str]


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
    pairs = [(one.audio, " ".join(word.word for word in one.words)) for one in given]
    sentences = read_audio(model, pairs)
    reading = prepare(model, sentences, ["cross"], memory=settings.memory)
    layers, heads = len(reading.attention_sites.layers["cross"]), reading.attention_sites.heads
    spans, reasons = _tokens_of_words(model, sentences, settings)
    if not spans:
        number, why = next(iter(reasons.items()))
        msg = f"None of the {len(given)} transcripts has its words in tokens; of audio {number + 1}: {why}."
        raise InputError(msg)
    cells = sum((one.stop - one.start) * (given[n].audio.count // 2) for n, one in spans.items())
    whom = f"The attention of {layers * heads} heads to {len(spans)} audio files"
    check_memory(_BYTES * layers * heads * cells, whom, _FEWER, memory=settings.memory)
    found: dict[int, HeardWords] = {}
    held: list[Tensor] = []

    def update(layer: LayerWeights) -> None:
        held.append(layer.weights.float().cpu())
        if len(held) < layers:
            return
        for index, number in enumerate(layer.sentences):
            if number in spans:
                one, frames = spans[number], given[number].audio.count // 2
                weights = torch.cat(
                    [part[index, :, one.start : one.stop, :frames] for part in held]
                )
                smooth = smoothed(weights, model.model.config.median_filter_width)
                found[number] = HeardWords(given[number], smooth, one.words, one.firsts)
        held.clear()

    tell = None if settings.progress is None else partial(settings.progress, what)
    reading = reading if twin is None else reading.by(twin)
    reading.feed([Receiver(update)], batch_size=settings.batch_size, progress=tell)
    heard = tuple(found[number] for number in sorted(found))
    return Hearing((layers, heads), heard, reasons)


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
    gold = gold_of_texts([one.text[1] for one in sentences.texts])
    tokens = [one.target for one in sentences.texts if one.target is not None]
    aligned = align_corpus(model.both_tokenizers.target, gold.source, tokens)
    found, reasons = {}, {}
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
            found[number] = rows
    return found, reasons


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


@dataclass(frozen=True)
class Receiver:
    """A function as a consumer of layers."""

    update: Callable[[LayerWeights], None]
