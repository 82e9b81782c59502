"""Skip-gram vectors of a text: trained by gensim, and the loss and gradient that they stand for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core.errors import InputError
from attnlab.embeddings.settings import SkipGramSettings, check_gensim
from attnlab.embeddings.vectors import Embeddings

_TRAINING = "Training vectors"


def train_skip_gram(
    sentences: Iterable[Sequence[str]],
    settings: SkipGramSettings | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Embeddings:
    """Skip-gram vectors with negative sampling of every type, the most frequent first.

    Every token of the window is predicted equally often. One thread, so that a seed gives the same
    vectors. Source: Mikolov et al. 2013; gensim's Word2Vec.

    Args:
        sentences: read once for the types and once in each epoch; what can be read once only is kept
            as a list.
        settings: size, window and training of the vectors.
        progress: called with (what is being done, epochs done, epochs in all).

    Raises:
        InputError: gensim is not installed, or no sentence has two tokens.
    """
    check_gensim()
    from gensim.models import Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    class CallContext(CallbackAny2Vec):
        """Tells of each epoch."""

        def __init__(self, tell: Callable[[str, int, int], None], epochs: int) -> None:
            self.tell, self.epochs, self.done = tell, epochs, 0
            tell(_TRAINING, 0, epochs)

        def on_epoch_end(self, _: Any) -> None:
            self.done += 1
            self.tell(_TRAINING, self.done, self.epochs)

    chosen = settings or SkipGramSettings()
    if isinstance(sentences, Iterator):
        sentences = list(sentences)
    if all(len(text) < 2 for text in sentences):
        msg = "Skip-gram needs sentences of at least two tokens; give a larger corpus."
        raise InputError(msg)
    model = Word2Vec(
        sentences,
        sg=1,
        hs=0,
        negative=chosen.negatives,
        vector_size=chosen.dim,
        window=chosen.window,
        shrink_windows=False,
        epochs=chosen.epochs,
        alpha=chosen.learning_rate,
        sample=chosen.subsample,
        seed=chosen.seed,
        min_count=1,
        workers=1,
        callbacks=[CallContext(progress, chosen.epochs)] if progress else [],
    )
    return Embeddings(tuple(model.wv.index_to_key), torch.tensor(model.wv.vectors))


@dataclass(frozen=True)
class SkipGramGradient:
    """Gradient of `skip_gram_loss` by the vectors of words and by those of their contexts."""

    words: Float[Tensor, "type dim"]
    contexts: Float[Tensor, "type dim"]


def context_counts(
    tokens: Int[Tensor, " position"], types: int, window: int
) -> Float[Tensor, "type type"]:
    """How often each type (column) stands within `window` tokens of each type (row).

    Positions outside the text do not count. Cost: O(position * window).
    """
    counts = torch.zeros(types, types, dtype=torch.float64, device=tokens.device)
    for offset in range(1, min(window, len(tokens) - 1) + 1):
        pair = (tokens[:-offset], tokens[offset:])
        one = torch.ones(len(tokens) - offset, dtype=counts.dtype, device=counts.device)
        counts.index_put_(pair, one, accumulate=True)
        counts.index_put_(pair[::-1], one, accumulate=True)
    return counts


def skip_gram_loss(
    words: Float[Tensor, "type dim"],
    contexts: Float[Tensor, "type dim"],
    tokens: Int[Tensor, " position"],
    window: int,
) -> Float[Tensor, ""]:
    """Mean over positions t of -sum_j log p(i_{t+j} | i_t), j from -window to window without 0.

    ::

        p(q | p) = exp(w_p . c_q) / sum_r exp(w_p . c_r)

    The sum over the vocabulary is written out, which negative sampling avoids. Source: Mikolov et
    al. 2013, eq. 1 and 2; math.md section 8.
    """
    counts = context_counts(tokens, len(words), window).to(words)
    return -(counts * (words @ contexts.T).log_softmax(1)).sum() / len(tokens)


def skip_gram_gradient(
    words: Float[Tensor, "type dim"],
    contexts: Float[Tensor, "type dim"],
    tokens: Int[Tensor, " position"],
    window: int,
) -> SkipGramGradient:
    """The gradient of `skip_gram_loss` in closed form.

    With n_pq the number of times that q stands in the window of p, and n_p = sum_q n_pq::

        dL/dw_p = 1/T sum_q (n_p p(q | p) - n_pq) c_q
        dL/dc_q = 1/T sum_p (n_p p(q | p) - n_pq) w_p

    n_pq is the sum over positions of delta(p, i_t) delta(q, i_{t+j}): both terms of the first line have
    the factor delta(p, i_t). Where words and contexts share one table, the gradient is the sum of both.
    """
    counts = context_counts(tokens, len(words), window).to(words)
    expected = counts.sum(1, keepdim=True) * (words @ contexts.T).softmax(1)
    surplus = (expected - counts) / len(tokens)
    return SkipGramGradient(surplus @ contexts, surplus.T @ words)
