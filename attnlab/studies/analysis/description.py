"""What describes a matrix in the fewest bits, as a table: one row per matrix, one column per family."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.core.addresses import HEAD_COLUMNS
from attnlab.matrices.candidates import FAMILIES
from attnlab.matrices.labels import label_heads


def describe_matrices(H: Float[Tensor, "matrix query key"], *, causal: bool) -> pd.DataFrame:
    """Bits per row of every family of `attnlab.matrices.labels`, each matrix a head of its own.

    Columns `structure`, `structure_margin_bits_per_row` and `structure_runner_up`, and one for each
    family. A family without a member among the candidates is missing.
    """
    found = label_heads(H[:, None], causal=causal)
    bits = found.bits_per_row
    table = pd.DataFrame(bits.masked_fill(bits.isinf(), float("nan")).tolist(), columns=[*FAMILIES])
    return pd.concat([chosen_by_bits(table), table], axis="columns")


def chosen_by_bits(bits: pd.DataFrame) -> pd.DataFrame:
    """The family of the fewest bits per row, the next one, and by how many bits they differ.

    Args:
        bits: one column per family, missing where a family has no member.
    """
    rows = [_chosen(row) for row in bits.to_dict("records")]
    columns = ["structure", "structure_margin_bits_per_row", "structure_runner_up"]
    return pd.DataFrame(rows, columns=columns, index=bits.index)


def _chosen(bits: Mapping[Any, float]) -> Sequence[object]:
    known = {family: value for family, value in bits.items() if not pd.isna(value)}
    first, second = sorted(known, key=known.__getitem__)[:2]
    return first, known[second] - known[first], second


def structure_of_heads(families: pd.DataFrame) -> pd.DataFrame:
    """One row per head: what `chosen_by_bits` says, and the bits per row of every family.

    Args:
        families: one row per head and family, see `HeadStructure.families`.
    """
    heads = families[HEAD_COLUMNS].drop_duplicates()
    known = families[families["bits_per_row"].abs() < float("inf")]
    bits = known.pivot(index=HEAD_COLUMNS, columns="family", values="bits_per_row")
    bits = bits.reindex(columns=[*FAMILIES]).loc[[*heads.itertuples(index=False, name=None)]]
    table = pd.concat([chosen_by_bits(bits), bits.add_prefix("bits_")], axis="columns")
    return table.reset_index()
