"""The heads of an analysis in one table: what each does, looks like, is near to, and is needed for."""

from collections.abc import Collection

import pandas as pd

from attnlab.addresses import HEAD_COLUMNS, Head
from attnlab.functions.thresholds import TIE_BITS_PER_ROW
from attnlab.functions.verdict import NOT_COMPARED, UNDECIDED, UNKNOWN
from attnlab.studies.analysis.columns import SIGMA
from attnlab.studies.analysis.description import structure_of_heads
from attnlab.studies.analysis.fits import summarise

_WORDS = ("structure", "structure_runner_up", "nearest_family")
_LOSS = ("ablation_loss_change", "ablation_low", "ablation_high")


def summarise_heads(
    heads: pd.DataFrame,
    *,
    structure: pd.DataFrame,
    fits: pd.DataFrame,
    labels: pd.DataFrame | None,
    closed: Collection[Head] = (),
) -> pd.DataFrame:
    """One row per head with the columns of `SUMMARY` that were measured, in the order of `heads`.

    Args:
        heads: one row per head.
        structure: of one view, see `Analysis.structure`; empty where that was not measured.
        fits: see `Analysis.fits`; empty likewise.
        labels: of one view, see `Labelling.labels`; None where heads were not labelled.
        closed: heads that are closed for good.
    """
    heads = heads.reset_index(drop=True)
    table = heads[HEAD_COLUMNS]
    parts = [
        None if labels is None else _functions(labels),
        None if structure.empty else _structure(structure),
        None if fits.empty else _distances(fits),
        None if labels is None or _LOSS[0] not in labels else labels[[*HEAD_COLUMNS, *_LOSS]],
    ]
    for part in parts:
        if part is not None:
            table = table.merge(part, on=HEAD_COLUMNS, how="left", validate="one_to_one")
    # A head whose matrices hold no weight looks like nothing and is near to nothing.
    weightless = weightless_heads(heads)
    words = [name for name in _WORDS if name in table]
    table = table.assign(**{name: table[name].mask(weightless).fillna("") for name in words})
    among = pd.Series(_among(heads, closed), heads.index, dtype=bool)
    output = pd.Series("", heads.index).mask(weightless, "none").mask(among, "closed")
    return table.assign(output=output) if (output != "").any() else table


def weightless_heads(heads: pd.DataFrame) -> "pd.Series[bool]":
    """Whether no row of a head sees any key, as where a plan leaves it out."""
    return (heads["rows"] > 0) & (heads["empty_rows"] == heads["rows"])


def _among(heads: pd.DataFrame, some: Collection[Head]) -> list[bool]:
    return [Head(*row) in some for row in heads[HEAD_COLUMNS].itertuples(index=False)]


def _functions(labels: pd.DataFrame) -> pd.DataFrame:
    """Labels that stand; where controls were left out, those that hold."""
    compared = labels["standing"] != NOT_COMPARED
    function = labels["standing"].where(compared, labels["labels"])
    named = ~function.isin([UNKNOWN, UNDECIDED])
    first = function.str.split("; ").str[0]
    return labels[HEAD_COLUMNS].assign(
        function=function,
        # The detail is that of the strongest function, which may be another.
        function_detail=labels["detail"].where(named & (labels["function"] == first), ""),
        function_status=compared.map({True: "stands", False: "holds"}).where(named, "none"),
    )


def _structure(structure: pd.DataFrame) -> pd.DataFrame:
    found = structure_of_heads(structure)
    return found[[*HEAD_COLUMNS, "structure", "structure_runner_up"]].assign(
        structure_tie=found["structure_margin_bits_per_row"] < TIE_BITS_PER_ROW
    )


def _distances(fits: pd.DataFrame) -> pd.DataFrame:
    means = summarise(fits)
    families = means[list(SIGMA)]
    return means[HEAD_COLUMNS].assign(
        nearest_family=families.dropna(how="all").idxmin(axis="columns"),
        nearest_relative=families.min(axis="columns"),
        **{f"{name}_relative": means[name] for name in ("union", "uniform", "zero")},
    )
