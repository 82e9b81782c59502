"""The families of matrices at one budget of entries, for the matrices of one layer."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.matrices.additive import fit_additive
from attnlab.matrices.band import fit_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.fit import Fit
from attnlab.matrices.rare_columns import fit_rare_columns

WINDOW = 3
NUM_POS = 2
ERROR_BOUND = 0.5


def fit_at_equal_budget(
    H: Float[Tensor, "*batch query key"], sizes: Int[Tensor, "*#batch 2"], *, causal: bool
) -> dict[str, Fit]:
    """`diagonal`, `kept_band`, `rare_columns` and `additive`, each with at most two entries per row.

    One is for the structure and one for the sparse error (s = n, as in the thesis's code; each at
    most 0.5), on average over the rows: `kept_band` uses the largest entries of the band, as many as
    there are rows, and `additive` splits the whole budget between a band, whole columns and E.
    Window 3 and 2 columns, as `attnlab approximate` takes by default; values `free`.
    """
    rows = sizes[..., 0]
    shared: dict[str, Any] = {
        "causal": causal,
        "sizes": sizes,
        "error_nnz": rows,
        "error_bound": ERROR_BOUND,
    }
    return {
        "diagonal": fit_diagonal(H, window=WINDOW, **shared),
        "kept_band": fit_band(H, window=WINDOW, keep=rows, **shared),
        "rare_columns": fit_rare_columns(H, window=WINDOW, num_pos=NUM_POS, **shared),
        "additive": fit_additive(H, window=WINDOW, num_pos=NUM_POS, budget=2 * rows, **shared),
    }
