"""A structured approximation X = P + E with everything that describes it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import ShortRepr
from attnlab.matrices.batched import Sizes, sizes_of
from attnlab.matrices.distances import Distances, measure_residual, row_divergence
from attnlab.matrices.residual import SparseError, largest_of_residual
from attnlab.matrices.supports import Values


@dataclass(frozen=True)
class Outline:
    """What a page outlines of the member of a family.

    Attributes:
        offsets: the first and last offset of its band; None where it has none.
        columns: whole columns.
        blocks: blocks of rows that attend one column, as (first row, rows, column).
    """

    offsets: tuple[int, int] | None = None
    columns: tuple[int, ...] = ()
    blocks: tuple[tuple[int, int, int], ...] = ()


class Parameters(ABC):
    """Which member of a family was chosen for each matrix."""

    @abstractmethod
    def described(self, index: int) -> str:
        """The member that was chosen for a matrix, in words."""

    def outline(self, index: int) -> Outline | None:
        """What a page outlines of it; None for a family that is not outlined."""
        del index
        return None


@dataclass(frozen=True, repr=False)
class Fit(ShortRepr):
    """A structured approximation X = P + E of each matrix of a batch.

    P and E are chosen together: `l1` is the smallest distance of any member of the family with any
    error of the size allowed wherever `exact` is True, and an upper bound of it elsewhere.

    Attributes:
        family: the set of matrices that was searched.
        values: how its entries may be filled.
        parameters: which member was chosen.
        structure: P, the member of the family.
        error: E, the sparse correction; zeros when none was asked for.
        l1: sum of |h - x|.
        lower_bound: no member of the family with an error of the size allowed has a smaller l1.
        mean_error: l1 divided by the number of entries.
        relative: l1 divided by the sum of H; the zero matrix has exactly 1.
        frobenius: |H - X|_F / |H|_F.
        kl: mean over the rows with a support of KL(h || x) in nats, inf where x misses mass; None
            unless the rows of X sum to 1 (values `stochastic`, no error).
        budget: how many entries X may use: the support of P, and the non-zeros allowed to E.
    """

    family: str
    values: Values
    parameters: Parameters
    structure: Float[Tensor, "*batch query key"]
    error: Float[Tensor, "*batch query key"]
    l1: Float[Tensor, "*batch"]
    lower_bound: Float[Tensor, "*batch"]
    mean_error: Float[Tensor, "*batch"]
    relative: Float[Tensor, "*batch"]
    frobenius: Float[Tensor, "*batch"]
    kl: Float[Tensor, "*batch"] | None
    budget: Int[Tensor, "*batch"]

    @property
    def approximation(self) -> Float[Tensor, "*batch query key"]:
        """X = P + E."""
        return self.structure + self.error

    @property
    def exact(self) -> Bool[Tensor, "*batch"]:
        """Where `l1` is proven to be the smallest; elsewhere it is an upper bound of the smallest."""
        return self.l1 <= self.lower_bound


def complete(
    H: Float[Tensor, "*batch query key"],
    structure: Float[Tensor, "*batch query key"],
    *,
    family: str,
    values: Values,
    parameters: Parameters,
    support_size: Int[Tensor, "*#batch"],
    allowed: SparseError,
    sizes: Sizes | None,
    distances: Distances | None = None,
    error: Float[Tensor, "*batch query key"] | None = None,
    lower_bound: Float[Tensor, "*batch"] | None = None,
) -> Fit:
    """The fit with structure P: adds the best sparse error where none is given, and all distances.

    `H` and `structure` must be 0 in the padding; `distances` are those of P, where they are known;
    `error` is E, where it was fitted together with P; a `lower_bound` of None says that P and E are
    optimal together.

    Cost: a handful of passes, and a partial sort if E is asked for.
    """
    if allowed.absent:
        error = torch.zeros((), dtype=H.dtype, device=H.device).expand_as(H)
        if distances is None:
            distances = measure_residual(H, H - structure, sizes, nonnegative=values == "free")
    else:
        residual = H - structure
        if error is None:
            error = largest_of_residual(residual, allowed.nonzeros, allowed.bound)
        distances = measure_residual(H, residual - error, sizes)
    stochastic = values == "stochastic" and allowed.absent
    return Fit(
        family=family,
        values=values,
        parameters=parameters,
        structure=structure,
        error=error,
        l1=distances.l1,
        lower_bound=distances.l1 if lower_bound is None else lower_bound.minimum(distances.l1),
        mean_error=distances.mean_error,
        relative=distances.relative,
        frobenius=distances.frobenius,
        kl=_divergence_of_supported_rows(H, structure) if stochastic else None,
        budget=_budget(H, support_size, allowed, sizes),
    )


def _divergence_of_supported_rows(H: Tensor, structure: Tensor) -> Tensor:
    supported = (structure > 0).any(-1)
    divergence = row_divergence(H, structure).masked_fill(~supported, 0)
    return divergence.sum(-1) / supported.sum(-1).clamp(min=1)


def _budget(H: Tensor, support_size: Tensor, allowed: SparseError, sizes: Sizes | None) -> Tensor:
    if allowed.absent:
        return support_size.expand(H.shape[:-2])
    nonzeros = torch.as_tensor(allowed.nonzeros, device=H.device)
    corrections = torch.minimum(nonzeros, sizes_of(H, sizes).prod(-1))
    return (support_size + corrections).expand(H.shape[:-2])
