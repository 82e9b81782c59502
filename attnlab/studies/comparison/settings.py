"""Options of a comparison of mechanisms."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from attnlab.options import Option
from attnlab.studies.settings import MEMORY, SEED, SENTENCE_FLAGS, Sentences, TextSettings

# BigBird's blocks need as many.
LEAST_BUDGET = 5
# A site may get this many times the budget, since rows at the borders of a sentence see fewer keys than
# those in the middle; so may a head of a plan, since others may do with less.
WIDEST = 3
# Settings see at most this share of the budget more, counted on held-out sentences.
TOLERANCE = 0.02


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
