"""Static heads: one score for each key position and one for each offset, whatever the sentence says."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core import InputError
from attnlab.matrices.batched import checked_weights, counted_entries, sizes_of
from attnlab.matrices.references import matrix_from_offsets
from attnlab.matrices.supports import offsets

# Newton's steps end at this difference between shares of attention; each squares it, near the optimum.
GAP, MOST_STEPS = 1e-10, 200
# Of the largest curvature; in directions of less no score changes a weight.
FLAT = 1e-12
# Of the decrease that the slope promises, and of the loss, which is not known better.
ENOUGH, ROUNDING = 1e-4, 1e-13


@dataclass(frozen=True)
class StaticScores:
    """What makes a head static: x_ij = exp(key_j + offset_(j-i)) / sum over the visible keys of row i.

    Attributes:
        key: a_j, by key position.
        offset: r_(j-i), from offset -(queries - 1) to keys - 1.
        cross_entropy: of a row, in nats, mean over rows; less is nearer.
        gap: largest difference, over key positions and offsets, between their share of all attention in
            the head and in the fit. It is 0 at the optimum and nowhere else.
    """

    key: Float[Tensor, "*batch key"]
    offset: Float[Tensor, "*batch offset"]
    cross_entropy: Float[Tensor, "*batch"]
    gap: Float[Tensor, "*batch"]

    @property
    def matrix(self) -> Float[Tensor, "*batch query key"]:
        """The scores of all pairs, before the softmax over the visible keys of each row."""
        keys = self.key.shape[-1]
        queries = self.offset.shape[-1] - keys + 1
        return self.key[..., None, :] + matrix_from_offsets(self.offset, queries, keys)


def fit_static_scores(
    H: Float[Tensor, "*batch sentence query key"],
    sizes: Int[Tensor, "*#batch sentence 2"] | None = None,
    *,
    causal: bool = False,
) -> StaticScores:
    """The scores by key position and by offset that are nearest to a head's rows in all sentences.

    ::

        minimise  - sum over sentences, i, j of h_ij log x_ij,
                  x_ij = exp(a_j + r_(j-i)) / sum over visible k of exp(a_k + r_(k-i))

    The sum is convex in a and r, so that Newton's steps with halving end at the optimum; at it each key
    position and each offset receives as much attention in all as it does from the head. Scores are unique
    but for what changes no weight (a constant; c j in a and -c (j - i) in r); of equal ones those of least
    norm are returned. What no row reaches scores 0; a head without rows has NaN for its figures. Computed in
    float64.

    A row may be a sum of rows of the same position with as many keys: it counts as often as its entries
    sum to, so that a corpus can be streamed.

    Args:
        H: attention weights of a head in several sentences.
        sizes: the real queries and keys of each matrix, see `attnlab.matrices.batched`.
        causal: rows see keys up to their own position alone.

    Raises:
        InputError: no attention weights, or `causal` weights of keys behind their rows.

    Cost: a system of queries + 2 keys equations a step, 10 to 40 steps.
    Source: SAF, arXiv 2609.34650 (form); math.md section 7 (level `static`).
    """
    H = checked_weights(H, sizes, dimensions=3).double()
    batch, (queries, keys) = H.shape[:-3], H.shape[-2:]
    every = sizes_of(H, sizes).expand(*H.shape[:-2], 2)
    visible = counted_entries(every, queries, keys)
    if causal:
        behind = offsets(queries, keys, device=H.device) > 0
        if bool((H * behind).any()):
            msg = "A row has attention to a key behind its own position; leave causal out."
            raise InputError(msg)
        visible = visible & ~behind
    place = offsets(queries, keys, device=H.device) + queries - 1
    size = queries + keys - 1
    scores, losses, gaps = (H.new_empty((*batch, *shape)) for shape in ((keys + size,), (), ()))
    for at in itertools.product(*map(range, batch)):
        rows = _Rows.of(H[at], visible[at], place)
        scores[at], losses[at], gaps[at] = _fitted(rows, keys, size)
    return StaticScores(scores[..., :keys], scores[..., keys:], losses, gaps)


@dataclass(frozen=True)
class _Rows:
    """The rows of one head that hold any attention.

    Attributes:
        mass: their entries.
        visible: True at the keys that a row sees.
        place: where the offset of each entry stands among all offsets.
        total: sum of each row.
    """

    mass: Float[Tensor, "row key"]
    visible: Bool[Tensor, "row key"]
    place: Int[Tensor, "row key"]
    total: Float[Tensor, "row 1"]

    @classmethod
    def of(cls, H: Tensor, visible: Tensor, place: Tensor) -> "_Rows":
        """The rows of the sentences `[sentence, query, key]`."""
        mass = torch.where(visible, H, 0).flatten(0, 1)
        some = mass.sum(-1) > 0
        places = place.expand(H.shape).flatten(0, 1)
        return cls(
            mass[some], visible.flatten(0, 1)[some], places[some], mass[some].sum(-1, keepdim=True)
        )

    def loss_and_weights(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of all rows, and the weights of each."""
        keys = self.mass.shape[-1]
        each = (scores[:keys] + scores[keys:][self.place]).masked_fill(~self.visible, -torch.inf)
        logs = each.log_softmax(-1)
        return -(self.mass * logs.masked_fill(~self.visible, 0)).sum(), logs.exp()

    def features(self, values: Tensor, size: int) -> Tensor:
        """Sums by key and by offset of each row, side by side."""
        by_offset = values.new_zeros(len(values), size).scatter(1, self.place, values)
        return torch.cat([values, by_offset], 1)

    def slope(self, weights: Tensor, size: int) -> Tensor:
        """First derivatives of the loss: by how much attention is too large, by key and by offset."""
        return self.features(self.total * weights - self.mass, size).sum(0)

    def curvature(self, weights: Tensor, size: int) -> Tensor:
        """Second derivatives of the loss: the covariance of key and offset in each row, summed."""
        expected, keys = self.total * weights, self.mass.shape[-1]
        result = torch.diag(self.features(expected, size).sum(0))
        both = expected.new_zeros(keys, size)
        column = torch.arange(keys, device=both.device).expand_as(self.place)
        both.index_put_((column, self.place), expected, accumulate=True)
        result[:keys, keys:] += both
        result[keys:, :keys] += both.T
        rows = self.features(weights, size)
        return result - (self.total * rows).T @ rows


def _fitted(rows: _Rows, keys: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores by key and by offset, mean cross-entropy of a row, and the gap."""
    scores = rows.mass.new_zeros(keys + size)
    count = rows.total.sum()
    if not count:
        return scores, *scores.new_full((2,), torch.nan)
    loss, weights = rows.loss_and_weights(scores)
    slope = rows.slope(weights, size)
    for _ in range(MOST_STEPS):
        if slope.abs().amax() / count <= GAP:
            break
        curvature = rows.curvature(weights, size)
        step = -torch.linalg.pinv(curvature, rtol=FLAT, hermitian=True) @ slope
        promised, length = ENOUGH * (slope @ step), 1.0
        while length > GAP:
            new_loss, new_weights = rows.loss_and_weights(scores + length * step)
            if new_loss <= loss + length * promised + ROUNDING * loss:
                break
            length /= 2
        else:
            break
        scores, loss, weights = scores + length * step, new_loss, new_weights
        slope = rows.slope(weights, size)
    return scores, loss / count, slope.abs().amax() / count
