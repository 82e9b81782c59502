"""What is to be known of an importance study: replacements that could not be done."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class NoMeans(Note):
    """Heads are not replaced by their mean.

    Attributes:
        reason: why, as a sentence.
    """

    reason: str


@dataclass(frozen=True)
class NotUniform(Note):
    """Layers whose heads cannot be made uniform, since their scores do not come from the query alone.

    Attributes:
        layers: such as `encoder.0`.
    """

    layers: tuple[str, ...]
