"""What is to be known of an inspection."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class UnknownWords(Note):
    """Words that the vocabulary lacks: to the model each is the same unknown token.

    Attributes:
        words: which.
        moved: whether some of them are compared between contexts.
    """

    words: tuple[str, ...]
    moved: bool
