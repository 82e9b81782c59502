"""Linformer (Wang et al. 2020, arXiv 2006.04768, section 4): keys and values projected to k of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.attention.mechanism import Context, Cost, Positions, Setup, Traits, visible_or_all
from attnlab.attention.mechanisms.softmax import scaled_scores
from attnlab.attention.padding import PaddingSafeMechanism
from attnlab.attention.specification import Specification
from attnlab.core import InputError

# A projection of each head is as large as both together.
MOST_SIZE = 2**14


@dataclass(frozen=True)
class Linformer(Specification):
    """Keys and values projected to `k` of them; `max_length` is the longest sentence there may be."""

    name: ClassVar[str] = "linformer"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"share": ("none", "heads", "kv", "layers")}
    k: Any
    max_length: Any = 512
    share: Any = "none"

    def __post_init__(self) -> None:
        self.check_integer("k", 1)
        self.check_integer("max_length", 1)
        self.check_at_most(MOST_SIZE, "k", "max_length")
        self.check_chosen()


class LinformerAttention(PaddingSafeMechanism):
    """Softmax over k mixtures of keys, which mix the same mixtures of values.

    ::

        out = softmax(Q (E K)^T / sqrt(dim)) (F V),     E, F of shape k x max_length

    A sentence of n tokens uses the first n columns, wherever it starts; padding is zeroed. `share` as in
    the paper: `"none"` one E and one F a head, `"heads"` one E and one F for all heads, `"kv"` one
    E = F for all heads, `"layers"` that one for all layers too (`share_projections` ties them).
    The implied matrix softmax(...) F has negative entries and rows that do not sum to 1: it is no
    probability. E and F start normal with variance 1 / k, from torch's current generator.
    """

    specification: ClassVar[type[Specification] | None] = Linformer
    source: ClassVar[str] = "Wang et al. 2020, arXiv 2006.04768"
    traits: ClassVar[Traits] = Traits(
        subquadratic=True,
        causal=False,
        stochastic=False,
        support=False,
        bias=False,
        cached=False,
        learned=True,
    )
    positions: ClassVar[Positions] = "keys"
    refusals: ClassVar[Mapping[str, str]] = {
        "causal": "each of its k mixtures holds keys from the whole sentence, the future too"
    }

    def __init__(self, spec: Linformer, setup: Setup) -> None:
        super().__init__(spec, setup)
        if spec.share == "none" and setup.heads is None:
            msg = (
                f"'{spec}' has projections for each head: say how many with make(spec, heads=...)."
            )
            raise InputError(msg)
        heads = setup.heads if spec.share == "none" and setup.heads else 1
        shape = (heads, spec.k, spec.max_length)
        self.key_projection = nn.Parameter(torch.zeros(shape))
        if spec.share in {"none", "heads"}:
            self.value_projection = nn.Parameter(torch.zeros(shape))
        self.reset()

    def reset(self) -> None:
        """Draws new projections from torch's current generator."""
        for projection in self.parameters():
            nn.init.normal_(projection, std=self.spec.k**-0.5)

    def tie(self, first: "LinformerAttention") -> None:
        """Uses the projection of another layer from now on, as one parameter of both."""
        self.key_projection = first.key_projection
        # Transformers looks here for what it need not write a second time.
        self._tied_weights_keys = {"key_projection": "key_projection"}

    def mix(self, query: Tensor, key: Tensor, value: Tensor, context: Context) -> Tensor:
        """Mixed values: k projected keys instead of n."""
        real = visible_or_all(key, context.visible)[:, None, :, None]
        weights = self._weights(query, key, real)
        if self.training:
            weights = F.dropout(weights, self.dropout)
        return weights @ (self._mixtures(self._mixed_values(), value) @ value.where(real, 0.0))

    def matrix(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """softmax(Q (E K)^T / sqrt(dim)) F, 0 for padding; entries of either sign."""
        real = visible_or_all(key, context.visible)[:, None, :, None]
        mixtures = self._mixtures(self._mixed_values(), key)
        return (self._weights(query, key, real) @ mixtures) * real.mT

    def cost(self, queries: int, keys: int, dim: int) -> Cost:
        """Two projections of the keys' length, and k scores a row."""
        adds = 2 * self.spec.k * (queries + keys) * dim
        return Cost(multiply_adds=adds, bytes=4 * self.spec.k * (queries + 2 * dim))

    def _weights(self, query: Tensor, key: Tensor, real: Tensor) -> Tensor:
        projected = self._mixtures(self.key_projection, key) @ key.where(real, 0.0)
        return scaled_scores(query, projected).softmax(-1)

    def _mixed_values(self) -> Tensor:
        both = self.spec.share in {"kv", "layers"}
        return self.key_projection if both else self.value_projection

    def _mixtures(self, projection: Tensor, tokens: Tensor) -> Tensor:
        length = tokens.shape[-2]
        self.spec.check_length(length)
        return projection[..., :length].to(tokens.dtype)


def share_projections(module: nn.Module) -> dict[str, str]:
    """Ties the projections of all `linformer(share='layers')` in `module` to those of the first.

    Returns the names of the tied parameters, each with the name of the one it is tied to.

    Raises:
        InputError: they are not of one shape.
    """
    shared = [
        (path, part)
        for path, part in module.named_modules()
        if isinstance(part, LinformerAttention) and part.spec.share == "layers"
    ]
    tied = {}
    for path, part in shared[1:]:
        first_path, first = shared[0]
        if part.spec != first.spec:
            msg = f"'{part.spec}' and '{first.spec}' cannot share one projection: make them equal."
            raise InputError(msg)
        part.tie(first)
        tied[f"{path}.key_projection"] = f"{first_path}.key_projection"
    return tied
