"""What a reader must know of the texts and matrices that were read; nothing heavy is imported."""

from dataclasses import dataclass

from attnlab.core import Note


@dataclass(frozen=True)
class SentencesDropped(Note):
    """Sentences that a model was not given.

    Attributes:
        count: how many.
        total: out of how many.
        most_tokens: they have more tokens than this, the most that are read; None: they are empty.
        unpredicted: they are neither, and have no token that is predicted, such as one word alone.
        part: which sentences, such as `training`, where there are several sets.
    """

    count: int
    total: int
    most_tokens: int | None = None
    part: str = ""
    unpredicted: bool = False

    @property
    def reason(self) -> str:
        """What is wrong with them, in words."""
        if self.unpredicted:
            return "without a token to predict"
        return "empty" if self.most_tokens is None else f"longer than {self.most_tokens} tokens"


@dataclass(frozen=True)
class RowsNotNormalized(Note):
    """Rows of matrices in a file that do not sum to 1.

    Attributes:
        lowest: the smallest sum of a row.
        highest: the largest.
        kept: whether the file is that of an analysis, perhaps in half precision.
    """

    lowest: float
    highest: float
    kept: bool = False


@dataclass(frozen=True)
class KeptInPart(Note):
    """The sentence kept where none fits: in half precision, at a site the first of its queries."""

    sentence: int
    site: str
    queries: int
    all_queries: int
