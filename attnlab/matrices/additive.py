"""Band + columns + sparse error under one budget: the form that sigma attention really has."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.matrices.additive_search import Limits, Outside, best_columns, outside_of
from attnlab.matrices.chunks import in_chunks
from attnlab.matrices.fit import Additive, Fit, complete
from attnlab.matrices.padding import Sizes, counted_entries, sizes_of
from attnlab.matrices.rare_columns import check_blocks
from attnlab.matrices.residual import SparseError, check_error
from attnlab.matrices.supports import Window, band_support, offsets, reach_within, sides
from attnlab.matrices.weights import checked_weights


@in_chunks
def fit_additive(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    num_pos: int,
    budget: int | Int[Tensor, "*#batch"],
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
) -> Fit:
    """Nearest band + whole columns + sparse error of at most `budget` entries, split as is best.

    ::

        X = H on B(l, r), on the columns t_1 .. t_k, and E beside them
        minimise |H - X| over  no band or 0 <= l <= left, 0 <= r <= right;  k <= num_pos columns;
                               E of s' <= error_nnz entries, each at most error_bound in size
        such that |B(l, r)| + |columns outside B(l, r)| + s' <= budget

    An entry of the band or of a column gains h, one of E min(h, error_bound). Band, columns and E are
    chosen together, exactly: the columns of most mass need not be the best ones, since E serves a
    column with one large entry more cheaply. Were E bounded neither in number nor in size, it would
    take the whole budget: no set of entries captures more than the largest ones, whatever its shape.

    A column is visible to every row; when causal, to the rows from its own position on. The support
    holds H itself (values `free`). Among equals fewer offsets, then fewer columns win.

    Args:
        H: attention weights, at least 0.
        window: how far the band may reach back and ahead; one number is both sides.
        num_pos: how many columns there may be.
        budget: how many entries band, columns and E may have together.
        causal: no query attends a later key.
        error_nnz: s, how many of the entries may be those of E.
        error_bound: eps, how large a correction may be.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.padding`.

    Raises:
        InputError: no attention weights, or a negative window, num_pos, budget or error.

    Cost: a pass and a partial sort for each of the (left + 1) (right + 1) bands, and as many sets of
    columns as the bound leaves (`attnlab.matrices.additive_search`), at worst C(keys, num_pos).
    Source: thesis 3.1 and 3.2, its Sigma2, Sigma3 and E added up; math.md sections 3 and 4.
    """
    _check(num_pos, budget, error_nnz, error_bound)
    asked = sides(window, causal=causal)
    H = checked_weights(H, sizes)
    batch = H.shape[:-2]
    matrices = H.reshape(-1, *H.shape[-2:]).double()
    real = _real(H, sizes)
    limits = Limits(
        _by_matrix(budget, batch, H.device),
        _by_matrix(error_nnz, batch, H.device),
        error_bound,
        min(num_pos, H.shape[-1]),
    )
    chosen = _best_split(matrices, real, limits, asked, causal=causal)
    support = _support(chosen, real, causal=causal)
    used = support.sum((-2, -1))
    corrections = torch.minimum(limits.error_nnz, limits.budget - used)
    return complete(
        H,
        torch.where(support.reshape(H.shape), H, 0),
        family="additive",
        values="free",
        parameters=Additive(
            asked,
            chosen.banded.reshape(batch),
            chosen.left.reshape(batch),
            chosen.right.reshape(batch),
            chosen.used.reshape(*batch, -1),
            chosen.column.reshape(*batch, -1),
        ),
        support_size=used.reshape(batch),
        allowed=SparseError(corrections.reshape(batch), error_bound),
        sizes=sizes,
    )


@dataclass
class _Choice:
    """The best split so far of each matrix, and the mass that it captures."""

    gain: Float[Tensor, "matrix"]
    banded: Bool[Tensor, "matrix"]
    left: Int[Tensor, "matrix"]
    right: Int[Tensor, "matrix"]
    used: Bool[Tensor, "matrix slot"]
    column: Int[Tensor, "matrix slot"]

    def take(self, where: Tensor, band: Window | None, gain: Tensor, columns: Tensor) -> None:
        """Keeps a band and its columns `where` they are better than the best so far."""
        count = columns.shape[-1]
        left, right = band or (0, 0)
        self.gain = torch.where(where, gain, self.gain)
        self.banded[where] = band is not None
        self.left[where], self.right[where] = left, right
        self.used[where] = torch.arange(self.used.shape[-1], device=where.device) < count
        self.column[where] = 0
        self.column[where, :count] = columns[where]


def _best_split(
    H: Tensor, real: Tensor, limits: Limits, window: Window, *, causal: bool
) -> _Choice:
    matrices, device = len(H), H.device
    nothing = torch.zeros(matrices, dtype=torch.long, device=device)
    slots = torch.zeros(matrices, limits.num_pos, dtype=torch.long, device=device)
    chosen = _Choice(
        torch.full((matrices,), -math.inf, dtype=H.dtype, device=device),
        nothing.bool(),
        nothing,
        nothing.clone(),
        slots.bool(),
        slots,
    )
    # What differs by rounding alone is no better.
    least = H.sum((-2, -1)) * 1e-12
    for band in (None, *_windows(window, *H.shape[-2:])):
        outside = _outside(H, real, limits, band, causal=causal)
        if outside is None:
            continue
        for gain, columns in best_columns(outside, limits, chosen.gain + least):
            chosen.take(gain > chosen.gain + least, band, gain, columns)
    return chosen


def _windows(window: Window, queries: int, keys: int) -> Iterator[Window]:
    """All bands within reach, the narrow ones first."""
    left, right = reach_within(window, queries, keys)
    pairs = itertools.product(range(left + 1), range(right + 1))
    return iter(sorted(pairs, key=lambda pair: (sum(pair), pair)))


def _outside(
    H: Tensor, real: Tensor, limits: Limits, band: Window | None, *, causal: bool
) -> Outside | None:
    """What stands beside a band; None where it is over the budget of every matrix."""
    queries, keys = H.shape[-2:]
    inside = real & False
    if band is not None:
        inside = real & band_support(queries, keys, band, device=H.device)
    if bool((inside.sum((-2, -1)) > limits.budget).all()):
        return None
    free = real & ~inside
    covered = free & (offsets(queries, keys, device=H.device) <= 0) if causal else free
    return outside_of(H, inside, free, covered, limits)


def _support(chosen: _Choice, real: Tensor, *, causal: bool) -> Bool[Tensor, "matrix query key"]:
    offset = offsets(*real.shape[-2:], device=real.device)
    left, right = chosen.left[:, None, None], chosen.right[:, None, None]
    inside = (offset >= -left) & (offset <= right) & chosen.banded[:, None, None]
    key = torch.arange(real.shape[-1], device=real.device)
    held = ((chosen.column[..., None] == key) & chosen.used[..., None]).any(-2)[:, None]
    columns = held & (offset <= 0) if causal else held
    return (inside | columns) & real


def _real(H: Tensor, sizes: Sizes | None) -> Bool[Tensor, "matrix query key"]:
    every = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    return counted_entries(every, *H.shape[-2:]).reshape(-1, *H.shape[-2:])


def _by_matrix(number: int | Tensor, batch: torch.Size, device: torch.device) -> Tensor:
    return torch.as_tensor(number, device=device).expand(batch).reshape(-1)


def _check(num_pos: int, budget: int | Tensor, error_nnz: int | Tensor, error_bound: float) -> None:
    check_blocks(num_pos)
    check_error(error_nnz, error_bound)
    if bool((torch.as_tensor(budget) < 0).any()):
        msg = "The budget of band, columns and sparse error must be 0 or more."
        raise InputError(msg)
