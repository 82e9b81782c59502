"""What is to be known of a comparison."""

from dataclasses import dataclass

from attnlab.notes import Note


@dataclass(frozen=True)
class WhatBoundsAre(Note):
    """What oracles are the best of, and how near the keys of a mechanism are to the budget."""


@dataclass(frozen=True)
class MechanismLeftOut(Note):
    """A mechanism that a site does not allow, and why in words."""

    site: str
    mechanism: str
    reason: str
