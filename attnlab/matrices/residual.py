"""The sparse error E of X = P + E (math.md section 4; thesis eq. 20, 23)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.errors import InputError
from attnlab.matrices.padding import Sizes, without_padding


def fit_residual(
    target: Float[Tensor, "*batch query key"],
    structure: Float[Tensor, "*#batch query key"],
    *,
    nonzeros: int | Int[Tensor, "*#batch"],
    bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Best sparse correction E of `structure`: at most `nonzeros` entries, each at most `bound` in size.

    With R = target - structure the l1 and the Frobenius error both split by entry, and the gain of
    correcting an entry grows with |r|, so E takes the largest |r| and clips them::

        E = clip(top(R, nonzeros), -bound, bound)

    Exact for l1 and Frobenius at once, on top of any structure; among equal |r| any choice is optimal.
    `nonzeros` may differ by matrix. Cost: O(query * key) and one partial sort.
    Source: math.md section 4; thesis eq. (20), (23).

    Raises:
        InputError: `nonzeros` is negative, or `bound` is negative or NaN.
    """
    most = check_error(nonzeros, bound)
    residual = without_padding((target - structure).expand_as(target), sizes).flatten(-2)
    most = min(most, residual.shape[-1])
    error = torch.zeros_like(residual)
    if most > 0 and bound > 0:
        top = residual.abs().topk(most, dim=-1).indices
        taken = residual.gather(-1, top).clamp(-bound, bound)
        if isinstance(nonzeros, Tensor):
            rank = torch.arange(most, device=target.device)
            taken = taken.masked_fill(rank >= nonzeros[..., None], 0)
        error.scatter_(-1, top, taken)
    return error.unflatten(-1, target.shape[-2:]) if target.numel() else torch.zeros_like(target)


def check_error(nonzeros: int | Tensor, bound: float) -> int:
    """The largest number of corrections asked for.

    Raises:
        InputError: `nonzeros` is negative, or `bound` is negative or NaN.
    """
    counts = nonzeros if isinstance(nonzeros, Tensor) else torch.tensor(nonzeros)
    if bool((counts < 0).any()):
        msg = "The number of non-zeros of the sparse error must be 0 or more."
        raise InputError(msg)
    if not bound >= 0:
        msg = f"The bound of the sparse error must be 0 or more, not {bound}."
        raise InputError(msg)
    return int(counts.max()) if counts.numel() else 0
