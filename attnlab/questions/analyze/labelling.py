"""What lies behind the labels of heads that a reader could not guess."""

import math
from collections.abc import Mapping

import pandas as pd

from attnlab.core import Note
from attnlab.evaluation import EveryRowHits
from attnlab.labels import (
    BORDERLINE,
    FREQUENT_TYPES,
    POSITIONAL,
    SINK_LABEL,
    UNDECIDED,
    Gold,
    Labeller,
    sink_curve,
)
from attnlab.questions.analyze.analysis_notes import (
    NoControls,
    NoTrees,
    SinksByThreshold,
    TooLittleCounted,
    TrainingCorpusUnknown,
    Unaligned,
    UndecidedLabel,
    VocabularyTooSmall,
)
from attnlab.reading import View
from attnlab.results import head_names

# Sentences differ in length, so a little more than the rule of three says.
_SPARE = 1.1
# Where nothing was counted, twice as many sentences are a first guess.
_NONE_COUNTED = 2
# Statistics that are shares of rows.
_OF_ROWS = ("argmax_rate", "argmax_accuracy")


def notes_on_labels(labeller: Labeller, available: int | None, *, controls: bool) -> list[Note]:
    """Notes on the labels that a labeller has counted for.

    Args:
        labeller: after its sentences were fed.
        available: how many sentences there are where these come from; None where that is not known.
        controls: whether there were any.
    """
    notes: list[Note] = [] if controls else [NoControls()]
    return notes + label_notes(
        labeller.functions.verdicts(labeller.views[0]),
        keys=labeller.views[0],
        gold=labeller.gold,
        available=available,
        unaligned=labeller.unaligned,
        corpus_known=labeller.corpus_known,
        paired=labeller.reading.sentences.paired,
        without_rare=labeller.functions.sites_without_rare_tokens(),
        contributions=bool(labeller.reading.values),
    )


def label_notes(
    verdicts: pd.DataFrame,
    *,
    keys: View,
    gold: Gold,
    available: int | None,
    unaligned: Mapping[str, str],
    corpus_known: bool,
    paired: bool,
    without_rare: Mapping[str, int],
    contributions: bool,
) -> list[Note]:
    """What lies behind labels that a reader could not guess.

    Args:
        verdicts: of the model in one view, one row per head and label.
        keys: that view.
        gold: the sentences.
        available: how many there are where these come from; None where that is not known.
        unaligned: why a sentence is not aligned with its words, by its identifier.
        corpus_known: whether frequencies of the training corpus are known.
        paired: whether they have translations, which the model reads.
        without_rare: how many types there are at each site that has too few for a rare token.
        contributions: whether contributions of keys were counted, and no weights.
    """
    notes: list[Note] = []
    if unaligned:
        notes.append(Unaligned(len(unaligned), *next(iter(unaligned.items()))))
    if not corpus_known:
        notes.append(TrainingCorpusUnknown())
    if not gold.trees:
        notes.append(NoTrees())
    if without_rare:
        most = max(without_rare.values())
        notes.append(VocabularyTooSmall(tuple(without_rare), most, FREQUENT_TYPES))
    sinks = sink_curve(verdicts)
    heads = int(verdicts.loc[verdicts["label"] == SINK_LABEL.name, "value"].notna().sum())
    if heads:
        notes.append(SinksByThreshold(keys, heads, tuple(sinks.items()), contributions))
    missing = verdicts["status"].isin([BORDERLINE, UNDECIDED])
    rows = verdicts[missing & (verdicts["value"] == 1) & verdicts["statistic"].isin(_OF_ROWS)]
    if len(rows):
        found = zip(head_names(rows), rows["detail"], strict=True)
        notes.append(EveryRowHits(tuple(f"{head}: {detail}" for head, detail in found)))
    return [*notes, *_too_little(verdicts, gold, available, treebank=not paired)]


def _too_little(
    verdicts: pd.DataFrame, gold: Gold, available: int | None, *, treebank: bool
) -> list[Note]:
    """One note on all labels that some head may carry and for which too little was counted."""
    short: dict[tuple[str, int, str], list[str]] = {}
    factor, least = 0.0, 0.0
    never_met = False
    undecided = verdicts[verdicts["status"] == UNDECIDED]
    for (site, label), rows in undecided.groupby(["site", "label"], sort=False):
        needed, counted = int(rows["needed"].max()), int(rows["counted"].max())
        key = (str(label), needed, str(rows["unit"].iloc[0]))
        short.setdefault(key, []).append(str(site))
        never_met = never_met or counted == 0
        factor = max(factor, _SPARE * needed / counted if counted else _NONE_COUNTED)
        if key[-1] == POSITIONAL.unit:
            # Each half needs them.
            least = max(least, 2 * _SPARE * needed)
    if not short:
        return []
    labels = tuple(
        UndecidedLabel(label, tuple(sites), needed, unit)
        for (label, needed, unit), sites in short.items()
    )
    advised = _rounded_up(math.ceil(max(len(gold.source) * factor, least)))
    return [
        TooLittleCounted(
            labels,
            advised,
            available,
            treebank=treebank,
            never_met=never_met,
            generated=gold.generated,
        )
    ]


def _rounded_up(number: int) -> int:
    """The number rounded up to two digits.

    >>> _rounded_up(1234), _rounded_up(97)
    (1300, 97)
    """
    unit = 10 ** max(len(str(number)) - 2, 0)
    return math.ceil(number / unit) * unit
