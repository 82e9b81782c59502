"""What a reader of the kept matrices is shown beside them: near structures, telling sentences, like heads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core import HEAD_COLUMNS, Head
from attnlab.matrices import FAMILIES, Fit, fit_at_equal_budget
from attnlab.reading import (
    CONTENT,
    CONTENT_OFFSET_PREFIX,
    OFFSET_PREFIX,
    OFFSETS,
    KeptMatrices,
    View,
)

# Matrices of more tokens are not outlined.
MOST_TOKENS = 80
_NEAREST = 5
Measure = Callable[[Float[Tensor, "head query key"]], Float[Tensor, " head"]]


def kept_facts(
    kept: KeptMatrices, heads: pd.DataFrame, labels: pd.DataFrame, view: View
) -> dict[str, Any]:
    """`outlines`, `best_sentences` and `nearest_heads`, as a record of a result holds them.

    Args:
        kept: matrices of some sentences.
        heads: one row per head, see `HeadStatistics.heads`.
        labels: of one view, one row per head; empty where heads were not labelled.
        view: that view.
    """
    by_head = {} if labels.empty else dict(zip(_names(labels), labels["label"], strict=True))
    return {
        "outlines": outlines(kept),
        "best_sentences": best_sentences(kept, by_head),
        "nearest_heads": nearest_heads(heads, view),
    }


def outlines(kept: KeptMatrices) -> dict[str, list[list[dict[str, Any]]]]:
    """The structured matrices that are nearest at equal budget, of every head of each kept layer.

    By `sentence.site.layer` of those that are not too long; per head a list of fits: `name, offsets,
    columns, blocks, error, relative`: the offsets of the band, whole columns, blocks of rows with all weight
    on one column as (first row, rows, column), the entries of E counted row by row, the relative distance.
    """
    outlined = {}
    for (number, site, layer), matrix in kept.matrices.items():
        if max(matrix.shape[1:]) <= MOST_TOKENS:
            H, sizes = matrix.double(), torch.tensor([matrix.shape[1:]])
            fits = fit_at_equal_budget(H, sizes, causal=site == "decoder")
            shown = [fit for fit in fits.values() if FAMILIES[fit.family].outlined]
            outlined[f"{number}.{site}.{layer}"] = [
                [_outline(fit, head) for fit in shown] for head in range(len(H))
            ]
    return outlined


def _outline(fit: Fit, head: int) -> dict[str, Any]:
    return {
        **vars(fit.parameters.outline(head)),
        "name": fit.family,
        "error": torch.nonzero(fit.error[head].flatten()).flatten().tolist(),
        "relative": float(fit.relative[head]),
    }


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


# By label what sentences are ranked by, and in which words; heads of other labels by the last.
MEASURES: dict[str, tuple[str, Measure]] = {
    "positional": ("by the share of rows at one offset", _at_one_offset),
    "sink": ("by the mean weight on one token", _on_one_key),
    "broad": ("by how even the rows are", _evenness),
    "": ("by the mean largest weight of a row", _confidence),
}


def best_sentences(kept: KeptMatrices, labels: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The label that decides the measure, and kept sentences by their figures, largest first, by head.

    Args:
        kept: the sentences to choose from.
        labels: by the name of the head.
    """
    used = {name: MEASURES[name][1] for name in MEASURES if not name or name in labels.values()}
    by_head: dict[str, dict[str, Any]] = {}
    for (number, site, layer), weights in kept.matrices.items():
        figures = {name: measure(weights) for name, measure in used.items()}
        for index in range(len(weights)):
            head = str(Head(site, layer, index))
            label = labels.get(head, "")
            by = label if label in MEASURES else ""
            ranked = by_head.setdefault(head, {"by": by, "sentences": []})
            ranked["sentences"].append([number, float(figures[by][index])])
    for ranked in by_head.values():
        ranked["sentences"].sort(key=lambda pair: (pair[1], pair[0]), reverse=True)
    return by_head


def offset_profiles(heads: pd.DataFrame, view: View) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean weight by offset, a row per head; NaN where no row sees such a key."""
    prefix = CONTENT_OFFSET_PREFIX if view == CONTENT else OFFSET_PREFIX
    table = heads[[f"{prefix}{offset}" for offset in OFFSETS]]
    return table.to_numpy(dtype=np.float64, na_value=np.nan)


def nearest_heads(heads: pd.DataFrame, view: View) -> dict[str, list[tuple[str, float]]]:
    """Heads of the same site whose mean weights by offset have the largest cosine with its own, by head."""
    profiles = np.nan_to_num(offset_profiles(heads, view))
    lengths = np.linalg.norm(profiles, axis=1)
    names, sites = _names(heads), heads["site"].to_numpy()
    nearest = {}
    for index, name in enumerate(names):
        norms = lengths * np.linalg.norm(profiles[index])
        cosine = np.divide(
            profiles @ profiles[index], norms, out=np.zeros(len(profiles)), where=norms > 0
        )
        ranked = np.argsort(-cosine, kind="stable")
        others = [other for other in ranked if sites[other] == sites[index] and other != index][
            :_NEAREST
        ]
        nearest[name] = [(names[other], float(cosine[other])) for other in others]
    return nearest


def _names(table: pd.DataFrame) -> list[str]:
    return [str(Head(*row)) for row in table[HEAD_COLUMNS].itertuples(index=False, name=None)]
