"""What a candidate costs the model, by one of the criteria that plans are chosen by.

Every criterion is measured with the candidate alone in its heads and all others as they are, on validation
sentences; those of the output also with the others as a plan has them. Those of matrices are sums over one
reading of the sentences; those of the model's output take a pass for each candidate, on its first
`PASS_SENTENCES` sentences.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import watched_heads
from attnlab.attention import AttentionPlan, Mechanism, Specification, use
from attnlab.budget import Layer, output_error, untaught
from attnlab.core import InputError
from attnlab.evaluation import Evaluator, ScoredBatch, Steps
from attnlab.models import IGNORED_LABEL
from attnlab.questions.plan.search import Candidate, Costs, Unit
from attnlab.reading import Observed

# More would take longer than the search gains by it.
PASS_SENTENCES = 150

Shortlist = Mapping[Unit, Sequence[Candidate]]
Read = Callable[[Callable[[Observed], None]], None]


def costs(
    criterion: str,
    shortlist: Shortlist,
    evaluator: Evaluator,
    read: Read,
    steps: Callable[..., Steps],
    *,
    context: Mapping[str, Specification | Mechanism] | None = None,
) -> Costs:
    """What each candidate costs by a criterion, less is better.

    Args:
        criterion: one of `CRITERIA`, but `l1`, which the search itself knows.
        shortlist: the candidates of the heads that share one.
        evaluator: the model on validation sentences.
        read: hands every layer of these sentences to a function.
        steps: makes `Steps` of a description and a number.
        context: what the other heads have, for a criterion of the output; None: full attention.

    Returns:
        Change of the loss or divergence per token, or the mean over tokens of what a matrix costs, summed
        over the heads that share the candidate.

    Raises:
        InputError: a divergence or gradient of a model that scores no tokens.
    """
    check_criterion(criterion, evaluator)
    if criterion in PASSES:
        return _of_output(criterion, shortlist, evaluator, steps, context)
    slopes = _slopes(evaluator, steps) if criterion == "gradient" else {}
    sums = MatrixCosts(criterion, shortlist, slopes)
    read(sums.add)
    return sums.costs()


def check_criterion(criterion: str, evaluator: Evaluator) -> None:
    """Raises where a model cannot have a criterion, which is known before candidates are measured.

    Raises:
        InputError: a divergence or gradient of a model that scores no tokens.
        AttnlabError: a gradient with respect to heads that cannot be told apart.
    """
    if criterion == "gradient" and not evaluator.scores:
        msg = (
            "The loss is a distance from the untouched model, whose gradient is 0 there; choose criterion "
            "loss or output."
        )
        raise InputError(msg)
    if criterion == "divergence" and not evaluator.scores:
        msg = "The model scores no tokens, so there is no divergence of its scores; choose criterion loss."
        raise InputError(msg)
    if criterion == "gradient":
        _ = evaluator.projections


def _of_output(
    criterion: str,
    shortlist: Shortlist,
    evaluator: Evaluator,
    steps: Callable[..., Steps],
    context: Mapping[str, Specification | Mechanism] | None,
) -> Costs:
    """A pass with each candidate; the encoder's states are kept where its heads are as they were."""
    untouched, apart = PASSES[criterion]
    reading = evaluator.first(PASS_SENTENCES)
    encoded, tokens = reading.reading_once(), float(reading.tokens.sum())
    cases = [(unit, entry.specification) for unit, listed in shortlist.items() for entry in listed]
    sums = dict.fromkeys(cases, 0.0)
    counted = steps("Trying candidates", len(cases) * len(reading.batches))
    batches = list(zip(reading.batches, encoded.batches, strict=True))
    # Scores of all types are large, so that they are kept of one batch at a time, and losses of all.
    at_once = len(batches) if criterion == "loss" else 1
    with torch.inference_mode():
        for first in range(0, len(batches), at_once):
            part = batches[first : first + at_once]
            before = [untouched(reading, batch) for batch, _ in part]
            for unit, specification in cases:
                own_heads = {str(head): specification for head in unit}
                reads_anew = context or unit[0].site == "encoder"
                with use(reading.model, AttentionPlan({**(context or {}), **own_heads})):
                    reading.model.eval()
                    for (batch, kept), as_it_was in zip(part, before, strict=True):
                        inputs = batch if reads_anew else kept
                        after = counted.of(partial(untouched, reading, inputs))()
                        sums[unit, specification] += float(apart(as_it_was, after, batch).sum())
    return {case: total / tokens for case, total in sums.items()}


def _losses(evaluator: Evaluator, batch: ScoredBatch) -> Float[Tensor, " example"]:
    return evaluator.example_losses(batch)


def _log_scores(evaluator: Evaluator, batch: ScoredBatch) -> Float[Tensor, "batch target type"]:
    logits: Tensor = evaluator.run(batch).logits
    return logits.double().log_softmax(-1)


def _change(before: Tensor, after: Tensor, _: ScoredBatch) -> Float[Tensor, " example"]:
    return after - before


def _divergence(before: Tensor, after: Tensor, batch: ScoredBatch) -> Float[Tensor, "batch target"]:
    """KL(untouched || replaced) of every token that is predicted, in nats."""
    apart = (before.exp() * (before - after)).sum(-1)
    return apart.masked_fill(batch.labels == IGNORED_LABEL, 0)


# What is kept of a pass, and how far two passes are apart.
PASSES = {"loss": (_losses, _change), "divergence": (_log_scores, _divergence)}


def _slopes(evaluator: Evaluator, steps: Callable[..., Steps]) -> dict[tuple[Layer, int], Tensor]:
    """Gradient of each sentence's loss with respect to its heads' outputs, by layer and sentence."""
    by_sentence: dict[tuple[Layer, int], Tensor] = {}
    counted = steps("Gradients", len(evaluator.batches))
    for batch in evaluator.batches:
        counted.of(partial(_add_slopes, by_sentence, evaluator, batch))()
    return by_sentence


def _add_slopes(
    by_sentence: dict[tuple[Layer, int], Tensor], evaluator: Evaluator, batch: ScoredBatch
) -> None:
    outputs: dict[Layer, Tensor] = {}
    with torch.enable_grad(), watched_heads(evaluator.projections, outputs.__setitem__):
        loss = evaluator.example_losses(batch).sum()
    slopes = torch.autograd.grad(loss, list(outputs.values()))
    for layer, slope in zip(outputs, slopes, strict=True):
        for place, head_slopes in zip(batch.numbers, slope, strict=True):
            number = evaluator.sentences.usable[place].number
            by_sentence[layer, number] = head_slopes.detach().transpose(0, 1)


class MatrixCosts:
    """Sums over sentences of what candidates cost by their matrices.

    Args:
        criterion: `output`, `norm`, `mass` or `gradient`.
        shortlist: the candidates of the heads that share one.
        slopes: gradient of the loss with respect to heads' outputs `[head, query, dim]`, by layer and
            sentence, for `gradient` alone.
    """

    def __init__(
        self,
        criterion: str,
        shortlist: Shortlist,
        slopes: Mapping[tuple[Layer, int], Tensor],
    ) -> None:
        self._cost = {
            "output": _output_error,
            "norm": _norm_weighted,
            "mass": _not_captured,
            "gradient": self._first_order,
        }[criterion]
        self._slopes = slopes
        self._cases: dict[Layer, dict[tuple[Unit, Candidate], float]] = {}
        self._rows: dict[Layer, float] = {}
        for unit, candidates in shortlist.items():
            at = unit[0].site, unit[0].layer
            self._cases.setdefault(at, {}).update({(unit, one): 0.0 for one in candidates})
            self._rows[at] = 0.0

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        at = layer.site, layer.layer
        self._rows[at] += float(layer.real_queries.sum())
        for unit, candidate in self._cases[at]:
            self._cases[at][unit, candidate] += self._of(layer, unit, candidate)

    def costs(self) -> Costs:
        """The cost of each candidate: a mean over tokens."""
        return {
            (unit, candidate.specification): total / self._rows[at]
            for at, sums in self._cases.items()
            for (unit, candidate), total in sums.items()
        }

    def _of(self, layer: Observed, unit: Unit, candidate: Candidate) -> float:
        heads = [head.head for head in unit]
        mechanism = untaught((layer.site, layer.layer), candidate.specification, len(heads))
        matrix = mechanism.to(layer.query.device).implied_matrix(
            layer.query[:, heads], layer.key[:, heads], layer.visible, **layer.call_context(heads)
        )
        applied = matrix * layer.real_queries[:, None, :, None]
        return float(self._cost(applied, layer, heads))

    def _first_order(self, applied: Tensor, layer: Observed, heads: list[int]) -> Tensor:
        change = (applied - layer.weights[:, heads]) @ layer.value[:, heads]
        total = change.new_zeros(())
        for row, number in enumerate(layer.sentences):
            slope = self._slopes[(layer.site, layer.layer), number][heads].to(change)
            total = (
                total + (slope[:, : change.shape[2]] * change[row][:, : slope.shape[1]]).sum().abs()
            )
        return total


def _output_error(applied: Tensor, layer: Observed, heads: list[int]) -> Tensor:
    """Each sentence counted by its rows."""
    rows = layer.real_queries.sum(-1)[:, None]
    return (output_error(applied, layer.weights[:, heads], layer.value[:, heads]) * rows).sum()


def _norm_weighted(applied: Tensor, layer: Observed, heads: list[int]) -> Tensor:
    """|X - H| with every weight times the norm of its value (Kobayashi et al. 2020, arXiv 2004.10102)."""
    norms = layer.value[:, heads].norm(dim=-1)
    return ((applied - layer.weights[:, heads]).abs() * norms[:, :, None]).sum()


def _not_captured(applied: Tensor, layer: Observed, heads: list[int]) -> Tensor:
    return (layer.weights[:, heads] * (applied == 0)).sum()
