"""The columns of an approximation."""

from attnlab.core.columns import Column, Table
from attnlab.labels.label_columns import STRUCTURE_SAID

APPROXIMATIONS = Table(
    "approximation.csv",
    "matrix and family",
    (
        Column("matrix", "matrix", "Name of the array, with the index of the matrix in it."),
        Column("family", "family", "What is fitted, or a reference."),
        Column("values", "values", "How entries are filled: free, stochastic or binary."),
        Column("window_left", "window, left", "How far a band or a diagonal may reach back."),
        Column("window_right", "window, right", "How far it may reach ahead."),
        Column("num_pos", "columns", "Most blocks of rows or whole columns."),
        Column("dropout", "dropout", "Share of a band's entries that are dropped."),
        Column("error_nnz", "entries of E", "Most entries of the sparse error."),
        Column("error_bound", "bound of E", "Largest size of such an entry."),
        Column("budget", "budget", "How many entries the fit may use, E among them."),
        Column("nnz", "non-zeros", "Entries of the approximation other than 0.", 0),
        Column("l1", "l1 distance", "Sum of all absolute differences.", 2, "l1"),
        Column("mean_error", "mean error", "The l1 distance by the number of entries.", 4),
        Column("relative", "relative", "The l1 distance divided by the sum of the matrix.", 3),
        Column("frobenius", "Frobenius", "Distance in the Frobenius norm, by the norm of H.", 3),
        Column("kl", "KL (nats)", "Mean divergence of rows; empty where X is no probability.", 3),
        Column(
            "bits_per_row", "bits per row", "Code length under the best member of the family.", 2
        ),
        Column("structure", "structure", f"The family of the fewest bits; {STRUCTURE_SAID}."),
        Column("structure_margin_bits_per_row", "margin", "Bits per row to the next family.", 2),
        Column("structure_runner_up", "next", "The family of the second fewest bits."),
        Column("seconds", "seconds", "Time of the fit per matrix.", 6),
    ),
    keys=("matrix", "family"),
)
TABLES = (APPROXIMATIONS,)
