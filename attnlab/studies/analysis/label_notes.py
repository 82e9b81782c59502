"""What a reader must know of labels before trusting them, in as few sentences as say it."""

import math
from collections.abc import Mapping

import pandas as pd

from attnlab.functions.verdict import UNDECIDED

# Sentences differ in length, so a little more than the rule of three says.
_SPARE = 1.1
# Where nothing was counted, twice as many sentences are a first guess.
_NONE_COUNTED = 2


def label_notes(
    verdicts: pd.DataFrame,
    *,
    sentences: int,
    unaligned: Mapping[str, str],
    corpus_known: bool,
    trees: bool,
    all_read: bool = False,
) -> list[str]:
    """Sentences for the reader.

    Args:
        verdicts: of the model, one row per head and label.
        sentences: how many were looked at.
        unaligned: why a sentence is not aligned with its words, by its identifier.
        corpus_known: whether frequencies of the training corpus are known.
        trees: whether the sentences have gold trees.
        all_read: whether there are no more sentences where these came from.
    """
    found = []
    if unaligned:
        identifier, reason = next(iter(unaligned.items()))
        count = len(unaligned)
        what = "1 sentence is" if count == 1 else f"{count} sentences are"
        found.append(
            f"{what} not aligned with words, so trees and alignments of that many are not counted "
            f"(the first: {identifier}, {reason})."
        )
    if not corpus_known:
        found.append(
            "The training corpus is not known, so rare tokens are those that are rare in the "
            "sentences analyzed."
        )
    if not trees:
        found.append(
            "These sentences have no gold trees, so no head can be called syntactic; give some "
            "with --treebank FILE.conllu."
        )
    # A treebank has no translations, so it reaches neither decoder nor cross-attention of a pair.
    pairs = "cross" in set(verdicts["site"])
    others = "--treebank" if trees and not pairs else "--text or --corpus"
    return [*found, *_too_little(verdicts, sentences, others if all_read else None)]


def _too_little(verdicts: pd.DataFrame, sentences: int, others: str | None) -> list[str]:
    """One sentence about all labels for which too little was counted, with what to do."""
    short: dict[tuple[str, int, str], list[str]] = {}
    factor = 0.0
    hopeless = False
    for (site, label), rows in verdicts.groupby(["site", "label"], sort=False):
        if not (rows["status"] == UNDECIDED).all():
            continue
        needed, counted = int(rows["needed"].max()), int(rows["counted"].max())
        key = (str(label), needed, str(rows["unit"].iloc[0]))
        short.setdefault(key, []).append(str(site))
        hopeless = hopeless or counted == 0
        factor = max(factor, _SPARE * needed / counted if counted else _NONE_COUNTED)
    if not short:
        return []
    number = _rounded_up(math.ceil(sentences * factor))
    advice = f"look at about {number:,} sentences (--sentences {number})"
    if others is None:
        advice += " if there are that many"
    else:
        advice += f", more than the {sentences:,} there are here: name others ({others})"
    if hopeless:
        advice += "; what was never met needs other sentences (--text, --corpus or --treebank)"
    what = "; ".join(
        f"'{label}' in {', '.join(sites)} (fewer than {needed:,} {unit})"
        for (label, needed, unit), sites in short.items()
    )
    told = f"Too little was counted for some labels, in one half of the sentences: {what}."
    return [f"{told} To decide them, {advice}."]


def _rounded_up(number: int) -> int:
    """To two digits.

    >>> _rounded_up(1234), _rounded_up(97)
    (1300, 97)
    """
    unit = 10 ** max(len(str(number)) - 2, 0)
    return math.ceil(number / unit) * unit
