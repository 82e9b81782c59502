"""What `attnlab analyze` can be told, and what its columns mean; nothing heavy is imported."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from attnlab.budget import LEVEL
from attnlab.core import (
    HEAD,
    HEAD_KEYS,
    KEYS,
    SENTENCE_COUNT,
    Estimate,
    InputError,
    Option,
    Table,
    is_matrix_file,
    read_columns,
)
from attnlab.evaluation import HELD_OUT, MEMORY, SEED, CorpusTextSettings, TextsAsked
from attnlab.labels import (
    BEST_FAMILY,
    CONTROL,
    CONTROL_KIND,
    CONTROLS,
    DETAIL,
    LABELS,
    RELATIONS,
    SIGNIFICANT,
    STATISTIC,
    STRENGTH,
    STRUCTURE,
    STRUCTURE_TIE,
    VALUE,
)
from attnlab.questions.analyze import LISTED, analysis_notes
from attnlab.reading import (
    ATTENTION,
    AXES_OPTION,
    DISTANCES,
    HEADS,
    WEIGHTS_OPTION,
    check_axes,
)
from attnlab.results import Question

COLUMNS = read_columns(__file__)

FITS = Table(
    "fits.csv",
    "head and approximation",
    (
        *COLUMNS.of("site layer head approximation window"),
        LEVEL,
        *COLUMNS.of("max_entries l1 mean_error relative equal_weights sentences"),
    ),
    keys=(*HEAD_KEYS, "approximation", "window"),
)
FITS_BY_SENTENCE = Table(
    "fits_by_sentence.csv",
    "head, sentence and approximation",
    (
        *HEAD,
        *COLUMNS.of("sentence query_count key_count rows_measured approximation window"),
        LEVEL,
        *COLUMNS.of("max_entries l1 mean_error relative"),
    ),
    keys=(*HEAD_KEYS, "sentence", "approximation", "window"),
)
GENERATION_CHANGE = Estimate(COLUMNS["generation_change"])
GENERATED = Table(
    "generated.csv",
    "head and statistic",
    (
        *HEAD,
        STATISTIC,
        *COLUMNS.of("teacher_forced generated"),
        *GENERATION_CHANGE,
        SENTENCE_COUNT,
    ),
    keys=(*HEAD_KEYS, "statistic"),
)
ABLATION_CHANGE = Estimate(COLUMNS["ablation_loss_change"])
SUMMARY = Table(
    "summary.csv",
    "head",
    (
        *HEAD,
        KEYS,
        COLUMNS["role"],
        DETAIL,
        STATISTIC,
        VALUE.column,
        CONTROL,
        CONTROL_KIND,
        STRENGTH,
        COLUMNS["confirmed"],
        SIGNIFICANT,
        BEST_FAMILY,
        STRUCTURE_TIE,
        *ABLATION_CHANGE,
        COLUMNS["output"],
    ),
    keys=HEAD_KEYS,
)
# Of the column `output`: what a pruned head leaves.
PRUNED = "pruned"


SENTENCES = 200
LABELLED_SENTENCES = 1000
# Drawn of each text where one is too long for whole matrices.
ROWS = 256
# A pass over the sentences per head: minutes for a small model, an hour for a large one.
MOST_HEADS_ABLATED = 96
NOT_NORMALIZED = "none"
QUICK = Option(
    "Label heads without the controls, and leave out the loss without each head.", ("--quick",)
)


# Of `figures`: the heads whose matrices are drawn.
FIRST_HEADS, _ = DRAWN = ("first", "all")


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings(CorpusTextSettings):
    """What `attnlab analyze` can be told.

    Attributes:
        processes: `attnlab.core.processes.Processes` that share the sentences, which all call this alike
            inside `Processes.together`, and have the whole result each; None: this one alone.

    Raises:
        InputError: a value out of range, or an ablation without labels.
    """

    sentences: Annotated[
        TextsAsked | None,
        replace(
            HELD_OUT,
            help=f"{HELD_OUT.help} A file of matrices is read whole.",
            shown=f"{LABELLED_SENTENCES}, without labels {SENTENCES}",
        ),
    ] = None
    treebank: Annotated[
        str | Path | None,
        Option(
            "File of sentences with gold trees (.conllu or .conllu.gz). Labels the heads.",
            names="treebank",
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
        bool | None,
        Option(
            "Show first what heads do with special tokens ([CLS], [SEP], start, end) left out as "
            "keys. labels.csv, controls.csv and structure.csv hold both views either way.",
            ("--ignore-special/--with-special",),
            shown="where more than half of the heads are sinks otherwise",
        ),
    ] = None
    ablation: Annotated[
        bool | None,
        Option(
            "Set each head to zero too and measure the loss, beside labels.",
            ("--ablation/--no-ablation",),
            shown=f"where the model has a loss, and at most {MOST_HEADS_ABLATED} heads",
        ),
    ] = None
    weights: Annotated[str, WEIGHTS_OPTION] = ATTENTION
    seed: Annotated[int | None, replace(SEED, shown="that of the run, or 0")] = None
    array: Annotated[str | None, Option("Name of the array, in a file of several.")] = None
    axes: Annotated[Sequence[str] | None, AXES_OPTION] = None
    normalize: Annotated[
        str,
        Option("Divide every row of a file's matrices by its sum (rows), or not (none)."),
    ] = NOT_NORMALIZED
    memory: Annotated[float | None, MEMORY] = None
    generation: Annotated[
        bool,
        Option(
            "Read decoders also while they write themselves, beside teacher forcing.",
            ("--generation",),
        ),
    ] = False
    keep_matrices: Annotated[
        int, Option("Number of sentences whose matrices are kept.", least=0)
    ] = 3
    figures: Annotated[
        str,
        Option(
            "Heads whose kept matrices are drawn: first (the up to three that the page shows first) or all.",
            choices=DRAWN,
        ),
    ] = FIRST_HEADS
    show: Annotated[
        Sequence[str] | None,
        Option(
            "Sentence to keep and show before others; one that is not among those that are read is shown and "
            "counted nowhere. Repeat for several."
        ),
    ] = None
    fit_sentences: Annotated[
        int, Option("Number of sentences to fit structured matrices to; 0 for none.", least=0)
    ] = 100
    keep_fits: Annotated[
        bool, Option("Write the fits of every sentence too, beside their means.", ("--keep-fits",))
    ] = False
    processes: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes(self.axes)
        if self.ablation and not self.labelled:
            msg = "Ablation needs labels; ask for labels too, or leave it out."
            raise InputError(msg)

    def check_source(self, source: object) -> None:
        """Raises InputError for options of a model beside a file of matrices, and the other way round.

        A file of matrices is read whole, and has neither tokens nor a model.
        """
        if not is_matrix_file(source):
            given = {
                "array": self.array is not None,
                "axes": self.axes is not None,
                "normalize": self.normalize != NOT_NORMALIZED,
            }
            for name in (name for name, is_given in given.items() if is_given):
                msg = f"{name} is for files of matrices; leave it out for a model."
                raise InputError(msg)
            super().check_source(source)
            return
        for name in ("text", "corpus", "pair", "sentences", "show", "generation"):
            if getattr(self, name) not in (None, False):
                msg = f"{source} holds matrices and no sentences; leave {name} out, or analyze a model."
                raise InputError(msg)
        for name in ("device", "seed"):
            if getattr(self, name) is not None:
                msg = f"{source} holds matrices and no model; leave {name} out."
                raise InputError(msg)
        if self.weights != ATTENTION:
            msg = f"{source} holds matrices and no values; leave weights out, or analyze a model."
            raise InputError(msg)
        if self.labels or self.ablation or self.treebank is not None:
            msg = f"{source} has no tokens, so its heads cannot be labelled; analyze a model."
            raise InputError(msg)

    @property
    def labelled(self) -> bool:
        """Whether heads are labelled where there are tokens; a treebank asks for it too."""
        return self.labels is not False or self.treebank is not None

    @property
    def ablated(self) -> bool | None:
        """Whether each head is set to zero; None: where that can be done in a reasonable time."""
        ablation = False if self.quick and self.ablation is None else self.ablation
        return ablation if self.labelled else False

    @property
    def sentences_to_read(self) -> TextsAsked:
        """The sentences, or how many there are to be."""
        if self.sentences is not None:
            return self.sentences
        return LABELLED_SENTENCES if self.labelled else SENTENCES


# Loading a result looks for its notes among the classes that are imported.
_NOTES = analysis_notes

QUESTION = Question(
    **vars(LISTED),
    what="analysis",
    settings=AnalysisSettings,
    tables=(
        SUMMARY,
        HEADS,
        DISTANCES,
        FITS,
        FITS_BY_SENTENCE,
        LABELS,
        RELATIONS,
        CONTROLS,
        STRUCTURE,
        GENERATED,
    ),
    run="attnlab.questions.analyze.analysis:analyze",
    figures=("mass_by_offset", "distance_by_window", "heads_sentence*"),
    source="A run of `attnlab train`, a folder of a transformers model, its name on the hub, or a file of "
    "matrices (.npz, .npy, .safetensors; --sites says what they are).",
    sources=("model", "matrices"),
    keeps_matrices=True,
    folder="analysis",
)
