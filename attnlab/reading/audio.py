"""Audio with transcripts as the input of Whisper: log-mel features, frames as tokens of the encoder."""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from jaxtyping import Float
from scipy.io import wavfile
from torch import Tensor
from transformers import WhisperFeatureExtractor

from attnlab.core import (
    UNREADABLE_ARRAYS,
    InputError,
    ShortRepr,
    briefly,
    check_file_exists,
    check_memory,
    open_regular,
    path_label,
    read_numpy,
    reason,
)
from attnlab.models import Model
from attnlab.reading.sentences import (
    Sentence,
    Sentences,
    check_embedded,
    input_tables,
    most_positions,
    reads_audio,
    shifted,
)
from attnlab.reading.text_tokens import TokenizedText, Tokens, tokens_of
from attnlab.reading.vocabulary import Vocabulary

# Log-mel features stand this far apart; the second convolution of the encoder makes one frame of two.
FEATURE_SECONDS, FRAME_SECONDS = 0.01, 0.02
_RATE = 16_000
# What is sampled for ears, from telephones to studios.
RATES = range(4_000, 384_001)
# Log-mel features of silence are this far below the largest of the audio: Whisper cuts there.
_FLOOR = 2.0


@dataclass(frozen=True, repr=False, eq=False)
class Audio(ShortRepr):
    """Log-mel features of Whisper.

    Attributes:
        features: one column for every 0.01 s, with silence up to 30 s behind or without.
        count: how many columns are audio, not silence that pads it.
        name: of the file, or which one it is.
    """

    features: Float[Tensor, "mel column"]
    count: int
    name: str

    @property
    def seconds(self) -> float:
        """Its length without padding."""
        return self.count * FEATURE_SECONDS


def audio_of(features: Any, name: str = "audio") -> Audio:
    """Audio of an array or tensor [mel, column]; columns of one number at its end are silence that pads it.

    Raises:
        InputError: it has no two axes, holds what is no finite number, or silence alone.
    """
    try:
        frames = torch.as_tensor(features)
    except (TypeError, ValueError, RuntimeError) as error:
        msg = f"{name} is {briefly(features)}; give log-mel features, an array [mel, column]."
        raise InputError(msg) from error
    if frames.ndim != 2 or 0 in frames.shape or frames.is_complex() or not frames.isfinite().all():
        what = f"{list(frames.shape)} of {frames.dtype}"
        msg = f"{name} is no array [mel, column] of finite numbers, but {what}."
        raise InputError(msg)
    heard = (frames != frames[0, -1]).any(0).nonzero()
    if not len(heard):
        msg = f"{name} holds one number alone, which is silence; give log-mel features of audio."
        raise InputError(msg)
    return Audio(frames.float(), int(heard[-1]) + 1, name)


def read_audio_file(path: str | Path, model: Model) -> Audio:
    """Audio of a file: .npy of log-mel features, or .wav, resampled and made mono where need be.

    Args:
        path: of the file.
        model: says how many mel bins it reads, and how much audio.

    Raises:
        InputError: the file is missing or of another kind, or longer than the model reads.
    """
    label, suffix = path_label(path), Path(path).suffix.lower()
    if suffix not in {".npy", ".wav"}:
        msg = f"{label} is neither .wav nor .npy; give audio, or its log-mel features."
        raise InputError(msg)
    check_file_exists(path, "name a file of audio (.wav) or of log-mel features (.npy)")
    try:
        if suffix == ".npy":
            features = read_numpy(path, lambda: open_regular(path), "log-mel features", _converted)
            audio = audio_of(features, label)
            check_fits(audio, model.model.config)
            return audio
        _check_wave(path, model.model.config, label)
        with catch_warnings():
            # Chunks that are no audio.
            simplefilter("ignore", wavfile.WavFileWarning)
            rate, samples = wavfile.read(path)
    except (*UNREADABLE_ARRAYS, struct.error, ZeroDivisionError) as error:
        msg = f"{label} cannot be read ({reason(error)}); write it anew."
        raise InputError(msg) from error
    return _audio_of_samples(samples, rate, model, label)


def _converted(shape: Sequence[int]) -> int:
    """Bytes of features in float32, and of what says which of them are finite."""
    return 5 * math.prod(shape)


def _check_wave(path: str | Path, config: Any, name: str) -> None:
    """Raises InputError for a rate that no audio has, or too much audio, by the header of a .wav file.

    Raises:
        struct.error: it ends too early.
    """
    with open_regular(path) as file:
        order = ">" if file.read(12)[:4] == b"RIFX" else "<"
        rate = bytes_a_sample = 0
        while chunk := file.read(8):
            kind, size = struct.unpack(f"{order}4sI", chunk)
            begin = file.tell()
            if kind == b"fmt ":
                _, _, rate, _, bytes_a_sample = struct.unpack(f"{order}HHIIH", file.read(14))
                if rate not in RATES:
                    msg = (
                        f"{name} has {rate:,} samples a second, and {RATES[0]:,} to {RATES[-1]:,} can be "
                        "read; write it anew."
                    )
                    raise InputError(msg)
            if kind == b"data" and bytes_a_sample:
                end = file.seek(0, 2)
                count = min(size, end - begin)
                check_length(count / bytes_a_sample / rate, config, name)
                # Whatever their type, in float64 and mixed.
                check_memory(20 * count, f"The audio of {name}", "cut it")
                return
            file.seek(begin + size + size % 2)


def _audio_of_samples(samples: np.ndarray, rate: int, model: Model, name: str) -> Audio:
    config = model.model.config
    check_length(len(samples) / rate, config, name)
    waves = samples.astype(np.float32)
    if not np.isfinite(waves).all():
        msg = f"{name} holds samples that are no numbers; write it anew."
        raise InputError(msg)
    if samples.dtype.kind in "iu":
        # 8 bits are written without a sign.
        middle = 128 if samples.dtype == np.uint8 else 0
        waves = (waves - middle) / (128 if middle else -float(np.iinfo(samples.dtype).min))
    if waves.ndim > 1:
        waves = waves.mean(1)
    if rate != _RATE:
        # Half a second of CPU time, which few need.
        from scipy.signal import resample_poly

        waves = resample_poly(waves, _RATE, rate).astype(np.float32)
    extract = WhisperFeatureExtractor(
        feature_size=config.num_mel_bins, chunk_length=round(longest_seconds(config))
    )
    made = extract(waves, sampling_rate=_RATE, return_attention_mask=True, return_tensors="pt")
    return Audio(made["input_features"][0], int(made["attention_mask"].sum()), name)


def longest_seconds(config: Any) -> float:
    """Seconds of audio that a model reads; 30 for all that were published."""
    return float(config.max_source_positions * FRAME_SECONDS)


def check_length(seconds: float, config: Any, name: str) -> None:
    """Raises InputError for audio that is longer than the model reads."""
    longest = longest_seconds(config)
    # Less than a column more is rounded.
    if seconds > longest + FEATURE_SECONDS / 2:
        msg = f"{name} is {seconds:.1f} s long, and the model reads {longest:g} s; cut it."
        raise InputError(msg)


class Frames(Vocabulary):
    """Frames of audio as tokens: each is its index, and silence that pads audio the special token behind.

    Whisper attends to that silence too, so it is no padding of a batch.
    """

    def __init__(self, count: int) -> None:
        self.special, self.closing, self.padding = {count}, set(), count

    def is_punctuation(self, token: int) -> bool:  # noqa: ARG002 - no frame is
        """False: no frame is punctuation."""
        return False

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """When each frame begins, in seconds."""
        return ["silence" if n == self.padding else f"{n * FRAME_SECONDS:.2f}" for n in ids]

    def of(self, audio: Audio) -> tuple[int, ...]:
        """The frames of audio, as many as transformers counts, and silence behind them."""
        count = audio.count // 2
        return (*range(count), *[self.padding] * (self.padding - count))


def read_audio(model: Model, pairs: Sequence[tuple[Audio, str]]) -> Sentences:
    """Audio for the encoder of Whisper, with token ids of its transcripts for the decoder.

    Weights of the encoder itself are not handed on: of a head they are 1,500 x 1,500.

    Args:
        model: a Whisper with its tokenizer, whose prefix (language, task) stands before each transcript.
        pairs: audio with its transcript.

    Raises:
        InputError: the model reads text, or the features are of another one; audio is too short or too long;
            a transcript is empty or too long.
    """
    config = model.model.config
    if not reads_audio(model.model) or config.model_type != "whisper":
        kind = "other audio" if reads_audio(model.model) else "text"
        msg = f"{model.label} reads {kind}, and was given log-mel features; give a Whisper, or other pairs."
        raise InputError(msg)
    if not pairs:
        msg = "There is no audio to read; hand in at least one."
        raise InputError(msg)
    start, most = config.decoder_start_token_id, most_positions(config)
    frames = Frames(config.max_source_positions)
    table = input_tables(model.model)["target"]
    target = Vocabulary(model.both_tokenizers.target, start, table=table)
    # Whisper has learned words with the space before them.
    texts = [f" {text.strip()}" for _, text in pairs]
    written = tokens_of(model.both_tokenizers.target, texts, target=True)
    usable, tokenized = [], []
    for number, ((audio, _), text, tokens) in enumerate(zip(pairs, texts, written, strict=True)):
        check_fits(audio, config)
        read = shifted(tokens.ids, start)
        if not text.strip() or len(read) - 1 > most:
            problem = f"{len(read) - 1} tokens" if text.strip() else "no word"
            msg = (
                f"The transcript of {audio.name} has {problem}; the model reads 1 to {most} tokens."
            )
            raise InputError(msg)
        ids = frames.of(audio)
        usable.append(Sentence(number, ids, read[:-1], read[1:], _padded(audio, config)))
        side = Tokens(ids, tuple(token in frames.special for token in ids), None)
        tokenized.append(TokenizedText((audio.name, text), side, tokens))
    sentences = Sentences(
        tuple(tokenized), tuple(usable), (), frames, target, most, "audio handed in"
    )
    check_embedded(model, sentences)
    return sentences


def check_fits(audio: Audio, config: Any) -> None:
    """Raises InputError for audio of another number of mel bins, too short, or too long for a model."""
    bins = len(audio.features)
    if bins != config.num_mel_bins:
        msg = (
            f"{audio.name} has {bins} mel bins, and the model reads {config.num_mel_bins}; make features "
            "with its own processor."
        )
        raise InputError(msg)
    check_length(audio.seconds, config, audio.name)
    if audio.count < 2:
        msg = f"{audio.name} is shorter than {FRAME_SECONDS} s; leave it out."
        raise InputError(msg)


def _padded(audio: Audio, config: Any) -> Float[Tensor, "mel column"]:
    """The features with silence behind them, as many columns as the model reads."""
    expected_frames = 2 * config.max_source_positions
    features = audio.features[:, :expected_frames]
    silence, gap = float(features.max()) - _FLOOR, expected_frames - features.shape[1]
    return torch.nn.functional.pad(features, (0, gap), value=silence)
