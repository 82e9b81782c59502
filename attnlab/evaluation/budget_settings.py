"""Options of questions on mechanisms within budgets of keys; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

from attnlab.budget import DEFAULT_BUDGET, check_budgets
from attnlab.core import Option
from attnlab.evaluation.shared_settings import (
    HELD_OUT,
    MEMORY,
    SEED,
    CalibratedSettings,
    TextsAsked,
)


@dataclass(frozen=True, kw_only=True)
class BudgetSettings(CalibratedSettings):
    """Options of a question on mechanisms within budgets of keys, which needs three parts of texts."""

    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, counted, on average over heads; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = field(default=(DEFAULT_BUDGET,), kw_only=False)
    quick: Annotated[bool, Option("Do not translate.", ("--quick",))] = False
    default_sentences: ClassVar[int] = 200
    sentences: Annotated[TextsAsked | None, replace(HELD_OUT, shown=str(default_sentences))] = None
    validation: Annotated[
        TextsAsked,
        Option(
            "Maximum number of validation sentences, which choose mechanisms and their settings.",
            least=1,
        ),
    ] = 200
    calibration: Annotated[
        TextsAsked,
        Option("Maximum number of training sentences, which mechanisms learn on.", least=1),
    ] = 500
    text: Annotated[
        str | Path | None,
        Option(
            "File of held-out sentences, one per line (for the decoder of an encoder-decoder: "
            "source, tab, translation); a run brings its own.",
            listed="sentences",
            names="texts",
        ),
    ] = None
    memory: Annotated[float | None, MEMORY] = None
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budgets(self.budgets)
