"""Structures with one entry a row, chosen together with the sparse error they leave room for.

The entries that E corrects are shared by the whole matrix, which ties the rows together. A price t per
correction unties them: an entry with residual r then costs ::

    c_t(r) = min(|r|, max(|r| - eps, 0) + t) = |r| - max(min(|r|, eps) - t, 0)

and for every t >= 0 and every P, by weak duality, ::

    min over E of |H - P - E|_1 >= sum over entries of c_t(h - p) - s t

with equality when t is the s-th largest of the savings min(|r|, eps) of that P. The right-hand side
splits by entry, so that a family can be searched for its smallest value as if there were no error.

Matrices with one entry a row: what Sigma1, Sigma3 and the single column have in common.

The best of a few structures after the sparse error, by evaluating the most promising one first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.batched import Positions, Sizes, positions_of, sizes_of
from attnlab.matrices.residual import SparseError
from attnlab.matrices.supports import Values


@dataclass(frozen=True)
class Corrected:
    """What a structure leaves after its best error, and the price at which the bound meets it."""

    l1: Float[Tensor, "*batch"]
    price: Float[Tensor, "*batch"]


@dataclass(frozen=True)
class Leading:
    """The largest entries of each matrix, falling, and where they stand."""

    entry: Float[Tensor, "*batch rank"]
    row: Int[Tensor, "*batch rank"]
    key: Int[Tensor, "*batch rank"]


@dataclass(frozen=True)
class Task:
    """What is to be approximated, how, and how much correction is allowed."""

    H: Float[Tensor, "*batch query key"]
    values: Values
    allowed: SparseError

    @property
    def tolerance(self) -> Float[Tensor, "*batch"]:
        """How far two ways of adding up the same matrix may differ by rounding."""
        size = self.total + self.H.shape[-2]
        return 8 * torch.finfo(self.H.dtype).eps * size

    @property
    def nonzeros(self) -> Int[Tensor, "*batch"]:
        """S of each matrix, no more than it has entries."""
        entries = self.H.shape[-2] * self.H.shape[-1]
        counts = torch.as_tensor(self.allowed.nonzeros, device=self.H.device)
        return counts.clamp(max=entries).expand(self.H.shape[:-2])

    @cached_property
    def most_nonzeros(self) -> int:
        """The largest s of all matrices; 0 without any matrix."""
        return int(self.nonzeros.max()) if self.nonzeros.numel() else 0

    @cached_property
    def total(self) -> Float[Tensor, "*batch"]:
        """The sum of each matrix."""
        return self.H.sum((-2, -1))

    @cached_property
    def leading(self) -> Leading:
        """As many of the largest entries as decide the error of any structure with one entry a row.

        Such a structure changes an entry of each row, so that among the s + 1 largest residuals all
        that are entries of H as they were are among its s + 1 + queries largest entries.
        Cost: a partial sort of the matrix, once.
        """
        queries, keys = self.H.shape[-2:]
        most = min(self.most_nonzeros + 1 + queries, queries * keys)
        entry, index = self.H.flatten(-2).topk(most, dim=-1)
        return Leading(entry, index // keys, index % keys)


def priced(
    residual: Float[Tensor, "*batch rows columns"],
    bound: float,
    price: Float[Tensor, "*batch"] | None,
) -> Float[Tensor, "*batch rows columns"]:
    """What entries with residuals of this size cost at a price per correction; None forbids them.

    >>> residuals, price = torch.tensor([[0.1, 0.9]]), torch.tensor(0.2)
    >>> [round(cost, 3) for cost in priced(residuals, 0.5, price)[0].tolist()]  # 0.9 - 0.5 + 0.2
    [0.1, 0.6]
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
    """The bound on the distance of the empty structure; what a structure gains comes off it.

    The price must be one that `corrected` found for the same task: what is not among the leading
    entries saves less than any of these.
    """
    savings = task.leading.entry.clamp(max=task.allowed.bound)
    return task.total - (savings - price[..., None]).clamp(min=0).sum(-1) - task.nonzeros * price


def corrected(
    task: Task, column: Int[Tensor, "*batch query"], allowed: Bool[Tensor, "*batch query"]
) -> Corrected:
    """The distance that is left when row i attends `column[i]` and E does its best.

    Cost: a partial sort of s + 1 + queries leading entries, no pass over the matrix.
    """
    residual, changed = _leading_residuals(task, column, allowed)
    savings = residual.abs().clamp(max=task.allowed.bound)
    nonzeros = task.nonzeros[..., None]
    most = min(task.most_nonzeros + 1, task.H.shape[-2] * task.H.shape[-1])
    largest = savings.topk(most, dim=-1).values
    rank = torch.arange(most, device=largest.device)
    saved = largest.masked_fill(rank >= nonzeros, 0).sum(-1)
    # Between the last saving and the first that was not made every price is as good for this P.
    last = largest.gather(-1, (nonzeros - 1).clamp(0, most - 1))
    following = largest.gather(-1, nonzeros.clamp(max=most - 1))
    none_left = nonzeros >= task.H.shape[-2] * task.H.shape[-1]
    price = torch.where(none_left, 0, (last + following) / 2)[..., 0]
    return Corrected(task.total + changed - saved, price)


def best_error(
    task: Task, column: Int[Tensor, "*batch query"], allowed: Bool[Tensor, "*batch query"]
) -> Float[Tensor, "*batch query key"]:
    """E itself: `largest_of_residual` of the structure in which row i attends `column[i]`.

    Cost: a partial sort of s + 1 + queries leading entries, and one pass to write zeros.
    """
    leading, bound = task.leading, task.allowed.bound
    queries, keys = task.H.shape[-2:]
    residual, _ = _leading_residuals(task, column, allowed)
    index = leading.row * keys + leading.key
    if residual.shape[-1] > index.shape[-1]:
        attended = torch.arange(queries, device=index.device) * keys + column.clamp(0, keys - 1)
        index = torch.cat([index, attended], -1)
    most = min(task.most_nonzeros, queries * keys)
    top = residual.abs().topk(most, dim=-1).indices
    rank = torch.arange(most, device=index.device)
    taken = residual.gather(-1, top).clamp(-bound, bound)
    taken = taken.masked_fill(rank >= task.nonzeros[..., None], 0)
    # The entry that a row attends also stands among the leading ones, as 0.
    error = torch.zeros_like(task.H).flatten(-2)
    return error.scatter_add_(-1, index.gather(-1, top), taken).reshape(task.H.shape)


def _leading_residuals(
    task: Task, column: Tensor, allowed: Tensor
) -> tuple[Float[Tensor, "*batch rank"], Float[Tensor, "*batch"]]:
    """The largest residuals of a structure with one entry a row, and by how much it changes the sum."""
    leading, last = task.leading, task.H.shape[-1] - 1
    attended = (column.gather(-1, leading.row) == leading.key) & allowed.gather(-1, leading.row)
    unchanged = leading.entry.masked_fill(attended, 0)
    entry = task.H.gather(-1, column.clamp(0, last)[..., None])[..., 0] * allowed
    if task.values == "free":
        return unchanged, -entry.sum(-1)
    left = (entry - 1) * allowed
    return torch.cat([unchanged, left], -1), (left.abs() - entry).sum(-1)


def fill_columns(
    H: Float[Tensor, "*batch query key"],
    column: Int[Tensor, "*batch query"],
    allowed: Bool[Tensor, "*batch query"],
    values: Values,
) -> Float[Tensor, "*batch query key"]:
    """The matrix in which row i attends key `column[i]` alone, or nothing where not allowed.

    With a single entry in a row `binary` and `stochastic` are the same: the entry is 1. `free` takes h.
    Cost: O(query), and one pass to write zeros.
    """
    structure = torch.zeros_like(H)
    if H.shape[-1] == 0:
        return structure
    index = column.clamp(0, H.shape[-1] - 1)[..., None]
    entry = H.gather(-1, index) if values == "free" else torch.ones_like(structure[..., :1])
    return structure.scatter_(-1, index, entry * allowed[..., None])


def real_columns(
    column: Int[Tensor, "*#batch query"],
    H: Float[Tensor, "*batch query key"],
    sizes: Sizes | None,
    *,
    causal: bool,
    positions: Positions | None = None,
) -> Bool[Tensor, "*#batch query"]:
    """True where row and column are both real, and the column is not ahead when causal."""
    row = torch.arange(H.shape[-2], device=H.device)
    real = sizes_of(H, sizes)
    allowed = (row < real[..., :1]) & (column >= 0) & (column < real[..., 1:])
    return allowed & (column <= positions_of(H, positions)) if causal else allowed


Price = Float[Tensor, "*batch"] | None
Gains = Callable[[Price], Float[Tensor, "*batch candidate"]]
Rows = Callable[
    [Int[Tensor, "*batch"]], tuple[Int[Tensor, "*batch query"], Bool[Tensor, "*batch query"]]
]


def best_candidate(task: Task, gains: Gains, rows: Rows) -> Int[Tensor, "*batch"]:
    """The candidate that comes nearest to H together with its best error E, exactly.

    Every evaluated candidate gives a price and with it a bound for all others (`priced`). The search
    ends when no candidate that is left has a bound below the best distance, at the latest when all are
    evaluated; usually after one or two. Without an error the largest gain wins at once.

    Args:
        task: the matrices, the values and the error.
        gains: what each candidate gains over the empty structure at a price; -inf where it cannot be.
        rows: the column of every row under a candidate, and whether the row has one.

    Cost: per round one evaluation, `gains` and a partial sort.
    """
    chosen = gains(None).argmax(-1)
    if task.allowed.absent:
        return chosen
    bounds = torch.where(gains(None) > -math.inf, -math.inf, math.inf)
    best, nearest = torch.full_like(bounds[..., 0], math.inf), chosen
    for _ in range(bounds.shape[-1]):
        fit = corrected(task, *rows(chosen))
        # A difference below rounding must not decide otherwise when other matrices need more rounds.
        better = fit.l1 < best - task.tolerance
        best, nearest = torch.where(better, fit.l1, best), torch.where(better, chosen, nearest)
        bound = priced_total(task, fit.price)[..., None] - gains(fit.price)
        bounds = torch.maximum(bounds, bound).scatter(-1, chosen[..., None], math.inf)
        promised, chosen = bounds.min(-1)
        if bool((promised >= best - task.tolerance).all()):
            break
    return nearest
