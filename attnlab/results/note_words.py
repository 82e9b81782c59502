"""Notes on results as sentences: the one place where they are put into words."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attnlab.core import FEWEST_FOR_INTERVAL, Note, briefly, counted
from attnlab.corpora import HeadingRead, QuotesRead
from attnlab.evaluation import (
    FewerThanAsked,
    FewForIntervals,
    FewForMeans,
    NoTranslations,
    OlderWeights,
    OtherLanguages,
    RepeatedTexts,
    SplitTexts,
    TableWiderThanPage,
    TranslationsUnread,
    UnknownTokens,
    UnreadableTranslations,
)
from attnlab.reading import AxesTaken, KeptInPart, RowsNotNormalized, SentencesDropped

# With the values of a note between braces, or of the note.
Words = str | Callable[[Any], str]
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


def _axes_taken(note: AxesTaken) -> str:
    axes = f"axes, {' x '.join(map(str, note.shape))},"
    names = f"{', '.join(note.axes)} (option axes)"
    if not note.arrays:
        return f"The array's {axes} are taken for {names}."
    if len(note.arrays) == 1:
        return f"The array {note.arrays[0]} is taken for this layer, its {axes} for {names}."
    which = f"{note.arrays[0]} to {note.arrays[-1]}"
    return f"The {len(note.arrays)} arrays {which} are taken for layers, their {axes} for {names}."


def _not_normalized(note: RowsNotNormalized) -> str:
    if note.kept:
        return "Some rows do not sum to 1, as in a file of half precision; --normalize rows helps."
    by_dropout = _DROPOUT[0] <= note.lowest and note.highest <= _DROPOUT[1]
    why = "perhaps because dropout was on" if by_dropout else "these may be no attention weights"
    return (
        f"Rows do not sum to 1 (from {note.lowest:.3f} to {note.highest:.3f}), {why}; "
        "--normalize rows divides each by its sum."
    )


def _only(sentences: int, part: str = "") -> str:
    return f"Only {counted(sentences, f'{part} sentence'.strip())}"


def _few_for_intervals(note: FewForIntervals) -> str:
    only = _only(note.sentences, note.part)
    if note.sentences >= FEWEST_FOR_INTERVAL:
        return f"{only}: intervals are wide, and little can be told from chance."
    least = f"there is no 95 % interval of fewer than {FEWEST_FOR_INTERVAL}"
    return f"{only}: {least}, and nothing{' of them' if note.part else ''} can be told from chance."


def _kept_in_part(note: KeptInPart) -> str:
    cut = note.queries < note.all_queries
    rows = f"the rows of the first {note.queries:,} of {note.all_queries:,} queries" if cut else ""
    return (
        f"Of the matrices of sentence {note.sentence} ({note.site}), {rows or 'all rows'} are kept, in "
        "half precision, since whole matrices of single precision take more room than there is."
    )


def _split_texts(note: SplitTexts) -> str:
    counts = {"to learn on": note.training, "to choose on": note.validation}
    parts = [f"{count} {purpose}" for purpose, count in counts.items() if count is not None]
    return (
        f"The sentences are split in turn: {', '.join([f'{note.held_out} held out', *parts])}. Figures are "
        "of those held out; to have more of them, give training sentences apart (--calibration-text)."
    )


def _unknown_tokens(note: UnknownTokens) -> str:
    """Such as `Of the word tokens 85% (held-out), 84% (training) are unknown to the tokenizer: ...`."""
    shares = ", ".join(
        f"{share:.0%} ({part})" if part else f"{share:.0%}" for part, share in note.shares
    )
    return (
        f"Of the word tokens {shares} are unknown to the tokenizer: the model reads all of them as the same "
        "token, so results say little of other texts; give texts in the language and script that it was "
        "trained on."
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
    AxesTaken: _axes_taken,
    RowsNotNormalized: _not_normalized,
    FewForMeans: lambda note: f"{_only(note.sentences)}: means may be far from those of a corpus.",
    FewForIntervals: _few_for_intervals,
    UnreadableTranslations: "The validation BLEU of {run} is {bleu:.1f}, and below {least:g} no "
    "translation can be read: its attention will change with more training (attnlab train {run} "
    "--resume --epochs N).",
    FewerThanAsked: "{asked} sentences were asked for; {origin} has {there}.",
    SplitTexts: _split_texts,
    RepeatedTexts: lambda note: (
        f"{note.repeated} of {note.texts} sentences "
        f"{'repeats an earlier one' if note.repeated == 1 else 'repeat earlier ones'} (of pairs their "
        "sources): intervals and p-values treat them as independent, and so are too narrow."
    ),
    UnknownTokens: _unknown_tokens,
    OlderWeights: "These results are of an older state of the model in {run}, whose weights have changed "
    "since; make them again with --overwrite.",
    TableWiderThanPage: _wider_than_page,
    NoTranslations: "The heads of decoder and cross-attention are left out, since the sentences have "
    "no translations; a line of a file can hold a sentence, a tab and its translation.",
    OtherLanguages: "The sentences are of the languages {read}, and the run was trained on {trained}.",
    TranslationsUnread: "The model reads what is before the tab of each line, or the first of each pair; "
    "it has no decoder that could read translations.",
    KeptInPart: _kept_in_part,
    HeadingRead: lambda note: (
        f"The first line of {note.path}, {briefly(note.line)}, looks like a heading and is read as a row; if "
        "it is one, remove it (tail -n +2)."
    ),
    QuotesRead: "Line {line} of {path} is the first with fields in quotes as in CSV, which are read as part "
    "of the texts; write it without them, with a tab between columns.",
}
