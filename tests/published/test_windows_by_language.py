"""The study of windows by language: its statistics against loops, its reading, its result on tiny text."""

import gzip
import sys
from dataclasses import replace
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from small_run import SETTINGS, snapshot

from attnlab.corpora.corpus import draw_embedded, load_corpus
from attnlab.labels.treebank import Arc, GoldSentence
from attnlab.labels.word_tokens import Span
from attnlab.models.run import load
from attnlab.models.tokenizer import train_tokenizer
from attnlab.reading import tokens_of
from attnlab.reading.capture import capture
from attnlab.reading.passes import prepare
from experiments.shared.readme import read_facts, read_table
from experiments.windows_by_language import models
from experiments.windows_by_language import run as experiment
from experiments.windows_by_language.contrasts import (
    between_sources,
    contrast,
    differences,
    least_p,
    permutation_p,
)
from experiments.windows_by_language.gold import arc_lengths
from experiments.windows_by_language.reading import (
    ALL,
    ONLY_WORDS,
    TOKENS,
    WORDS,
    Windows,
    captured,
    keys_in_windows,
    measured,
    reach,
    units_of,
    windows_of,
)


@pytest.mark.parametrize("name", models.COLLECTIONS)
def test_each_round_holds_every_language_once_on_each_side(name: str) -> None:
    texts = models.COLLECTIONS[name]
    pairs, number = texts.pairs(), len(texts.languages)
    assert len(set(pairs)) == len(pairs) == number * (number - 1)
    for first in range(0, len(pairs), number):
        for side in zip(*pairs[first : first + number], strict=True):
            assert sorted(side) == sorted(texts.languages)


def test_window_and_columns_capture_what_loops_find() -> None:
    weights = torch.rand(2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 0, 4, 1, 2])
    best, chosen = captured(weights), captured(weights, order)
    assert best.shape == (2, 5, 6)
    for head, window, count in product(range(2), range(5), range(6)):
        sums = {
            columns: sum(
                float(weights[head, query, key])
                for query, key in product(range(5), range(5))
                if abs(query - key) <= window or key in columns
            )
            for columns in combinations(range(5), count)
        }
        assert best[head, window, count] == pytest.approx(max(sums.values()))
        taken = tuple(sorted(order[:count].tolist()))
        assert chosen[head, window, count] == pytest.approx(sums[taken])


def test_keys_of_windows_are_counted_within_texts() -> None:
    sizes = (1, 4, 7)
    for window, found in enumerate(keys_in_windows(sizes, 7)):
        counts = [
            sum(abs(query - key) <= window for key in range(size))
            for size in sizes
            for query in range(size)
        ]
        assert found == pytest.approx(np.mean(counts))


def _windows(matrix: torch.Tensor) -> Windows:
    """Of one head and text, in which the words become rarer from left to right."""
    windows = Windows({})
    windows._add(WORDS, ONLY_WORDS, matrix[None], torch.arange(len(matrix), 0, -1))
    return windows


def test_reach_of_planted_heads() -> None:
    size = 12
    place = torch.arange(size)
    band = ((place[:, None] - place).abs() <= 2).double()
    row = reach(_windows(band), WORDS, ONLY_WORDS).iloc[0]
    assert (row["w90"], row["best_window"], row["num_pos"], row["rare_pos"]) == (2, 2, 0, 0)
    assert row["best_keys"] == row["window_keys"] == pytest.approx(band.sum() / size)
    means = [float(abs(place - query)[band[query] > 0].double().mean()) for query in range(size)]
    assert row["mean_offset"] == pytest.approx(np.mean(means))
    # All look at the last word, which is the rarest; half of that is enough where the diagonal has the rest.
    column = torch.zeros(size, size).double()
    column[:, -1] = 1
    row = reach(_windows(column), WORDS, ONLY_WORDS).iloc[0]
    assert (row["best_window"], row["num_pos"], row["rare_pos"], row["w90"]) == (0, 1, 1, 10)
    # At the other end it is the last that the rarest reach.
    row = reach(_windows(column.flip(1)), WORDS, ONLY_WORDS).iloc[0]
    assert (row["num_pos"], row["best_keys"]) == (1, 2)
    assert row["rare_keys"] == row["window_keys"]


def test_units_are_words_marks_and_special_tokens() -> None:
    text = "l'amico, sì"
    tokenizer = train_tokenizer([text], "bpe", 20)
    (tokens,) = tokens_of(tokenizer, [text])
    counts = torch.arange(len(tokenizer)) + 5
    units = units_of(text, tokens, counts, WORDS)
    assert units.is_word.tolist() == [False, True, False, True, False, True, False]
    assert units.of_token[0] == 0
    assert units.of_token[-1] == 6
    for unit in range(7):
        pieces = [
            token for token, own in zip(tokens.ids, units.of_token, strict=True) if own == unit
        ]
        assert units.count[unit] == min(pieces) + 5
    of_tokens = units_of(text, tokens, counts, TOKENS)
    assert of_tokens.of_token == tuple(range(len(tokens.ids)))
    assert of_tokens.is_word.tolist() == [bool(units.is_word[one]) for one in units.of_token]


def test_heads_are_read_as_loops_read_them(small_run: Path) -> None:
    run = load(small_run)
    texts = run.corpus().test["source"][:7]
    read = windows_of(prepare(run, texts, ["encoder"]), run.type_counts[0])
    kept = capture(run, texts, sites=["encoder"], keep_matrices=len(texts)).kept
    expected = {ONLY_WORDS: [0.0] * 4, ALL: [0.0] * 4}
    rows = dict.fromkeys(expected, 0)
    for number, tokens in enumerate(tokens_of(run.tokenizers.source, texts)):
        matrix = kept.matrices[number, "encoder", 0][0].double()
        units = units_of(texts[number], tokens, run.type_counts[0], WORDS)
        for view, total in expected.items():
            counted = [u for u, word in enumerate(units.is_word) if word or view == ALL]
            for query_place, query in enumerate(counted):
                pieces = [i for i, own in enumerate(units.of_token) if own == query]
                mass = [
                    float(
                        sum(
                            matrix[i, j]
                            for i in pieces
                            for j, own in enumerate(units.of_token)
                            if own == key
                        )
                    )
                    for key in counted
                ]
                rows[view] += 1
                for window in range(4):
                    near = [m for place, m in enumerate(mass) if abs(place - query_place) <= window]
                    total[window] += sum(near) / sum(mass)
    for view, total in expected.items():
        found = read.mean(WORDS, view)[0, :4, 0].tolist()
        assert found == pytest.approx([one / rows[view] for one in total], abs=1e-6)
    heads, curves = measured(run, texts)
    assert len(heads) == 3 * 4 * 2
    assert curves.groupby(["condition", "unit", "keys"])["captured"].is_monotonic_increasing.all()


GRID = np.array([[9.0, 4, 5], [8, 6, 1], [np.nan, 3, 7], [5, np.nan, np.nan]])


def test_statistics_against_loops() -> None:
    assert differences(GRID)[:2].tolist() == [4.5, 4.5]
    assert np.isnan(differences(GRID)[2:]).all()
    assert contrast(GRID) == 4.5
    rest = [[value - np.nanmean(row) for value in row] for row in GRID]
    columns = [[value for value in column if value == value] for column in zip(*rest, strict=True)]
    assert between_sources(GRID) == pytest.approx(
        sum(len(column) * np.mean(column) ** 2 for column in columns)
    )


def test_permutation_is_within_targets() -> None:
    orders = [
        np.array([*map(list, drawn)])
        for drawn in product(*(permutations(row) for row in GRID[:2].tolist()))
    ]
    for statistic in (contrast, between_sources):
        least = abs(statistic(GRID[:2])) - 1e-9
        exact = np.mean([abs(statistic(one)) >= least for one in orders])
        assert permutation_p(GRID[:2], statistic) == pytest.approx(exact, abs=0.01)
    assert least_p(GRID) == pytest.approx(1 / 9)
    assert permutation_p(np.ones((3, 4)), contrast, draws=50) == 1
    assert permutation_p(GRID, contrast, draws=50) == permutation_p(GRID, contrast, draws=50)


def test_arcs_are_as_long_as_the_words_between_them() -> None:
    spans = tuple(Span(2 * n, 2 * n + 1) for n in range(5))
    tags = ("NOUN", "PUNCT", "VERB", "PUNCT", "NOUN")
    arcs = (Arc(0, 2, "nsubj"), Arc(4, 0, "obl"), Arc(3, 2, "punct"))
    assert arc_lengths(GoldSentence("1", "a , b . c", spans, tags, arcs)) == [1, 2]


def test_the_vocabulary_is_the_least_that_keeps_words_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "SIZES", (60, 500))
    monkeypatch.setattr(models, "FERTILITY", 2.5)
    corpus = load_corpus(size=120)
    size = models.vocabulary_of(corpus)
    texts = [*corpus.train["source"], *corpus.train["target"]]
    words = models.words_of(corpus.train["source"])
    assert set("".join(words)) & set(",.'") == set()
    around = [
        models.fertility(train_tokenizer(texts, "bpe", one), words)
        for one in (size - models.STEP, size)
    ]
    assert around[0] > models.FERTILITY >= around[1]


def _tiny_data(folder: Path, name: str) -> Path:
    """The same sentences in all languages, in two alphabets of words, and trees of one word each."""
    drawn = draw_embedded(("en", "it"), 0, 90)
    parts = {"train": drawn[:60], "val": drawn[60:70], "test": drawn[70:]}
    (folder / name).mkdir(parents=True)
    (folder / "pud").mkdir()
    tree = "1\tA\ta\tNOUN\t_\t_\t0\troot\t_\t_\n2\tb\tb\tNOUN\t_\t_\t1\tobj\t_\t_\n\n"
    for place, language in enumerate(models.COLLECTIONS[name].languages):
        if language != "cs":
            (folder / "pud" / f"{language}.conllu.gz").write_bytes(gzip.compress(tree.encode()))
        for part, pairs in parts.items():
            lines = [f"{(one.source, one.target)[place % 2]}\n" for one in pairs]
            path = folder / name / f"{part}.{language}.gz"
            path.write_bytes(gzip.compress("".join(lines).encode()))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "languages", "targets"),
    [("bible", ("en", "it", "de", "es"), 2), ("multi30k", ("en", "de", "cs"), 2)],
)
def test_the_command_runs_from_texts_to_readme(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    languages: tuple[str, ...],
    targets: int,
) -> None:
    """Models that are there are neither trained nor read again."""
    out, runs = tmp_path / f"windows_{name}", tmp_path / "runs"
    texts = replace(models.COLLECTIONS[name], languages=languages)
    monkeypatch.setitem(models.COLLECTIONS, name, texts)
    data = _tiny_data(tmp_path / "data", name)
    monkeypatch.setattr(experiment, "RESULTS", tmp_path)
    monkeypatch.setitem(models.COLLECTIONS, name, replace(texts, optimizer={"epochs": 1}))
    monkeypatch.setattr(models, "SIZES", (100, 200))
    monkeypatch.setattr(models, "MODEL", SETTINGS["model"])
    monkeypatch.setattr(models, "OPTIMIZER", SETTINGS["optimizer"])
    words = [name, str(data), "--sentences", "6", "--runs", str(runs)]
    monkeypatch.setattr(sys, "argv", ["run.py", *words, "--targets", str(targets)])
    experiment.main()
    trained, published = snapshot(runs), snapshot(out)
    monkeypatch.setattr(experiment, "measured", None)
    experiment.main()
    assert (snapshot(runs), snapshot(out)) == (trained, published)
    number = len(texts.languages)
    assert len(read_table(out, "models")) == number * targets
    text = (out / "README.md").read_text("utf-8")
    assert f"Number of models: {number * targets} of {number * (number - 1)}" in text
    assert ("Missing: en-es" in text) == (name == "bible")
    heads = read_table(out, "heads")
    of_german = heads[
        (heads["unit"] == WORDS) & (heads["keys"] == ONLY_WORDS) & (heads["condition"] == "trained")
    ]
    by_model = of_german.groupby(["target", "source"])["w90"].mean()
    each = [
        by_model[target, "de"]
        - np.mean([by_model[target, one] for one in by_model[target].index if one != "de"])
        for source, target in texts.pairs()[: number * targets]
        if source == "de"
    ]
    found = read_table(out, "contrasts")
    key = ["trained", WORDS, ONLY_WORDS, "w90"]
    of_key = (found[["condition", "unit", "keys", "measure"]] == key).all(axis=1)
    (row,) = found[of_key].to_dict("records")
    assert row["targets"] == len(each)
    assert row["difference"] == pytest.approx(np.mean(each), abs=1e-3)
    assert read_facts(out)["command"].endswith(f"--targets {targets}")
    assert (out / "windows.svg").exists()
