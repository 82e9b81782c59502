"""Sigma = Sigma1 u Sigma2 u Sigma3: the nearest of the three families."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.matrices.bands import fit_band
from attnlab.matrices.batched import Sizes, in_chunks, sizes_of, takes_no_memory
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.fit import Fit, Parameters
from attnlab.matrices.rare_columns import Anchor, Heights, fit_rare_columns
from attnlab.matrices.supports import Values


@dataclass(frozen=True)
class Union(Parameters):
    """The best of several families, matrix by matrix: `chosen` counts into `families`."""

    families: tuple[str, ...]
    chosen: Int[Tensor, "*batch"]
    members: tuple[Parameters, ...]

    def described(self, index: int) -> str:
        """The family of the member."""
        return self.families[int(self.chosen[index])]


@in_chunks
def fit_sigma(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    num_pos: int,
    values: Values = "free",
    dropout: float = 0.0,
    equal_budget: bool = False,
    anchor: Anchor = "any",
    heights: Heights = "fixed",
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Fit:
    """Nearest member of Sigma1 u Sigma2 u Sigma3, matrix by matrix, by l1 after the sparse error.

    ::

        X = argmin over the three families of |H - P - E|,   P and E chosen together

    With `free` values, no dropout and a window as wide on both sides (or causal), the band contains the
    other two and always wins: compare at an
    equal budget, or by description length (`attnlab.matrices.labels`), before saying what a head is.
    Where one of the three is not proven to be the nearest of its family and could win, `Fit.exact` is
    False and the distance an upper bound. Among equals the family with fewer parameters wins:
    diagonal, rare columns, band.

    Args:
        H: attention weights, at least 0.
        window: reach of the offsets and of the band, and (its larger side) the rows of a block.
        num_pos: how many rare columns there may be.
        values: how the entries may be filled.
        dropout: the share of the band that stays empty.
        equal_budget: instead of `dropout`, the band keeps as many entries as the matrix has rows, which
            is what the other two families have.
        anchor: see `fit_rare_columns`.
        heights: see `fit_rare_columns`.
        causal: no query attends a later key.
        error_nnz: s, how many entries E may correct.
        error_bound: eps, how large a correction may be.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.

    Raises:
        InputError: an option is out of its range.

    Cost: the three fits. Source: math.md section 3; thesis 3.2.
    """
    keep = sizes_of(H, sizes)[..., 0] if equal_budget else None
    shared: dict[str, Any] = {"values": values, "causal": causal, "sizes": sizes, "window": window}
    shared |= {"error_nnz": error_nnz, "error_bound": error_bound}
    blocks: dict[str, Any] = {"num_pos": num_pos, "anchor": anchor, "heights": heights}
    return fit_union(H, **shared, **blocks, dropout=dropout, keep=keep)


def fit_union(
    H: Float[Tensor, "*batch query key"],
    *,
    dropout: float,
    keep: int | Int[Tensor, "*#batch"] | None,
    num_pos: int,
    anchor: Anchor = "any",
    heights: Heights = "fixed",
    **shared: Any,
) -> Fit:
    """`fit_sigma` of the whole batch, with `keep` entries of the band as `fit_band` takes them.

    The family of fewest parameters comes first, since it wins among equals.
    """
    return nearest(
        [
            fit_diagonal(H, **shared),
            fit_rare_columns(H, num_pos=num_pos, anchor=anchor, heights=heights, **shared),
            fit_band(H, dropout=dropout, keep=keep, **shared),
        ]
    )


def nearest(fits: list[Fit]) -> Fit:
    """The fit with the smallest l1 of each matrix; the earlier one among equals."""
    chosen = torch.stack([fit.l1 for fit in fits]).argmin(0)

    def pick(tensors: list[Tensor]) -> Tensor:
        result = tensors[0]
        for index, tensor in enumerate(tensors[1:], start=1):
            here = chosen == index
            result = torch.where(
                here.reshape(here.shape + (1,) * (tensor.ndim - here.ndim)), tensor, result
            )
        return result

    absent = all(takes_no_memory(fit.error) for fit in fits)
    divergences = [fit.kl for fit in fits if fit.kl is not None]
    return Fit(
        family="union",
        values=fits[0].values,
        parameters=Union(
            tuple(fit.family for fit in fits), chosen, tuple(fit.parameters for fit in fits)
        ),
        structure=pick([fit.structure for fit in fits]),
        error=fits[0].error if absent else pick([fit.error for fit in fits]),
        l1=pick([fit.l1 for fit in fits]),
        lower_bound=torch.stack([fit.lower_bound for fit in fits]).amin(0),
        mean_error=pick([fit.mean_error for fit in fits]),
        relative=pick([fit.relative for fit in fits]),
        frobenius=pick([fit.frobenius for fit in fits]),
        kl=pick(divergences) if len(divergences) == len(fits) else None,
        budget=pick([fit.budget for fit in fits]),
    )
