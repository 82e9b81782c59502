"""Heads of Whisper that say when words were spoken: against transformers, planted ones, and refusals."""

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import WHISPER_MARKS, WHISPER_TYPES

import attnlab
from attnlab.alignment.heads_file import read_heads
from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.evaluation.shared_settings import FewForIntervals
from attnlab.questions.align.aligning import align
from attnlab.questions.align.heard_words import (
    HeardWords,
    SpokenWords,
    Word,
    smoothed,
    token_frames,
)
from attnlab.questions.align.question import START_CHANGE, START_ERROR, AlignmentSettings
from attnlab.questions.align.question import WORDS as SPOKEN_WORDS
from attnlab.questions.align.word_times import _part, choose_heads
from attnlab.reading.audio import audio_of

WORDS = ["the", "cat", "sees", "a", "dog"]


def whisper() -> tuple[Any, Any]:
    return random_models.whisper(), random_models.whisper_tokenizer()


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def spoken(count: int = 6) -> list[tuple[torch.Tensor, list[tuple[str, float, float]]]]:
    return [
        (
            random(7, 60 + 8 * number, seed=number),
            [(word, 0.1 * n, 0.1 * n + 0.1) for n, word in enumerate(WORDS[: 3 + number % 3])],
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(("tokens", "frames"), [(1, 1), (1, 6), (5, 1), (4, 9), (9, 4)])
def test_paths_are_those_of_transformers(tokens: int, frames: int) -> None:
    weights = random(3, tokens, frames).round(decimals=1)  # equal sums are among them
    for own, matrix in zip(token_frames(weights), weights, strict=True):
        rows, columns = _dynamic_time_warping(-matrix.double().numpy())
        assert own.tolist() == [int(columns[rows == row][0]) for row in range(tokens)]


def test_no_path_weighs_more() -> None:
    weights = random(2, 3, 4).double()
    cells = list(product(range(3), range(4)))
    for own, matrix in zip(token_frames(weights), weights, strict=True):
        best: dict[tuple[int, int], tuple[float, list[int]]] = {}
        for row, column in cells:
            before = [(row - 1, column - 1), (row - 1, column), (row, column - 1)]
            there = [(*best[one], one) for one in before if one in best]
            total, firsts, last = max(there, default=(0.0, [], (-1, -1)))
            entered = [*firsts, column] if last[0] < row else firsts
            best[row, column] = total + float(matrix[row, column]), entered
        assert own.tolist() == best[2, 3][1]
        assert all(one <= other for one, other in pairwise(own))


@pytest.mark.parametrize("frames", [2, 9])
def test_weights_are_smoothed_as_in_transformers(frames: int) -> None:
    weights = random(3, 4, frames).softmax(-1)
    standard = (weights - weights.mean(-2, keepdim=True)) / weights.std(
        -2, keepdim=True, unbiased=False
    )
    expected = _median_filter(standard[None], 7)[0]
    torch.testing.assert_close(smoothed(weights, 7), expected)


def test_transformers_finds_the_same_times_with_the_exported_heads(tmp_path: Path) -> None:
    """Transformers generates words and times them by the heads in its configuration; so do we."""
    model, tokenizer = whisper()
    counts = [72, 90, 55, 100]
    features = random(4, 7, 100)
    for one, count in zip(features, counts, strict=True):
        one[:, count:] = one[:, :count].max() - 2
    mask = (torch.arange(100) < torch.tensor(counts)[:, None]).long()
    marks = tokenizer.convert_tokens_to_ids(WHISPER_MARKS)
    options = model.generation_config
    options.suppress_tokens, options.max_length = [*range(27), *marks], 11
    options.no_timestamps_token_id, options.return_timestamps = marks[-1], False
    options.alignment_heads = [[0, 0]]

    def generated() -> Any:
        return model.generate(features, return_token_timestamps=True, attention_mask=mask)

    # The last token is not read, so it has no row.
    words = [[WHISPER_TYPES[token][1:] for token in one[:-1]] for one in generated()["sequences"]]
    pairs = [
        (one, [(word, 0.0, 0.1) for word in own]) for one, own in zip(features, words, strict=True)
    ]
    found = align((model, tokenizer), pairs, quick=True)
    found.save(tmp_path / "out")
    exported = found.details["configuration"]["generation_config"]
    heads = read_heads(tmp_path / "out" / "heads.json").heads
    assert exported["alignment_heads"] == sorted(map(list, heads))
    options.alignment_heads = exported["alignment_heads"]
    times = generated()["token_timestamps"]
    for pair, number in ((1, 1), (2, 3)):
        own = found.words.loc[found.words["pair"] == pair, "start_by_heads"]
        assert own.to_numpy() == pytest.approx(times[number, :-1].numpy(), abs=1e-6)
        assert own.max() > 0


def heard(number: int, planted: int) -> HeardWords:
    """Six heads over random tokens; the planted one looks where each of five words is spoken."""
    generator = np.random.default_rng(number)
    bounds = [0, *sorted(generator.choice(np.arange(5, 95), 4, replace=False)), 100]
    weights = random(6, 5, 100, seed=number).softmax(-1)
    for token, (start, end) in enumerate(pairwise(bounds)):
        weights[planted, token] = 0.001
        weights[planted, token, start:end] = 1 / (end - start)
    words = tuple(
        Word(word, 0.02 * start, 0.02 * end)
        for word, (start, end) in zip(WORDS, pairwise(bounds), strict=True)
    )
    audio = audio_of(random(7, 200, seed=number))
    every = np.arange(5)
    return HeardWords(SpokenWords(audio, words), smoothed(weights, 3), every, every)


@pytest.mark.parametrize("planted", [0, 4])
def test_a_planted_head_is_chosen(planted: int) -> None:
    part = _part([heard(number, planted) for number in range(8)])
    path = choose_heads(part, AlignmentSettings())
    assert path.chosen == (planted,)
    # Less than a frame.
    assert path.errors[0] < 0.02
    alone = part.alone.sum(1)
    errors = alone[:, 0] / alone[:, 1]
    assert errors.argmin() == planted
    assert errors[planted] == pytest.approx(path.errors[0])
    others = errors[torch.arange(6) != planted]
    assert (others > 5 * errors[planted]).all()


def test_scores_are_those_of_the_words() -> None:
    found = align(whisper(), spoken(), quick=True)
    systems = found.systems.set_index("system")
    errors = (found.words["start"] - found.words["start_by_heads"]).abs()
    assert systems.loc["chosen heads", "start_error"] == pytest.approx(errors.mean())
    assert systems.loc["chosen heads", "words"] == len(found.words)
    assert set(found.words) == set(SPOKEN_WORDS)
    errors_declared, changes = (
        {column.name for column in one} for one in (START_ERROR, START_CHANGE)
    )
    assert errors_declared | changes | {"words"} <= set(found.systems)
    assert errors_declared <= set(found.heads)
    assert systems["pairs"].eq(3).all()
    single = systems.loc["best single head"]
    layer, head = map(int, single["heads"].split("."))
    own = found.heads.query(f"layer == {layer} and head == {head}").iloc[0]
    assert own["start_error"] == pytest.approx(single["start_error"])
    bound = systems.loc["greedy set on the reported pairs", "start_error"]
    assert bound <= found.heads["start_error"].min() + 1e-12


def test_heads_are_chosen_on_other_audio_than_they_are_scored_on() -> None:
    pairs = spoken()
    before = align(whisper(), pairs, quick=True)
    for number in range(1, 6, 2):
        features, words = pairs[number]
        pairs[number] = features, [(word, start + 0.1, end + 0.1) for word, start, end in words]
    after = align(whisper(), pairs, quick=True)
    assert before.details["chosen"] == after.details["chosen"]
    assert before.systems["start_error"][0] != after.systems["start_error"][0]


def test_own_heads_and_both_rows() -> None:
    model, tokenizer = whisper()
    model.generation_config.alignment_heads = [[1, 2]]
    found = {
        row: align((model, tokenizer), spoken(), row=row, quick=True) for row in ("input", "output")
    }
    errors = {}
    for row, result in found.items():
        own = result.systems.set_index("system").loc["alignment_heads of the model"]
        assert (own["heads"], own["row"]) == ("1.2", row)
        alone = result.heads.query("layer == 1 and head == 2")["start_error"].iloc[0]
        assert own["start_error"] == pytest.approx(alone)
        errors[row] = result.heads["start_error"].tolist()
    assert errors["input"] != errors["output"]


@pytest.mark.parametrize("weights", ["attention", "contribution"])
def test_given_heads_are_scored_without_a_file_for_times(weights: str, tmp_path: Path) -> None:
    """On all audio, where half of it was for the choice before."""
    found = align(whisper(), spoken(), quick=True, weights=weights)
    found.save(tmp_path / "out")
    given = align(whisper(), spoken(), heads=tmp_path / "out" / "heads.json")
    errors = (given.words["start"] - given.words["start_by_heads"]).abs()
    assert given.systems.iloc[0]["start_error"] == pytest.approx(errors.mean())
    reported = given.words[given.words["pair"] % 2 == 0]
    assert reported["start_by_heads"].tolist() == found.words["start_by_heads"].tolist()
    assert FewForIntervals(len(spoken())) in given.notes


def files(folder: Path) -> Path:
    lines = []
    for number, (features, words) in enumerate(spoken()):
        np.save(folder / f"{number}.npy", features.numpy())
        lines += [f"{number}.npy\t{start:.2f}\t{end:.2f}\t{word}" for word, start, end in words]
    (folder / "times.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "times.tsv"


def test_on_the_command_line(tmp_path: Path) -> None:
    model, tokenizer = whisper()
    model.save_pretrained(tmp_path / "whisper")
    tokenizer.save_pretrained(tmp_path / "whisper")
    times, out = files(tmp_path), tmp_path / "out"
    words = ["align", str(tmp_path / "whisper"), "--pairs", str(times)]
    done = CliRunner().invoke(app, [*words, "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "error of starts (s)" in " ".join(done.output.split())
    found = attnlab.load(out)
    assert "untrained twin, chosen alike" in set(found.systems["system"])
    page = (out / "report.html").read_text(encoding="utf-8")
    line = json.dumps(found.details["configuration"]["generation_config"]["alignment_heads"])
    assert line in page
    given = ["--heads", str(out / "heads.json"), "--links", str(tmp_path / "words.csv")]
    done = CliRunner().invoke(app, [*words, *given, "--out", str(tmp_path / "again")])
    assert done.exit_code == 0, done.output
    assert f"Wrote {tmp_path / 'words.csv'}." in done.output.replace("\n", " ")
    written = pd.read_csv(tmp_path / "words.csv")
    reported = written[written["audio"].isin(found.words["audio"])]
    assert reported["start_by_heads"].tolist() == found.words["start_by_heads"].tolist()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.npy\t0.3\t0.2\tcat", "line 1, begins at 0.3 s and ends at 0.2 s"),
        ("0.npy\t0.3\t0.4\tcat\n0.npy\t0.2\t0.4\tcat", "line 2, begins at 0.2 s, before"),
        ("0.npy\t0.3\t0.9\tcat", "line 1, ends at 0.9 s, and 0.npy at 0.60 s"),
        ("0.npy\tnow\t0.9\tcat", "line 1, has 'now' and '0.9' for start and end"),
        ("0.npy\t0.1\t0.2\ta cat", "line 1, has 'a cat' for a word"),
        ("the cat\til gatto", "line 1, has 2 columns instead of four"),
        ("none.npy\t0.1\t0.2\tcat", "line 1, names audio .* no file"),
        ("long.npy\t0.1\t0.2\tcat", "line 1, names audio .* 1.2 s long, and the model reads 1 s"),
        ("mel.npy\t0.1\t0.2\tcat", "line 1, names audio .* 8 mel bins"),
        ("0.npy\t0.1\t0.2\tcat", "at least two"),
        ("", "empty|no audio"),
    ],
)  # fmt: skip
def test_lines_that_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = files(tmp_path)
    np.save(tmp_path / "long.npy", random(7, 120).numpy())
    np.save(tmp_path / "mel.npy", random(8, 50).numpy())
    path.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        align(whisper(), path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [("a cat", "il gatto")]}, "pair 1 has 'il gatto' for words; .* reads audio"),
        ({"pairs": [(random(7, 50), [("cat", 0.1)])]}, r"pair 1 has \[\('cat', 0.1\)\] for words"),
        ({"pairs": [(random(7, 50), ["cat"])]}, r"pair 1 has \['cat'\] for words"),
        ({"pairs": None}, "reads audio; give pairs"),
        ({"pairs": spoken(), "gold": __file__}, "no gold"),
        ({"pairs": spoken(), "pair": "en-it"}, "no pair"),
        ({"pairs": spoken(), "choose": "unsupervised"}, "choose set or single"),
        ({"pairs": spoken(), "source_language": "klingon"}, "does not know the language 'klingon'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        align(whisper(), **options)


def test_a_language_has_to_be_named_where_there_are_several() -> None:
    model, tokenizer = whisper()
    model.generation_config.lang_to_id = {"<|en|>": 55, "<|it|>": 56}
    with pytest.raises(InputError, match="say which is spoken"):
        align((model, tokenizer), spoken())
    align((model, tokenizer), spoken(), source_language="en", quick=True)
    assert tokenizer.convert_ids_to_tokens(tokenizer.prefix_tokens) == [
        "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>",
    ]  # fmt: skip


def test_a_model_of_texts_is_given_no_audio(tmp_path: Path) -> None:
    model = random_models.marian(), random_models.tokenizer()
    with pytest.raises(InputError, match="line 1, names audio, and the model reads text"):
        align(model, files(tmp_path))
    with pytest.raises(InputError, match="two texts"):
        align(model, spoken())
