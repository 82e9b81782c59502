"""What is to be known of a substitution study."""

from dataclasses import dataclass

from attnlab.core.errors import Note


@dataclass(frozen=True)
class NoSettingAtSite(Note):
    """A mechanism that is lacking at a site, since all its settings see more keys than the budget."""

    site: str
    mechanism: str
    budget: int
