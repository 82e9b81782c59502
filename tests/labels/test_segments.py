"""Heads on pairs of texts: what crosses to the other text, against loops and on a planted layer."""

import pytest
import torch
from labels.planting import make_batch, random_attention
from planted_layers import layer
from torch import Tensor

from attnlab.labels.counting import HeadFunctions, TextSide
from attnlab.labels.counts import largest
from attnlab.labels.segments import count_crossing, count_same_token, crossing_pairs
from attnlab.reading.weights import ALL, CONTENT

# [CLS] the cat sat [SEP] the cat lay [SEP], with a number for each word.
KINDS = ["start", "word", "word", "word", "end", "word", "word", "word", "end"]
WORDS = [1, 5, 6, 7, 2, 5, 6, 8, 2]
SECOND = 5


@pytest.mark.parametrize("causal", [False, True])
def test_counts_are_those_of_loops(causal: bool) -> None:
    batch = make_batch(40, causal=causal, seed=3)
    ids = torch.randint(4, batch.visible.shape, generator=torch.Generator().manual_seed(1))
    starts = batch.visible.sum(1) // 2
    second = torch.arange(13) >= starts[:, None]
    weights = random_attention(batch, heads=2)
    scope, special = batch.scope, batch.special
    pairs = crossing_pairs(scope, second)
    mass = (weights * batch.ordinary[:, None, None]).sum(-1)
    of_all = count_crossing(weights, scope, pairs)
    of_content = count_crossing(weights, scope.of_content(), pairs, mass)
    same = count_same_token(largest(weights), scope, pairs, ids[:, :, None] == ids[:, None])
    expected = torch.zeros(3, 2, 3, dtype=torch.float64)
    for s, head in ((s, head) for s in range(40) for head in range(2)):
        n = int(batch.visible[s].sum())
        for i in (i for i in range(n) if not special[s, i]):
            keys = range(i + 1 if causal else n)
            ordinary = [j for j in keys if not special[s, j]]
            other = [j for j in ordinary if (i < starts[s]) != (j < starts[s])]
            if not other or len(keys) < 2:
                continue
            row = weights[s, head, i]
            crossed = float(row[other].sum())
            expected[0, head] += torch.tensor([crossed, 1, len(other) / len(keys)])
            if len(ordinary) >= 2:
                content = crossed / float(row[ordinary].sum())
                expected[1, head] += torch.tensor([content, 1, len(other) / len(ordinary)])
            alike = [j for j in other if ids[s, i] == ids[s, j]]
            if alike:
                hit = float(int(row[: len(keys)].argmax()) in alike)
                expected[2, head] += torch.tensor([hit, 1, len(alike) / len(other)])
    for counts, one in zip((of_all, of_content, same), expected, strict=True):
        found = (counts.share.numerator, counts.share.denominator, counts.control)
        torch.testing.assert_close(torch.stack([part.sum(0) for part in found], -1), one)


def planted(sentences: int) -> Tensor:
    """Heads: own word in the other text; anywhere in the other text; the separator; even rows."""
    heads = torch.zeros(4, len(WORDS), len(WORDS), dtype=torch.float64)
    for i, word in enumerate(WORDS):
        twins = [j for j, other in enumerate(WORDS) if other == word and j != i]
        heads[0, i, twins or [0]] = 1 / len(twins or [0])
        other = [j for j in range(1, 8) if (j < SECOND) != (i < SECOND) and j != 4]
        heads[1, i, other] = 1 / len(other)
    heads[2, :, 4] = 1
    heads[3] = 1 / len(WORDS)
    return heads.expand(sentences, -1, -1, -1)


def functions_of(seconds: tuple[int | None, ...]) -> HeadFunctions:
    side = TextSide(torch.ones(9, dtype=torch.long), seconds=seconds)
    functions, sentences = HeadFunctions(side), 60
    made = layer([*planted(sentences)], [KINDS] * sentences)
    made.queries.ids[:] = made.keys.ids[:] = torch.tensor(WORDS)
    functions.update(made)
    return functions


@pytest.mark.parametrize("keys", [ALL, CONTENT])
def test_planted_heads_are_found_on_pairs(keys: str) -> None:
    verdicts = functions_of((SECOND,) * 60).verdicts(keys).set_index(["label", "head"])
    confirmed = verdicts[verdicts["status"] == "confirmed"].index
    assert ("same token across", 0) in confirmed
    assert {head for label, head in confirmed if label == "same token across"} == {0}
    assert {head for label, head in confirmed if label == "crossing"} == {0, 1}
    keys_seen = 9 if keys == ALL else 6
    assert verdicts.loc[("crossing", 3), "value"] == pytest.approx(3 / keys_seen)
    assert verdicts.loc[("crossing", 3), "control"] == pytest.approx(3 / keys_seen)
    assert verdicts.loc[("same token across", 3), "control"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("seconds", [(), (None,) * 60])
def test_single_texts_have_no_such_labels(seconds: tuple[int | None, ...]) -> None:
    labels = set(functions_of(seconds).verdicts()["label"])
    assert labels
    assert not labels & {"same token across", "crossing"}
