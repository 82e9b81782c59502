"""Heads closed for good give what ablation gives, with nothing attached to the model."""

from dataclasses import replace

import pytest
import torch
from zoo.architectures import CASES

from attnlab.ablation.ablation import ablated, close_heads, closed_heads
from attnlab.core.addresses import Head
from attnlab.core.errors import AttnlabError

HEADS = [Head("encoder", 0, 2), Head("decoder", 1, 0), Head("cross", 0, 1), Head("cross", 0, 2)]


def test_a_closed_head_is_an_ablated_one() -> None:
    case = CASES["attnlab"]()
    projections = case.projections()
    whole = case.result()
    with ablated(projections, HEADS, "zero"):
        expected = case.result()
    assert closed_heads(projections) == []
    close_heads(projections, HEADS)
    assert set(closed_heads(projections)) == set(HEADS)
    found = case.result()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert (found - whole).abs().max() > 1e-3


def test_what_stores_its_weight_otherwise_is_refused() -> None:
    projections = dict(CASES["gpt2"]().projections())
    projections["decoder", 0] = replace(projections["decoder", 0], module=torch.nn.Identity())
    with pytest.raises(
        AttnlabError, match=r"decoder layer 0: heads can be closed .* not in Identity"
    ):
        close_heads(projections, [Head("decoder", 0, 0)])
