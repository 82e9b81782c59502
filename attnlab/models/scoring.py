"""Perplexity; BLEU and chrF through sacrebleu, with the signatures that make them comparable."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from transformers import EvalPrediction

from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.tokenizer import PAD, Tokenizers

# Above it exp is infinite, which JSON cannot hold.
MOST_NATS = 700.0


def perplexity(loss_nats: float) -> float:
    """The exponential of a mean loss per token in nats: a guess among so many equally likely tokens.

    >>> perplexity(0.0)
    1.0
    """
    return math.exp(min(loss_nats, MOST_NATS))


@dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100 and how they were computed."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    sentences: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or a table."""
        return asdict(self)


def score(translations: Sequence[str], references: Sequence[str]) -> Scores:
    """BLEU (13a tokens, as in WMT) and chrF of `translations` against one reference each.

    >>> score(["the cat sat on the mat"], ["the cat sat on the mat"]).bleu
    100.0
    """
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(), CHRF()
    texts, gold = list(translations), [list(references)]
    return Scores(
        bleu=round(bleu.corpus_score(texts, gold).score, 4),
        chrf=round(chrf.corpus_score(texts, gold).score, 4),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(texts),
    )


def length_ratio(translations: Sequence[str], references: Sequence[str]) -> float:
    """Length of all translations divided by that of the references, in the tokens of BLEU.

    >>> length_ratio(["a b c", "d"], ["a b", "d e f"])
    0.8
    """
    from sacrebleu.metrics import BLEU

    bleu = BLEU().corpus_score(list(translations), [list(references)])
    return float(bleu.sys_len / bleu.ref_len)


def scorer(
    tokenizers: Tokenizers, references: list[str]
) -> Callable[[EvalPrediction], dict[str, Any]]:
    """A function from predicted token ids to BLEU and chrF against the references as written.

    Decoded labels would not do: unknown words are missing from them.
    """

    def scores(prediction: EvalPrediction) -> dict[str, Any]:
        ids = np.asarray(prediction.predictions)
        real = np.where(ids == IGNORED_LABEL, PAD, ids)
        texts = tokenizers.target.batch_decode(real, skip_special_tokens=True)
        return score(texts, references).as_dict()

    return scores


CHUNK_LOGITS = 1 << 22
ROW_MULTIPLE = 256


def chunked_cross_entropy(
    hidden: Float[Tensor, "token dim"],
    weight: Float[Tensor, "type dim"],
    target: Int[Tensor, " token"],
    *,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum over tokens of the label-smoothed cross-entropy, in nats, gradients in the same pass.

    ::

        loss = sum_t [ -(1 - smoothing) log p_t(target_t) - smoothing / V sum_v log p_t(v) ]

    The smoothed share goes to all V types evenly (not to the V - 1 wrong ones). Source: Szegedy et
    al. 2016, section 7; math.md section 8.
    Logits of about four million entries are held at once, so they stay near the processor's cache and
    memory does not grow with the vocabulary times the batch. Under autocast the products are
    computed in its lower precision and everything else in float32.
    """
    return _ChunkedCrossEntropy.apply(hidden, weight, target, smoothing)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes the gradients while the logits are at hand, and scales them in backward."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float
    ) -> Tensor:
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        with torch.autocast(device, enabled=False):
            total, hidden_gradient, weight_gradient = _chunked_loss(
                hidden.to(low or hidden.dtype),
                weight.to(low or weight.dtype),
                target,
                smoothing=smoothing,
                exact=torch.float32 if low else hidden.dtype,
                gradients=any(ctx.needs_input_grad[:2]),
            )
        ctx.save_for_backward(hidden_gradient.to(hidden.dtype), weight_gradient.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return hidden_gradient * scale, weight_gradient * scale, None, None


def _chunked_loss(
    states: Tensor,
    types: Tensor,
    target: Tensor,
    *,
    smoothing: float,
    exact: torch.dtype,
    gradients: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and, when `gradients`, its gradient in `states` and `types`.

    With e = exp(logits - row maximum) the gradient in the logits is
    e / sum(e) - (1 - smoothing) onehot - smoothing / V. Its three parts are multiplied out
    separately, so that the large matrix e is written once and read by the products only.
    """
    even, rest, count = smoothing / types.shape[0], 1 - smoothing, len(states)
    types_sum = types.to(exact).sum(0)
    total = torch.zeros((), dtype=exact, device=states.device)
    states_gradient = torch.empty(states.shape, dtype=exact, device=states.device)
    types_gradient = torch.zeros(types.shape, dtype=exact, device=types.device)
    rows = max(1, CHUNK_LOGITS // types.shape[0])
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        state = _padded(states[part], min(rows, ROW_MULTIPLE))
        real = slice(0, part.stop - start)
        logits = (state @ types.T).to(exact)
        chosen = logits[real].gather(-1, target[part, None])
        highest = logits.amax(-1, keepdim=True)
        powers = logits.sub_(highest).exp_()
        norm = powers.sum(-1, keepdim=True)
        total += (norm.log() + highest)[real].sum() - rest * chosen.sum()
        total -= even * (state.to(exact) @ types_sum).sum()
        if gradients:
            powers = powers.to(types.dtype)
            states_gradient[part] = ((powers @ types).to(exact) / norm)[real]
            types_gradient += powers.T @ (state.to(exact) / norm).to(types.dtype)
    if gradients:
        states_gradient -= rest * types.to(exact)[target] + even * types_sum
        types_gradient.index_add_(0, target, states.to(exact), alpha=-rest)
        types_gradient -= even * states.to(exact).sum(0)
    return total, states_gradient, types_gradient


def _padded(states: Tensor, multiple: int) -> Tensor:
    """Rows of zeros added up to a multiple: a product of a new size is compiled and kept by oneDNN."""
    return F.pad(states, (0, 0, 0, -len(states) % multiple))
