"""Options of the plan search."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from attnlab.core.errors import InputError
from attnlab.core.options import BATCH_SIZE, Option
from attnlab.evaluation.shared_settings import SEED, SENTENCE_FLAGS, StudySettings, words_in

# The family of heads that see no key.
NOTHING = "none"
# What a head may get; `full` alone grows with the sentence, so it has to be asked for.
FAMILIES = (NOTHING, "band", "offsets", "ends", "tokens", "blocks", "static", "full")
DEFAULT_FAMILIES = FAMILIES[:-1]


@dataclass(frozen=True, kw_only=True)
class PlanSettings(StudySettings):
    """What `attnlab plan` can be told.

    Raises:
        InputError: a value out of range, or no budget or family.
    """

    budgets: Annotated[
        Sequence[int],
        Option(
            "Number of keys per row, on average over all heads; may be given again.",
            ("--budget",),
            least=1,
        ),
    ] = field(kw_only=False)
    sentences: Annotated[
        int, Option("Maximum number of test sentences.", SENTENCE_FLAGS, least=1)
    ] = 500
    validation: Annotated[
        int,
        Option("Maximum number of validation sentences, which choose the mechanisms.", least=1),
    ] = 300
    calibration: Annotated[
        int,
        Option("Maximum number of training sentences, which candidates are learned on.", least=1),
    ] = 500
    families: Annotated[
        Sequence[str],
        Option(
            f"What a head may get: any of {', '.join(FAMILIES)}; commas between.",
            choices=FAMILIES,
            shown="all but full",
            read=words_in,
        ),
    ] = DEFAULT_FAMILIES
    bleu: Annotated[
        bool,
        Option(
            "Translate the test sentences with every plan, which takes most of the time.",
            ("--bleu/--no-bleu",),
        ),
    ] = True
    batch_size: Annotated[
        int, Option("Maximum number of sentences in one forward pass.", least=1, most=100_000)
    ] = BATCH_SIZE
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.budgets:
            msg = "There is no budget; give at least one, such as 9."
            raise InputError(msg)
        if not self.families:
            msg = f"There is no family of mechanisms; choose from: {', '.join(FAMILIES)}."
            raise InputError(msg)
