"""The structured matrices that are nearest to kept ones at equal budget, as the page outlines them."""

from typing import Any

import torch
from torch import Tensor

from attnlab.core.addresses import Site
from attnlab.core.columns import rounded
from attnlab.matrices.fit import Additive, Diagonal, Fit, RareColumns
from attnlab.reading.keeping import KeptMatrices
from attnlab.studies.approximation.equal_budget import fit_at_equal_budget

MOST_TOKENS = 80
_WORDS = {
    "diagonal": "diagonal and E",
    "rare_columns": "rare columns and E",
    "additive": "band, columns and E",
}


def fitted_layers(kept: KeptMatrices, number: int, site: Site) -> dict[str, Any]:
    """By layer the fits of every head of one sentence; nothing for sentences of many tokens.

    A fit is `name, words, offsets, columns, blocks, error, relative`: the offsets of its band, whole
    columns, blocks of rows that look at one column as (first row, rows, column), the entries of E
    counted row by row, and the relative distance as text.
    """
    return {
        str(layer): _of_heads(matrix.double(), causal=at == "decoder")
        for (sentence, at, layer), matrix in kept.matrices.items()
        if sentence == number and at == site and max(matrix.shape[1:]) <= MOST_TOKENS
    }


def _of_heads(H: Tensor, *, causal: bool) -> list[list[dict[str, Any]]]:
    sizes = torch.tensor([H.shape[1:]])
    fits = fit_at_equal_budget(H, sizes, causal=causal)
    return [[_described(name, fits[name], head) for name in _WORDS] for head in range(len(H))]


def _described(name: str, fit: Fit, head: int) -> dict[str, Any]:
    return {
        "name": name,
        "words": _WORDS[name],
        "error": torch.nonzero(fit.error[head].flatten()).flatten().tolist(),
        "relative": rounded(float(fit.relative[head]), 2),
        **_support(fit, head),
    }


def _support(fit: Fit, head: int) -> dict[str, Any]:
    match fit.parameters:
        case Diagonal(offset=offset):
            at = int(offset[head])
            return {"offsets": [at, at], "columns": [], "blocks": []}
        case RareColumns(used=used, start=start, rows=rows, column=column):
            blocks = torch.stack([start[head], rows[head], column[head]], -1)[used[head]]
            return {"offsets": [0, 0], "columns": [], "blocks": blocks.tolist()}
        case Additive(banded=banded, left=left, right=right, used=used, column=column):
            offsets = [-int(left[head]), int(right[head])] if banded[head] else None
            return {"offsets": offsets, "columns": column[head][used[head]].tolist(), "blocks": []}
    msg = f"{type(fit.parameters).__name__} is not outlined."
    raise TypeError(msg)
