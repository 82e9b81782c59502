"""A language model that counts pairs of tokens: its loss on the texts that a trained model is read on."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attnlab.evaluation import Evaluator
from attnlab.models import Run

Texts = Sequence[Sequence[int]]
WEIGHTS = np.arange(0.05, 1.0, 0.05)
# Validation texts on which the weight of pairs is chosen.
CHOSEN_ON = 300


def bigram_loss(run: Run, evaluator: Evaluator) -> float:
    """Nats per token, on the texts of the evaluator, of counts of the training texts of a run."""
    corpus, tokenizer = run.corpus(), run.tokenizers.source
    counts = CountModel(tokenizer(corpus.train["source"][:])["input_ids"], len(tokenizer))
    weight = counts.best_weight(tokenizer(corpus.validation["source"][:CHOSEN_ON])["input_ids"])
    texts = [one.source for one in evaluator.sentences.usable]
    return float(counts.losses(texts, weight).sum() / evaluator.tokens.sum())


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
