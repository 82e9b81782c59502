"""Scatterbrain (Chen et al. 2021, arXiv 2110.15343): random features everywhere, exact inside a band."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.attention.kernels.feature_products import (
    SHORT,
    ScaledSums,
    common_height,
    favor_exponents,
    in_full_precision,
    kernel_matrix,
    kernel_sums,
    normalised,
    nothing_lost,
    over_earlier,
    over_later,
    together,
    with_ones,
)
from attnlab.attention.kernels.union import Strip, Union
from attnlab.attention.mechanism import (
    Context,
    Cost,
    Positions,
    Setup,
    Traits,
    visible_or_all,
    without_keys,
)
from attnlab.attention.mechanisms.softmax import scaled_scores
from attnlab.attention.padding import PaddingSafeMechanism
from attnlab.attention.specification import Specification, sides
from attnlab.core import MOST_FEATURES
from attnlab.matrices.supports import offsets

# A difference that is less than this part of what it was taken from is computed without one.
CANCELLED = 0.01


@dataclass(frozen=True)
class Scatterbrain(Specification):
    """Random features everywhere, exact scores inside the window."""

    name: ClassVar[str] = "scatterbrain"
    window: Any
    features: Any = 64
    seed: Any = 0

    def __post_init__(self) -> None:
        self.shorten_window()
        self.check_integer("features", 1)
        self.check_at_most(MOST_FEATURES, "features")
        self.check_integer("seed", 0)


class ScatterbrainAttention(PaddingSafeMechanism):
    """exp(q . k) inside the band, its random-feature estimate outside, under one normaliser.

    ::

        a_ij = phi(q_i) . phi(k_j) + [j - i in band] (exp(q_i . k_j / sqrt(dim)) - phi(q_i) . phi(k_j))
        out_i = sum_j a_ij v_j / sum_j a_ij

    Low rank plus sparse: the estimate is corrected where it matters. In training whole keys are
    dropped, the same for all queries.
    """

    specification: ClassVar[type[Specification] | None] = Scatterbrain
    source: ClassVar[str] = "Chen et al. 2021, arXiv 2110.15343"
    traits: ClassVar[Traits] = Traits(subquadratic=True, support=False, bias=False)
    positions: ClassVar[Positions] = "offsets"

    def __init__(self, spec: Scatterbrain, setup: Setup) -> None:
        super().__init__(spec, setup)
        left, right = sides(self.name, spec.window)
        self.union = Union((left, 0 if setup.causal else right), causal=setup.causal)

    @in_full_precision
    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values: sums over all keys by features, and the band's correction in chunks."""
        if self.training and self.dropout:
            value = without_keys(value, self.dropout)
        visible, first_query = visible_or_all(key, context.visible), context.first_query
        queries, keys = query.shape[-2], key.shape[-2]
        aligned = queries == keys and first_query == 0
        middle = self.causal and not aligned and first_query < keys - 1
        if middle or max(queries, keys) <= SHORT:
            return self.matrix(query, key, context) @ value
        strip = Strip(self.union, queries, first_query)
        rows = torch.arange(queries, device=query.device) + first_query
        inside = strip.seen(rows, visible)
        whole = query, key, value
        query, key, real = _prepared(query, key, visible)
        scores = strip.scores(query * query.shape[-1] ** -0.5, key)
        phi_query, phi_key, exact = self._scaled_parts(query, key, real, scores, inside)
        values = with_ones(value.to(key.dtype))
        everywhere = kernel_sums(phi_query, phi_key, values, causal=self.causal and aligned)
        estimate = strip.scores(phi_query, phi_key)
        corrected = strip.mix((exact - estimate).masked_fill(~inside, 0.0), values)
        sums = everywhere + corrected
        total = sums[..., -1:]
        before = everywhere[..., -1:] + exact.sum(-1, keepdim=True)
        # Where little is left of a difference, the rest is rounding.
        cancelled = bool((total < CANCELLED * before).any())
        if cancelled or self._underflows(total, key, context):
            return self._exact_in_range(*whole, context)
        return normalised(sums[..., :-1], total).to(value.dtype)

    @in_full_precision
    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """Weights pair by pair: rows sum to 1 over the real keys."""
        visible, first_query = visible_or_all(key, context.visible), context.first_query
        shape, dtype = (query.shape[-2], key.shape[-2]), query.dtype
        offset = offsets(*shape, first_query=first_query, device=query.device)
        query, key, real = _prepared(query, key, visible)
        inside = self.union.pairs(*shape, first_query, query.device) & real.mT
        scores = scaled_scores(query, key)
        phi_query, phi_key, exact = self._scaled_parts(query, key, real, scores, inside)
        estimate = kernel_matrix(phi_query, phi_key, future=offset > 0 if self.causal else None)
        matrix = torch.where(inside, exact, estimate)
        total = matrix.sum(-1, keepdim=True)
        if not self._underflows(total, key, context):
            return normalised(matrix, total).to(dtype)
        identity = torch.eye(shape[1], dtype=torch.float64, device=key.device)
        identity = identity.expand(*key.shape[:2], -1, -1)
        return self._exact_in_range(query, key, identity, context).to(dtype)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """Features and their sums over all keys, and two kinds of scores inside the band."""
        features, band = self.spec.features, sum(self.union.window) + 1
        everywhere = features * (queries + keys) * (2 * dim + 1)
        inside = queries * band * (2 * dim + features)
        kept = (queries + keys) * features + 2 * queries * band
        return Cost(multiply_adds=everywhere + inside, bytes=4 * kept)

    def _scaled_parts(
        self, query: Tensor, key: Tensor, real: Tensor, scores: Tensor, inside: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Features of queries and keys and exp(scores), over one factor a row that keeps them small."""
        of_query, of_key = (
            favor_exponents(x, self.spec.features, self.spec.seed) for x in (query, key)
        )
        height = common_height(of_key, real, causal=self.causal)
        scores = scores.masked_fill(~inside, -torch.inf)
        level = torch.maximum(
            of_query.amax(-1, keepdim=True) + height, scores.amax(-1, keepdim=True)
        ).detach()
        phi_query = (of_query + height - level).exp()
        phi_key = (of_key - height).masked_fill(~real, -torch.inf).exp()
        return phi_query, phi_key, (scores - level).exp()

    def _underflows(self, total: Tensor, key: Tensor, context: Context) -> bool:
        first_query, causal = context.first_query, self.causal
        return not nothing_lost(total, key, context.visible, first_query=first_query, causal=causal)

    def _exact_in_range(
        self, query: Tensor, key: Tensor, value: Tensor, context: Context
    ) -> Tensor:
        """Mixed values from sums before, inside and behind the band, each at its own scale, in 64 bits."""
        visible, first_query = visible_or_all(key, context.visible), context.first_query
        query, key, real = _prepared(query.double(), key.double(), visible)
        values = with_ones(value.double())
        strip = Strip(self.union, query.shape[-2], first_query)
        rows = torch.arange(query.shape[-2], device=query.device) + first_query
        scores = strip.scores(query * query.shape[-1] ** -0.5, key)
        scores = scores.masked_fill(~strip.seen(rows, visible), -torch.inf)
        level = scores.detach().amax(-1, keepdim=True)
        weights = (scores - level.masked_fill(level == -torch.inf, 0.0)).exp()
        of_query, of_key = (
            favor_exponents(x, self.spec.features, self.spec.seed) for x in (query, key)
        )
        of_key = of_key.masked_fill(~real, -torch.inf)
        left, right = self.union.window
        parts = [
            ScaledSums(strip.mix(weights, values), level),
            over_earlier(of_query, of_key, values, first_query - left - 1),
        ]
        if not self.causal:
            parts.append(over_later(of_query, of_key, values, first_query + right + 1))
        sums = together(parts).sums
        return normalised(sums[..., :-1], sums[..., -1:]).to(value.dtype)


def _prepared(query: Tensor, key: Tensor, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys in 32 bits at least, padding zeroed, and which keys are real."""
    wide = torch.promote_types(query.dtype, torch.float32)
    real = visible[:, None, :, None]
    return query.to(wide), key.to(wide).where(real, 0.0), real
