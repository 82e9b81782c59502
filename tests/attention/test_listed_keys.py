"""Listed keys, static weights and nothing at all against their definitions, written as loops."""

import math
from typing import Any

import pytest
import torch
from oracles.ragged import drawn_ids, ragged

from attnlab.attention.mechanisms.softmax import MaskedSoftmax
from attnlab.attention.registry import make

CLOSE = {"rtol": 0, "atol": 1e-12}


def listed_keys(spec: dict[str, Any], i: int, ids: list[int], causal: bool) -> set[int]:
    """The keys that row i of a sentence sees, one by one."""
    length, seen = len(ids), set()
    for j in range(length):
        near = "reach" not in spec or abs(j - i) <= spec["reach"]
        if (
            j - i in spec.get("offsets", ())
            or j < spec.get("first", 0)
            or j >= length - spec.get("last", 0)
            or (ids[j] in spec.get("tokens", ()) and near)
        ):
            seen.add(j)
    seen = {j for j in seen if j <= i or not causal}
    nearest = min(spec.get("offsets", ()), key=lambda d: (abs(d), d), default=0)
    return seen or {min(max(i + nearest, 0), length - 1)}


@pytest.mark.parametrize(
    ("spec", "causal"),
    [
        ({"offsets": (-3, 0, 2), "first": 1, "last": 2}, False),
        ({"offsets": (4, -5)}, False),
        ({"offsets": (-4, -2), "first": 2}, True),
        ({"offsets": (-4, -2)}, True),
        ({"last": 1}, False),
        ({"tokens": (1, 5)}, False),
        ({"tokens": (1, 5), "offsets": (0,), "reach": 2}, False),
        ({"tokens": (1, 5), "reach": 1}, False),
        ({"tokens": (1, 5), "reach": 1}, True),
        ({"tokens": (1, 5), "offsets": (-1,), "reach": 2}, True),
    ],
)
def test_listed_keys_are_those_seen(spec: dict[str, Any], causal: bool) -> None:
    options = ", ".join(f"{name}={value}" for name, value in spec.items())
    query, key, _, visible = ragged(13)
    ids = drawn_ids(13, 9)
    mechanism = make(f"keys({options})", causal=causal)
    assert isinstance(mechanism, MaskedSoftmax)
    support = mechanism.support(query, key, visible, token_ids=ids)
    matrix = mechanism.implied_matrix(query, key, visible, token_ids=ids)
    for b, length in ((0, 13), (1, 7)):
        for i in range(length):
            seen = listed_keys(spec, i, ids[b, :length].tolist(), causal)
            assert set(support[b, 1, i].nonzero().flatten().tolist()) == seen
            power = {j: math.exp(float(query[b, 1, i] @ key[b, 1, j]) / 5**0.5) for j in seen}
            for j in seen:
                expected = power[j] / sum(power.values())
                assert float(matrix[b, 1, i, j]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weights", "causal"),
    [({-3: 0.5, -1: 0.25, 0: 1.0, 4: 2.0}, False), ({-2: 0.5, -5: 0.25}, True), ({6: 1.0}, False)],
)
@pytest.mark.parametrize("tokens", [13, 300])
def test_static_weights_are_normalised_over_the_sentence(
    weights: dict[int, float], causal: bool, tokens: int
) -> None:
    spec = f"static(offsets={tuple(weights)}, weights={tuple(weights.values())})"
    *inputs, visible = ragged(tokens)
    mechanism = make(spec, causal=causal)
    matrix = mechanism.implied_matrix(*inputs[:2], visible)
    torch.testing.assert_close(mechanism(*inputs, visible), matrix @ inputs[2], **CLOSE)
    for b, length in ((0, tokens), (1, (tokens + 1) // 2)):
        for i in {0, 1, 3, length // 2, length - 2, length - 1}:
            row = {i + d: weight for d, weight in weights.items() if 0 <= i + d < length}
            nearest = min(weights, key=lambda d: (abs(d), d))
            row = row or {min(max(i + nearest, 0), length - 1): 1.0}
            expected = torch.zeros(tokens, dtype=torch.float64)
            for j, weight in row.items():
                expected[j] = weight / sum(row.values())
            torch.testing.assert_close(matrix[b, 0, i], expected, **CLOSE)


def test_static_attention_of_a_previous_token_is_the_fixed_pattern() -> None:
    *inputs, visible = ragged(13)
    static = make("static(offsets=(-1,), weights=(3,))")(*inputs, visible)
    torch.testing.assert_close(static, make("fixed(pattern='previous')")(*inputs, visible), **CLOSE)


def test_no_attention_gives_zeros() -> None:
    *inputs, visible = ragged(7)
    mechanism = make("none")
    assert torch.equal(mechanism(*inputs, visible), torch.zeros(3, 2, 7, 3).double())
    assert not bool(mechanism.implied_matrix(*inputs[:2], visible).any())
    assert mechanism.cost(7, 7, 5).multiply_adds == 0


def test_every_offset_and_end_takes_a_slot() -> None:
    slots = {"first=2, last=3": 6, "offsets=[-1, 0], first=2, last=3": 7, "tokens=[5]": None}
    for options, expected in slots.items():
        assert make(f"keys({options})").slots() == expected
