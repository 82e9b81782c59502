"""How much of each input token is in the state of each position: products of attention matrices."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import InputError
from attnlab.matrices.batched import checked_weights, normalized_rows


def attention_rollout(
    layers: Sequence[Float[Tensor, "_ query query"]],
    cross: Sequence[Float[Tensor, "_ query source"]] = (),
    source: Float[Tensor, "source source"] | None = None,
) -> Float[Tensor, "layer query key"]:
    """Share of each input token in the state of each position, after each layer; rows sum to 1.

    With A_l the mean of layer l over heads, and the residual connection as strong as attention::

        R_0 = I,    R_l = (A_l R_{l-1} + R_{l-1}) / row sums

    which is (A_l + I) / 2 times R_{l-1} where rows of A_l sum to 1. Of a decoder with cross-attention the
    columns are the tokens of the source, then those of the target; with C_l the mean of its cross-attention
    and E the last rollout of the encoder::

        R_0 = [0, I],    R'_l as R_l above,    R_l = (C_l [E, 0] + R'_l) / row sums

    Args:
        layers: weights of self-attention `[head, query, key]`, the first layer first; numbers of heads may
            differ.
        cross: of cross-attention, as many; none for a stack without.
        source: E; None: the shares are those of the encoder's states.

    Raises:
        InputError: what is given are no such weights, or there are none.

    Source: Abnar and Zuidema 2020 (arXiv 2005.00928); Ferrando et al. 2022 (2205.11631) for cross-attention;
    heads.md section 10. Cost: O(query^2 * (query + source)) for each layer.
    """
    means = [_mean(weights) for weights in layers]
    crossed = [_mean(weights) for weights in cross]
    _check_shapes(means, crossed, source)
    carried = torch.eye(len(means[0]), dtype=torch.float64, device=means[0].device)
    read = carried
    if crossed:
        sources = crossed[0].shape[-1]
        read = torch.eye(sources).to(carried) if source is None else source.to(carried)
        read, carried = F.pad(read, (0, len(carried))), F.pad(carried, (sources, 0))
    by_layer = []
    for number, mean in enumerate(means):
        carried = normalized_rows(mean @ carried + carried)
        if crossed:
            carried = normalized_rows(crossed[number] @ read + carried)
        by_layer.append(carried)
    return torch.stack(by_layer)


def _mean(weights: Float[Tensor, "_ query key"]) -> Float[Tensor, "query key"]:
    return checked_weights(weights, dimensions=3).double().mean(0)


def _check_shapes(
    means: Sequence[Tensor], crossed: Sequence[Tensor], source: Tensor | None
) -> None:
    """Raises InputError where matrices cannot be multiplied one after another."""
    shapes = [tuple(matrix.shape) for matrix in (*means, *crossed)]
    queries = shapes[0][0] if shapes else 0
    expected = [(queries, queries)] * len(means)
    if crossed:
        sources = crossed[0].shape[-1] if source is None else len(source)
        expected += [(queries, sources)] * len(means)
    if not means or shapes != expected:
        msg = (
            f"Weights of {shapes} (query, key) are not those of the layers of one text; give a square matrix "
            "for each layer, and with cross-attention one for each layer too."
        )
        raise InputError(msg)
