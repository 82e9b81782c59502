"""What is to be known of the sentences of any study."""

from dataclasses import dataclass

from attnlab.notes import Note

ENOUGH_FOR_MEANS = 30
ENOUGH_FOR_INTERVALS = 100


@dataclass(frozen=True)
class FewForMeans(Note):
    """So few sentences that means say little of other sentences."""

    sentences: int


@dataclass(frozen=True)
class FewForIntervals(Note):
    """So few sentences that intervals are wide."""

    sentences: int


@dataclass(frozen=True)
class FewerThanAsked(Note):
    """Fewer sentences than were asked for, where these come from."""

    asked: int
    origin: str
    there: int


@dataclass(frozen=True)
class OlderWeights(Note):
    """The run in which a result lies has been trained on since."""

    run: str


@dataclass(frozen=True)
class UnknownWeights(Note):
    """A result in a run does not say of which weights it is, as those of the first versions do not."""

    run: str


@dataclass(frozen=True)
class NoTranslations(Note):
    """Decoder and cross-attention of an encoder-decoder are left out: nothing for it to read."""


@dataclass(frozen=True)
class TableWiderThanPage(Note):
    """A LaTeX table that runs over the margin.

    Attributes:
        points: its estimated width.
        page_points: the width of the text of an article.
        fitting: names of the first columns that are no wider together.
    """

    points: int
    page_points: int
    fitting: tuple[str, ...]
