"""What describes a matrix in the fewest bits, as a table: one row per matrix, one column per family."""

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from attnlab.labels.structure import chosen_by_bits
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
