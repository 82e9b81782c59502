"""Options of an analysis."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from attnlab.core.errors import InputError
from attnlab.core.options import Option
from attnlab.evaluation.shared_settings import (
    MEMORY,
    SEED,
    SENTENCE_FLAGS,
    CorpusTextSettings,
    Sentences,
)

SENTENCES = 200
LABELLED_SENTENCES = 1000
# A pass over the sentences per head: minutes for a small model, an hour for a large one.
MOST_HEADS_ABLATED = 96
NOT_NORMALIZED = "none"
QUICK = Option(
    "Label heads without the controls, and leave out the loss without each head.", ("--quick",)
)


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings(CorpusTextSettings):
    """What `attnlab analyze` can be told.

    Raises:
        InputError: a value out of range, or an ablation without labels.
    """

    sentences: Annotated[
        Sentences | None,
        Option(
            "Maximum number of held-out sentences. A file of matrices is read whole.",
            SENTENCE_FLAGS,
            least=1,
            shown=f"{LABELLED_SENTENCES}, without labels {SENTENCES}",
        ),
    ] = None
    treebank: Annotated[
        str | Path | None,
        Option(
            "File of sentences with gold trees (.conllu or .conllu.gz). Labels the heads.",
        ),
    ] = None
    labels: Annotated[
        bool | None,
        Option(
            "Say what each head does, with an untrained model and shuffled words as controls.",
            ("--labels/--no-labels",),
            shown="where there are tokens",
        ),
    ] = None
    quick: Annotated[bool, QUICK] = False
    structure_sentences: Annotated[
        int,
        Option("Number of sentences that decide the structure of each head; 0 for none.", least=0),
    ] = 100
    ignore_special: Annotated[
        bool,
        Option(
            "Show first what heads do with special tokens ([CLS], [SEP], start, end) left out as "
            "keys. The tables hold both views either way.",
            ("--ignore-special",),
        ),
    ] = False
    ablation: Annotated[
        bool | None,
        Option(
            "Set each head to zero too and measure the loss, beside labels.",
            ("--ablation/--no-ablation",),
            shown=f"where the model has a loss, and at most {MOST_HEADS_ABLATED} heads",
        ),
    ] = None
    seed: Annotated[int | None, replace(SEED, shown="that of the run, or 0")] = None
    array: Annotated[str | None, Option("Name of the array, in a file of several.")] = None
    normalize: Annotated[
        str,
        Option("Divide every row of a file's matrices by its sum (rows), or not (none)."),
    ] = NOT_NORMALIZED
    memory: Annotated[float | None, MEMORY] = None
    keep_matrices: Annotated[
        int, Option("Number of sentences whose matrices are kept and drawn.", least=0)
    ] = 3
    show: Annotated[
        Sequence[str] | None,
        Option(
            "Sentence, among those that are read, to keep and show before others. Repeat for several."
        ),
    ] = None
    fit_sentences: Annotated[
        int, Option("Number of sentences to fit structured matrices to; 0 for none.", least=0)
    ] = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ablation and not self.labelled:
            msg = "Ablation needs labels; ask for labels too, or leave it out."
            raise InputError(msg)

    def check_options_of_files(self) -> None:
        """Raises InputError for options that a file of matrices has a use for, and a model has not."""
        given = {"array": self.array is not None, "normalize": self.normalize != NOT_NORMALIZED}
        for name in (name for name, is_given in given.items() if is_given):
            msg = f"{name} is for files of matrices; leave it out for a model."
            raise InputError(msg)

    @property
    def labelled(self) -> bool:
        """Whether heads are labelled where there are tokens; a treebank asks for it too."""
        return self.labels is not False or self.treebank is not None

    @property
    def ablated(self) -> bool | None:
        """Whether each head is set to zero; None: where that can be done in a reasonable time."""
        wanted = False if self.quick and self.ablation is None else self.ablation
        return wanted if self.labelled else False

    @property
    def wanted(self) -> Sentences:
        """The sentences, or how many there are to be."""
        if self.sentences is not None:
            return self.sentences
        return LABELLED_SENTENCES if self.labelled else SENTENCES
