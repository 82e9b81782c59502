"""The three ways in which the entries of a support may be filled (math.md section 3)."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.core.errors import InputError

Values = Literal["binary", "free", "stochastic"]


def check_values(values: str) -> None:
    """Refuses values that are none of `binary`, `free`, `stochastic`.

    Raises:
        InputError: no such values; the message lists the choices.
    """
    if values not in get_args(Values):
        msg = f"There are no values '{values}'; choose from: {', '.join(get_args(Values))}."
        raise InputError(msg)


def fill_support(
    H: Float[Tensor, "*batch query key"],
    support: Bool[Tensor, "*#batch query key"],
    values: Values,
) -> Float[Tensor, "*batch query key"]:
    """The matrix on `support` that is nearest to H >= 0 in l1, with exact zeros elsewhere.

    ::

        free:        x = h          distance = off-support mass
        binary:      x = 1
        stochastic:  x = h / r      distance of row i = off_i + |1 - r_i|,  r_i = sum of h_i on S

    Renormalising is optimal whatever the rows of H sum to: all entries of a row move the same way, so
    their distance is |1 - r_i|, and no row with sum 1 comes nearer. When the rows of H sum to 1 the
    total is twice the off-support mass, and x is the softmax of the scores restricted to S. A row
    without mass on its support is spread evenly over it; a row without support stays 0.
    Source: math.md section 3. Cost: a few passes over the matrix.
    """
    if values == "binary":
        return support.to(H.dtype).expand_as(H).clone()
    kept = torch.where(support, H, 0)
    return kept if values == "free" else renormalised(kept, support)


def renormalised(
    kept: Float[Tensor, "*batch query key"], support: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """Rows scaled to sum to 1; spread evenly over the support where they have no mass, 0 without support."""
    total = kept.sum(-1, keepdim=True)
    # A quotient of integers would have the default dtype, whatever that of H is.
    even = support.to(kept.dtype) / support.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(total > 0, kept / total, even)
