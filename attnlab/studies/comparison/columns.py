"""The columns of a comparison."""

from attnlab.columns import HEAD, HEAD_KEYS, Column, Table
from attnlab.studies.comparison.settings import TOLERANCE

SITE, LAYER, INDEX = HEAD
CASE = (
    SITE,
    Column(
        "budget",
        "budget",
        "Keys per row, counted. Each mechanism has the size that gives most of them on held-out "
        f"sentences, at most {TOLERANCE:.0%} more where a size does.",
    ),
    Column(
        "mechanism",
        "mechanism",
        "Name of the mechanism and what distinguishes it. `linear favor` and `linformer` have the "
        "size whose work is nearest to that of the band; the other linear kinds have no size.",
    ),
    Column(
        "level",
        "level",
        "`oracle`, chosen from the matrices it is measured on, a bound and no method; "
        "`calibrated`, on training sentences; `static`, without looking at any.",
    ),
)
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
WORK = Column(
    "multiply_adds",
    "multiply-adds",
    "Work on a sentence of mean length, per head; empty for `sigma oracle`.",
    0,
)


def _with_interval(column: Column) -> tuple[Column, ...]:
    end = "end of its 95 % interval, a bootstrap over sentences."
    return (
        column,
        Column(f"{column.name}_low", f"{column.heading}, low", f"Lower {end}", 3),
        Column(f"{column.name}_high", f"{column.heading}, high", f"Upper {end}", 3),
    )


MECHANISMS_BY_HEAD = Table(
    "mechanisms_by_head.csv",
    "head, mechanism and budget, means over sentences",
    (
        *CASE,
        Column(
            "written",
            "written",
            "The mechanism as `--attention` takes it, or in words where it is none that can be "
            "asked for (`fixed`, `sigma oracle`).",
        ),
        WORK,
        LAYER,
        INDEX,
        MASS,
        ERROR,
        VISIBLE_KEYS,
        KEYS_OVER_BUDGET,
    ),
    keys=(*HEAD_KEYS, "budget", "mechanism"),
)
SUMMARY = Table(
    "summary.csv",
    "site, mechanism and budget, means over heads and sentences",
    (*CASE, *_with_interval(MASS), *_with_interval(ERROR), VISIBLE_KEYS, KEYS_OVER_BUDGET, WORK),
    keys=("site", "budget", "mechanism"),
)
TABLES = (MECHANISMS_BY_HEAD, SUMMARY)
