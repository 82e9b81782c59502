"""Options of pruning."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from attnlab.errors import InputError
from attnlab.options import Option
from attnlab.studies.settings import SEED, SENTENCE_FLAGS, StudySettings

# Nats per token for an open head: from nearly all heads left to nearly none.
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
STEPS = 300


@dataclass(frozen=True, kw_only=True)
class PruningSettings(StudySettings):
    """What `attnlab prune` can be told.

    Raises:
        InputError: a value out of range, penalties that files cannot tell apart, or two lengths.
    """

    penalties: Annotated[
        Sequence[float],
        Option(
            "Price of an open head, in nats per token; may be given again.",
            ("--penalty",),
            least=0,
        ),
    ] = field(default=PENALTIES, kw_only=False)
    sentences: Annotated[
        int,
        Option(
            "Maximum number of sentences to measure on, of validation and of test.",
            SENTENCE_FLAGS,
            least=1,
        ),
    ] = 1000
    steps: Annotated[
        int | None,
        Option("Number of training batches at each penalty.", above=0, shown=str(STEPS)),
    ] = None
    epochs: Annotated[
        float | None, Option("Number of passes over the training pairs, instead of steps.", above=0)
    ] = None
    train_model: Annotated[
        bool,
        Option(
            "Train the model along with the gates, or (--frozen) the gates alone.",
            ("--train-model/--frozen",),
        ),
    ] = True
    random: Annotated[
        bool,
        Option(
            "Close as many random heads too, for comparison; doubles the time.",
            ("--random/--no-random",),
        ),
    ] = True
    batch_tokens: Annotated[
        int | None,
        Option("Number of tokens per batch and side.", above=0, shown="as the run was trained"),
    ] = None
    seed: Annotated[int, SEED] = 0
    keep_models: Annotated[
        bool,
        Option("Write every pruned model as a run, to OUT/models/penalty_X.", ("--save",)),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.penalties:
            msg = "There is no penalty; give at least one, such as 0.03."
            raise InputError(msg)
        if len({f"{penalty:g}" for penalty in self.penalties}) < len(set(self.penalties)):
            msg = (
                f"Of the penalties {', '.join(map(str, self.penalties))} two are the same in six "
                "digits, and files name them so; leave one out."
            )
            raise InputError(msg)
        if self.steps is not None and self.epochs is not None:
            msg = "Give either steps or epochs, not both."
            raise InputError(msg)

    def steps_of(self, steps_in_epoch: int) -> int:
        """How many batches of training each penalty has."""
        if self.epochs is not None:
            return max(1, round(self.epochs * steps_in_epoch))
        return self.steps or STEPS
