"""The heads of an analysis in one table: the closest role, the structure, and the loss without each."""

from collections.abc import Collection

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS, Head
from attnlab.labels.label_columns import TIE_BITS_PER_ROW
from attnlab.studies.analysis.columns import SUMMARY
from attnlab.studies.analysis.description import structure_of_heads
from attnlab.studies.analysis.labelling import Labelling
from attnlab.studies.analysis.roles import WITHOUT_ROLE, closest_roles

# Of the column `output`: what a pruned head leaves.
PRUNED = "pruned"
_LOSS = ("ablation_loss_change", "ablation_low", "ablation_high")


def summarise_heads(
    heads: pd.DataFrame,
    *,
    structure: pd.DataFrame,
    labelling: Labelling | None,
    closed: Collection[Head] = (),
) -> pd.DataFrame:
    """One row per head with the columns of `SUMMARY` that were measured, in the order of `heads`.

    Every table, map and page shows these columns, so that they count alike.

    Args:
        heads: one row per head.
        structure: of one view, see `Analysis.structure`; empty where that was not measured.
        labelling: of the same view; None where heads were not labelled.
        closed: heads that are closed for good.
    """
    heads = heads.reset_index(drop=True)
    table = heads[HEAD_COLUMNS]
    for part in (*_of_labels(labelling), *([] if structure.empty else [_structure(structure)])):
        table = table.merge(part, on=HEAD_COLUMNS, how="left", validate="one_to_one")
    table = table[[*HEAD_COLUMNS, *(name for name in SUMMARY if name in table.columns[3:])]]
    weightless = weightless_heads(heads)
    # A head whose matrices hold no weight looks like nothing and has no role.
    nothing = {"structure": "", "structure_tie": False} | WITHOUT_ROLE
    for name in nothing.keys() & set(table):
        known = table[name].notna() & ~weightless
        values = [
            value if there else nothing[name]
            for value, there in zip(table[name], known, strict=True)
        ]
        table = table.assign(**{name: pd.Series(values, table.index)})
    among = pd.Series(_among(heads, closed), heads.index, dtype=bool)
    output = pd.Series("", heads.index).mask(weightless, "none").mask(among, PRUNED)
    return table.assign(output=output) if (output != "").any() else table


def weightless_heads(heads: pd.DataFrame) -> "pd.Series[bool]":
    """Whether no row of a head sees any key, as where a plan leaves it out."""
    return (heads["rows"] > 0) & (heads["empty_rows"] == heads["rows"])


def _among(heads: pd.DataFrame, some: Collection[Head]) -> list[bool]:
    return [Head(*row) in some for row in heads[HEAD_COLUMNS].itertuples(index=False)]


def _of_labels(labelling: Labelling | None) -> list[pd.DataFrame]:
    if labelling is None:
        return []
    labels = labelling.labels
    roles = closest_roles(labels, labelling.controls)
    return [roles, labels[[*HEAD_COLUMNS, *_LOSS]]] if _LOSS[0] in labels else [roles]


def _structure(structure: pd.DataFrame) -> pd.DataFrame:
    found = structure_of_heads(structure)
    tie = found["structure_margin_bits_per_row"] < TIE_BITS_PER_ROW
    return found[[*HEAD_COLUMNS, "structure"]].assign(structure_tie=tie)
