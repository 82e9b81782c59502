"""The sparse error E of X = P + E (math.md section 4; thesis eq. 20, 23)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import Sizes, checked_approximation, checked_weights


@dataclass(frozen=True)
class SparseError:
    """How much correction is allowed: at most `nonzeros` entries of at most `bound` in size.

    Raises:
        InputError: `nonzeros` is negative, or `bound` is negative or NaN.
    """

    nonzeros: int | Int[Tensor, "*#batch"] = 0
    bound: float = math.inf

    def __post_init__(self) -> None:
        check_error(self.nonzeros, self.bound)

    @property
    def absent(self) -> bool:
        """Whether no entry can be corrected at all."""
        return isinstance(self.nonzeros, int) and self.nonzeros == 0


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
        InputError: no attention weights, `nonzeros` is negative, or `bound` is negative or NaN.
    """
    target = checked_weights(target, sizes)
    residual = target - checked_approximation(structure, target, sizes)
    return largest_of_residual(residual, nonzeros, bound)


def largest_of_residual(
    residual: Float[Tensor, "*batch query key"],
    nonzeros: int | Int[Tensor, "*#batch"],
    bound: float,
) -> Float[Tensor, "*batch query key"]:
    """The `nonzeros` largest entries of the residual, clipped to [-bound, bound], and zeros elsewhere."""
    most = min(check_error(nonzeros, bound), residual.shape[-2] * residual.shape[-1])
    flat = residual.flatten(-2)
    error = torch.zeros_like(flat)
    if most > 0 and bound > 0:
        top = flat.abs().topk(most, dim=-1).indices
        taken = flat.gather(-1, top).clamp(-bound, bound)
        if isinstance(nonzeros, Tensor):
            rank = torch.arange(most, device=residual.device)
            taken = taken.masked_fill(rank >= nonzeros[..., None], 0)
        error.scatter_(-1, top, taken)
    return error.reshape(residual.shape)


def left_after_error(
    residual: Float[Tensor, "*batch query key"], allowed: SparseError
) -> Float[Tensor, "*batch"]:
    """Sum of |r - e| with the best error of the size allowed."""
    error = largest_of_residual(residual, allowed.nonzeros, allowed.bound)
    return (residual - error).abs().sum((-2, -1))


def check_error(nonzeros: int | Tensor, bound: float) -> int:
    """The largest number of corrections asked for.

    Raises:
        InputError: `nonzeros` is negative, or `bound` is negative or NaN.
    """
    if bool((nonzeros < 0).any()) if isinstance(nonzeros, Tensor) else nonzeros < 0:
        msg = "The number of non-zeros of the sparse error must be 0 or more."
        raise InputError(msg)
    if not bound >= 0:
        msg = f"The bound of the sparse error must be 0 or more, not {bound}."
        raise InputError(msg)
    if isinstance(nonzeros, Tensor):
        return int(nonzeros.max()) if nonzeros.numel() else 0
    return nonzeros
