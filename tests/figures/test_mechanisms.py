"""Patterns of mechanisms are those that they score, and are drawn one a panel."""

from pathlib import Path

import pytest
import torch

from attnlab import plot
from attnlab.attention.registry import MECHANISMS
from attnlab.core.errors import InputError
from attnlab.figures.mechanisms import pattern, receptive_field

# By name, what it cannot be made without.
OPTIONS = {
    "band": "(window=2)", "longformer": "(window=1)", "bigbird": "(block=2)", "sigma": "(window=1)",
    "linformer": "(k=2, max_length=16)", "scatterbrain": "(window=1)", "fixed": "(pattern='self')",
    "topk": "(k=2)", "keys": "(first=1)", "graph": "(edges=[(0, 1), (2, 0)])",
    "static": "(offsets=(0,), weights=(1,))",
    "gaussian": "(offset=0)", "synthesizer": "(max_length=16)",
    "sigma_static": "(window=1, max_length=16)",
}  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
def test_a_band_is_the_offsets_that_it_says(causal: bool) -> None:
    found = pattern("band(window=2)", 7, causal=causal)
    offset = torch.arange(7) - torch.arange(7)[:, None]
    expected = (offset >= -2) & (offset <= (0 if causal else 2))
    assert torch.equal(found, expected.float())


def test_weights_are_shown_where_no_pairs_are_scored() -> None:
    found = pattern("linear", 9, causal=True)
    assert torch.equal(found.triu(1), torch.zeros(9, 9))
    torch.testing.assert_close(found.sum(-1), torch.ones(9))
    assert torch.equal(pattern("topk(k=3)", 9, seed=1).sum(-1), torch.full((9,), 3.0))


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_a_pattern(name: str) -> None:
    before = torch.get_rng_state()
    specification = name + OPTIONS.get(name, "")
    first, again = (pattern(specification, 12) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (12, 12)
    reached = receptive_field([specification], layers=1, tokens=12)
    assert reached.shape == (1, 12)
    assert reached[0, 6], "a token reaches itself, by the residual connection at least"
    assert torch.equal(torch.get_rng_state(), before)


def test_panels_are_named_after_their_mechanisms(as_users_call_it: None) -> None:
    names = ["band(window=2)", "full"]
    figure = plot.mechanism(names, tokens=8)
    assert [axes.get_title(loc="left") for axes in figure.axes][:2] == names
    with pytest.raises(InputError, match="1 to 128 tokens"):
        plot.mechanism("full", tokens=500)
    for given in ([], None, 5, Path("x.csv")):
        with pytest.raises(InputError, match="names no mechanism; give one"):
            plot.mechanism(given)


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_layers_of_a_dilated_window_reach_layers_times_dilation_times_window(dilation: int) -> None:
    name = f"longformer(window=2, dilation={dilation}, global_tokens=[])"
    found = receptive_field([name], layers=3, tokens=41)
    offset = torch.arange(41) - 20
    for layers, reached in enumerate(found, start=1):
        within = offset.abs() <= layers * dilation * 2
        assert torch.equal(reached, within & (offset % dilation == 0))


def test_heads_of_two_dilations_reach_sums_of_their_steps() -> None:
    names = [f"longformer(window=1, dilation={d}, global_tokens=[])" for d in (1, 4)]
    found = receptive_field(names, layers=4, tokens=41)
    steps, sums = (-4, -1, 0, 1, 4), {0}
    for reached in found:
        sums = {start + step for start in sums for step in steps}
        assert set((reached.nonzero().flatten() - 20).tolist()) == sums
    assert max(sums) == 16


def test_a_global_token_reaches_all_in_two_layers() -> None:
    found = receptive_field(["longformer(window=1)"], layers=2, tokens=31)
    assert found[0].sum() == 4
    assert found[1].all()


def test_a_receptive_field_is_drawn_by_layer(as_users_call_it: None) -> None:
    (axes,) = plot.receptive_field("band(window=2)", layers=3, tokens=9).axes
    (image,) = axes.images
    assert image.get_array().sum(1).tolist() == [5, 9, 9]
    for given in (0, 40, "x"):
        with pytest.raises(InputError, match="1 to 32 layers"):
            plot.receptive_field("full", layers=given)
