"""Band + columns + sparse error under one budget: the form that sigma attention really has.

Which columns to add to a band when a sparse error follows: all that could be best, and no others.

Notation, for one matrix and one band: g = min(h, eps) is what an entry gains as one of E; m_c and n_c
are mass and number of the entries that column c adds to the band; s_C = min(s, room - sum of n_c) is
what the columns C leave to E. Their gain is ::

    F(C) = sum over C of m_c + the s_C largest g outside the band and C

and by linear programming duality, for any threshold t >= 0, ::

    F(C) <= s_C t + sum of (g - t)+ outside the band + sum over C of (m_c - sum of (g - t)+ in c)

The right side splits by column, so that it bounds all sets with a given column at once. A column
whose bound is not above the gain of a set that is known already is in no better set.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import Sizes, checked_weights, counted_entries, in_chunks, sizes_of
from attnlab.matrices.fit import Fit, Outline, Parameters, complete
from attnlab.matrices.rare_columns import check_blocks
from attnlab.matrices.residual import SparseError, check_error
from attnlab.matrices.supports import Window, band_support, offsets, reach_within, sides

# What a set of columns of each matrix gains, `[matrix]`, and the set, `[matrix count]`.
Columns = tuple[Tensor, Tensor]
# Weights of columns and what stands beside them, see `_bounds`.
Bounds = tuple[Tensor, Tensor]
_THRESHOLDS = 8
# Entries of a working tensor.
_ROOM = 1 << 22


@dataclass(frozen=True)
class Limits:
    """What a split may use: entries in all, entries of E and their size, columns."""

    budget: Int[Tensor, "matrix"]
    error_nnz: Int[Tensor, "matrix"]
    error_bound: float
    num_pos: int

    def at(self, index: Int[Tensor, "chosen"]) -> "Limits":
        """The limits of some matrices."""
        return replace(self, budget=self.budget[index], error_nnz=self.error_nnz[index])


@dataclass(frozen=True)
class Outside:
    """The entries beside one band.

    Attributes:
        band_mass: mass on the band.
        room: how many entries the budget leaves beside it; negative where the band is too large.
        mass: what each column would add.
        entries: with how many entries.
        gain: g of the largest entries outside the band, falling.
        column: the column of each of them.
        covered: whether that column would hold it; a causal column holds no row before its own.
    """

    band_mass: Float[Tensor, "matrix"]
    room: Int[Tensor, "matrix"]
    mass: Float[Tensor, "matrix key"]
    entries: Int[Tensor, "matrix key"]
    gain: Float[Tensor, "matrix rank"]
    column: Int[Tensor, "matrix rank"]
    covered: Bool[Tensor, "matrix rank"]

    def at(self, index: Int[Tensor, "chosen"]) -> "Outside":
        """The entries beside the bands of some matrices."""
        return Outside(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def outside_of(
    H: Float[Tensor, "matrix query key"],
    inside: Bool[Tensor, "matrix query key"],
    free: Bool[Tensor, "matrix query key"],
    covered: Bool[Tensor, "matrix query key"],
    limits: Limits,
) -> Outside:
    """The sums and the sorted entries that a search needs.

    Args:
        H: attention weights.
        inside: True on the band.
        free: True where an entry is real and not on the band.
        covered: True where such an entry is visible in its column.
        limits: what a split may use.
    """
    entries = covered.sum(-2)
    # Columns take no more than so many of the largest entries out of E's reach.
    reach = int(limits.error_nnz.max()) + limits.num_pos * H.shape[-2] if len(H) else 0
    gain = torch.where(free, H.clamp(max=limits.error_bound), 0).flatten(1)
    top = gain.topk(min(reach, gain.shape[-1]), dim=-1)
    return Outside(
        band_mass=torch.where(inside, H, 0).sum((-2, -1)),
        room=limits.budget - inside.sum((-2, -1)),
        mass=torch.where(covered, H, 0).sum(-2),
        entries=entries,
        gain=top.values,
        column=top.indices % max(H.shape[-1], 1),
        covered=covered.flatten(1).gather(-1, top.indices),
    )


def likely_columns(outside: Outside, limits: Limits, bounds: Bounds) -> Iterator[Columns]:
    """A good set of columns of each size, and what it gains."""
    weights, _ = bounds
    for count in range(limits.num_pos + 1):
        likely = _first(torch.cat([outside.mass[:, None], weights], 1), count)
        yield _largest(gains(outside, limits, likely), likely)


def best_columns(
    outside: Outside, limits: Limits, bounds: Bounds, floor: Float[Tensor, "matrix"]
) -> Iterator[Columns]:
    """The gain and the columns of the best set of each size, of those that gain more than `floor`.

    A size whose sets all gain less may come with any set, or be left out.
    """
    if limits.num_pos == 0:
        return
    weights, base = bounds
    in_play = _columns_in_play(weights, base, limits.num_pos, floor)
    for count in range(1, min(limits.num_pos, in_play.shape[-1]) + 1):
        sets = torch.combinations(torch.arange(in_play.shape[-1], device=floor.device), count)
        at_once = max(_ROOM // max(weights.numel() * count, 1), 1)
        for some in sets.split(at_once):
            yield _best_within_bounds(outside, limits, in_play[:, some], bounds, floor)


def _best_within_bounds(
    outside: Outside,
    limits: Limits,
    columns: Int[Tensor, "matrix set count"],
    bounds: Bounds,
    floor: Float[Tensor, "matrix"],
) -> Columns:
    """The best of the sets whose own bound is above `floor`; minus infinity where there is none."""
    weights, base = bounds
    index = columns.flatten(1)[:, None].expand(-1, weights.shape[1], -1)
    summed = weights.gather(-1, index).unflatten(-1, columns.shape[1:]).sum(-1)
    matrix, number = ((summed + base[..., None]).amin(1) > floor[:, None]).nonzero(as_tuple=True)
    gain = torch.full(columns.shape[:2], -math.inf, dtype=floor.dtype, device=floor.device)
    at_once = max(_ROOM // max(outside.gain.shape[-1] * columns.shape[-1], 1), 1)
    for rows, which in zip(matrix.split(at_once), number.split(at_once), strict=True):
        chosen = columns[rows, which][:, None]
        gain[rows, which] = gains(outside.at(rows), limits.at(rows), chosen)[:, 0]
    return _largest(gain, columns)


def gains(
    outside: Outside, limits: Limits, columns: Int[Tensor, "matrix set count"]
) -> Float[Tensor, "matrix set"]:
    """F of each set of different columns; minus infinity where it is over the budget."""
    sets = columns.shape[1]

    def of_sets(values: Tensor) -> Tensor:
        return values[:, None].expand(-1, sets, -1).gather(-1, columns).sum(-1)

    room = outside.room[:, None] - of_sets(outside.entries)
    allowed = torch.minimum(limits.error_nnz[:, None], room)
    in_columns = (outside.column[:, None, :, None] == columns[:, :, None]).any(-1)
    left = ~(in_columns & outside.covered[:, None])
    corrected = left & (left.cumsum(-1) <= allowed[..., None])
    error = (outside.gain[:, None] * corrected).sum(-1)
    gain = outside.band_mass[:, None] + of_sets(outside.mass) + error
    return gain.masked_fill(room < 0, -math.inf)


def _largest(gain: Tensor, columns: Tensor) -> Columns:
    best = gain.argmax(-1, keepdim=True)
    index = best[..., None].expand(-1, -1, columns.shape[-1])
    return gain.gather(-1, best)[:, 0], columns.gather(1, index)[:, 0]


def _bounds(outside: Outside, limits: Limits) -> Bounds:
    """Upper bounds of F, several for each matrix: `base` plus the sum of a set's `weights`.

    Returns `[matrix, bound, key]` and `[matrix, bound]`. Each threshold gives two, since s_C is at
    most s, and at most the room less the entries of the columns.
    """
    ranks = outside.gain.shape[-1]
    if ranks == 0:
        nothing = outside.mass[:, None]
        return nothing, outside.band_mass[:, None]
    spread = torch.linspace(0, ranks - 1, min(_THRESHOLDS, ranks), device=outside.gain.device)
    t = outside.gain[:, spread.long()]
    above = (outside.gain[:, None] - t[..., None]).clamp(min=0)
    covered_gain = outside.mass.new_zeros(*t.shape, outside.mass.shape[-1])
    index = outside.column[:, None].expand(above.shape)
    covered_gain = covered_gain.scatter_add(-1, index, above * outside.covered[:, None])
    weights = outside.mass[:, None] - covered_gain
    base = outside.band_mass[:, None] + above.sum(-1)
    room = outside.room.clamp(min=0)
    return (
        torch.cat([weights, weights - outside.entries[:, None] * t[..., None]], 1),
        torch.cat([base + limits.error_nnz[:, None] * t, base + room[:, None] * t], 1),
    )


def _columns_in_play(
    weights: Tensor, base: Tensor, num_pos: int, floor: Tensor
) -> Int[Tensor, "matrix column"]:
    """The columns that can be in a set that gains more than `floor`, in all matrices equally many."""
    others = weights.clamp(min=0).topk(min(num_pos - 1, weights.shape[-1]), dim=-1).values.sum(-1)
    bound = (weights + (base + others)[..., None]).amin(1)
    count = (bound > floor[:, None]).sum(-1)
    most = int(count.max()) if len(count) else 0
    return _first(bound, most)


def _first(values: Tensor, count: int) -> Tensor:
    """Indices of the largest values; the earlier ones among equals, however long the rows are."""
    return values.argsort(dim=-1, descending=True, stable=True)[..., :count]


@dataclass(frozen=True)
class Additive(Parameters):
    """A band and columns: offsets -left..right where `banded`, and the used columns, for every row.

    `window` is the widest band that was tried. Used columns stand first.
    """

    window: Window
    banded: Bool[Tensor, "*batch"]
    left: Int[Tensor, "*batch"]
    right: Int[Tensor, "*batch"]
    used: Bool[Tensor, "*batch slot"]
    column: Int[Tensor, "*batch slot"]

    def described(self, index: int) -> str:
        """The member in words, such as `offsets -1..0 + column 3`, or `nothing`."""
        outline, phrases = self.outline(index), []
        if outline.offsets is not None:
            left, right = outline.offsets
            phrases.append(f"offsets {left}..{right}" if left or right else "offset 0")
        if outline.columns:
            noun = "column" if len(outline.columns) == 1 else "columns"
            phrases.append(f"{noun} {', '.join(map(str, sorted(outline.columns)))}")
        return " + ".join(phrases) or "nothing"

    def outline(self, index: int) -> Outline:
        """The offsets of its band, and its columns."""
        offsets = (-int(self.left[index]), int(self.right[index]))
        columns = self.column[index][self.used[index]].tolist()
        return Outline(offsets if self.banded[index] else None, tuple(columns))


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
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.

    Raises:
        InputError: no attention weights, or a negative window, num_pos, budget or error.

    Cost: a pass and a partial sort for each of the (left + 1) (right + 1) bands, and as many sets of
    columns as the bound leaves (`attnlab.matrices.additive`), at worst C(keys, num_pos).
    Source: thesis 3.1 and 3.2, its Sigma2, Sigma3 and E added up; math.md sections 3 and 4.
    """
    _check(num_pos, budget, error_nnz, error_bound)
    reach = sides(window, causal=causal)
    H = checked_weights(H, sizes)
    batch = H.shape[:-2]
    matrices = H.reshape(-1, *H.shape[-2:]).double()
    real = _real(H, sizes)
    limits = Limits(
        _one_by_matrix(budget, batch, H.device),
        _one_by_matrix(error_nnz, batch, H.device),
        error_bound,
        min(num_pos, H.shape[-1]),
    )
    chosen = _best_split(matrices, real, limits, reach, causal=causal)
    support = _support(chosen, real, causal=causal)
    used = support.sum((-2, -1))
    corrections = torch.minimum(limits.error_nnz, limits.budget - used)
    return complete(
        H,
        torch.where(support.reshape(H.shape), H, 0),
        family="additive",
        values="free",
        parameters=Additive(
            reach,
            chosen.banded.reshape(batch),
            chosen.left.reshape(batch),
            chosen.right.reshape(batch),
            chosen.used.reshape(*batch, limits.num_pos),
            chosen.column.reshape(*batch, limits.num_pos),
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
    bands = iter((None, *_windows(window, *H.shape[-2:])))
    at_once = max(_ROOM // max(H.numel(), 1), 1)
    while some := list(itertools.islice(bands, at_once)):
        banded = ((band, _outside(H, real, limits, band, causal=causal)) for band in some)
        candidates = [
            (band, outside, bounds, list(likely_columns(outside, limits, bounds)))
            for band, outside in banded
            if outside is not None
            for bounds in (_bounds(outside, limits),)
        ]
        # What likely sets of all bands gain leaves fewer columns of each in play.
        floor = chosen.gain
        for *_, likely in candidates:
            for gain, _ in likely:
                floor = torch.maximum(floor, gain)
        for band, outside, bounds, likely in candidates:
            threshold = torch.maximum(chosen.gain + least, floor - 2 * least)
            for gain, columns in (*likely, *best_columns(outside, limits, bounds, threshold)):
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
    """The entries beside a band; None where it is over the budget of every matrix."""
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
    chosen_columns = ((chosen.column[..., None] == key) & chosen.used[..., None]).any(-2)[:, None]
    columns = chosen_columns & (offset <= 0) if causal else chosen_columns
    return (inside | columns) & real


def _real(H: Tensor, sizes: Sizes | None) -> Bool[Tensor, "matrix query key"]:
    every = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    return counted_entries(every, *H.shape[-2:]).reshape(-1, *H.shape[-2:])


def _one_by_matrix(number: int | Tensor, batch: torch.Size, device: torch.device) -> Tensor:
    return torch.as_tensor(number, device=device).expand(batch).reshape(-1)


def _check(num_pos: int, budget: int | Tensor, error_nnz: int | Tensor, error_bound: float) -> None:
    check_blocks(num_pos)
    check_error(error_nnz, error_bound)
    if bool((torch.as_tensor(budget) < 0).any()):
        msg = "The budget of band, columns and sparse error must be 0 or more."
        raise InputError(msg)
