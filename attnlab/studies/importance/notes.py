"""What is to be known of an importance study: replacements that could not be done."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class NoMeans(Note):
    """Heads are not replaced by their mean, for a reason that is a sentence."""

    reason: str


@dataclass(frozen=True)
class NotUniform(Note):
    """Layers such as `encoder.0` whose scores do not come from the query alone."""

    layers: tuple[str, ...]
