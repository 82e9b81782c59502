"""What is to be known of mechanisms at a budget."""

from dataclasses import dataclass

from attnlab.core.errors import Note


@dataclass(frozen=True)
class MechanismLeftOut(Note):
    """A mechanism that a site does not allow, and why in words."""

    site: str
    mechanism: str
    reason: str
