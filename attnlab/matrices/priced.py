"""Structures with one entry a row, chosen together with the sparse error they leave room for.

The entries that E corrects are shared by the whole matrix, which ties the rows together. A price t per
correction unties them: an entry with residual r then costs ::

    c_t(r) = min(|r|, max(|r| - eps, 0) + t) = |r| - max(min(|r|, eps) - t, 0)

and for every t >= 0 and every P, by weak duality, ::

    min over E of |H - P - E|_1 >= sum over entries of c_t(h - p) - s t

with equality when t is the s-th largest of the savings min(|r|, eps) of that P. The right-hand side
splits by entry, so that a family can be searched for its smallest value as if there were no error.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.columns import fill_columns
from attnlab.matrices.residual import SparseError
from attnlab.matrices.values import Values


@dataclass(frozen=True)
class Corrected:
    """What a structure leaves after its best error, and the price at which the bound meets it."""

    l1: Float[Tensor, "*batch"]
    price: Float[Tensor, "*batch"]


@dataclass(frozen=True)
class Task:
    """What is to be approximated, how, and how much correction is allowed."""

    H: Float[Tensor, "*batch query key"]
    values: Values
    allowed: SparseError

    @property
    def tolerance(self) -> Float[Tensor, "*batch"]:
        """How far two ways of adding up the same matrix may differ by rounding."""
        size = self.H.sum((-2, -1)) + self.H.shape[-2]
        return 8 * torch.finfo(self.H.dtype).eps * size

    @property
    def nonzeros(self) -> Int[Tensor, "*batch"]:
        """S of each matrix, no more than it has entries."""
        entries = self.H.shape[-2] * self.H.shape[-1]
        wanted = torch.as_tensor(self.allowed.nonzeros, device=self.H.device)
        return wanted.clamp(max=entries).expand(self.H.shape[:-2])


def priced(
    residual: Float[Tensor, "*batch rows columns"],
    bound: float,
    price: Float[Tensor, "*batch"] | None,
) -> Float[Tensor, "*batch rows columns"]:
    """What entries with residuals of this size cost at a price per correction; None forbids them.

    >>> priced(torch.tensor([[0.1, 0.9]]), 0.5, torch.tensor(0.2)).tolist()[0][1]  # 0.4 left, and 0.2
    0.6000000238418579
    """
    if price is None:
        return residual
    return residual - (residual.clamp(max=bound) - price[..., None, None]).clamp(min=0)


def priced_gain(
    entries: Float[Tensor, "*batch rows columns"], task: Task, price: Float[Tensor, "*batch"] | None
) -> Float[Tensor, "*batch rows columns"]:
    """How much cheaper each entry becomes when its row attends it alone.

    Without corrections h (`free`) or h - |1 - h|.
    """
    attended = torch.zeros_like(entries) if task.values == "free" else (1 - entries).abs()
    bound = task.allowed.bound
    return priced(entries, bound, price) - priced(attended, bound, price)


def priced_total(task: Task, price: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """The bound on the distance of the empty structure; what a structure gains comes off it."""
    return priced(task.H, task.allowed.bound, price).sum((-2, -1)) - task.nonzeros * price


def corrected(
    task: Task, column: Int[Tensor, "*batch query"], allowed: Bool[Tensor, "*batch query"]
) -> Corrected:
    """The distance that is left when row i attends `column[i]` and E does its best."""
    residual = (task.H - fill_columns(task.H, column, allowed, task.values)).abs().flatten(-2)
    savings = residual.clamp(max=task.allowed.bound)
    nonzeros = task.nonzeros[..., None]
    most = min(int(nonzeros.max()) + 1, savings.shape[-1])
    largest = savings.topk(most, dim=-1).values
    rank = torch.arange(most, device=largest.device)
    saved = largest.masked_fill(rank >= nonzeros, 0).sum(-1)
    # Between the last saving and the first that was not made every price is as good for this P.
    last = largest.gather(-1, (nonzeros - 1).clamp(0, most - 1))
    following = largest.gather(-1, nonzeros.clamp(max=most - 1))
    none_left = nonzeros >= savings.shape[-1]
    price = torch.where(none_left, 0, (last + following) / 2)[..., 0]
    return Corrected(residual.sum(-1) - saved, price)
