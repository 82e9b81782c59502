"""Longformer and BigBird against the modules of transformers, with the same random weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from attnlab.attention.kernels.union import Indices
from attnlab.attention.mechanism import Setup
from attnlab.attention.mechanisms import bigbird
from attnlab.attention.mechanisms.longformer import Longformer, LongformerAttention
from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.registry import make
from attnlab.core.errors import InputError

HEADS, DIM = 2, 14


def heads_of(projected: Tensor) -> Tensor:
    return projected.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def joined(out: Tensor) -> Tensor:
    return out.transpose(1, 2).flatten(2)


class ChosenGlobals(LongformerAttention):
    """Longformer whose global tokens are told sentence by sentence."""

    chosen: Tensor

    def global_tokens(self, visible: Tensor) -> Indices:
        count = int(self.chosen.sum(-1).max())
        index = self.chosen.int().argsort(dim=-1, descending=True, stable=True)[:, :count]
        return Indices(index[:, None], self.chosen.gather(1, index)[:, None])


@pytest.mark.parametrize("form", ["dense", "fast"])
@pytest.mark.parametrize("where", ["none", "first", "ragged"])
@pytest.mark.parametrize("padded", [False, True])
def test_longformer_equals_transformers(where: str, padded: bool, form: str) -> None:
    tokens, window = 24, 6
    config = LongformerConfig(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        attention_window=[window],
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = LongformerSelfAttention(config, 0).double().eval()
        hidden = torch.randn(3, tokens, DIM, dtype=torch.float64)
    for name in ("query", "key", "value"):
        getattr(theirs, f"{name}_global").load_state_dict(getattr(theirs, name).state_dict())
    visible = torch.arange(tokens) < torch.tensor([24, 17, 24] if padded else [24] * 3)[:, None]
    chosen = torch.zeros(3, tokens, dtype=torch.bool)
    if where == "first":
        chosen[:, 0] = True
    if where == "ragged":
        chosen[0, [0, 11]] = chosen[1, 5] = chosen[2, [3, 4, 20]] = True
    mask = torch.where(visible, 0.0, -10000.0).masked_fill(chosen, 10000.0)
    with torch.no_grad():
        expected = theirs(hidden, mask, ~visible, chosen, is_global_attn=where != "none")[0]
        query, key, value = (
            heads_of(layer(hidden)) for layer in (theirs.query, theirs.key, theirs.value)
        )
    spec = Longformer(window=window // 2, global_tokens=[0] if where != "none" else [])
    mechanism = ChosenGlobals(spec, Setup(form=form))
    mechanism.chosen = chosen
    out = joined(mechanism(query, key, value, visible))
    torch.testing.assert_close(out[visible], expected[visible], rtol=0, atol=5e-6)
    if where == "first":
        plain = joined(make(spec, form=form)(query, key, value, visible))
        torch.testing.assert_close(plain, out, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[24, 24, 24], [24, 17, 9]])
def test_longformer_with_its_second_projections_equals_transformers(lengths: list[int]) -> None:
    tokens = 24
    config = LongformerConfig(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        attention_window=[6],
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = LongformerSelfAttention(config, 0).double().eval()
        hidden = torch.randn(3, tokens, DIM, dtype=torch.float64)
        ours = MultiHeadAttention(
            DIM, HEADS, make("longformer(window=3)"), global_projections=True
        ).double()
    assert torch.equal(ours.global_rows.key.weight, ours.key.weight)
    for name in ("query", "key", "value"):
        getattr(ours, name).load_state_dict(getattr(theirs, name).state_dict())
        second = getattr(theirs, f"{name}_global").state_dict()
        getattr(ours.global_rows, name).load_state_dict(second)
    torch.nn.init.eye_(ours.output.weight)
    visible = torch.arange(tokens) < torch.tensor(lengths)[:, None]
    chosen = (torch.arange(tokens) == 0).expand(3, -1)
    mask = torch.where(visible, 0.0, -10000.0).masked_fill(chosen, 10000.0)
    with torch.no_grad():
        expected = theirs(hidden, mask, ~visible, chosen, is_global_attn=True)[0]
        out, weights = ours(hidden, *ours.keys_and_values(hidden), visible, weights=True)
    torch.testing.assert_close(out[visible], expected[visible], rtol=0, atol=5e-6)
    sums = weights.sum(-1).transpose(1, 2)[visible]
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_second_projections_need_global_tokens() -> None:
    with pytest.raises(InputError, match="Only a 'longformer' with global_tokens"):
        MultiHeadAttention(DIM, HEADS, make("full"), global_projections=True)


@contextmanager
def numpy_state() -> Iterator[None]:
    """Their forward seeds NumPy's global generator."""
    state = np.random.get_state()
    yield
    np.random.set_state(state)


def their_bigbird(
    tokens: int, block: int, drawn: int, visible: Tensor, *, training: bool
) -> tuple[Tensor, ...]:
    """Output, projected queries, keys, values and the table of random blocks of transformers' BigBird."""
    config = BigBirdConfig(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        block_size=block,
        num_random_blocks=drawn,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=tokens,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = BigBirdBlockSparseAttention(config, seed=3).double().train(training)
        hidden = torch.randn(2, tokens, DIM, dtype=torch.float64)
    module.max_seqlen = tokens
    tables: list[Tensor] = []
    gather = module.torch_gather_b2
    module.torch_gather_b2 = lambda blocks, indices: (
        tables.append(indices) or gather(blocks, indices)
    )
    masks = BigBirdModel.create_masks_for_block_sparse_attn(visible.double(), block)
    blocked, band, from_mask, to_mask = masks
    with torch.no_grad(), numpy_state():
        out, weights = module(hidden, band, from_mask, to_mask, blocked, blocked)
        projected = [heads_of(layer(hidden)) for layer in (module.query, module.key, module.value)]
    return out, *projected, tables[0], weights


def multiplicities(table: Tensor, blocks: int) -> Tensor:
    """How often each block is gathered for each block of queries, `[head, block, block]`."""
    counts = torch.zeros(HEADS, blocks, blocks, dtype=torch.float64)
    counts[:, [0, -1]] = 1
    for row in range(1, blocks - 1):
        near = [0, blocks - 1, row - 1, row, row + 1]
        for head in range(HEADS):
            for seen in set(near):
                counts[head, row, seen] += 1
            for seen in table[0, head, row - 1].tolist():
                counts[head, row, seen] += 1
    return counts


def spread(counts: Tensor, block: int) -> Tensor:
    return counts.repeat_interleave(block, 1).repeat_interleave(block, 2)


@pytest.mark.parametrize("form", ["dense", "fast"])
@pytest.mark.parametrize(("tokens", "block", "drawn"), [(64, 4, 2), (84, 7, 3), (60, 5, 1)])
def test_bigbird_equals_transformers_in_training(
    tokens: int, block: int, drawn: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = torch.arange(tokens) < torch.tensor([tokens, tokens - block + 2])[:, None]
    expected, query, key, value, table, _ = their_bigbird(
        tokens, block, drawn, visible, training=True
    )
    counts = multiplicities(table, tokens // block)
    assert float(counts.max()) == 1, "their random blocks overlap: weigh them by multiplicity"

    def same_blocks(drawn: int, wanted: int, seed: int, blocks: int, heads: int) -> Indices:
        ranked = counts.sort(dim=-1, descending=True, stable=True)
        slots = 3 + wanted + drawn
        return Indices(ranked.indices[..., :slots], ranked.values[..., :slots] > 0)

    monkeypatch.setattr(bigbird, "block_table", same_blocks)
    mechanism = make(f"bigbird(block={block}, random={drawn})", form=form)
    out = joined(mechanism(query, key, value, visible))
    torch.testing.assert_close(out[visible], expected[visible], rtol=0, atol=1e-10)


@pytest.mark.parametrize("training", [True, False])
def test_bigbird_of_transformers_weighs_blocks_by_how_often_they_are_gathered(
    training: bool,
) -> None:
    """In eval mode their table of random blocks is all zeros, so block 0 counts 1 + r times."""
    tokens, block, drawn = 64, 4, 3
    visible = torch.ones(2, tokens, dtype=torch.bool)
    out, query, key, value, table, weights = their_bigbird(
        tokens, block, drawn, visible, training=training
    )
    counts = multiplicities(table, tokens // block)
    spread_counts = spread(counts, block)
    scores = query @ key.mT / math.sqrt(DIM // HEADS) + spread_counts.log()
    torch.testing.assert_close(out, joined(scores.softmax(-1) @ value), rtol=0, atol=1e-10)
    if not training:
        assert not table.any()
        assert torch.equal(counts[:, 1:-1, 0], torch.full((HEADS, 14), 1.0 + drawn).double())
        true = joined(make(f"bigbird(block={block}, random=0)")(query, key, value))
        assert float((out - true).norm() / true.norm()) > 0.1
        assert float(weights.sum(-1).min()) < 0.9  # what they return is no probability
