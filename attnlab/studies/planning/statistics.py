"""Running sums over calibration sentences: where each head's attention stands, by offset, end and token."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.calibration import LARGEST_OFFSET
from attnlab.attention.mechanism import ordinals
from attnlab.matrices.supports import offsets
from attnlab.reading.observing import Observed

# How many first and last keys a head may keep for all rows.
ENDS = ((1, 0), (0, 1), (1, 1), (2, 0))
# Reach of the blocks of Sigma3 around a token.
REACHES = (2, 4)
# Weight of the mean of all tokens, in pairs of a row and a key.
PAIR_SMOOTHING = 50.0
# The steps towards static weights end when none of them changes by more than this share.
CHANGE, MOST_STEPS = 1e-6, 1000
TINY = 1e-12


class LayerSums:
    """What one layer did on calibration sentences.

    Attributes:
        ends: the ends that the site allows.
        by_offset: for each of them, and for (0, 0), the attention by offset that the keys at these ends
            do not receive, `[head, offset]` from -LARGEST_OFFSET up.
    """

    def __init__(self, *, causal: bool, tokens: bool) -> None:
        self.causal = causal
        self.ends = ((0, 0), *(end for end in ENDS if not (causal and end[1])))
        self.by_offset: dict[tuple[int, int], Float[Tensor, "head offset"]] = {}
        # Rows by how many keys stand before their own position, and by the offset of the last key.
        self._room = torch.zeros(LARGEST_OFFSET + 1, 2 * LARGEST_OFFSET + 1, dtype=torch.float64)
        self._tokens: dict[int | None, _TokenSums] = (
            {reach: _TokenSums() for reach in (None, *REACHES)} if tokens else {}
        )

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        offset = offsets(*layer.weights.shape[-2:], device=layer.weights.device)
        real = layer.real_queries[:, :, None] & layer.visible[:, None]
        if self.causal:
            real = real & (offset <= 0)
        near = offset.abs() <= LARGEST_OFFSET
        column = (offset + LARGEST_OFFSET)[near].cpu()
        self._count_room(layer)
        for first, last in self.ends:
            kept = real & ~ends_of(layer.visible, first, last)[:, None]
            mass = (layer.weights * kept[:, None]).sum(0)[:, near].cpu()
            before = self.by_offset.get((first, last), torch.zeros(()))
            own = torch.zeros(len(mass), 2 * LARGEST_OFFSET + 1, dtype=torch.float64)
            self.by_offset[first, last] = before + own.index_add_(1, column, mass)
        for reach, sums in self._tokens.items():
            within = real if reach is None else real & (offset.abs() <= reach) & (offset != 0)
            sums.add(layer, within)

    def _count_room(self, layer: Observed) -> None:
        row = layer.real_queries.cumsum(-1) - 1
        # Below 0 where the keys are of another sentence, which is shorter.
        last = layer.visible.sum(-1, keepdim=True) - 1 - row
        counted = layer.real_queries & (last >= -LARGEST_OFFSET)
        before = row[counted].clamp(max=LARGEST_OFFSET).cpu()
        ahead = last[counted].clamp(max=0 if self.causal else LARGEST_OFFSET).cpu()
        one = torch.ones((), dtype=torch.float64).expand(len(before))
        self._room.index_put_((before, ahead + LARGEST_OFFSET), one, accumulate=True)

    def offsets_by_mass(self, end: tuple[int, int], head: int) -> list[int]:
        """Offsets with any attention outside the keys at these ends, most first."""
        mass = self.by_offset[end][head]
        order = mass.sort(descending=True, stable=True)
        return [
            int(index) - LARGEST_OFFSET
            for index, own in zip(order.indices, order.values, strict=True)
            if own > 0
        ]

    def static_weights(self, head: int, offsets: list[int]) -> list[float]:
        """Weights by offset that give each offset its share of a head's attention on these offsets.

        ::

            sum over rows of  w_d / sum of w over the offsets in the sentence   proportional to
            sum over rows of  h at offset d

        With every offset in every sentence that is the mean weight. Where each row holds as much of its
        attention on the offsets, no weights are nearer to the head's rows by Kullback-Leibler divergence.
        The steps are those of Hunter 2004 (MM algorithms for generalized Bradley-Terry models), at most
        `MOST_STEPS`.
        """
        column = torch.tensor(offsets)
        mass = self.by_offset[0, 0][head][column + LARGEST_OFFSET]
        left, right = self._room.nonzero(as_tuple=True)
        rows = self._room[left, right]
        reached = (column >= -left[:, None]) & (column <= right[:, None] - LARGEST_OFFSET)
        weights = mass / mass.sum()
        for _ in range(MOST_STEPS):
            before = weights
            share = rows / (reached * weights).sum(1).clamp(min=TINY)
            weights = mass / (reached * share[:, None]).sum(0).clamp(min=TINY)
            weights = (weights / weights.sum()).clamp(min=TINY)
            if bool(((weights - before).abs() <= CHANGE * before).all()):
                break
        return [float(weight) for weight in weights]

    def best_window(self, head: int, keys: int) -> tuple[int, int]:
        """The window of so many keys, its own among them, that holds most of a head's attention."""
        mass = self.by_offset[0, 0][head]
        splits = [(keys - 1 - right, right) for right in range(1 if self.causal else keys)]

        def held(window: tuple[int, int]) -> float:
            start, stop = LARGEST_OFFSET - window[0], LARGEST_OFFSET + window[1] + 1
            return float(mass[max(start, 0) : stop].sum())

        return max(splits, key=lambda window: (held(window), -abs(window[0] - window[1])))

    def tokens_by_weight(self, head: int, reach: int | None) -> list[int]:
        """Token ids by the mean attention that such a key receives from a row, most first."""
        return self._tokens[reach].ranked(head) if reach in self._tokens else []


class _TokenSums:
    """Attention received by the keys of each token id, and pairs of a row and such a key."""

    def __init__(self) -> None:
        self.received: Tensor = torch.zeros(0, 0, dtype=torch.float64)
        self.pairs: Tensor = torch.zeros(0, dtype=torch.float64)

    def add(self, layer: Observed, within: Bool[Tensor, "batch query key"]) -> None:
        ids = layer.token_ids[layer.visible].cpu()
        mass = (layer.weights * within[:, None]).sum(-2).transpose(0, 1)[:, layer.visible].cpu()
        pairs = within.sum(-2)[layer.visible].double().cpu()
        types = max(len(self.pairs), int(ids.max()) + 1)
        self.received = _widened(self.received, len(mass), types).index_add_(1, ids, mass)
        self.pairs = _widened(self.pairs[None], 1, types)[0].index_add_(0, ids, pairs)

    def ranked(self, head: int) -> list[int]:
        mean = self.received[head].sum() / self.pairs.sum().clamp(min=1)
        weight = (self.received[head] + PAIR_SMOOTHING * mean) / (self.pairs + PAIR_SMOOTHING)
        seen = (self.pairs > 0).nonzero().flatten()
        order = weight[seen].sort(descending=True, stable=True).indices
        return [int(token) for token in seen[order]]


def _widened(sums: Tensor, rows: int, columns: int) -> Tensor:
    wide = torch.zeros(rows, columns, dtype=torch.float64)
    wide[: sums.shape[0], : sums.shape[1]] = sums
    return wide


def ends_of(visible: Bool[Tensor, "batch key"], first: int, last: int) -> Bool[Tensor, "batch key"]:
    """True at the first and the last few real keys of each sentence."""
    ordinal, count = ordinals(visible), visible.sum(-1, keepdim=True)
    return visible & ((ordinal < first) | (ordinal >= count - last))
