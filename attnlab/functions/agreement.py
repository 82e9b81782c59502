"""Agreement between what a head does and what its matrix looks like: Cohen's kappa."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attnlab.functions.counting import known_labels
from attnlab.functions.verdict import UNDECIDED, UNKNOWN

ALL_SITES = "all"


@dataclass(frozen=True)
class Agreement:
    """Cohen's kappa between two labellings of the same heads.

    Attributes:
        kappa: 1 for full agreement, 0 for what chance gives, NaN when one of the two gives every head the
            same label, since nothing then depends on the other.
        low: lower end of the 95 % interval.
        high: upper end.
        observed: share of heads with equal labels.
        expected: that share if the labels were independent.
        heads: how many heads were compared.
    """

    kappa: float
    low: float
    high: float
    observed: float
    expected: float
    heads: int


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> Agreement:
    """Agreement beyond chance of two labellings.

    ::

        kappa = (observed - expected) / (1 - expected)

    Source: Cohen 1960; variance after Fleiss, Cohen and Everitt 1969, from statsmodels.

    Raises:
        ValueError: the labellings are empty or of different lengths.

    >>> print(f"{cohen_kappa(['a', 'a', 'b', 'b'], ['a', 'a', 'b', 'a']).kappa:.2f}")
    0.50
    """
    from statsmodels.stats.inter_rater import cohens_kappa

    if len(first) != len(second) or not first:
        msg = f"Two labellings of the same heads are needed, not of {len(first)} and {len(second)}."
        raise ValueError(msg)
    names = sorted({*first, *second})
    number = {name: index for index, name in enumerate(names)}
    table = np.zeros((len(names), len(names)))
    for one, other in zip(first, second, strict=True):
        table[number[one], number[other]] += 1
    observed = float(np.trace(table) / len(first))
    expected = float((table.sum(0) * table.sum(1)).sum() / len(first) ** 2)
    if len(set(first)) == 1 or len(set(second)) == 1:
        nothing = float("nan")
        return Agreement(nothing, nothing, nothing, observed, expected, len(first))
    # Of the test of a kappa of 0, which nothing here reads, and which few heads can leave without a number.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = cohens_kappa(table)
    return Agreement(
        float(found.kappa),
        float(found.kappa_low),
        float(found.kappa_upp),
        observed,
        expected,
        len(first),
    )


def agreement_with_structure(functions: Sequence[str], structures: Sequence[str]) -> Agreement:
    """Kappa between functional labels and structural ones, each function read as its matrix family.

    Functions that leave no shape (`unknown`) agree with no family and count against agreement.
    """
    families = {label.name: label.family for label in known_labels().values()}
    return cohen_kappa([families.get(name, name) for name in functions], structures)


def agreement_table(labels: pd.DataFrame) -> pd.DataFrame:
    """Kappa in all heads, and by site where there are several: one row each.

    Columns as in `attnlab.functions.columns.AGREEMENT`. Heads that two families describe equally well
    have no structure to compare, and for undecided ones too little was counted: both are left out of
    all figures, which are missing where there are no others. A head of several functions is compared
    by the first of them, by precedence. Where no head has a label there is no kappa.

    Args:
        labels: one row per head, with `site`, `label`, `structure` and `structure_tie`.
    """
    parts = [(ALL_SITES, labels)]
    if labels["site"].nunique() > 1:
        parts += [(str(site), rows) for site, rows in labels.groupby("site", sort=False)]
    rows = []
    for site, every in parts:
        decided = every[every["label"] != UNDECIDED]
        heads = decided[~decided["structure_tie"]]
        found = (
            Agreement(math.nan, math.nan, math.nan, math.nan, math.nan, 0)
            if heads.empty
            else agreement_with_structure(list(heads["label"]), list(heads["structure"]))
        )
        labelled = int((heads["label"] != UNKNOWN).sum())
        rows.append(
            {
                "site": site,
                "heads": found.heads,
                "tied_heads": len(decided) - len(heads),
                "undecided_heads": len(every) - len(decided),
                "labelled_heads": labelled,
                "observed_fraction": found.observed,
                "expected_fraction": found.expected,
                "kappa": found.kappa if labelled else math.nan,
                "low": found.low if labelled else math.nan,
                "high": found.high if labelled else math.nan,
            }
        )
    return pd.DataFrame(rows)
