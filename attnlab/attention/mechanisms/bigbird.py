"""BigBird (Zaheer et al. 2020, arXiv 2007.14062, section 2): near, global and random blocks of keys."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from attnlab.attention.kernels.union import Indices, replaced, taken
from attnlab.attention.mechanism import Context, Positions, Traits, sentence_ends, visible_or_all
from attnlab.attention.mechanisms.softmax import scaled_scores, softmax_over
from attnlab.attention.mechanisms.sparse import SparseSoftmax
from attnlab.attention.specification import Specification

NEAR_BLOCKS = (-1, 0, 1)
# Every sentence is padded to whole blocks.
MOST_BLOCKS = 4096


@dataclass(frozen=True)
class BigBird(Specification):
    """Blocks of keys: the three nearest, `global_blocks` at the ends, `random` ones drawn once."""

    name: ClassVar[str] = "bigbird"
    block: Any = 64
    random: Any = 3
    global_blocks: Any = 2
    seed: Any = 0

    def __post_init__(self) -> None:
        self.check_integer("block", 1)
        for option in ("random", "global_blocks", "seed"):
            self.check_integer(option, 0)
        self.check_at_most(MOST_BLOCKS, "block", "random", "global_blocks")


class BigBirdAttention(SparseSoftmax):
    """Softmax over blocks: those at distance 0 and 1, the global ones, and a few random ones.

    Of the global blocks the first half stands at the start of the sentence, the rest at its end;
    their rows see every key. Random blocks are drawn once for each head and number of blocks, from
    the seed of the specification, among those that are neither near nor global, and are the same
    in training and evaluation. A sentence's blocks depend on its own length, not on the padding:
    tokens are counted from its first real one.
    """

    specification: ClassVar[type[Specification] | None] = BigBird
    source: ClassVar[str] = "Zaheer et al. 2020, arXiv 2007.14062"
    traits: ClassVar[Traits] = Traits(subquadratic=True, causal=False, cross=False, cached=False)
    positions: ClassVar[Positions] = "pairs"
    refusals: ClassVar[Mapping[str, str]] = {
        "causal": "every query attends to its last block, which needs the end of the sentence",
        "cross": "its blocks of queries and of keys are the same tokens",
    }

    spec: BigBird

    def pairs(
        self, query: Tensor, key: Tensor, context: Context
    ) -> Bool[Tensor, "batch head query key"]:
        """Blocks written out pair by pair."""
        size, keys = self.spec.block, key.shape[-2]
        ends = sentence_ends(visible_or_all(key, context.visible))
        blocks = -(-keys // size)
        near = self._near(ends, query.shape[1], blocks)
        index = torch.where(near.usable, near.index, blocks)
        seen = torch.zeros(*index.shape[:-1], blocks + 1, dtype=torch.bool, device=key.device)
        seen = seen.scatter(-1, index, True)
        rows = self._global(ends, blocks)
        spread = torch.where(rows.usable, rows.index, blocks)
        is_global = torch.zeros(len(ends), 1, blocks + 1, dtype=torch.bool, device=key.device)
        is_global = is_global.scatter(-1, spread, True)[:, :, :blocks, None]
        seen = (seen[..., :blocks] | is_global).repeat_interleave(size, -1)[..., :keys]
        first = context.first_query
        return seen.repeat_interleave(size, -2)[..., first : first + query.shape[-2], :]

    def slots(self) -> int:
        """Near, global and random blocks, times their size."""
        return (len(NEAR_BLOCKS) + self.spec.global_blocks + self.spec.random) * self.spec.block

    def global_rows(self) -> int:
        """The tokens of the global blocks."""
        return self.spec.global_blocks * self.spec.block

    def fast(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Each block of queries on the blocks it sees; global rows over all keys."""
        size, tokens = self.spec.block, query.shape[-2]
        visible = visible_or_all(key, context.visible)
        ends = sentence_ends(visible)
        blocks = -(-tokens // size)
        padding = blocks * size - tokens
        query, key, value = (F.pad(x, (0, 0, 0, padding)) for x in (query, key, value))
        visible = F.pad(visible, (0, padding))
        near = self._near(ends, query.shape[1], blocks)
        seen = visible.unflatten(1, (blocks, size))[:, None].expand(-1, query.shape[1], -1, -1)
        seen = (taken(seen, near.index) & near.usable.unsqueeze(-1)).flatten(-2).unsqueeze(-2)
        scores = scaled_scores(query.unflatten(2, (blocks, size)), _blocks(key, near, size))
        weights = F.dropout(softmax_over(scores, seen), self.active_dropout())
        out = (weights @ _blocks(value, near, size)).flatten(2, 3)
        if self.spec.global_blocks:
            out = self._add_global_rows(out, query, key, value, visible)
        return out[:, :, :tokens]

    def _add_global_rows(
        self, out: Tensor, query: Tensor, key: Tensor, value: Tensor, visible: Tensor
    ) -> Tensor:
        size = self.spec.block
        rows = self._global(sentence_ends(visible), query.shape[2] // size)
        inside = torch.arange(size, device=query.device)
        index = (rows.index.unsqueeze(-1) * size + inside).flatten(-2)
        usable = rows.usable.repeat_interleave(size, -1)
        mixed = F.scaled_dot_product_attention(
            taken(query, index),
            key,
            value,
            attn_mask=visible[:, None, None, :],
            dropout_p=self.active_dropout(),
        )
        return replaced(out, index, usable, mixed)

    def _global(self, ends: Tensor, blocks: int) -> Indices:
        """The global blocks of each sentence, `[batch, 1, global]`; each counts once."""
        size, global_blocks = self.spec.block, self.spec.global_blocks
        counts = -(-ends // size)
        first = torch.arange(-(-global_blocks // 2), device=ends.device).expand(len(ends), -1)
        last = counts[:, None] - 1 - torch.arange(global_blocks // 2, device=ends.device)
        usable = torch.cat([first < counts[:, None], last > first.shape[-1] - 1], -1)
        index = torch.cat([first, last], -1).clamp(0, max(blocks - 1, 0))
        return Indices(index[:, None], usable[:, None])

    def _near(self, ends: Tensor, heads: int, blocks: int) -> Indices:
        """The blocks that each block of a sentence sees, `[batch, head, block, slot]`."""
        spec, counts = self.spec, (-(-ends // self.spec.block)).tolist()
        slots = len(NEAR_BLOCKS) + spec.global_blocks + spec.random
        index = torch.zeros(len(counts), heads, blocks, slots, dtype=torch.long)
        usable = torch.zeros(index.shape, dtype=torch.bool)
        for count in set(counts):
            table = block_table(spec.random, spec.global_blocks, spec.seed, count, heads)
            for sentence in (at for at, length in enumerate(counts) if length == count):
                index[sentence, :, :count] = table.index
                usable[sentence, :, :count] = table.usable
        return Indices(index.to(ends.device), usable.to(ends.device))


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def block_table(drawn: int, global_count: int, seed: int, blocks: int, heads: int) -> Indices:
    """The blocks that each block of a sentence of `blocks` attends to, `[head, block, slot]`.

    Each block once: the `global_count` global ones, the near ones, then `drawn` of the rest at random.
    """
    ends = [*range(-(-global_count // 2)), *range(blocks - 1, blocks - 1 - global_count // 2, -1)]
    global_blocks = [block for block in dict.fromkeys(ends) if 0 <= block < blocks]
    index = torch.zeros(heads, blocks, len(NEAR_BLOCKS) + global_count + drawn, dtype=torch.long)
    usable = torch.zeros(index.shape, dtype=torch.bool)
    for head in range(heads):
        generator = random.Random(f"{seed} {blocks} {head}")
        for row in range(blocks):
            near = [row + step for step in NEAR_BLOCKS if 0 <= row + step < blocks]
            seen = [*dict.fromkeys([*global_blocks, *near])]
            # So many that enough remain when those already seen are left out.
            draw = generator.sample(range(blocks), min(blocks, drawn + len(seen)))
            seen += [block for block in draw if block not in seen][:drawn]
            index[head, row, : len(seen)] = torch.tensor(seen)
            usable[head, row, : len(seen)] = True
    return Indices(index, usable)


def _blocks(tokens: Tensor, near: Indices, size: int) -> Tensor:
    """The keys of the blocks that each block sees, `[batch, head, block, slot * size, dim]`."""
    batch, heads, _, dim = tokens.shape
    flat = tokens.unflatten(2, (-1, size)).flatten(3).flatten(0, 2)
    blocks = tokens.shape[2] // size
    start = torch.arange(batch * heads, device=tokens.device).view(batch, heads, 1, 1) * blocks
    taken_blocks = flat.index_select(0, (near.index + start).flatten())
    return taken_blocks.view(batch, heads, near.index.shape[2], -1, dim)
