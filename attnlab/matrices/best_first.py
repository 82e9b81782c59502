"""The best of a few structures after the sparse error, by evaluating the most promising one first."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.matrices.priced import Task, corrected, priced_total

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
        found = corrected(task, *rows(chosen))
        # A difference below rounding must not decide otherwise when other matrices need more rounds.
        better = found.l1 < best - task.tolerance
        best, nearest = torch.where(better, found.l1, best), torch.where(better, chosen, nearest)
        bound = priced_total(task, found.price)[..., None] - gains(found.price)
        bounds = torch.maximum(bounds, bound).scatter(-1, chosen[..., None], math.inf)
        promised, chosen = bounds.min(-1)
        if bool((promised >= best - task.tolerance).all()):
            break
    return nearest
