"""What describes a matrix in the fewest bits, as a table: one row per matrix, one column per family."""

import pandas as pd

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.families import CODED
from attnlab.labels.structure import chosen_by_bits


def structure_of_heads(families: pd.DataFrame) -> pd.DataFrame:
    """One row per head: what `chosen_by_bits` says, and the bits per row of every family.

    Args:
        families: one row per head and family, see `HeadStructure.families`.
    """
    heads = families[HEAD_COLUMNS].drop_duplicates()
    known = families[families["bits_per_row"].abs() < float("inf")]
    bits = known.pivot(index=HEAD_COLUMNS, columns="family", values="bits_per_row")
    bits = bits.reindex(columns=[*CODED]).loc[[*heads.itertuples(index=False, name=None)]]
    table = pd.concat([chosen_by_bits(bits), bits.add_prefix("bits_")], axis="columns")
    return table.reset_index()
