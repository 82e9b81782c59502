"""Which of the kept sentences show best what a head does."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core.addresses import Head
from attnlab.core.columns import rounded
from attnlab.studies.analysis.measuring import Analysis

_MOST = 3
Measure = Callable[[Float[Tensor, "head query key"]], Float[Tensor, " head"]]


def _at_one_offset(weights: Float[Tensor, "head query key"]) -> Float[Tensor, " head"]:
    """Share of rows whose largest weight is at the most frequent offset of the sentence."""
    queries = torch.arange(weights.shape[1])
    offsets = weights.argmax(-1) - queries
    frequent = offsets.mode(-1, keepdim=True).values
    return (offsets == frequent).double().mean(-1)


def _on_one_key(weights: Float[Tensor, "head query key"]) -> Float[Tensor, " head"]:
    """The largest mean weight of a column."""
    return weights.double().mean(1).amax(-1)


def _evenness(weights: Float[Tensor, "head query key"]) -> Float[Tensor, " head"]:
    """Entropy as a share of the largest, mean over rows."""
    entropy = torch.special.entr(weights.double()).sum(-1)
    return (entropy / torch.log(torch.tensor(max(2.0, weights.shape[-1])))).mean(-1)


def _confidence(weights: Float[Tensor, "head query key"]) -> Float[Tensor, " head"]:
    """The largest weight of a row, mean over rows."""
    return weights.double().amax(-1).mean(-1)


_OTHERS = ("by the mean largest weight of a row", _confidence)
_MEASURES: dict[str, tuple[str, Measure]] = {
    "positional": ("by the share of rows at one offset", _at_one_offset),
    "sink": ("by the mean weight on one token", _on_one_key),
    "broad": ("by how even the rows are", _evenness),
}


def best_sentences(
    analysis: Analysis, sentences: Sequence[int]
) -> dict[Head, tuple[str, list[tuple[int, str]]]]:
    """By head how sentences are ranked, and the first of them with their figures.

    Args:
        analysis: labels decide the measure; without, it is the mean largest weight of a row.
        sentences: those to choose from.
    """
    functions = _functions(analysis)
    figures: dict[Head, list[tuple[float, int]]] = {}
    for (number, site, layer), weights in analysis.matrices.matrices.items():
        if number not in sentences:
            continue
        by_measure = {name: measure(weights) for name, (_, measure) in _used(functions).items()}
        for index in range(len(weights)):
            head = Head(site, layer, index)
            of_head = by_measure[_measure_of(head, functions)]
            figures.setdefault(head, []).append((float(of_head[index]), number))
    return {
        head: (
            {**_MEASURES, "": _OTHERS}[_measure_of(head, functions)][0],
            [
                (number, rounded(figure, 2))
                for figure, number in sorted(found, reverse=True)[:_MOST]
            ],
        )
        for head, found in figures.items()
    }


def _functions(analysis: Analysis) -> dict[Head, str]:
    if analysis.labelling is None:
        return {}
    labels = analysis.labelling.view(analysis.labelling.views[0]).labels
    columns = zip(*(labels[name] for name in ("site", "layer", "head", "label")), strict=True)
    return {Head(site, layer, head): label for site, layer, head, label in columns}


def _used(functions: dict[Head, str]) -> dict[str, tuple[str, Measure]]:
    used = {name: one for name, one in _MEASURES.items() if name in functions.values()}
    return {**used, "": _OTHERS}


def _measure_of(head: Head, functions: dict[Head, str]) -> str:
    function = functions.get(head, "")
    return function if function in _MEASURES else ""
