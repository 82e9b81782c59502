"""Language models that count: the losses of a unigram and of a bigram model on held-out texts."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Texts = Sequence[Sequence[int]]
WEIGHTS = np.arange(0.05, 1.0, 0.05)


class CountModel:
    """Next-token probabilities from counts, over a vocabulary of token ids.

    ::

        p(b | a) = w count(a, b) / count(a) + (1 - w) (count(b) + 1) / (tokens + types)

    with w = 0 after a token that training texts do not hold. Unigram: w = 0.
    """

    def __init__(self, texts: Texts, types: int) -> None:
        self.single = np.ones(types)
        self.pairs: dict[tuple[int, int], int] = {}
        self.before = np.zeros(types)
        for ids in texts:
            for a, b in pairwise(ids):
                self.single[b] += 1
                self.before[a] += 1
                self.pairs[a, b] = self.pairs.get((a, b), 0) + 1
        self.single /= self.single.sum()

    def losses(self, texts: Texts, weight: float) -> NDArray[np.float64]:
        """Of each text, -log p summed over its tokens but the first, in nats."""
        return np.array([self._loss(ids, weight) for ids in texts])

    def best_weight(self, texts: Texts) -> float:
        """The w of the least loss on these texts."""
        return float(min(WEIGHTS, key=lambda weight: self.losses(texts, weight).sum()))

    def _loss(self, ids: Sequence[int], weight: float) -> float:
        total = 0.0
        for a, b in pairwise(ids):
            seen = self.before[a] > 0
            often = weight * self.pairs.get((a, b), 0) / self.before[a] if seen else 0.0
            total -= np.log(often + (1 - weight * seen) * self.single[b])
        return total
