"""Without gold links engines are told of heads only where these differ beyond chance."""

from typing import Any

import pytest
import torch
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.alignment.links import gold_links
from attnlab.alignment.word_links import WordWeights, gold_grid
from attnlab.labels.gold import gold_of_texts
from attnlab.questions.align.aligning import align
from attnlab.questions.align.chosen_heads import heads_differ
from attnlab.questions.align.question import HeadsAlike
from attnlab.questions.align.word_reading import Part, WordPairs

WORDS, HEADS = 5, 6


class Diagonal:
    """A statistical aligner that links each word with the one at its place."""

    def align(self, words: Any) -> list[frozenset[tuple[int, int]]]:
        return [frozenset((n, n) for n in range(WORDS)) for _ in words]


def part_of(count: int, *, aligned: float, seed: int, words: str = "a b c d e") -> Part:
    """Pairs with random weights; the last head of the row `input` has `aligned` more on the diagonal."""
    pairs = WordPairs(gold_of_texts([(words, "a b c d e")] * count), (), "here")
    there = torch.ones(count, WORDS, dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    weights = {
        row: WordWeights(
            torch.rand(count, HEADS, WORDS, WORDS, generator=generator).softmax(-1), there, there
        )
        for row in ("output", "input")
    }
    weights["input"].weights[:, -1] += aligned * torch.eye(WORDS)
    gold = gold_grid([gold_links(())] * count, WORDS, WORDS)
    return Part(pairs, tuple(range(count)), weights, gold, per_layer=HEADS)


@pytest.mark.parametrize("statistical", [None, Diagonal()])
def test_heads_differ_where_one_aligns_and_as_often_as_by_chance_where_none_does(
    statistical: Any, as_users_call_it: None
) -> None:
    def differ(aligned: float) -> int:
        parts = (part_of(40, aligned=aligned, seed=seed) for seed in range(40))
        return sum(heads_differ(part, statistical) for part in parts)

    assert differ(0.3) == 40
    assert differ(0.0) <= 4, "one in forty is expected on this side"


def test_where_nothing_can_be_told_heads_do_not_differ() -> None:
    assert not heads_differ(part_of(40, aligned=0.3, seed=0, words="v w x y z"), None)
    assert not heads_differ(part_of(6, aligned=9.0, seed=0), None), "three pairs"
    assert not heads_differ(part_of(1, aligned=9.0, seed=0), None)


@pytest.mark.parametrize("differ", [True, False])
def test_engines_are_told_of_heads_that_differ_alone(
    differ: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if differ:
        monkeypatch.setattr("attnlab.questions.align.aligning.heads_differ", lambda *_, **__: True)
    found = align((random_models.marian(), tokenizer()), PAIRS, quick=True)
    told = found.details["configuration"]
    assert (told["generation_config"] is not None) is differ
    assert (HeadsAlike("words written alike") in found.notes) is not differ
    if not differ:
        assert {*told.values()} == {None}
        assert not {"CTranslate2", "Marian"} & {*found.contents().facts}
        assert "than the heads do on average" in " ".join(map(str, found.notes))
