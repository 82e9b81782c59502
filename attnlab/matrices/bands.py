"""Sigma2, the syntactic family: a band around the diagonal, possibly with entries dropped.

The band of square matrices, copied and measured through views: the fast form of a free band fit.

In memory row after row, the inner rows of a band are rows of left + right + 1 entries, n + 1 apart. The
entries between the band of one row and the band of the next stand side by side as well::

    (i, i + right + 1) ... (i, n - 1), (i + 1, 0) ... (i + 1, i - left)

so that everything off the band is one view too. Only in the first and last rows, where the band leaves
the matrix, do both views need a supplement.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import (
    Positions,
    Sizes,
    checked_weights,
    counted_entries,
    in_chunks,
    positions_of,
    sizes_of,
)
from attnlab.matrices.distances import Distances, from_sums
from attnlab.matrices.fit import Fit, Parameters, complete
from attnlab.matrices.offsets import band_entries, matrix_from_band, real_band
from attnlab.matrices.residual import SparseError, left_after_error
from attnlab.matrices.stochastic import fit_stochastic_rows
from attnlab.matrices.supports import (
    Values,
    Window,
    band_dimension,
    band_support,
    check_values,
    fill_support,
    reach_within,
    sides,
)


def can_be_read_in_place(H: Float[Tensor, "*batch query key"], window: Window) -> bool:
    """Whether the matrices are square and contiguous, and the band narrow enough for this to pay."""
    square = H.shape[-2] == H.shape[-1] and H.numel() > 0
    return square and 4 * (sum(window) + 1) <= H.shape[-1] and H.is_contiguous()


def copy_band(H: Float[Tensor, "*batch n n"], window: Window) -> Float[Tensor, "*batch n n"]:
    """A new matrix with the band of H and zeros elsewhere. Cost: writing the matrix once."""
    structure = torch.zeros_like(H)
    left, right = window
    flat, source = structure.view(-1, *H.shape[-2:]), _batch(H)
    _inner(flat, window).copy_(_inner(source, window))
    flat[:, :left, : left + right] = _first_rows(source, window)
    flat[:, H.shape[-1] - right :, H.shape[-1] - left - right :] = _last_rows(source, window)
    return structure


def measure_off_band(H: Float[Tensor, "*batch n n"], window: Window) -> Distances:
    """The distances between H >= 0 and its band. Cost: reading the matrix twice."""
    flat = _batch(H)
    corners = torch.cat([corner.flatten(1) for corner in _passed_over(flat, window)], -1)
    ends = torch.cat(
        [_first_rows(flat, window).flatten(1), _last_rows(flat, window).flatten(1)], -1
    )
    l1, squared = _sums(_gaps_between_bands(flat, window), corners)
    band, band_squared = _sums(_inner(flat, window), ends)
    batch, n = H.shape[:-2], H.shape[-1]
    return from_sums(
        l1=l1.reshape(batch),
        squared=squared.reshape(batch),
        total=(l1 + band).reshape(batch),
        total_squared=(squared + band_squared).reshape(batch),
        entries=n * n,
    )


def _batch(H: Tensor) -> Tensor:
    return H.reshape(-1, *H.shape[-2:])


def _inner(flat: Tensor, window: Window) -> Tensor:
    """The rows whose band lies wholly inside, `[matrix, row, offset]`."""
    left, right = window
    n = flat.shape[-1]
    shape = (len(flat), n - left - right, left + right + 1)
    return flat.as_strided(shape, (n * n, n + 1, 1), flat.storage_offset() + left * n)


def _first_rows(flat: Tensor, window: Window) -> Tensor:
    """The band in the first rows, which begin after it would, zeros beside it."""
    left, right = window
    return flat[:, :left, : left + right].tril(right)


def _last_rows(flat: Tensor, window: Window) -> Tensor:
    """The band in the last rows, which end before it would, zeros beside it."""
    left, right = window
    n = flat.shape[-1]
    return flat[:, n - right :, n - left - right :].triu()


def _gaps_between_bands(flat: Tensor, window: Window) -> Tensor:
    """The entries between the band of each row and that of the next, `[matrix, row, entry]`."""
    left, right = window
    n = flat.shape[-1]
    shape = (len(flat), n - 1, n - left - right)
    return flat.as_strided(shape, (n * n, n + 1, 1), flat.storage_offset() + right + 1)


def _passed_over(flat: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Entries off the band where the band of another row would stand if rows had no ends.

    They are the corners at the end of the first rows and at the beginning of the last ones.
    """
    left, right = window
    n = flat.shape[-1]
    first = flat[:, : max(left - 1, 0), n - max(left - 1, 0) :].triu()
    last = flat[:, n - max(right - 1, 0) :, : max(right - 1, 0)].tril()
    return first, last


def _sums(view: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and the sum of squares of a view `[matrix, row, entry]` and of what is beside it."""
    # Row by row first: torch runs one long reduction on a single core.
    squared = torch.linalg.vector_norm(view, dim=-1).square().sum(-1)
    return view.sum((-2, -1)) + rest.sum(-1), squared + rest.square().sum(-1)


@dataclass(frozen=True)
class Band(Parameters):
    """Sigma2: the offsets -left..right, of which `kept` entries are used."""

    window: Window
    dropout: float
    kept: Int[Tensor, "*batch"]

    def described(self, index: int) -> str:
        """The member in words, such as `16 entries at offsets -3..3`."""
        left, right = self.window
        return f"{int(self.kept[index])} entries at offsets {-left}..{right}"


def project_band(
    H: Float[Tensor, "*batch query key"],
    window: int | tuple[int, ...],
    *,
    causal: bool = False,
) -> Float[Tensor, "*batch query key"]:
    """The matrix of the band that is nearest to H: its entries in the band, zeros elsewhere.

    ::

        P = argmin over B(left, right) of |H - P|

    The unique minimiser in every norm that splits by entry, l1 and Frobenius among them, because the
    coordinates decouple. Applied twice it changes nothing more. Source: math.md section 2; thesis 3.1.2.

    Raises:
        InputError: no attention weights, or a negative window.

    Cost: one pass over the matrix for a narrow band of a square matrix, three otherwise.

    >>> project_band(torch.ones(3, 3), 1)[0].tolist()
    [1.0, 1.0, 0.0]
    """
    checked_weights(H)
    return _project(H, sides(window, causal=causal))


def _project(H: Tensor, window: Window) -> Float[Tensor, "*batch query key"]:
    left, right = window
    if can_be_read_in_place(H, (left, right)):
        return copy_band(H, (left, right))
    return H.tril(right).triu_(-left)


@in_chunks
def fit_band(
    H: Float[Tensor, "*batch query key"],
    *,
    window: int | tuple[int, ...],
    values: Values = "free",
    dropout: float = 0.0,
    keep: int | Int[Tensor, "*#batch"] | None = None,
    causal: bool = False,
    error_nnz: int | Int[Tensor, "*#batch"] = 0,
    error_bound: float = math.inf,
    sizes: Sizes | None = None,
    positions: Positions | None = None,
) -> Fit:
    """Nearest member of Sigma2: a band of which ceil((1 - dropout) * dim B) entries are used.

    ::

        free:        the largest h of the band        minimises |H - P|, exact for every dropout
        binary:      ones on the largest h            likewise
        stochastic:  rows summing to 1                the largest of each row, then the largest gains

    With an error, P and E are optimal together, by exchange of entries (`free`, and `binary` unless an
    entry is above 1 and eps too) or as `attnlab.matrices.stochastic` proves (`stochastic`, no entry
    dropped). Dropped entries with `stochastic` values are chosen as if there were no error: there
    the distance is an upper bound, `Fit.exact` is False and `Fit.lower_bound` says how far below the
    optimum can be. `stochastic` keeps at least one entry of every row that the band reaches, so that the
    row can sum to 1, even beyond `keep`.

    The distance of a whole band without an error is a sum over rows: that of rows drawn evenly from a
    matrix, with their positions, divided by their number estimates that of all rows without bias.
    Entries that are kept and an error are of the rows at hand alone.

    Args:
        H: attention weights, at least 0.
        window: how far the band reaches back and ahead; one number is both sides.
        values: how the used entries may be filled.
        dropout: the share of the band that stays empty, in [0, 1].
        keep: how many entries are used, instead of `dropout`; no more than the band has.
        causal: cut the band at the query itself.
        error_nnz: s, how many entries E may correct.
        error_bound: eps, how large a correction may be.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.
        positions: of the rows, where they are not all queries, in any order; see there.

    Raises:
        InputError: no attention weights, unknown values,
            a dropout outside [0, 1], a negative window, keep, error or position.

    Cost: O(query * key), plus a sort of the band when entries are dropped. Source: math.md section 3.
    """
    check_values(values)
    window_sides = sides(window, causal=causal)
    at = positions_of(H, positions)
    reach = reach_within(window_sides, int(at.max()) + 1, H.shape[-1])
    H = checked_weights(H, sizes)
    dimension = (
        band_dimension(sizes_of(H, sizes), reach)
        if positions is None
        else real_band(H, reach, sizes, at).sum((-2, -1))
    ).expand(H.shape[:-2])
    kept = _entries_to_keep(dimension, dropout, keep)
    if kept is not None and values == "stochastic":
        kept = _least_kept(H, reach, kept, sizes, at)
    allowed = SparseError(error_nnz, error_bound)
    distances = error = None
    if values == "free" and kept is None and positions is None:
        structure = _project(H, reach)
        if sizes is None and can_be_read_in_place(H, reach):
            distances = measure_off_band(H, reach)
    else:
        support = _support(H, reach, kept, values, sizes=sizes, at=at)
        if values == "stochastic" and not allowed.absent:
            structure, error = fit_stochastic_rows(H, support, error_nnz, error_bound)
        else:
            structure = fill_support(H, support, values)
    support_size = dimension if kept is None else kept
    lower_bound = None
    if not allowed.absent and kept is not None and values != "free":
        lower_bound = _lower_bound(H, reach, kept, values, allowed=allowed, sizes=sizes, at=at)
        lower_bound = lower_bound.masked_fill(kept == dimension, math.inf)
    return complete(
        H,
        structure,
        family="band",
        values=values,
        parameters=Band(window_sides, dropout, support_size),
        support_size=support_size,
        allowed=allowed,
        sizes=sizes,
        distances=distances,
        error=error,
        lower_bound=lower_bound,
    )


def check_dropout(dropout: float) -> None:
    """Refuses what is no share.

    Raises:
        InputError: outside [0, 1].
    """
    if not 0 <= dropout <= 1:
        msg = f"The dropout of a band must lie between 0 and 1, not {dropout}."
        raise InputError(msg)


def _entries_to_keep(
    dimension: Int[Tensor, "*batch"], dropout: float, keep: int | Tensor | None
) -> Tensor | None:
    """Number of entries of each band that are used; None when all of them."""
    check_dropout(dropout)
    if keep is None and dropout == 0:
        return None
    if keep is None:
        # (1 - 0.7) * 10 is a little more than 3 in floating point and must not become 4.
        return torch.ceil((1 - dropout) * dimension.double() - 1e-9).long()
    counts = torch.as_tensor(keep, device=dimension.device)
    if bool((counts < 0).any()):
        msg = "The number of entries that a band keeps must be 0 or more."
        raise InputError(msg)
    return torch.minimum(counts, dimension)


def _least_kept(H: Tensor, reach: Window, kept: Tensor, sizes: Sizes | None, at: Tensor) -> Tensor:
    """At least as many entries as rows that the band reaches."""
    return torch.maximum(kept, real_band(H, reach, sizes, at).any(-1).sum(-1))


def _support(
    H: Tensor,
    reach: Window,
    kept: Tensor | None,
    values: Values,
    *,
    sizes: Sizes | None,
    at: Int[Tensor, " query"],
) -> Bool[Tensor, "*#batch query key"]:
    """The whole band, or the `kept` entries of it that leave the smallest distance without an error."""
    if kept is None:
        support = band_support(H.shape[-2], H.shape[-1], reach, device=H.device, positions=at)
        return support if sizes is None else support & counted_entries(sizes, *H.shape[-2:])
    entries = band_entries(H, reach, at)
    inside = real_band(H, reach, sizes, at).expand_as(entries)
    gain = _stochastic_gain(entries, inside) if values == "stochastic" else entries
    used = _top(gain.masked_fill(~inside, -math.inf), kept) & inside
    return matrix_from_band(used.to(H.dtype), H.shape[-1], reach, at) > 0


def _lower_bound(
    H: Tensor,
    reach: Window,
    kept: Tensor,
    values: Values,
    *,
    allowed: SparseError,
    sizes: Sizes | None,
    at: Tensor,
) -> Float[Tensor, "*batch"]:
    """A bound on the distance of a band with dropped entries together with its error; inf where exact.

    Free values on as many entries can only be nearer, and so can rows that sum to 1 on the whole band.
    """
    free = fill_support(H, _support(H, reach, kept, "free", sizes=sizes, at=at), "free")
    bound = left_after_error(H - free, allowed)
    if values == "binary":
        # Only what is above 1 and may be corrected by more than 1 can be better left out.
        exact = (H <= 1).flatten(-2).all(-1) | (allowed.bound <= 1)
        return bound.masked_fill(exact, math.inf)
    whole = _support(H, reach, None, values, sizes=sizes, at=at)
    P, E = fit_stochastic_rows(H, whole, allowed.nonzeros, allowed.bound)
    return bound.maximum((H - P - E).abs().sum((-2, -1)))


def _stochastic_gain(entries: Tensor, inside: Tensor) -> Tensor:
    """What each entry adds when the entries of its row are taken from the largest down.

    Row i is off by off_i + |1 - r_i|, so a row with captured mass r gains min(2 r - 1, 1): concave in
    the number of entries, which makes taking the largest gains of all rows exact. The first entry of a
    row comes before everything else.
    """
    order = entries.masked_fill(~inside, -1.0).argsort(dim=-1, descending=True, stable=True)
    captured = entries.gather(-1, order).cumsum(-1)
    row_gain = (2 * captured - 1).clamp(max=1)
    added = row_gain.diff(dim=-1, prepend=torch.full_like(row_gain[..., :1], -math.inf))
    return torch.zeros_like(entries).scatter_(-1, order, added)


def _top(gain: Tensor, kept: Tensor) -> Bool[Tensor, "*batch query offset"]:
    """True at the `kept` largest gains of each matrix."""
    flat = gain.flatten(-2)
    order = flat.argsort(dim=-1, descending=True, stable=True)
    chosen = torch.arange(flat.shape[-1], device=gain.device) < kept[..., None]
    marked = torch.zeros_like(flat, dtype=torch.bool).scatter_(-1, order, chosen)
    return marked.reshape(gain.shape)
