"""Padding between words, as generation leaves it behind prompts that were padded on the right."""

import pytest
import torch
from zoo.bridged import SPECS, TYPES, stands_at

from attnlab.attention.calibration import load_frequencies
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.registry import make

pytestmark = pytest.mark.grid

VISIBLE = torch.tensor([[1, 1, 1, 0, 0, 1, 1, 1], [0, 1, 1, 0, 1, 1, 0, 0]]).bool()


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("spec", SPECS)
def test_what_stands_in_gaps_is_not_seen(spec: str, site: str) -> None:
    if not stands_at(spec, site):
        pytest.skip("has no form for the site")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        setup = {"causal": site == "decoder", "cross": site == "cross"}
        mechanism = make(spec, **setup, heads=2, vocabulary=TYPES).double().eval()
        query, key, value = torch.randn(3, 2, 2, 8, 4, dtype=torch.float64).unbind()
    ids = torch.arange(16).view(2, 8)
    if isinstance(mechanism, SigmaAttention):
        mechanism.load_tables(torch.rand(2, TYPES), torch.tensor([[-2, 3]]).expand(2, -1))
    load_frequencies(mechanism, torch.arange(TYPES))
    context = {"visible": VISIBLE, "token_ids": ids}
    out = mechanism(query, key, value, **context)
    matrix = mechanism.implied_matrix(query, key, **context)
    assert not bool(matrix.masked_select(~VISIBLE[:, None, None]).any())
    torch.testing.assert_close(out, matrix @ value, rtol=0, atol=1e-12)
