"""Multi-head attention: projections around a mechanism, with the weights of every head on request."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.attention.mechanism import Mechanism


class MultiHeadAttention(nn.Module):
    """Splits queries, keys and values into heads, lets a mechanism mix them, and projects back.

    ::

        MultiHead(X, Y) = [head_1 ... head_h] W_O,   head_i = mechanism(X W_Q_i, Y W_K_i, Y W_V_i)

    Splitting one projection by columns equals separate projections a head (math.md section 8).
    Source: Vaswani et al. 2017, section 3.2.2; thesis section 2.1.

    Args:
        dim: size of the token vectors.
        heads: number of heads; must divide `dim`.
        mechanism: how values are mixed.
        init: `"default"` (Xavier) or `"identity"` for W_Q, W_K and W_V, which the thesis also tries.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        mechanism: Mechanism,
        *,
        init: str = "default",
    ) -> None:
        super().__init__()
        self.heads = heads
        self.mechanism = mechanism
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        for layer in (self.query, self.key, self.value, self.output):
            if init == "identity" and layer is not self.output:
                nn.init.eye_(layer.weight)
            else:
                nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def split(
        self, tokens: Float[Tensor, "batch token dim"]
    ) -> Float[Tensor, "batch head token _"]:
        """The same numbers, one block of columns a head."""
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_and_values(
        self, memory: Float[Tensor, "batch key dim"]
    ) -> tuple[Float[Tensor, "batch head key _"], Float[Tensor, "batch head key _"]]:
        """Keys and values of every head, which cached decoding keeps."""
        return self.split(self.key(memory)), self.split(self.value(memory))

    def forward(
        self,
        tokens: Float[Tensor, "batch query dim"],
        keys: Float[Tensor, "batch head key head_dim"],
        values: Float[Tensor, "batch head key head_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
        weights: bool = False,
    ) -> tuple[Float[Tensor, "batch query dim"], Float[Tensor, "batch head query key"] | None]:
        """Mixed tokens and, when `weights`, the matrix each head applied (before dropout)."""
        queries = self.split(self.query(tokens))
        mixed = self.mechanism(queries, keys, values, visible, first_query=first_query)
        matrix = None
        if weights:
            with torch.autocast(tokens.device.type, enabled=False):
                matrix = self.mechanism.implied_matrix(
                    queries, keys, visible, first_query=first_query
                )
        return self.output(mixed.transpose(1, 2).flatten(2)), matrix
