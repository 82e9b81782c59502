"""Sigma without queries and keys: the thesis's X = P + E, with both parts trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.attention.kernels.union import best
from attnlab.attention.mechanism import Context, Positions, Setup, Traits, visible_or_all
from attnlab.attention.mechanisms.position_scores import ContentFree
from attnlab.attention.mechanisms.softmax import softmax_over
from attnlab.attention.mechanisms.synthesizer import MOST_LENGTH
from attnlab.attention.specification import Specification, sides
from attnlab.core import AttnlabError, InputError

# An entry of E starts near 0: so much of an entry of P.
START = -2.0
SPREAD = 0.1


@dataclass(frozen=True)
class SigmaStatic(Specification):
    """Trained weights of a band, of the `num_pos` rarest tokens, and of `extra` entries in each row."""

    name: ClassVar[str] = "sigma_static"
    window: Any
    max_length: Any
    num_pos: Any = 1
    extra: Any = 1

    def __post_init__(self) -> None:
        self.shorten_window()
        self.check_integer("max_length", 1)
        self.check_integer("num_pos", 0)
        self.check_integer("extra", 0)
        self.check_at_most(MOST_LENGTH, "max_length", "num_pos", "extra")


class SigmaStaticAttention(ContentFree):
    """A band and columns of rare tokens with a weight each, plus a sparse trained error.

    ::

        x_ij = (p_ij + e_ij) / sum over the keys k of the row of (p_ik + e_ik)
        p_ij = exp(b_(j-i)) in the band  +  exp(c_r) where j is the r-th rarest token of the sentence
        e_ij = exp(t_ij) at the `extra` keys of row i with the largest t_ij, else 0

    Of each head, b has a number for each offset (Sigma1 is a band of one), c one for each column, t
    max_length x max_length, of which a step trains those that are chosen. A sentence of n tokens uses
    the first n rows and columns of t. The thesis says that E is sparse and small, and leaves open how
    it is trained: here its entries are positive, start at about a seventh of those of P, and are no
    longer bounded then. Rows sum to 1, as in the thesis's program.
    Source: thesis, eq. (20) and section 3.1; math.md section 4.
    """

    specification: ClassVar[type[Specification] | None] = SigmaStatic
    source: ClassVar[str] = "thesis, eq. (20)"
    traits: ClassVar[Traits] = Traits(
        causal=False, bias=False, content_free=True, cached=False, learned=True
    )
    positions: ClassVar[Positions] = "pairs"
    refusals: ClassVar[Mapping[str, str]] = {
        "causal": "its columns are the rarest tokens of the whole sentence, the future too"
    }

    def __init__(self, spec: SigmaStatic, setup: Setup) -> None:
        super().__init__(spec, setup)
        self.window = sides(self.name, spec.window)
        self.uses_tokens = spec.num_pos > 0
        if setup.heads is None or (self.uses_tokens and setup.vocabulary is None):
            msg = (
                f"'{spec}' keeps weights for each head and counts of each token id: say how many with "
                "make(spec, heads=..., vocabulary=...)."
            )
            raise InputError(msg)
        length = spec.max_length
        self.band = nn.Parameter(torch.zeros(setup.heads, sum(self.window) + 1))
        if self.uses_tokens:
            self.columns = nn.Parameter(torch.zeros(setup.heads, spec.num_pos))
            # What is not counted yet is NaN, so that it cannot pass for a count.
            self.register_buffer("counts", torch.full((setup.vocabulary or 0,), torch.nan))
        if spec.extra:
            drawn = START + SPREAD * torch.randn(setup.heads, length, length)
            self.error = nn.Parameter(drawn)

    def load_counts(self, counts: Tensor) -> None:
        """Takes over how often each token id occurs in training text."""
        if self.uses_tokens:
            self.get_buffer("counts").copy_(counts)

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """The weights: rows sum to 1 over the keys of the sentence."""
        visible = visible_or_all(key, context.visible)
        rows = range(context.first_query, context.first_query + query.shape[-2])
        shape = (*query.shape[:-1], key.shape[-2])
        parts = [self._band(rows, visible)]
        if self.uses_tokens:
            parts.append(self._columns(visible, context))
        if self.spec.extra:
            parts.append(self._error(rows, visible))
        scores, index, usable = (
            torch.cat([part.expand(*shape[:-1], -1) for part in kind], -1)
            for kind in zip(*parts, strict=True)
        )
        # Under one softmax over all slots; two that are at the same key add up.
        weights = softmax_over(scores, usable).to(key.dtype)
        return weights.new_zeros(shape).scatter_add(-1, index, weights)

    def _band(self, rows: range, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Score, key and whether it is there, `[#batch, #head, #query, slot]`, as of the other parts."""
        left, right = self.window
        row = torch.arange(rows.start, rows.stop, device=visible.device)
        target = row[:, None] + torch.arange(-left, right + 1, device=visible.device)
        index = target.clamp(0, visible.shape[-1] - 1)
        exists = (target == index) & visible[:, index]
        return self.band[None, :, None], index[None, None], exists[:, None]

    def _columns(self, visible: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        if context.token_ids is None:
            msg = f"'{self.spec}' chooses columns by token: hand over the token ids of the keys (token_ids=)."
            raise AttnlabError(msg)
        rarity = -self.get_buffer("counts")[context.token_ids]
        if bool(rarity.isnan().any()):
            msg = f"'{self.spec}' has no counts of tokens yet: call attnlab.attention.load_frequencies first."
            raise AttnlabError(msg)
        index, usable = best(rarity, visible, self.spec.num_pos)
        scores = self.columns[None, :, None, : index.shape[-1]]
        return scores, index[:, None, None], usable[:, None, None]

    def _error(self, rows: range, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.spec.check_length(max(rows.stop, visible.shape[-1]))
        table = self.error[None, :, rows.start : rows.stop, : visible.shape[-1]]
        allowed = visible[:, None, None].expand(-1, *table.shape[1:])
        table = table.expand(allowed.shape)
        index, usable = best(table.detach(), allowed, self.spec.extra)
        return table.gather(-1, index), index, usable
