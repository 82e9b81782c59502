"""The columns of the fits of an analysis, in its file and as shown by head."""

from attnlab.columns import HEAD, Column, Table
from attnlab.extraction.columns import DISTANCES, HEADS
from attnlab.functions.columns import AGREEMENT, CONTROLS, LABELS, RELATIONS, STRUCTURE

WIDEST_WINDOW = 10
FITS = Table(
    "fits.csv",
    "head, sentence and approximation",
    (
        *HEAD,
        Column("sentence", "sentence", "Number of the sentence, from 0."),
        Column("queries", "queries", "Rows of the matrix."),
        Column("keys", "keys", "Columns of the matrix."),
        Column(
            "approximation", "approximation", "The family, the largest entries, or a reference."
        ),
        Column("window", "window", "Tokens on either side, of a whole band."),
        Column(
            "level",
            "level",
            "oracle: fitted to the matrix itself; static: taken from other sentences; none.",
        ),
        Column("budget", "budget", "How many entries the approximation may use."),
        Column("l1", "l1 distance", "Sum of all absolute differences.", 2),
        Column("mean_error", "mean error", "The l1 distance by queries times keys.", 3),
        Column("relative", "relative", "The l1 distance divided by the sum of the matrix.", 2),
    ),
)
TABLES = (HEADS, DISTANCES, FITS, LABELS, RELATIONS, CONTROLS, STRUCTURE, AGREEMENT)


def _band(window: int) -> Column:
    reach = "1 token" if window == 1 else f"{window} tokens"
    return Column(
        f"band_{window}",
        f"w = {window}",
        f"Share of all attention farther than {reach} away: the relative distance from the "
        "nearest matrix of that band (oracle: fitted to each matrix itself).",
        2,
    )


# Of `RELATIVE`: the families that are compared at equal budget, and what they are compared with.
EQUAL_BUDGET = ("diagonal", "kept_band", "rare_columns", "additive", "top")
REFERENCES = ("zero", "uniform", "mean_by_offset")
# Of `summarise`: mean relative distances, a column an approximation.
RELATIVE = (
    Column(
        "diagonal",
        "diagonal + E",
        "Relative distance of the best single offset within 3 tokens, and the sparse error E.",
        2,
        "diagonal",
    ),
    Column(
        "kept_band",
        "band entries + E",
        "Relative distance of the largest entries within 3 tokens of the diagonal, as many as the "
        "matrix has rows, and E.",
        2,
        "band",
    ),
    Column(
        "rare_columns",
        "rare columns + E",
        "Relative distance of the identity with at most 2 blocks of rows that look at one token, "
        "and E.",
        2,
        "rare columns",
    ),
    Column(
        "additive",
        "additive",
        "Relative distance of a band, at most 2 whole columns and E that share the same number of "
        "entries in the best way.",
        2,
    ),
    Column(
        "top",
        "top entries",
        "Relative distance of the largest entries, as many as the budget: no approximation of so "
        "many entries is nearer.",
        2,
        "top",
    ),
    Column(
        "zero",
        "zero matrix",
        "Relative distance of a matrix of zeros: 1 by definition. What is above 1 is worse than "
        "nothing.",
        2,
        "zero",
    ),
    Column(
        "uniform",
        "uniform",
        "Relative distance of the matrix that gives every key the same weight.",
        2,
    ),
    Column(
        "mean_by_offset",
        "mean by offset (static)",
        "Relative distance of this head's mean weight by offset, taken from other sentences: what "
        "a module without any attention could do.",
        2,
        "mean by offset",
    ),
    *map(_band, range(WIDEST_WINDOW + 1)),
)
# Of `structure_of_heads`: bits per row, a column a family.
BITS = (
    Column("bits_diffuse", "diffuse (bits a row)", "Every key alike.", 2, "diffuse"),
    Column("bits_diagonal", "diagonal (bits a row)", "One offset within 5 tokens.", 2, "diagonal"),
    Column("bits_band", "band (bits a row)", "A band within 5 tokens.", 2, "band"),
    Column(
        "bits_rare_columns",
        "rare columns (bits a row)",
        "Blocks of rows that look at one token, placed per sentence.",
        2,
        "rare columns",
    ),
    Column(
        "bits_sink",
        "sink (bits a row)",
        "One of the first or last two tokens, for all rows.",
        2,
        "sink",
    ),
)
