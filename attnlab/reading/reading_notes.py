"""Notes on the texts and matrices that were read; nothing heavy is imported."""

from dataclasses import dataclass

from attnlab.core import Note

# Sums of rows that dropout can leave.
_DROPOUT = (0.5, 2.0)


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
        """The fault of the sentences, in words."""
        if self.unpredicted:
            return "without a token to predict"
        return "empty" if self.most_tokens is None else f"longer than {self.most_tokens} tokens"

    def __str__(self) -> str:
        part = f"{self.part} " if self.part else ""
        were = "was" if self.count == 1 else "were"
        return f"{self.count} of {self.total} {part}sentences {were} left out: {self.reason}."


@dataclass(frozen=True)
class NoTranslations(Note):
    """Decoder and cross-attention of an encoder-decoder are left out: nothing for it to read."""

    words = (
        "The heads of decoder and cross-attention are left out, since the sentences have no translations; a"
        " line of a file can hold a sentence, a tab and its translation."
    )


@dataclass(frozen=True)
class ContributionsRead(Note):
    """What stands in matrices are contributions of keys, and no attention weights.

    Attributes:
        normed: whether norms of the model read what output projections write.
    """

    normed: bool = False

    def __str__(self) -> str:
        norms = ", where the norms of this model that follow are left out" if self.normed else ""
        return (
            "Contributions of keys were read in place of attention weights: the length of each weighted "
            f"value behind the output projection{norms}, as a share of its row."
        )


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

    def __str__(self) -> str:
        if self.kept:
            return (
                "Some rows do not sum to 1, as in a file of half precision; --normalize rows helps."
            )
        by_dropout = _DROPOUT[0] <= self.lowest and self.highest <= _DROPOUT[1]
        why = (
            "perhaps because dropout was on" if by_dropout else "these may be no attention weights"
        )
        return (
            f"Rows do not sum to 1 (from {self.lowest:.3f} to {self.highest:.3f}), {why}; "
            "--normalize rows divides each by its sum."
        )


@dataclass(frozen=True)
class KeptInPart(Note):
    """The sentence kept where none fits: in half precision, at a site the first of its queries."""

    sentence: int
    site: str
    queries: int
    all_queries: int

    def __str__(self) -> str:
        cut = self.queries < self.all_queries
        rows = (
            f"the rows of the first {self.queries:,} of {self.all_queries:,} queries" if cut else ""
        )
        return (
            f"Of the matrices of sentence {self.sentence} ({self.site}), {rows or 'all rows'} are kept, in "
            "half precision, since whole matrices of single precision take more room than there is."
        )
