"""What `attnlab importance` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from attnlab.ablation import REPLACEMENTS
from attnlab.core import (
    BLEU_CHANGE,
    HEAD,
    HEAD_KEYS,
    LOSS_CHANGE,
    InputError,
    Note,
    Option,
    Table,
    read_columns,
)
from attnlab.evaluation import (
    ABLATION_SENTENCES,
    HELD_OUT,
    LOSS_OPTION,
    SEED,
    CorpusTextSettings,
    TextsAsked,
    words_in,
)
from attnlab.questions.importance import LISTED
from attnlab.results import Question

COLUMNS = read_columns(__file__)

FEWEST_SENTENCES = 4
# The replacement that is named first.
FIRST = "first"
# Of few sentences there is neither p-value nor significance.
LOSS_TESTED, BLEU_TESTED = TESTED = tuple(
    replace(change, together="all heads that are replaced in the same way")
    for change in (LOSS_CHANGE, BLEU_CHANGE)
)
IMPORTANCE = Table(
    "importance.csv",
    "head",
    (
        *HEAD,
        *COLUMNS.of("gradient_importance gradient_standard_error gradient_in_layer"),
        *LOSS_TESTED,
        *BLEU_TESTED,
    ),
    keys=HEAD_KEYS,
    heading="Every head: gradient, and what changes without it",
)
REPLACED = Table(
    "replaced.csv",
    "head and way to replace it",
    (*HEAD, COLUMNS["way"], *LOSS_TESTED, *BLEU_TESTED),
    keys=(*HEAD_KEYS, "way"),
    heading="Every head replaced alone",
)
CUMULATIVE = Table(
    "cumulative.csv",
    "order and number of heads",
    (
        *COLUMNS.of("order heads_removed removed loss"),
        *LOSS_CHANGE,
        *COLUMNS.of("replacement bleu chosen_on reported_on"),
    ),
    keys=("order", "heads_removed"),
    heading="Heads removed one after another",
)
RANK_AGREEMENT = Table(
    "rank_agreement.csv",
    "pair of measures",
    COLUMNS.of("measure other spearman head_count"),
    keys=("measure", "other"),
    heading="Do the measures agree?",
)


@dataclass(frozen=True)
class NoGradients(Note):
    """The loss is a distance from the untouched model, so it is least there and has no gradient."""

    words = (
        "There are no gradients: the loss is a distance from the untouched model, whose own is 0 and cannot"
        " fall."
    )


@dataclass(frozen=True)
class NoMeans(Note):
    """Heads are not replaced by their mean, for a reason that is a sentence."""

    words = "Heads are not replaced by their mean: {reason}"

    reason: str


@dataclass(frozen=True)
class NotUniform(Note):
    """Layers such as `encoder.0` whose scores do not come from the query alone."""

    words = (
        "Heads of {layers} cannot be made uniform, since their scores do not come from a projection of "
        "queries alone (one for queries, keys and values together, or positions or sinks in the scores); "
        "they are left out there."
    )

    layers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ImportanceSettings(CorpusTextSettings):
    """What `attnlab importance` can be told.

    Raises:
        InputError: a value out of range, no replacement, or BLEU for one that is not measured.
    """

    default_sentences: ClassVar[int] = ABLATION_SENTENCES
    sentences: Annotated[
        TextsAsked | None, replace(HELD_OUT, least=FEWEST_SENTENCES, shown=str(default_sentences))
    ] = None
    replacements: Annotated[
        Sequence[str],
        Option(
            "Replacements of a head: any of zero, mean (over training sentences), uniform; commas between. "
            "Heads are removed one after another by the first that all of them take.",
            choices=REPLACEMENTS,
            read=words_in,
        ),
    ] = REPLACEMENTS
    bleu: Annotated[
        Sequence[str] | None,
        Option(
            "Replacements, any of zero, mean, uniform, for which all sentences are translated without each "
            f"head; {FIRST}: the first of them, where the model translates; or none.",
            choices=(*REPLACEMENTS, FIRST),
            none="none",
            read=words_in,
        ),
    ] = (FIRST,)
    points: Annotated[
        int,
        Option("Number of points on the curve of removed heads where BLEU is measured.", least=2),
    ] = 10
    calibration: Annotated[
        TextsAsked,
        Option("Maximum number of training sentences for the mean outputs of heads.", least=1),
    ] = 500
    calibration_text: Annotated[
        str | Path | None,
        Option(
            "File of training sentences, which a run or corpus brings.",
            listed="calibration",
            names="texts",
        ),
    ] = None
    loss: Annotated[str | None, LOSS_OPTION] = None
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.replacements:
            msg = f"No replacement is named; choose from: {', '.join(REPLACEMENTS)}."
            raise InputError(msg)
        for name in self.bleu or ():
            if name not in (*self.replacements, FIRST):
                msg = f"BLEU of {name} needs {name} among the replacements."
                raise InputError(msg)
        if self.brings_calibration and "mean" not in self.replacements:
            given = "calibration" if self.calibration_text is None else "calibration_text"
            msg = f"{given} is for the mean; name mean among the replacements, or leave it out."
            raise InputError(msg)

    @property
    def brings_calibration(self) -> bool:
        """Whether training sentences were handed in, of which nothing may be left out without a word."""
        return self.calibration_text is not None or not isinstance(self.calibration, int)


QUESTION = Question(
    **vars(LISTED),
    what="importance study",
    settings=ImportanceSettings,
    tables=(IMPORTANCE, REPLACED, CUMULATIVE, RANK_AGREEMENT),
    run="attnlab.questions.importance.importance:importance",
    figures=("importance", "removed"),
    folder="importance",
    announced=True,
    printed=3,
    shows=("head", "gradient_importance", LOSS_CHANGE.name, BLEU_CHANGE.name),
    leading=LOSS_CHANGE.name,
)
