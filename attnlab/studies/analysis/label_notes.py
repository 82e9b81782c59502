"""What is to be known of labels: what they were counted on, and what was too little."""

import math
from collections.abc import Mapping

import pandas as pd

from attnlab.core.errors import Note
from attnlab.labels.gold import Gold
from attnlab.labels.rare import FREQUENT_TYPES
from attnlab.labels.sink import SINK_LABEL, sink_curve
from attnlab.labels.verdict import UNDECIDED
from attnlab.reading.weights import View
from attnlab.studies.analysis.notes import (
    NoTrees,
    SinksByThreshold,
    TooLittleCounted,
    TrainingCorpusUnknown,
    Unaligned,
    UndecidedLabel,
    VocabularyTooSmall,
)

# Sentences differ in length, so a little more than the rule of three says.
_SPARE = 1.1
# Where nothing was counted, twice as many sentences are a first guess.
_NONE_COUNTED = 2


def label_notes(
    verdicts: pd.DataFrame,
    *,
    keys: View,
    gold: Gold,
    there: int | None,
    unaligned: Mapping[str, str],
    corpus_known: bool,
    paired: bool,
    without_rare: Mapping[str, int],
) -> list[Note]:
    """What lies behind labels that a reader could not guess.

    Args:
        verdicts: of the model in one view, one row per head and label.
        keys: that view.
        gold: the sentences.
        there: how many there are where these come from; None where that is not known.
        unaligned: why a sentence is not aligned with its words, by its identifier.
        corpus_known: whether frequencies of the training corpus are known.
        paired: whether they have translations, which the model reads.
        without_rare: how many types there are at each site that has too few for a rare token.
    """
    found: list[Note] = []
    if unaligned:
        found.append(Unaligned(len(unaligned), *next(iter(unaligned.items()))))
    if not corpus_known:
        found.append(TrainingCorpusUnknown())
    if not gold.trees:
        found.append(NoTrees())
    if without_rare:
        most = max(without_rare.values())
        found.append(VocabularyTooSmall(tuple(without_rare), most, FREQUENT_TYPES))
    sinks = sink_curve(verdicts)
    heads = int((verdicts["label"] == SINK_LABEL.name).sum())
    if heads:
        found.append(SinksByThreshold(keys, heads, tuple(sinks.items())))
    return [*found, *_too_little(verdicts, gold, there, treebank=not paired)]


def _too_little(
    verdicts: pd.DataFrame, gold: Gold, there: int | None, *, treebank: bool
) -> list[Note]:
    """One note on all labels that some head may carry and for which too little was counted."""
    short: dict[tuple[str, int, str], list[str]] = {}
    factor = 0.0
    never_met = False
    undecided = verdicts[verdicts["status"] == UNDECIDED]
    for (site, label), rows in undecided.groupby(["site", "label"], sort=False):
        needed, counted = int(rows["needed"].max()), int(rows["counted"].max())
        key = (str(label), needed, str(rows["unit"].iloc[0]))
        short.setdefault(key, []).append(str(site))
        never_met = never_met or counted == 0
        factor = max(factor, _SPARE * needed / counted if counted else _NONE_COUNTED)
    if not short:
        return []
    labels = tuple(
        UndecidedLabel(label, tuple(sites), needed, unit)
        for (label, needed, unit), sites in short.items()
    )
    wanted = _rounded_up(math.ceil(len(gold.source) * factor))
    return [
        TooLittleCounted(
            labels,
            wanted,
            there,
            treebank=treebank,
            never_met=never_met,
            generated=gold.generated,
        )
    ]


def _rounded_up(number: int) -> int:
    """To two digits.

    >>> _rounded_up(1234), _rounded_up(97)
    (1300, 97)
    """
    unit = 10 ** max(len(str(number)) - 2, 0)
    return math.ceil(number / unit) * unit
