"""Notes on results as sentences: the one place where they are put into words."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attnlab.core.errors import Note
from attnlab.evaluation.shared_settings import (
    FewerThanAsked,
    FewForIntervals,
    FewForMeans,
    NoTranslations,
    OlderWeights,
    TableWiderThanPage,
    UnknownWeights,
)
from attnlab.labels.label_columns import LINKS
from attnlab.reading.batches import KeptInPart, RowsNotNormalized, SentencesDropped
from attnlab.reading.weights import ALL, CONTENT
from attnlab.studies.analysis import notes as analysis
from attnlab.studies.planning import notes as planning

# With the values of a note between braces, or of the note.
Words = str | Callable[[Any], str]
# A longer list is in summary.csv.
_MOST_NAMED = 16
# Sums of rows that dropout can leave.
_DROPOUT = (0.5, 2.0)


def describe_notes(
    notes: Iterable[Note], words: Mapping[type[Note], Words] | None = None
) -> list[str]:
    """Sentences of the notes of a result, such as `analyze(...).notes`, in their order.

    Raises:
        KeyError: a kind of note that has no words in `WORDS`.
    """
    return [describe(note, words) for note in notes]


def describe(note: Note, words: Mapping[type[Note], Words] | None = None) -> str:
    """One or two sentences of a note.

    Raises:
        KeyError: a kind of note that has no words in `WORDS`.
    """
    said = (WORDS if words is None else words)[type(note)]
    return said.format(**vars(note)) if isinstance(said, str) else said(note)


def _dropped(note: SentencesDropped) -> str:
    part = f"{note.part} " if note.part else ""
    were = "was" if note.count == 1 else "were"
    return f"{note.count} of {note.total} {part}sentences {were} left out: {note.reason}."


def _not_normalized(note: RowsNotNormalized) -> str:
    if note.kept:
        return "Some rows do not sum to 1, as in a file of half precision; --normalize rows helps."
    by_dropout = _DROPOUT[0] <= note.lowest and note.highest <= _DROPOUT[1]
    why = "perhaps because dropout was on" if by_dropout else "these may be no attention weights"
    return (
        f"Rows do not sum to 1 (from {note.lowest:.3f} to {note.highest:.3f}), {why}; "
        "--normalize rows divides each by its sum."
    )


def _only(sentences: int) -> str:
    return "Only 1 sentence" if sentences == 1 else f"Only {sentences} sentences"


def _without_keys(note: analysis.RowsWithoutKeys) -> str:
    rows = "1 row of attention saw" if note.rows == 1 else f"{note.rows} rows of attention saw"
    return f"{rows} no key at all; entropy 0 is counted there."


def _heads(names: tuple[str, ...]) -> str:
    """Such as `The heads encoder.0.1 and 3 more are`."""
    first = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"Head {first} is" if len(names) == 1 else f"Heads {first}{more} are"


def _unaligned(note: analysis.Unaligned) -> str:
    what = "1 sentence is" if note.count == 1 else f"{note.count} sentences are"
    return (
        f"{what} not aligned with words, so trees and alignments of that many are not counted (the "
        f"first: {note.first}, {note.reason})."
    )


def _too_little(note: analysis.TooLittleCounted) -> str:
    what = "; ".join(
        f"'{one.label}' in {', '.join(one.sites)} (fewer than {one.needed:,} {one.unit})"
        for one in note.labels
    )
    advice = f"use about {note.wanted:,} sentences (--sentences {note.wanted})"
    if note.there is None:
        advice += " if there are that many"
    elif note.there < note.wanted:
        advice += f", more than the {note.there:,} there are here: name others ({_others(note)})"
    else:
        advice += f", of the {note.there:,} there are"
    if note.never_met and (note.there is None or note.there >= note.wanted):
        advice += f"; what was never met needs other sentences ({_others(note)})"
    told = f"Too little was counted to confirm some labels, in one half of the sentences: {what}."
    return told if note.generated else f"{told} To decide them, {advice}."


def _sinks(note: analysis.SinksByThreshold) -> str:
    """Such as `3 of 8 heads have more than 0.3 of their weight on one special token ... (0.4: 2, 0.5: 0)`."""
    (threshold, number), *higher = note.above
    others = ", ".join(f"{share:g}: {count}" for share, count in higher)
    return (
        f"{number} of {note.heads} heads have more than {threshold:g} of {_SINK_KEYS[note.keys]} "
        f"(more than {others}); a count of sinks depends on the threshold."
    )


_SINK_KEYS = {
    ALL: "their weight on one special token, the first token or punctuation",
    CONTENT: "their weight among ordinary tokens on the first token, where that is one of them, or on "
    "punctuation",
}


def _others(note: analysis.TooLittleCounted) -> str:
    """Where other sentences come from: with gold trees or alignments for the labels that rest on them."""
    gold = ", ".join(f"'{one.label}'" for one in note.labels if one.unit == LINKS.unit)
    if not gold:
        return "--text or --corpus"
    source = "--treebank" if note.treebank else "a --corpus with gold trees and alignments"
    plain = any(one.unit != LINKS.unit for one in note.labels)
    return f"--text or --corpus; for {gold} {source}" if plain else source


def _kept_in_part(note: KeptInPart) -> str:
    cut = note.queries < note.all_queries
    rows = f"the rows of the first {note.queries:,} of {note.all_queries:,} queries" if cut else ""
    return (
        f"Of the matrices of sentence {note.sentence} ({note.site}), {rows or 'all rows'} are kept, in "
        "half precision, since whole matrices of single precision take more room than there is."
    )


def _wider_than_page(note: TableWiderThanPage) -> str:
    columns = ",".join(note.fitting)
    choice = f", as with --columns {columns}" if columns else " with --columns"
    return (
        f"The table is about {note.points:,} pt wide, and the text of a LaTeX article "
        f"{note.page_points}: choose columns{choice}."
    )


# Templates are filled with the values of the note.
WORDS: Mapping[type[Note], Words] = {
    SentencesDropped: _dropped,
    RowsNotNormalized: _not_normalized,
    FewForMeans: lambda note: f"{_only(note.sentences)}: means may be far from those of a corpus.",
    FewForIntervals: lambda note: (
        f"{_only(note.sentences)}: intervals are wide, and little can be told from chance."
    ),
    FewerThanAsked: "{asked} sentences were asked for; {origin} has {there}.",
    OlderWeights: "These results are of an older state of the model in {run}, whose weights have changed "
    "since; make them again with --overwrite.",
    UnknownWeights: "These results do not say of which weights of the model in {run} they are, which may "
    "have changed since; make them again with --overwrite to be sure.",
    TableWiderThanPage: _wider_than_page,
    NoTranslations: "The heads of decoder and cross-attention are left out, since the sentences have "
    "no translations; a line of a file can hold a sentence, a tab and its translation.",
    analysis.LayersHeldAtOnce: "This model's layers could not be read one at a time, so all layers of "
    "a batch were held in memory at once.",
    analysis.RowsWithoutKeys: _without_keys,
    analysis.HeadsWithoutWeight: lambda note: (
        f"{_heads(note.heads)} without any weight, as where a plan says none: no output, and no pattern to "
        "describe."
    ),
    analysis.ClosedHeads: lambda note: (
        f"{_heads(note.heads)} pruned: their output is 0, so that the model does not use their "
        "attention, whatever their labels say."
    ),
    analysis.LearnedSink: "A learned sink beside the keys takes {mass_fraction:.0%} of a row on "
    "average, so rows sum to less than 1; distances between heads are lower bounds.",
    analysis.TooLargeToKeep: "{count} of the {wanted} sentences to keep were too large for "
    "{most_mebibytes:g} MiB.",
    KeptInPart: _kept_in_part,
    analysis.Unaligned: _unaligned,
    analysis.TrainingSentences: "{count} of {total} different sentences are training sentences of the run: "
    "this is not what its heads do on unseen text; analyze without a text takes the test part.",
    analysis.TrainingCorpusUnknown: "The training corpus is not known, so rare tokens are those that "
    "are rare in the sentences analyzed.",
    analysis.NoTrees: "These sentences have no gold trees, so no head can be called syntactic; give "
    "some with --treebank FILE.conllu.",
    analysis.TooLittleCounted: _too_little,
    analysis.VocabularyTooSmall: lambda note: (
        f"No head of {', '.join(note.sites)} can be called 'rare tokens', whatever the sentences: the "
        f"vocabulary has {note.types:,} types, and rare are those outside the {note.frequent:,} most "
        "frequent."
    ),
    analysis.SinksByThreshold: _sinks,
    analysis.NoControls: "Labels were compared neither with an untrained model nor with shuffled words, "
    "and the loss without each head was not measured; leave out --quick to have both.",
    analysis.TooManyToAblate: "The loss without each head was not measured, since there are {heads} "
    "heads and more than {most} take long; --ablation measures it.",
    analysis.NoLoss: "The change of loss without each head was not measured, since there is no loss here: "
    "{reason}",
    planning.BudgetNearLength: "A budget of {budget} keys is {share:.0%} of the {keys:.1f} that a row of "
    "full attention has on the validation sentences: it saves little.",
    planning.NoSettingFits: "No setting of the baseline {mechanism} fits a budget of {budget} keys.",
    planning.BandInstead: "The baseline {mechanism} is not applicable at the site {at}; a band "
    "replaces it there.",
}
