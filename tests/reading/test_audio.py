"""Whisper reads audio: weights over frames as the model gives them, features as transformers makes them."""

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import wavfile
from transformers import WhisperFeatureExtractor
from zoo import random_models

import attnlab
from attnlab.core.errors import InputError
from attnlab.models.loaded import Model
from attnlab.reading.audio import Audio, audio_of, read_audio, read_audio_file
from attnlab.reading.passes import prepare, selection_of
from attnlab.reading.weights import LayerWeights

TEXTS = ["the cat sees a dog", "a bird"]


def whisper(bins: int = 7) -> Model:
    return Model(random_models.whisper(bins), random_models.whisper_tokenizer())


def noise(columns: int, bins: int = 7, seed: int = 0) -> Audio:
    return audio_of(torch.randn(bins, columns, generator=torch.Generator().manual_seed(seed)))


class Kept:
    def __init__(self) -> None:
        self.layers: list[LayerWeights] = []

    def update(self, layer: LayerWeights) -> None:
        self.layers.append(layer)


def test_weights_are_the_models_own() -> None:
    model, kept = whisper(), Kept()
    model.model.double()
    audio = [noise(61), noise(100, seed=1)]
    reading = prepare(model, list(zip(audio, TEXTS, strict=True)), ["cross"])
    reading.feed([kept])
    assert [layer.layer for layer in kept.layers] == [0, 1, 2]
    model.model.set_attn_implementation("eager")
    for index, number in enumerate(kept.layers[0].sentences):
        features = torch.full((1, 7, 100), float(audio[number].features.max()) - 2).double()
        features[0, :, : audio[number].count] = audio[number].features
        ids = model.tokenizer(text_target=f" {TEXTS[number]}", return_tensors="pt").input_ids
        with torch.no_grad():
            out = model.model(features, decoder_input_ids=ids[:, :-1], output_attentions=True)
        for layer, weights in zip(kept.layers, out.cross_attentions, strict=True):
            rows = weights.shape[2]
            torch.testing.assert_close(layer.weights[index, :, :rows], weights[0])


def test_silence_is_read_and_no_content() -> None:
    kept = Kept()
    prepare(whisper(), [(noise(61), "a dog")], ["cross"]).feed([kept])
    keys = kept.layers[0].keys
    assert keys.real.all()
    # Sixty columns make thirty frames; half a frame is none.
    assert keys.content[0].tolist() == [True] * 30 + [False] * 20
    names = kept.layers[0].vocabularies[1].tokens(keys.ids[0].tolist())
    assert names[:3] + names[29:31] == ["0.00", "0.02", "0.04", "0.58", "silence"]


def test_capture_takes_audio() -> None:
    found = attnlab.capture(whisper(), [(noise(60), "a dog"), (noise(80), "a cat")])
    assert found.coverage.layers == {"decoder": 3, "cross": 3}
    assert found.coverage.sentences == 2


def test_rows_of_what_hears_audio_are_those_of_whole_matrices(untouched_randomness: None) -> None:
    heard = [(noise(60), TEXTS[0]), (noise(80, seed=1), TEXTS[1])]
    selection = selection_of([0, 2], [1, 4], [0, 3], 0)
    model = whisper()
    model.model.train()
    assert prepare(model, heard, whole=False, selection=selection).in_blocks
    whole = attnlab.capture(model, heard, keep_matrices=2).kept.matrices
    some = attnlab.capture(model, heard, keep_matrices=2, layers=[0, 2], heads=[1, 4], rows=[0, 3])
    assert len(some.kept.matrices) == 8
    for at, matrix in some.kept.matrices.items():
        expected = whole[at][[1, 4]][:, [0, 3]]
        torch.testing.assert_close(matrix, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rate", [16_000, 8_000])
def test_a_wave_gives_the_features_of_transformers(tmp_path: Path, rate: int) -> None:
    samples = np.random.default_rng(3).integers(-9000, 9000, (rate // 2, 2)).astype(np.int16)
    wavfile.write(tmp_path / "noise.wav", rate, samples)
    found = read_audio_file(tmp_path / "noise.wav", whisper(80))
    assert (found.count, found.seconds) == (50, 0.5)
    if rate == 16_000:
        extract = WhisperFeatureExtractor(chunk_length=1)
        made = extract(samples.mean(1) / 2**15, sampling_rate=rate, return_tensors="pt")
        torch.testing.assert_close(found.features, made.input_features[0])
        # What is cut off is put back, but for columns that reach over the end.
        cut = audio_of(found.features)
        assert 50 <= cut.count <= 52
        read = read_audio(whisper(80), [(audio_of(found.features[:, : cut.count]), "a")])
        torch.testing.assert_close(read.usable[0].features, found.features)


def wave(rate: int, *, order: str = "<", size: int = 1600) -> bytes:
    """A mono file of 16 bits with another chunk in front."""
    format_ = struct.pack(f"{order}IHHIIHH", 16, 1, 1, rate, 2 * rate % 2**32, 2, 16)
    parts = b"LIST" + struct.pack(f"{order}I", 3) + b"abc\0", b"fmt " + format_
    header = b"".join(parts) + b"data" + struct.pack(f"{order}I", size)
    begin = {"<": b"RIFF", ">": b"RIFX"}[order]
    return begin + struct.pack(f"{order}I", 4 + len(header) + size) + b"WAVE" + header


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("rate", [0, 1, 3_999, 384_001, 50_000_017, 2**32 - 1])
def test_rates_that_no_audio_has_are_refused_by_the_header(
    rate: int, order: str, tmp_path: Path
) -> None:
    (tmp_path / "a.wav").write_bytes(wave(rate, order=order))
    with pytest.raises(
        InputError, match=rf"a.wav has {rate:,} samples a second, and 4,000 to 384,000"
    ):
        read_audio_file(tmp_path / "a.wav", whisper())


@pytest.mark.parametrize("rate", [4_000, 44_100, 384_000])
@pytest.mark.parametrize("order", ["<", ">"])
def test_rates_of_audio_are_read(rate: int, order: str, tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-9000, 9000, rate // 10).astype(f"{order}i2")
    (tmp_path / "a.wav").write_bytes(
        wave(rate, order=order, size=2 * len(samples)) + samples.tobytes()
    )
    assert read_audio_file(tmp_path / "a.wav", whisper()).count == 10


def test_long_audio_is_refused_unread(tmp_path: Path) -> None:
    """Of a file with holes, which takes no room on the disk."""
    content = wave(16_000, size=2**31)
    (tmp_path / "a.wav").write_bytes(content)
    os.truncate(tmp_path / "a.wav", len(content) + 2**31)
    with pytest.raises(InputError, match=r"a.wav is 67108.9 s long, and the model reads 1 s"):
        read_audio_file(tmp_path / "a.wav", whisper())


def test_features_of_a_file(tmp_path: Path) -> None:
    audio = noise(40)
    np.save(tmp_path / "a.npy", audio.features.numpy())
    found = read_audio_file(tmp_path / "a.npy", whisper())
    assert torch.equal(found.features, audio.features)


def waves(folder: Path) -> Path:
    wavfile.write(folder / "long.wav", 8000, np.zeros(16_000, np.int16))
    return folder / "long.wav"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda _: read_audio(whisper(), [(noise(101), "a")]), r"is 1.0 s long, and .* reads 1 s"),
        (lambda folder: read_audio_file(waves(folder), whisper()), "2.0 s long"),
        (lambda _: read_audio(whisper(), [(noise(9, bins=8), "a")]), "8 mel bins, .* reads 7"),
        (lambda _: read_audio(whisper(), [(noise(1), "a")]), "shorter"),
        (lambda _: read_audio(whisper(), [(noise(9), " ")]), "has no word"),
        (lambda _: read_audio(whisper(), [(noise(9), "a " * 40)]), "42 tokens"),
        (lambda _: read_audio(whisper(), []), "no audio"),
        (lambda _: audio_of(torch.ones(7, 9)), "silence"),
        (lambda _: audio_of(torch.ones(7)), r"no array \[mel, column\]"),
        (lambda _: audio_of(torch.full((7, 9), torch.nan)), "finite"),
        (lambda _: audio_of("a dog"), "give log-mel features"),
        (lambda folder: read_audio_file(folder / "a.mp3", whisper()), "neither .wav nor .npy"),
        (lambda folder: read_audio_file(folder / "a.wav", whisper()), "no file"),
        (lambda _: prepare(whisper(), TEXTS), "reads audio, and was given text"),
        (lambda _: prepare(whisper(), [(noise(9), "a"), ("a", "b")]), "one kind at a time"),
        (lambda _: prepare(whisper(), [(noise(9), "a")], ["encoder"]), "between all frames"),
        (
            lambda _: prepare(
                (random_models.marian(), random_models.tokenizer()), [(noise(9), "a")]
            ),
            "reads text, and was given log-mel features",
        ),
    ],
)
def test_what_is_refused(read: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def test_a_file_that_is_no_audio(tmp_path: Path) -> None:
    for name in ("a.wav", "a.npy"):
        (tmp_path / name).write_text("words")
        with pytest.raises(InputError, match=f"{name} cannot be read"):
            read_audio_file(tmp_path / name, whisper())


def test_loaded_from_a_folder(tmp_path: Path) -> None:
    model = whisper()
    model.model.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    found = attnlab.load(tmp_path)
    assert type(found.model) is type(model.model)
    states = found.model.state_dict()
    assert all(torch.equal(one, states[name]) for name, one in model.model.state_dict().items())
