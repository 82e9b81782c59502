"""Linear attention: a kernel of feature vectors instead of the softmax, in time linear in the tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.attention.kernels.feature_products import (
    common_height,
    elu_exponents,
    elu_features,
    favor_exponents,
    in_full_precision,
    kernel_matrix,
    kernel_sums,
    normalised,
    nothing_lost,
    over_all,
    over_earlier,
    taylor_features,
    with_ones,
)
from attnlab.attention.mechanism import (
    Context,
    Cost,
    KeySums,
    Traits,
    visible_or_all,
    without_keys,
)
from attnlab.attention.padding import PaddingSafeMechanism
from attnlab.attention.specification import Specification
from attnlab.core import MOST_FEATURES, InputError
from attnlab.matrices.supports import offsets

# So many tokens of heads of a sentence at a time: what they need stays in the processor's cache.
TOGETHER = 16384


@dataclass(frozen=True)
class Linear(Specification):
    """A kernel of feature vectors instead of the softmax."""

    name: ClassVar[str] = "linear"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"feature": ("elu", "taylor", "favor")}
    feature: Any = "elu"
    features: Any = 64
    seed: Any = 0

    def __post_init__(self) -> None:
        self.check_chosen()
        self.check_integer("features", 1)
        self.check_at_most(MOST_FEATURES, "features")
        self.check_integer("seed", 0)


class LinearAttention(PaddingSafeMechanism):
    """Weights phi(q) . phi(k) over their sum.

    ::

        out_i = sum_j (phi(q_i) . phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j)

    `elu`: phi(x) = elu(x) + 1 (Katharopoulos et al. 2020). `taylor`: phi(x) = (1, x / |x|), so that
    the sum in the denominator counts the real keys (Li et al. 2020). Neither divides by sqrt(dim),
    and both stay close to uniform: no Taylor weight exceeds about 2 / n. `favor`: positive random
    features, unbiased for the softmax kernel (Choromanski et al. 2021).
    Numbers of 16 bits are computed in 32. In training whole keys are dropped, the same for all queries.
    """

    specification: ClassVar[type[Specification] | None] = Linear
    source: ClassVar[str] = "arXiv 2006.16236 (elu), 2007.14902 (taylor), 2009.14794 (favor)"
    traits: ClassVar[Traits] = Traits(subquadratic=True, support=False, bias=False)
    spec: Linear

    @in_full_precision
    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values by sums over keys; when causal, by sums up to each chunk."""
        if self.training and self.dropout:
            value = without_keys(value, self.dropout)
        if context.key_sums is not None:
            return self._continued(query, key, value, context.visible, context.key_sums)
        heads = max(1, TOGETHER // max(query.shape[2], key.shape[2], 1))
        if heads >= query.shape[1] or query.shape[1] != key.shape[1]:
            return self._mixed(query, key, value, context)
        groups = zip(query.split(heads, 1), key.split(heads, 1), value.split(heads, 1), strict=True)
        mixed = [self._mixed(q, k, v, context) for q, k, v in groups]
        return torch.cat(mixed, 1)

    @in_full_precision
    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """Weights pair by pair: rows sum to 1 over the real keys."""
        if context.key_sums is not None:
            msg = (
                "A cache that keeps sums in place of keys leaves no weights to show; call the model "
                "without it for attention weights."
            )
            raise InputError(msg)
        phi_query, phi_key = self._query_features(query), self._key_features(key, context.visible)
        shape = (query.shape[-2], key.shape[-2])
        future = offsets(*shape, first_query=context.first_query, device=query.device) > 0
        matrix = kernel_matrix(phi_query, phi_key, future=future if self.causal else None)
        total = matrix.sum(-1, keepdim=True)
        if not self._underflows(total, key, context):
            return normalised(matrix, total).to(query.dtype)
        identity = torch.eye(shape[1], dtype=torch.float64, device=key.device)
        identity = identity.expand(*key.shape[:2], -1, -1)
        return self._rescaled(query, key, identity, context).to(query.dtype)

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """Sums over keys and their product with queries; the sums of each chunk are kept."""
        features = {"elu": dim, "taylor": dim + 1, "favor": self.spec.features}[self.spec.feature]
        drawn = features * dim * (queries + keys) if self.spec.feature == "favor" else 0
        sums = (queries + keys) * features * (dim + 1)
        return Cost(multiply_adds=sums + drawn, bytes=4 * (queries + keys) * features)

    def sums_over_keys(self) -> bool:
        """A recurrent network with phi(k) (v, 1) summed as its state (Katharopoulos et al. 2020, 3.4)."""
        return self.spec.feature != "favor"

    def _continued(
        self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, state: KeySums
    ) -> Tensor:
        """Mixed values of the tokens behind those in `state`, in 64 bits, since nothing is scaled again."""
        phi_query = self._plain(query.double())
        phi_key = self._plain(key.double()) * visible_or_all(key, visible)[:, None, :, None]
        values = with_ones(value.double())
        sums = kernel_sums(phi_query, phi_key, values, causal=True)
        earlier = state.earlier()
        if earlier is not None:
            sums = sums + phi_query @ earlier
        state.add(phi_key.mT @ values)
        return normalised(sums[..., :-1], sums[..., -1:]).to(value.dtype)

    def _mixed(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        phi_query, phi_key = self._query_features(query), self._key_features(key, context.visible)
        values = with_ones(value.to(phi_key.dtype))
        queries, keys, first_query = query.shape[-2], key.shape[-2], context.first_query
        if self.causal and first_query < keys - 1 and (queries != keys or first_query):
            # A few queries in the middle of the keys: pairs are few, too.
            future = offsets(queries, keys, first_query=first_query, device=query.device) > 0
            sums = kernel_matrix(phi_query, phi_key, future=future) @ values
        else:
            causal = self.causal and first_query < keys - 1
            sums = kernel_sums(phi_query, phi_key, values, causal=causal)
        if self._underflows(sums[..., -1:], key, context):
            return self._rescaled(query, key, value, context)
        return normalised(sums[..., :-1], sums[..., -1:]).to(value.dtype)

    def _underflows(self, total: Tensor, key: Tensor, context: Context) -> bool:
        """Whether the one scale of all features was too large or too small for some row."""
        if self.spec.feature == "taylor":
            return False
        first_query, causal = context.first_query, self.causal
        return not nothing_lost(total, key, context.visible, first_query=first_query, causal=causal)

    def _rescaled(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values from sums that no scale of queries and keys makes vanish, in 64 bits."""
        of_query, of_key = (self._exponents(x.double()) for x in (query, key))
        real = visible_or_all(key, context.visible)[:, None, :, None]
        of_key = of_key.masked_fill(~real, -torch.inf)
        values = with_ones(value.double())
        if self.causal:
            sums = over_earlier(of_query, of_key, values, context.first_query).sums
        else:
            sums = over_all(of_query, of_key, values).sums
        return normalised(sums[..., :-1], sums[..., -1:]).to(value.dtype)

    def _exponents(self, x: Tensor) -> Tensor:
        """Logarithms of features; a factor common to a row of queries cancels out."""
        if self.spec.feature == "elu":
            return elu_exponents(x)
        return favor_exponents(x, self.spec.features, self.spec.seed)

    def _query_features(self, query: Tensor) -> Tensor:
        """Features of queries, in 32 bits at least."""
        query = query.to(torch.promote_types(query.dtype, torch.float32))
        if self.spec.feature != "favor":
            return self._plain(query)
        exponents = favor_exponents(query, self.spec.features, self.spec.seed)
        # A factor common to a row cancels out.
        return (exponents - exponents.detach().amax(-1, keepdim=True)).exp()

    def _key_features(self, key: Tensor, visible: Tensor | None) -> Tensor:
        """Features of keys, 0 for padding, in 32 bits at least."""
        real = visible_or_all(key, visible)[:, None, :, None]
        key = key.to(torch.promote_types(key.dtype, torch.float32))
        if self.spec.feature != "favor":
            return self._plain(key) * real
        exponents = favor_exponents(key, self.spec.features, self.spec.seed)
        exponents = exponents - common_height(exponents, real, causal=self.causal)
        return exponents.masked_fill(~real, -torch.inf).exp()

    def _plain(self, x: Tensor) -> Tensor:
        return elu_features(x) if self.spec.feature == "elu" else taylor_features(x)
