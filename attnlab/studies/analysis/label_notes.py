"""What is to be known of labels: what they were counted on, and what was too little."""

import math
from collections.abc import Mapping

import pandas as pd

from attnlab.functions.labels.rare import FREQUENT_TYPES
from attnlab.functions.verdict import UNDECIDED
from attnlab.notes import Note
from attnlab.studies.analysis.notes import (
    NoTrees,
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
    sentences: int,
    there: int | None,
    unaligned: Mapping[str, str],
    corpus_known: bool,
    trees: bool,
    paired: bool,
    without_rare: Mapping[str, int],
) -> list[Note]:
    """What lies behind labels that a reader could not guess.

    Args:
        verdicts: of the model, one row per head and label.
        sentences: how many were looked at.
        there: how many there are where these come from; None where that is not known.
        unaligned: why a sentence is not aligned with its words, by its identifier.
        corpus_known: whether frequencies of the training corpus are known.
        trees: whether the sentences have gold trees.
        paired: whether they have translations, which the model reads.
        without_rare: how many types there are at each site that has too few for a rare token.
    """
    found: list[Note] = []
    if unaligned:
        found.append(Unaligned(len(unaligned), *next(iter(unaligned.items()))))
    if not corpus_known:
        found.append(TrainingCorpusUnknown())
    if not trees:
        found.append(NoTrees())
    if without_rare:
        most = max(without_rare.values())
        found.append(VocabularyTooSmall(tuple(without_rare), most, FREQUENT_TYPES))
    return [*found, *_too_little(verdicts, sentences, there, treebank=not paired)]


def _too_little(
    verdicts: pd.DataFrame, sentences: int, there: int | None, *, treebank: bool
) -> list[Note]:
    """One note on all labels for which too little was counted."""
    short: dict[tuple[str, int, str], list[str]] = {}
    factor = 0.0
    never_met = False
    for (site, label), rows in verdicts.groupby(["site", "label"], sort=False):
        if not (rows["status"] == UNDECIDED).all():
            continue
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
    wanted = _rounded_up(math.ceil(sentences * factor))
    return [TooLittleCounted(labels, wanted, there, treebank=treebank, never_met=never_met)]


def _rounded_up(number: int) -> int:
    """To two digits.

    >>> _rounded_up(1234), _rounded_up(97)
    (1300, 97)
    """
    unit = 10 ** max(len(str(number)) - 2, 0)
    return math.ceil(number / unit) * unit
