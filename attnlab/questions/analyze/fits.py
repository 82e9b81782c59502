"""How far each head is from structured matrices, sentence by sentence, beside reference points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnlab.core import HEAD_COLUMNS, Column, Site, Sums, read_columns, site_order
from attnlab.matrices import (
    AT_EQUAL_BUDGET,
    CODED,
    FAMILIES,
    WINDOW,
    band_dimension,
    entries_at_once,
    entries_by_offset,
    fit_at_equal_budget,
    fit_diagonal,
    fit_residual,
    l1_distance,
    mass_beyond_windows,
    mass_by_offset,
    matrix_from_offsets,
    uniform_matrix,
)
from attnlab.reading import LayerWeights, PerLayer

COLUMNS = read_columns(__file__)

HALVES = 2
WIDEST_WINDOW = 10
Columns = dict[str, list[Any]]


def _band(window: int) -> Column:
    reach = "1 token" if window == 1 else f"{window} tokens"
    return Column(
        f"band_{window}",
        f"w = {window}",
        f"Share of all attention farther than {reach} away: the relative distance from the "
        "nearest matrix of that band (oracle: fitted to each matrix itself).",
        2,
    )


# Of `RELATIVE`: the families that are compared at equal budget, and what they are compared with.
SIGMA = ("diagonal", "kept_band", "rare_columns")
EQUAL_BUDGET = (*(column.name for column in AT_EQUAL_BUDGET), "top")
# Of `summarise`: mean relative distances, a column an approximation.
RELATIVE = (
    *AT_EQUAL_BUDGET,
    *COLUMNS.of("union top zero uniform mean_by_offset"),
    Column(
        "diagonal_alone",
        "diagonal",
        f"Relative distance of the best single offset within {WINDOW} tokens, without E.",
        2,
        "diagonal",
    ),
    *map(_band, range(WIDEST_WINDOW + 1)),
)
# Of `structure_of_heads`: bits per row, a column a family.
BITS = tuple(
    Column(
        f"bits_{name}",
        f"{FAMILIES[name].label} (bits a row)",
        FAMILIES[name].members,
        2,
        FAMILIES[name].label,
    )
    for name in CODED
)


@dataclass(frozen=True)
class Measured:
    """One approximation of all matrices of a layer: its l1 distance, and entries it may use."""

    approximation: str
    level: str
    l1: Float[Tensor, "sentence head"]
    window: int | None = None
    budget: Int[Tensor, "sentence #head"] | None = None


@dataclass(frozen=True)
class Profile:
    """Mass and number of entries by offset, from offset `first` on."""

    first: int
    mass: Float[Tensor, "head offset"]
    entries: Float[Tensor, "offset"]

    def widened(self, first: int, last: int) -> "Profile":
        """The same over offsets `first`..`last` at least."""
        before = max(self.first - first, 0)
        after = max(last - (self.first + len(self.entries) - 1), 0)
        pads = (before, after)
        return Profile(self.first - before, F.pad(self.mass, pads), F.pad(self.entries, pads))

    def __add__(self, other: "Profile") -> "Profile":
        mine = self.widened(other.first, other.first + len(other.entries) - 1)
        theirs = other.widened(mine.first, mine.first + len(mine.entries) - 1)
        return Profile(mine.first, mine.mass + theirs.mass, mine.entries + theirs.entries)

    def mean(self, first: int, last: int) -> Float[Tensor, "head offset"]:
        """Mean weight at offsets `first`..`last`; 0 at an offset that was never seen."""
        wide = self.widened(first, last)
        part = slice(first - wide.first, last - wide.first + 1)
        return wide.mass[:, part] / wide.entries[part].clamp(min=1)


class OffsetProfiles(PerLayer[tuple[Site, int, int], Profile]):
    """Mean weight by offset of every head, apart for the sentences of even and of odd number.

    So each sentence can be compared with a mean over sentences that it is not part of.
    """

    def values_of(self, layer: LayerWeights) -> dict[tuple[Site, int, int], Profile]:
        """The profiles of one layer and batch, of either half."""
        queries, keys = layer.exact.shape[-2:]
        real = layer.sizes
        numbers = torch.tensor(layer.sentences, device=real.device)
        mass = mass_by_offset(layer.exact, sizes=real)
        entries = entries_by_offset(real.squeeze(1), queries, keys)
        halves = {half: numbers % HALVES == half for half in range(HALVES)}
        return {
            (layer.site, layer.layer, half): Profile(
                1 - queries, mass[chosen].sum(0).cpu(), entries[chosen].sum(0).double().cpu()
            )
            for half, chosen in halves.items()
        }

    def of_the_others(
        self, layer: LayerWeights, sentence: int, heads: slice
    ) -> Float[Tensor, "head query key"] | None:
        """The matrices of mean weights over the half that `sentence` is not in; None if that is empty."""
        other = (sentence + 1) % HALVES
        profile = self.sums.get((layer.site, layer.layer, other))
        if profile is None or not bool(profile.entries.any()):
            return None
        queries, keys = layer.exact.shape[-2:]
        return matrix_from_offsets(profile.mean(1 - queries, keys - 1)[heads], queries, keys)


class HeadFits(PerLayer[tuple[Site, int], list[Columns]]):
    """Exact distances from bands of every width, from all families at one budget, and from references.

    Whole band (`oracle`: the best band of this very matrix)::

        l1(w) = sum of h_ij over |j - i| > w

    `diagonal_alone` (`oracle`): the best single offset.

    Families at one budget (`oracle`), see `attnlab.matrices.families.fit_at_equal_budget`, and `top`,
    the largest entries of that budget, which nothing of its size beats. Reference points: `zero` and
    `uniform` use
    no weights at all (level `none`), `mean_by_offset` is the mean over other sentences (`static`).
    """

    def __init__(self, profiles: OffsetProfiles, sentences: int) -> None:
        super().__init__()
        self.sentences = sentences
        self._profiles = profiles

    def values_of(self, layer: LayerWeights) -> dict[tuple[Site, int], list[Columns]]:
        """Figures of the wanted sentences of one layer and batch, a table per approximation."""
        rows = [row for row, n in enumerate(layer.sentences) if n < self.sentences]
        if not rows:
            return {}
        heads, numbers = range(layer.weights.shape[1]), [layer.sentences[row] for row in rows]
        # Fits hold several matrices for each one, so some heads at a time.
        at_once = max(entries_at_once(layer.weights.device) // layer.weights[rows, 0].numel(), 1)
        blocks = [
            self._measured(layer, rows, slice(first, first + at_once)) for first in heads[::at_once]
        ]
        measured = [_of_all_heads(parts) for parts in zip(*blocks, strict=True)]
        (total,) = (measure.l1 for measure in measured if measure.approximation == "zero")
        sides = layer.sizes[rows][..., [0, 0, 1]]
        shape = _shape_columns(layer.site, layer.layer, numbers, sides, heads)
        return {
            (layer.site, layer.layer): [_columns(shape, total, measure) for measure in measured]
        }

    def _measured(self, layer: LayerWeights, rows: list[int], heads: slice) -> list[Measured]:
        """Every approximation of some heads."""
        H, real = layer.exact[:, heads][rows], layer.sizes[rows]
        total = H.sum((-2, -1))
        bands = mass_beyond_windows(H, WIDEST_WINDOW, real, causal=layer.causal)
        measured = [
            Measured(
                "band", "oracle", bands[..., w], w, band_dimension(real, w, causal=layer.causal)
            )
            for w in range(WIDEST_WINDOW + 1)
        ]
        alone = fit_diagonal(H, window=WINDOW, causal=layer.causal, sizes=real)
        measured.append(Measured("diagonal_alone", "oracle", alone.l1, budget=alone.budget))
        measured += _families(H, real, causal=layer.causal)
        uniform = uniform_matrix(H, real, causal=layer.causal)
        measured += [
            Measured("zero", "none", total, budget=0 * real[..., 0]),
            Measured("uniform", "none", l1_distance(H, uniform, real)),
        ]
        means = [self._profiles.of_the_others(layer, layer.sentences[row], heads) for row in rows]
        if all(mean is not None for mean in means):
            mean = torch.stack([m for m in means if m is not None]).to(H.device)
            measured.append(Measured("mean_by_offset", "static", l1_distance(H, mean, real)))
        return measured

    def fits(self) -> pd.DataFrame:
        """One row per head, sentence and approximation, in that order."""
        return _table([columns for measured in self.sums.values() for columns in measured])


class RowFits(PerLayer[tuple[Site, int, int], Sums[str, Tensor]]):
    """Exact distances of selected rows of long texts: of `HeadFits`, those that are sums over rows.

    These are whole bands, `diagonal_alone`, `zero` and `uniform`. Entries that are kept of a band, blocks of
    rows, the sparse error and the largest entries are chosen over all rows at once.
    """

    by_rows = True

    def __init__(self, sentences: int) -> None:
        super().__init__()
        self.sentences = sentences

    def values_of(self, layer: LayerWeights) -> dict[tuple[Site, int, int], Sums[str, Tensor]]:
        """Sums over the rows of the wanted sentences of one layer, some rows at a time."""
        return {
            (layer.site, layer.layer, number): _sums_of_rows(layer, row)
            for row, number in enumerate(layer.sentences)
            if number < self.sentences and bool(layer.queries.real[row].any())
        }

    def fits(self) -> pd.DataFrame:
        """One row per head, sentence and approximation, in that order."""
        tables = []
        for (site, layer, number), sums in self.sums.items():
            total = sums["total"][None]
            sides = torch.stack([sums["rows"], sums["queries"], sums["keys"]])[None, None]
            shape = _shape_columns(site, layer, [number], sides, range(total.shape[1]))
            tables += [_columns(shape, total, measure) for measure in _measured_rows(sums)]
        return _table(tables)


def _sums_of_rows(layer: LayerWeights, row: int) -> Sums[str, Tensor]:
    queries, keys = layer.queries.real[row], layer.keys.real[row]
    H, at = layer.exact[row][:, queries][..., keys], layer.positions[queries]
    visible = layer.visible[row][queries][:, keys]
    uniform = visible / visible.sum(-1, keepdim=True).clamp(min=1).double()
    near, entries = (
        _near_the_diagonal(matrix, at) for matrix in (H, torch.ones_like(H[0]) * visible)
    )
    every = layer.queries if layer.rows is None else layer.rows.among
    first = int(layer.is_first_block)
    sums = {
        "rows": torch.tensor(len(at)),
        "queries": first * every.real[row].sum(),
        "keys": first * keys.sum(),
        "total": H.sum((-2, -1)),
        "beyond": mass_beyond_windows(H, WIDEST_WINDOW, causal=layer.causal, positions=at),
        "uniform": (H - uniform).abs().sum((-2, -1)),
        "near": near,
        "entries": entries.long(),
    }
    return Sums({name: value.cpu() for name, value in sums.items()})


def _near_the_diagonal(H: Tensor, at: Tensor) -> Float[Tensor, "*head offset"]:
    """The sum at each offset within the widest band, 0 where there is no key."""
    mass = mass_by_offset(H, positions=at)
    last = mass.shape[-1] - H.shape[-1]
    return F.pad(mass, (WIDEST_WINDOW, WIDEST_WINDOW))[..., last : last + 2 * WIDEST_WINDOW + 1]


def _measured_rows(sums: Sums[str, Tensor]) -> list[Measured]:
    """Every approximation of the rows of one sentence."""
    total, entries = sums["total"], sums["entries"]
    measured = []
    for w in range(WIDEST_WINDOW + 1):
        budget = entries[WIDEST_WINDOW - w : WIDEST_WINDOW + w + 1].sum()
        measured.append(
            Measured("band", "oracle", sums["beyond"][None, :, w], w, budget[None, None])
        )
    within = slice(WIDEST_WINDOW - WINDOW, WIDEST_WINDOW + WINDOW + 1)
    best = sums["near"][:, within].max(-1)
    return [
        *measured,
        Measured(
            "diagonal_alone",
            "oracle",
            (total - best.values)[None],
            budget=entries[within][best.indices][None],
        ),
        Measured("zero", "none", total[None], budget=torch.zeros(1, 1, dtype=torch.long)),
        Measured("uniform", "none", sums["uniform"][None]),
    ]


def _of_all_heads(parts: Sequence[Measured]) -> Measured:
    """One approximation, measured on some heads after others."""
    budgets = [part.budget.expand(part.l1.shape) for part in parts if part.budget is not None]
    return replace(
        parts[0],
        l1=torch.cat([part.l1 for part in parts], 1),
        budget=torch.cat(budgets, 1) if budgets else None,
    )


def _families(H: Tensor, real: Tensor, *, causal: bool) -> list[Measured]:
    """The families at one budget, their union, and the largest entries of that budget."""
    fits = fit_at_equal_budget(H, real, causal=causal)
    budget = torch.stack([fit.budget for fit in fits.values()]).amax(0)
    top = fit_residual(H, torch.zeros_like(H), nonzeros=budget, sizes=real)
    members = [fits[name] for name in SIGMA]
    nearest = torch.stack([fit.l1 for fit in members]).amin(0)
    most = torch.stack([fit.budget for fit in members]).amax(0)
    return [
        *(Measured(name, "oracle", fit.l1, budget=fit.budget) for name, fit in fits.items()),
        # The member of a union that is nearest is the nearest of its sets' members.
        Measured("union", "oracle", nearest, budget=most),
        Measured("top", "oracle", l1_distance(H, top, real), budget=budget),
    ]


def _table(tables: Sequence[Columns]) -> pd.DataFrame:
    """All tables as one, a row per head, sentence and approximation, in that order."""
    if not tables:
        return pd.DataFrame()
    table = pd.concat(map(pd.DataFrame, tables), ignore_index=True)
    table = table.astype({"window": "Int64", "max_entries": "Int64"})
    keys = [*HEAD_COLUMNS, "sentence"]
    return table.sort_values(keys, key=_in_order, kind="stable", ignore_index=True)


def _in_order(column: pd.Series) -> pd.Series:
    return column.map(site_order) if column.name == "site" else column


def _shape_columns(
    site: Site, layer: int, numbers: list[int], sides: Int[Tensor, "sentence #head 3"], heads: range
) -> dict[str, object]:
    """What identifies a matrix: the same for every approximation of it.

    Args:
        site: of the matrices.
        layer: likewise.
        numbers: of their sentences.
        sides: rows that are measured, all rows, and keys.
        heads: numbers of the heads.
    """
    rows, queries, keys = sides.expand(-1, len(heads), -1).flatten(0, 1).cpu().numpy().T
    return {
        "site": site,
        "layer": layer,
        "head": list(heads) * len(numbers),
        "sentence": [number for number in numbers for _ in heads],
        "query_count": queries,
        "key_count": keys,
        "rows_measured": rows,
    }


def _columns(shape: dict[str, object], total: Tensor, measured: Measured) -> Columns:
    l1 = measured.l1.flatten().cpu().numpy()
    budget = measured.budget
    table = pd.DataFrame(shape).assign(
        approximation=measured.approximation,
        window=measured.window,
        level=measured.level,
        max_entries=None if budget is None else budget.expand(total.shape).flatten().cpu().numpy(),
        l1=l1,
    )
    table["mean_error"] = l1 / (table["rows_measured"] * table["key_count"])
    weight = total.flatten().cpu().numpy()
    # A matrix without any weight has no relative distance.
    table["relative"] = l1 / np.where(weight > 0, weight, np.nan)
    return {str(name): values.tolist() for name, values in table.items()}


def mean_fits(fits: pd.DataFrame) -> pd.DataFrame:
    """Means over sentences: one row per head and approximation.

    `equal_weights` is the distance of equal weights from a whole band of width w: the share of them that
    lies farther than w from the diagonal, `1 - band / (queries keys)`, and row by row where no key ahead is
    visible.

    Args:
        fits: one row per head, sentence and approximation.
    """
    if fits.empty:
        return fits
    beyond = {
        shape: _equal_beyond(shape[0], *map(int, shape[1:]))
        for shape in fits.loc[fits["window"].notna(), _SHAPE]
        .drop_duplicates()
        .itertuples(index=False, name=None)
    }
    equal = [
        beyond.get(shape, math.nan) for shape in fits[_SHAPE].itertuples(index=False, name=None)
    ]
    by = [*HEAD_COLUMNS, "approximation", "window", "level"]
    groups = fits.assign(equal_weights=equal).groupby(by, sort=False, dropna=False)
    means = groups[["max_entries", "l1", "mean_error", "relative", "equal_weights"]].mean()
    return means.assign(sentences=groups.size()).reset_index()


_SHAPE = ["site", "window", "query_count", "key_count"]


def _equal_beyond(site: Site, window: int, queries: int, keys: int) -> float:
    """The share of equal weights farther than the window from the diagonal of one matrix."""
    within = 0.0
    for query in range(queries):
        last = min(query, keys - 1) if site == "decoder" else keys - 1
        near = min(query + window, last) - max(query - window, 0) + 1
        within += max(near, 0) / (last + 1)
    return 1 - within / queries


def summarise(fits: pd.DataFrame) -> pd.DataFrame:
    """One row per head: mean `relative` over sentences of every approximation.

    Columns `band_0` to `band_10`, `diagonal_alone`, `diagonal`, `kept_band`, `rare_columns`, `additive`,
    `union`, `top`, `zero`, `uniform`, and `mean_by_offset`, of those that were measured.
    """
    name = fits["approximation"].where(
        fits["window"].isna(), fits["approximation"] + "_" + fits["window"].astype(str)
    )
    table = fits.assign(name=name).pivot_table(
        index=HEAD_COLUMNS, columns="name", values="relative"
    )
    # Heads without any relative distance, whose matrices hold no weight, keep an empty row; so does an
    # approximation its column where no head has one.
    heads = pd.MultiIndex.from_frame(fits[HEAD_COLUMNS].drop_duplicates())
    table = table.reindex(index=heads, columns=pd.Index(sorted(name.unique())))
    return table.reset_index().sort_values(HEAD_COLUMNS, key=_in_order, ignore_index=True)
