"""Notes on results as sentences: the one place where they are put into words."""

from collections.abc import Iterable
from functools import singledispatch

from attnlab.extraction.notes import RowsNotNormalized, SentencesDropped
from attnlab.notes import Note
from attnlab.studies.analysis.notes import (
    LayersHeldAtOnce,
    LearnedSink,
    NoLoss,
    NoTrees,
    RowsWithoutKeys,
    TooLargeToKeep,
    TooLittleCounted,
    TrainingCorpusUnknown,
    Unaligned,
)
from attnlab.studies.comparison.notes import MechanismLeftOut, WhatBoundsAre
from attnlab.studies.importance.notes import NoMeans, NotUniform
from attnlab.studies.notes import FewerThanAsked, FewForIntervals, FewForMeans, NoTranslations
from attnlab.studies.pruning.notes import AllHeadsClosed, GatesNotSettled, NoHeadClosed


def describe_notes(notes: Iterable[Note]) -> list[str]:
    """Sentences of the notes of a result, such as `analyze(...).notes`, in their order.

    Raises:
        NotImplementedError: a kind of note that has no words here.
    """
    return [describe(note) for note in notes]


@singledispatch
def describe(note: Note) -> str:
    """One or two sentences of a note.

    Raises:
        NotImplementedError: a kind of note that has no words here.
    """
    msg = f"{type(note).__name__} has no words; register some with describe.register."
    raise NotImplementedError(msg)


@describe.register
def _(note: SentencesDropped) -> str:
    part = f"{note.part} " if note.part else ""
    were = "was" if note.count == 1 else "were"
    return f"{note.count} of {note.total} {part}sentences {were} left out: {note.reason}."


@describe.register
def _(note: RowsNotNormalized) -> str:
    if note.kept:
        return "Some rows do not sum to 1, as in a file of half precision; --normalize rows helps."
    return (
        f"Rows do not sum to 1 (from {note.lowest:.3f} to {note.highest:.3f}), perhaps because "
        "dropout was on; --normalize rows divides each by its sum."
    )


@describe.register
def _(note: FewForMeans) -> str:
    return f"Only {_sentences(note.sentences)}: means may be far from those of a corpus."


@describe.register
def _(note: FewForIntervals) -> str:
    return (
        f"Only {_sentences(note.sentences)}: intervals are wide, and little can be told from "
        "chance."
    )


@describe.register
def _(note: FewerThanAsked) -> str:
    return f"{note.asked} sentences were asked for; {note.origin} has {note.there}."


@describe.register
def _(_note: NoTranslations) -> str:
    return (
        "The heads of decoder and cross-attention are left out, since the sentences have no "
        "translations; a line of a file can hold a sentence, a tab and its translation."
    )


@describe.register
def _(_note: LayersHeldAtOnce) -> str:
    return (
        "This model's layers could not be read one at a time, so all layers of a batch were held "
        "in memory at once."
    )


@describe.register
def _(note: RowsWithoutKeys) -> str:
    rows = "1 row of attention saw" if note.rows == 1 else f"{note.rows} rows of attention saw"
    return f"{rows} no key at all; entropy 0 is counted there."


@describe.register
def _(note: LearnedSink) -> str:
    return (
        f"A learned sink beside the keys takes {note.mass_fraction:.0%} of a row on average, so rows "
        "sum to less than 1; distances between heads are lower bounds."
    )


@describe.register
def _(note: TooLargeToKeep) -> str:
    room = f"{note.most_bytes / 2**20:g} MiB"
    return f"{note.count} of the {note.wanted} sentences to keep were too large for {room}."


@describe.register
def _(note: Unaligned) -> str:
    what = "1 sentence is" if note.count == 1 else f"{note.count} sentences are"
    return (
        f"{what} not aligned with words, so trees and alignments of that many are not counted (the "
        f"first: {note.first}, {note.reason})."
    )


@describe.register
def _(_note: TrainingCorpusUnknown) -> str:
    return (
        "The training corpus is not known, so rare tokens are those that are rare in the sentences "
        "analyzed."
    )


@describe.register
def _(_note: NoTrees) -> str:
    return (
        "These sentences have no gold trees, so no head can be called syntactic; give some with "
        "--treebank FILE.conllu."
    )


@describe.register
def _(note: TooLittleCounted) -> str:
    what = "; ".join(
        f"'{one.label}' in {', '.join(one.sites)} (fewer than {one.needed:,} {one.unit})"
        for one in note.labels
    )
    advice = f"look at about {note.wanted:,} sentences (--sentences {note.wanted})"
    if note.there is None:
        advice += " if there are that many"
    elif note.there < note.wanted:
        others = "--treebank" if note.treebank else "--text or --corpus"
        advice += f", more than the {note.there:,} there are here: name others ({others})"
    else:
        advice += f", of the {note.there:,} there are"
    if note.never_met:
        advice += "; what was never met needs other sentences (--text, --corpus or --treebank)"
    told = f"Too little was counted for some labels, in one half of the sentences: {what}."
    return f"{told} To decide them, {advice}."


@describe.register
def _(note: NoLoss) -> str:
    return (
        "No head was taken away to see what the loss loses, since there is none here: "
        f"{note.reason}"
    )


@describe.register
def _(note: NoMeans) -> str:
    return f"Heads are not replaced by their mean: {note.reason}"


@describe.register
def _(note: NotUniform) -> str:
    return (
        f"Heads of {', '.join(note.layers)} cannot be made uniform, since their scores do not come "
        "from the query alone; they are left out there."
    )


@describe.register
def _(note: GatesNotSettled) -> str:
    return (
        f"At penalty {note.penalty:g}, {note.count} of {note.heads} gates have not settled (neither 0 "
        f"nor 1 with probability {note.probability}); train longer with --steps."
    )


@describe.register
def _(note: AllHeadsClosed) -> str:
    return f"At penalty {note.penalty:g} all {note.heads} heads are closed; try a smaller one."


@describe.register
def _(note: NoHeadClosed) -> str:
    return f"At penalty {note.penalty:g} no head is closed; try a larger one."


@describe.register
def _(_note: WhatBoundsAre) -> str:
    return (
        "An oracle is the best of its own kind (top-k: of single keys, sigma oracle: of a window and "
        "two columns), not of all; rows of global tokens see every key, so on short sentences "
        "Longformer and BigBird see more than the budget (visible_keys in summary.csv)."
    )


@describe.register
def _(note: MechanismLeftOut) -> str:
    return f"{note.site}: {note.mechanism} is left out, since {note.reason}."


def _sentences(count: int) -> str:
    return "1 sentence" if count == 1 else f"{count} sentences"
