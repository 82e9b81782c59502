"""Notes of any result as sentences."""

from collections.abc import Iterable, Mapping

from attnlab.core import Note
from attnlab.results import note_words as shared
from attnlab.results.question import questions


def describe_notes(notes: Iterable[Note]) -> list[str]:
    """Sentences of the notes of a result, such as `analyze(...).notes`, in their order.

    Raises:
        KeyError: a kind of note that nobody has words for.
    """
    return shared.describe_notes(notes, words_of_notes())


def words_of_notes() -> Mapping[type[Note], shared.Words]:
    """The words of every kind of note that a result can have."""
    own = {kind: words for one in questions().values() for kind, words in one.notes.items()}
    return {**shared.WORDS, **own}


def kinds_of_notes() -> dict[str, type[Note]]:
    """Every kind of note by name, as `result.json` holds it."""
    return {kind.__name__: kind for kind in words_of_notes()}
