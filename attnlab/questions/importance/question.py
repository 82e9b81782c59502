"""What `attnlab importance` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from attnlab.ablation import REPLACEMENTS
from attnlab.core import HEAD, HEAD_KEYS, Column, Estimate, InputError, Note, Option, Table
from attnlab.evaluation import (
    ABLATION_SENTENCES,
    LOSS_OPTION,
    SEED,
    SENTENCE_FLAGS,
    CorpusTextSettings,
    TextsAsked,
)
from attnlab.results import Question

FEWEST_SENTENCES = 4
REPLACED_BY = {
    "zero": "0",
    "mean": "its mean over training sentences",
    "uniform": "what it would be with equal weights on all visible keys",
}


def _replaced(name: str, measure: str) -> Estimate:
    """Change of loss or BLEU with each head replaced."""
    changed = (
        f"with the head's output, before the output projection, replaced by {REPLACED_BY[name]}"
    )
    unit, sign, digits, short = {
        "loss_change": ("the loss per token", "above", 4, "loss"),
        "bleu_change": ("BLEU (greedy)", "below", 2, "BLEU"),
    }[measure]
    change = Column(
        f"{name}_{measure}",
        f"{short.lower()}, {name}",
        f"Change of {unit}, {changed}; {sign} 0 the model needs the head.",
        digits,
        f"{short}\n{name}",
    )
    return Estimate(change, together="all heads in the column")


LOSS = {name: _replaced(name, "loss_change") for name in REPLACED_BY}
BLEU = {name: _replaced(name, "bleu_change") for name in REPLACED_BY}
CHANGES = (*LOSS.values(), *BLEU.values())
REMOVED_CHANGE = Estimate(
    Column("loss_change", "change of loss", "Its change from the whole model.", 3),
    "over sentences, for one step at a time",
)
IMPORTANCE = Table(
    "importance.csv",
    "head",
    (
        *HEAD,
        Column(
            "gradient_importance",
            "gradient (nats)",
            "Mean over sentences of the absolute derivative of a sentence's summed loss by a gate "
            "on the head, in nats per sentence.",
            3,
            "gradient",
        ),
        Column("gradient_standard_error", "standard error", "Its standard error.", 3),
        Column(
            "gradient_in_layer",
            "gradient in layer",
            "The same divided by the Euclidean norm of its layer.",
            3,
        ),
        *(column for change in CHANGES for column in change),
    ),
    keys=HEAD_KEYS,
)
CUMULATIVE = Table(
    "cumulative.csv",
    "order and number of heads",
    (
        Column(
            "order",
            "order",
            "Heads are removed one after another, the least important first: by `gradient`, by "
            "their `loss` alone, and at `random`. The order by gradient compares "
            "gradient_importance across layers as it is; Michel et al. 2019 divide by the norm of "
            "the layer first (gradient_in_layer), which is not tried as an order.",
        ),
        Column("heads_removed", "removed", "How many heads are removed."),
        Column("removed", "last removed", "The head that went last."),
        Column(
            "loss",
            "loss",
            "Loss per token: nats, or the distance that the result names.",
            3,
            "loss",
        ),
        *REMOVED_CHANGE,
        Column("replacement", "replacement", "What stands in for a removed head."),
        Column("bleu", "BLEU", "BLEU (greedy), at some numbers of heads.", 1),
        Column("chosen_on", "chosen on", "The sentences on which the orders are chosen."),
        Column("reported_on", "reported on", "The sentences on which loss and BLEU are measured."),
    ),
    keys=("order", "heads_removed"),
)
RANK_AGREEMENT = Table(
    "rank_agreement.csv",
    "pair of measures",
    (
        Column("measure", "measure", "A measure of importance."),
        Column("other", "other", "Another one."),
        Column(
            "spearman",
            "Spearman",
            "Rank correlation over heads; measures of BLEU are turned round, so that what the "
            "model needs ranks high in all. A head that another can stand in for costs little "
            "alone.",
            2,
        ),
        Column("heads", "heads", "How many heads have both."),
    ),
    keys=("measure", "other"),
)


@dataclass(frozen=True)
class NoGradients(Note):
    """The loss is a distance from the untouched model, so it is least there and has no gradient."""


@dataclass(frozen=True)
class NoMeans(Note):
    """Heads are not replaced by their mean, for a reason that is a sentence."""

    reason: str


@dataclass(frozen=True)
class NotUniform(Note):
    """Layers such as `encoder.0` whose scores do not come from the query alone."""

    layers: tuple[str, ...]


def names_in(text: str) -> tuple[str, ...]:
    """The names of a list with commas; none for the word `none`.

    >>> names_in("zero, mean"), names_in("none")
    (('zero', 'mean'), ())
    """
    return () if text == "none" else tuple(n.strip() for n in text.split(",") if n.strip())


@dataclass(frozen=True, kw_only=True)
class ImportanceSettings(CorpusTextSettings):
    """What `attnlab importance` can be told.

    Raises:
        InputError: a value out of range, no replacement, or BLEU for one that is not measured.
    """

    default_sentences: ClassVar[int] = ABLATION_SENTENCES
    sentences: Annotated[
        TextsAsked | None,
        Option(
            f"Maximum number of held-out sentences, {FEWEST_SENTENCES} or more.",
            SENTENCE_FLAGS,
            shown=str(default_sentences),
        ),
    ] = None
    replacements: Annotated[
        Sequence[str],
        Option(
            "Replacements of a head: any of zero, mean, uniform; commas between. Heads are "
            "removed by the first that all of them take. The mean is that of training sentences, which a "
            "run or corpus brings; else it needs calibration text.",
            choices=REPLACEMENTS,
            read=names_in,
        ),
    ] = REPLACEMENTS
    bleu: Annotated[
        Sequence[str] | None,
        Option(
            "Replacements, any of zero, mean, uniform, for which all sentences are translated without each "
            "head; or none.",
            choices=REPLACEMENTS,
            none="none",
            shown="the first replacement, where the model translates",
            read=names_in,
        ),
    ] = None
    points: Annotated[
        int,
        Option(
            "Number of points on the curve of removed heads at which BLEU is measured.", least=2
        ),
    ] = 10
    calibration: Annotated[
        TextsAsked,
        Option(
            "Maximum number of training sentences for the mean outputs of heads, the first of the run, the "
            "corpus or calibration text.",
            least=1,
        ),
    ] = 500
    calibration_text: Annotated[
        str | Path | None,
        Option(
            "File of training sentences for the mean outputs of heads, written like text; a run or corpus "
            "brings its own.",
            listed="calibration",
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
            if name not in self.replacements:
                msg = f"BLEU of {name} needs {name} among the replacements."
                raise InputError(msg)
        if self.brings_calibration and "mean" not in self.replacements:
            given = "calibration" if self.calibration_text is None else "calibration_text"
            msg = f"{given} is for the mean; name mean among the replacements, or leave it out."
            raise InputError(msg)
        count = self.wanted if isinstance(self.wanted, int) else len(self.wanted)
        if count < FEWEST_SENTENCES:
            msg = f"Importance needs at least {FEWEST_SENTENCES} sentences, not {count}."
            raise InputError(msg)

    @property
    def brings_calibration(self) -> bool:
        """Whether training sentences were handed in, of which nothing may be left out without a word."""
        return self.calibration_text is not None or not isinstance(self.calibration, int)


QUESTION = Question(
    name="importance",
    what="importance study",
    panel="Heads",
    help="Measure the importance of every head: gradients, heads removed alone, heads removed in turn.",
    settings=ImportanceSettings,
    tables=(IMPORTANCE, CUMULATIVE, RANK_AGREEMENT),
    run="attnlab.questions.importance.importance:importance",
    figures=("importance",),
    notes={
        NoGradients: "There are no gradients: the loss is a distance from the untouched model, whose own "
        "is 0 and cannot fall.",
        NoMeans: "Heads are not replaced by their mean: {reason}",
        NotUniform: lambda note: (
            f"Heads of {', '.join(note.layers)} cannot be made uniform, since their scores do not come "
            "from a projection of queries alone (one for queries, keys and values together, or positions or "
            "sinks in the scores); they are left out there."
        ),
    },
    source="A run of `attnlab train`, or a transformers model (folder, or name on the hub).",
    folder="importance",
    announced=True,
    printed=2,
)
