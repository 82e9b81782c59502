"""What `attnlab compare` can be told, and what the columns of its tables mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from attnlab.budget.bounds import LEAST_BUDGET, TOLERANCE
from attnlab.budget.columns import ERROR, KEYS_OVER_BUDGET, MASS, VISIBLE_KEYS
from attnlab.core.columns import HEAD, HEAD_KEYS, Column, Table, with_interval
from attnlab.core.errors import Note
from attnlab.core.options import Option
from attnlab.evaluation.shared_settings import MEMORY, SEED, SENTENCE_FLAGS, Sentences, TextSettings
from attnlab.results.question import Question

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
SPECIFICATION = Column(
    "written",
    "written",
    "The mechanism as `--attention` takes it, or in words where it is none that can be asked for "
    "(`fixed`, `sigma oracle`).",
)
WORK = Column(
    "multiply_adds",
    "multiply-adds",
    "Work on a sentence of mean length, per head; empty for `sigma oracle`.",
    0,
)
KEYS = (VISIBLE_KEYS, KEYS_OVER_BUDGET)
SUMMARY = Table(
    "summary.csv",
    "site, mechanism and budget, means over heads and sentences",
    (*CASE, *with_interval(MASS), *with_interval(ERROR), *KEYS, WORK),
    keys=("site", "budget", "mechanism"),
)
MECHANISMS_BY_HEAD = Table(
    "mechanisms_by_head.csv",
    "head, mechanism and budget, means over sentences",
    (*CASE, SPECIFICATION, WORK, LAYER, INDEX, MASS, ERROR, *KEYS),
    keys=(*HEAD_KEYS, "budget", "mechanism"),
)


@dataclass(frozen=True)
class WhatBoundsAre(Note):
    """What oracles are the best of, and how near the keys of a mechanism are to the budget."""


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings(TextSettings):
    """What `attnlab compare` can be told.

    Raises:
        InputError: a value out of range.
    """

    budgets: Annotated[
        Sequence[int],
        Option(
            f"Number of keys per row, counted on average, {LEAST_BUDGET} or more; may be given again.",
            ("--budget",),
            least=LEAST_BUDGET,
        ),
    ] = field(kw_only=False)
    sentences: Annotated[
        Sentences, Option("Maximum number of held-out sentences.", SENTENCE_FLAGS, least=1)
    ] = 200
    calibration: Annotated[
        Sentences, Option("Maximum number of training sentences to learn tables on.", least=1)
    ] = 500
    text: Annotated[
        str | Path | None,
        Option(
            "File of held-out sentences, one per line (for the decoder of an encoder-decoder: "
            "source, tab, translation); a run brings its own."
        ),
    ] = None
    calibration_text: Annotated[
        str | Path | None,
        Option("File of training sentences, written likewise; a run brings its own."),
    ] = None
    memory: Annotated[float | None, MEMORY] = None
    seed: Annotated[int, SEED] = 0


QUESTION = Question(
    name="compare",
    what="comparison",
    panel="What could replace them",
    help="Compare mechanisms with a model's full attention: mass captured and output error.\n\n"
    "Every row says its level: oracle (chosen from the matrices it is measured on), calibrated (on training "
    "sentences) or static.",
    settings=ComparisonSettings,
    tables=(SUMMARY, MECHANISMS_BY_HEAD),
    run="attnlab.questions.compare.comparison:compare",
    view="attnlab.questions.compare.view",
    figures=("mechanisms_*", "pareto_*"),
    notes={
        WhatBoundsAre: "An oracle captures most attention of its own kind and size (top-k: of single "
        "keys, sigma oracle: of a window and two columns), not of all, and need not have the least output "
        "error. Each mechanism has the size whose counted keys come nearest to "
        f"the budget without exceeding it by more than {TOLERANCE:.0%}; keys_over_budget in summary.csv says "
        "how far a row is from it.",
    },
)
