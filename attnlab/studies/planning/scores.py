"""Loss and BLEU of a run with each plan in it, against the run as it is and against the searched plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attnlab.ablation.significance import (
    Difference,
    bleu_difference,
    loss_difference,
)
from attnlab.attention.bridge.installing import use
from attnlab.attention.plan import AttentionPlan
from attnlab.evaluation.evaluator import Evaluator


@dataclass(frozen=True)
class Output:
    """What a model does on the test sentences.

    Attributes:
        losses: loss of each sentence in nats, summed over its target tokens.
        translations: greedy translations; empty where none were wanted.
    """

    losses: Float[Tensor, " sentence"]
    translations: tuple[str, ...]


def output_of(evaluator: Evaluator, plan: AttentionPlan | None, *, bleu: bool) -> Output:
    """Losses and translations with the plan in place of full attention; None leaves the model as it is."""
    if plan is None:
        return Output(evaluator.losses(), tuple(evaluator.translations()) if bleu else ())
    with use(evaluator.model, plan):
        return Output(evaluator.losses(), tuple(evaluator.translations()) if bleu else ())


def changes(evaluator: Evaluator, before: Output, after: Output, *, seed: int) -> dict[str, Any]:
    """Loss and BLEU of `after`, and their changes against `before` with bootstrap intervals."""
    loss = loss_difference(before.losses, after.losses, evaluator.tokens, seed=seed)
    found: dict[str, Any] = {"loss_nats": loss.after, **_interval("loss_change", loss)}
    if after.translations:
        bleu = _bleu(evaluator, before, after, seed=seed)
        found |= {
            "bleu": bleu.after,
            **_interval("bleu_change", bleu),
            "length_ratio": length_ratio(after.translations, evaluator.references),
        }
    return found


def gains(evaluator: Evaluator, baseline: Output, searched: Output, *, seed: int) -> dict[str, Any]:
    """How much less loss and more BLEU the searched plan has than a baseline."""
    loss = loss_difference(searched.losses, baseline.losses, evaluator.tokens, seed=seed)
    found = _interval("loss_gain", loss)
    if searched.translations:
        found |= _interval("bleu_gain", _bleu(evaluator, baseline, searched, seed=seed))
    return found


def length_ratio(translations: Sequence[str], references: Sequence[str]) -> float:
    """Length of all translations divided by that of the references, in the tokens of BLEU.

    >>> length_ratio(["a b c", "d"], ["a b", "d e f"])
    0.8
    """
    from sacrebleu.metrics import BLEU

    found = BLEU().corpus_score(list(translations), [list(references)])
    return float(found.sys_len / found.ref_len)


def _bleu(evaluator: Evaluator, before: Output, after: Output, *, seed: int) -> Difference:
    return bleu_difference(before.translations, after.translations, evaluator.references, seed=seed)


def _interval(name: str, found: Difference) -> dict[str, float]:
    return {name: found.change, f"{name}_low": found.low, f"{name}_high": found.high}
