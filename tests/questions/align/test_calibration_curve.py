"""Heads chosen on fewer pairs: a draw sees its own pairs and no others."""

from collections.abc import Mapping

import pytest
import torch

from attnlab.alignment.links import gold_links
from attnlab.alignment.word_links import Row, WordWeights, gold_grid
from attnlab.labels.gold import gold_of_texts
from attnlab.questions.align import compared_systems
from attnlab.questions.align.compared_systems import calibration_curve
from attnlab.questions.align.question import AlignmentSettings
from attnlab.questions.align.word_reading import Part, WordPairs

WORDS, SEED, DRAWN = 3, 4, 3


def part_of(aligns: Mapping[Row, list[bool]]) -> Part:
    """Pairs of three words, each linked with the one at its place; a row has a head that says so or errs."""
    count = len(next(iter(aligns.values())))
    pairs = WordPairs(gold_of_texts([("a b c", "a b c")] * count), (), "here")
    right = torch.eye(WORDS)
    there = torch.ones(count, WORDS, dtype=torch.bool)
    weights = {
        row: WordWeights(
            torch.stack([right if good else right.roll(1, 0) for good in each])[:, None],
            there,
            there,
        )
        for row, each in aligns.items()
    }
    gold = gold_grid([gold_links((n, n) for n in range(WORDS))] * count, WORDS, WORDS)
    return Part(pairs, tuple(range(count)), weights, gold, per_layer=1)


@pytest.mark.parametrize("inside", ["output", "input"])
def test_a_draw_chooses_its_row_by_its_own_pairs(
    inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row is right in the pairs that are drawn and in the reported ones, the other in all the rest."""
    monkeypatch.setattr(compared_systems, "CALIBRATION_SIZES", (DRAWN,))
    monkeypatch.setattr(compared_systems, "DRAWN", 1)
    count = 12
    generator = torch.Generator().manual_seed(SEED)
    drawn = set(torch.randperm(count, generator=generator)[:DRAWN].tolist())
    own, other = ("output", "input") if inside == "output" else ("input", "output")
    calibration = part_of(
        {own: [n in drawn for n in range(count)], other: [n not in drawn for n in range(count)]}
    )
    report = part_of({own: [True] * 4, other: [False] * 4})
    curve = calibration_curve(calibration, report, AlignmentSettings(seed=SEED))
    assert curve["calibration_pairs"].tolist() == [DRAWN, count]
    assert curve["mean_aer"].tolist() == [0, 1]
