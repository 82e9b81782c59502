"""The structured matrices that are nearest to kept ones at equal budget, as the page outlines them."""

from typing import Any

import torch
from torch import Tensor

from attnlab.core.addresses import Site
from attnlab.core.columns import rounded
from attnlab.families import FAMILIES, fit_at_equal_budget
from attnlab.matrices.fit import Fit
from attnlab.reading.keeping import KeptMatrices

MOST_TOKENS = 80


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
    shown = [fit for fit in fits.values() if FAMILIES[fit.family].outlined]
    return [[_described(fit, head) for fit in shown] for head in range(len(H))]


def _described(fit: Fit, head: int) -> dict[str, Any]:
    return {
        **vars(fit.parameters.outline(head)),
        "name": fit.family,
        "words": FAMILIES[fit.family].outlined,
        "error": torch.nonzero(fit.error[head].flatten()).flatten().tolist(),
        "relative": rounded(float(fit.relative[head]), 2),
    }
