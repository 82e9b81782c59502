"""Perplexity; BLEU and chrF through sacrebleu, with the signatures that make them comparable."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from transformers import EvalPrediction

from attnlab.translation.configuration import IGNORED_LABEL
from attnlab.translation.tokenizer import PAD, Tokenizers

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
    bleu, chrf = BLEU(), CHRF()
    texts, gold = list(translations), [list(references)]
    return Scores(
        bleu=round(bleu.corpus_score(texts, gold).score, 4),
        chrf=round(chrf.corpus_score(texts, gold).score, 4),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(texts),
    )


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
