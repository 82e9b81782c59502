"""Options of a study of importance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from attnlab.attribution.replacements import REPLACEMENTS
from attnlab.errors import InputError
from attnlab.options import Option
from attnlab.studies.settings import SEED, SENTENCE_FLAGS, CorpusTextSettings, Sentences

# On so many of the first sentences each head is ablated, beside its label and by itself.
ABLATION_SENTENCES = 500
FEWEST_SENTENCES = 4


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

    sentences: Annotated[
        Sentences,
        Option(
            f"Maximum number of held-out sentences, {FEWEST_SENTENCES} or more.", SENTENCE_FLAGS
        ),
    ] = ABLATION_SENTENCES
    replacements: Annotated[
        Sequence[str],
        Option(
            "Replacements of a head: any of zero, mean, uniform; commas between. Heads are "
            "removed by the first that all of them take.",
            choices=REPLACEMENTS,
            read=names_in,
        ),
    ] = REPLACEMENTS
    bleu: Annotated[
        Sequence[str] | None,
        Option(
            "Replacements for which all sentences are translated without each head, or none.",
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
    training: Annotated[
        int, Option("Number of training sentences for the mean outputs of heads.", least=1)
    ] = 500
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
        count = self.sentences if isinstance(self.sentences, int) else len(self.sentences)
        if count < FEWEST_SENTENCES:
            msg = f"Importance needs at least {FEWEST_SENTENCES} sentences, not {count}."
            raise InputError(msg)
