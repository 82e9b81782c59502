"""A window is (left, right), inclusive: which keys move an output, here and in transformers."""

from collections.abc import Callable

import pytest
import torch
from oracles.ragged import ragged
from transformers import LongformerConfig
from transformers.masking_utils import (
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from attnlab.attention.kernels.union import Strip, Union
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.registry import make
from attnlab.attention.specification import Window

TOKENS = 24


def keys_that_move(
    forward: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor
) -> list[set[int]]:
    """For each query the keys whose change moves its output; `forward` maps tokens to outputs."""
    before = forward(values)
    moved: list[set[int]] = [set() for _ in range(TOKENS)]
    for j in range(TOKENS):
        changed = values.clone()
        changed[:, j] += 1.0
        after = forward(changed)
        for i in range(TOKENS):
            if not torch.equal(after[:, i], before[:, i]):
                moved[i].add(j)
    return moved


@pytest.mark.parametrize("dilation", [1, 2, 3, 5])
@pytest.mark.parametrize("queries", [1, 7, 64, 200])
def test_a_strip_has_little_more_rows_than_queries(queries: int, dilation: int) -> None:
    """So that its work grows with them: what is more fills the last chunk of each residue."""
    strip = Strip(Union((2, 1), dilation), queries, 0)
    assert queries <= strip.chunks * strip.size * dilation < queries + (strip.size + 1) * dilation


def moved_in_band(window: Window) -> list[set[int]]:
    return moved_by(make(f"band(window={window})"))


def moved_by(mechanism: Mechanism) -> list[set[int]]:
    query, key, _, _ = ragged(TOKENS)
    values = torch.randn(
        3, TOKENS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    )
    return keys_that_move(
        lambda tokens: mechanism(query[:, :1], key[:, :1], tokens[:, None])[:, 0], values
    )


def clipped(rule: Callable[[int], range]) -> list[set[int]]:
    """Keys of each query by a rule on positions, cut at the ends of the sentence."""
    return [{j for j in rule(i) if 0 <= j < TOKENS} for i in range(TOKENS)]


@pytest.mark.parametrize(
    ("window", "rule", "keys"),
    [
        pytest.param((3, 3), lambda i: range(i - 3, i + 4), 7, id="both sides"),
        pytest.param((2, 1), lambda i: range(i - 2, i + 2), 4, id="uneven"),
        pytest.param((3, 0), lambda i: range(i - 3, i + 1), 4, id="backwards"),
    ],
)
def test_keys_of_a_convention(window: Window, rule: Callable[[int], range], keys: int) -> None:
    moved = moved_in_band(window)
    assert moved == clipped(rule)
    assert len(moved[TOKENS // 2]) == keys


@pytest.mark.parametrize(
    ("window", "mask"),
    [
        ((3, 0), sliding_window_causal_mask_function(4)),
        ((4, 4), sliding_window_bidirectional_mask_function(4)),
    ],
    ids=["causal", "bidirectional"],
)
def test_sliding_windows_are_those_of_transformers(
    window: Window, mask: Callable[..., torch.Tensor]
) -> None:
    at = torch.arange(TOKENS)
    theirs = [
        {j for j in range(TOKENS) if bool(mask(at[0], at[0], at[i], at[j]))} for i in range(TOKENS)
    ]
    assert moved_in_band(window) == theirs


def test_longformer_window_is_that_of_transformers() -> None:
    config = LongformerConfig(
        hidden_size=4, num_attention_heads=1, attention_window=[6], attention_probs_dropout_prob=0.0
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LongformerSelfAttention(config, 0).double().eval()
    zeros = torch.zeros(3, TOKENS)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return module(tokens, zeros, zeros.bool(), zeros.bool(), is_global_attn=False)[0]

    tokens = torch.randn(
        3, TOKENS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    assert moved_in_band((3, 3)) == keys_that_move(forward, tokens)


def test_three_blocks_of_bigbird_reach_one_to_two_blocks() -> None:
    mechanism = make("bigbird(block=4, random=0, global_blocks=0)")
    moved = moved_by(mechanism)
    lefts, rights = set(), set()
    for i in range(8, 16):
        keys = sorted(moved[i])
        assert len(keys) == 12
        lefts.add(i - keys[0])
        rights.add(keys[-1] - i)
    assert lefts == rights == {4, 5, 6, 7}
