"""The columns of what mechanisms are measured by; nothing heavy is imported."""

from attnlab.core.columns import Column

MASS = Column(
    "mass_fraction",
    "attention captured",
    "Share of full attention on the pairs that the mechanism counts, 0 to 1; empty where it has no "
    "support.",
    3,
)
ERROR = Column(
    "output_error",
    "output error",
    "|X V - H V| / |H V|, Frobenius norms over a head and sentence: 0 is exact, 1 is as far as an "
    "output of zeros. H is full attention, X the mechanism's matrix, V the values.",
    3,
)
VISIBLE_KEYS = Column(
    "visible_keys",
    "keys per row",
    "Attended keys per query, on average: fewer at the ends of a sentence, more where global tokens "
    "attend to all, 1 for a fixed pattern.",
    2,
)
KEYS_OVER_BUDGET = Column(
    "keys_over_budget",
    "over budget",
    "Keys per row less the budget: rows far from 0 are not at the budget that they are listed under. Below 0 "
    "where sentences are too short for more keys, and for a fixed pattern.",
    2,
)
