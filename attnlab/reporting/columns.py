"""Columns that only pages and terminals have, and declared ones by name."""

from collections.abc import Iterable

from attnlab.core.columns import Column
from attnlab.labels.label_columns import STRUCTURE_SAID, TIE_BITS_PER_ROW

ADDITIVE = (
    "additive splits the same number between whole diagonals around offset 0, whole columns and E as "
    "is best"
)
BAND = "The band holds the diagonals and the blocks in its reach, so it is never farther away"
ONLY_SHOWN = (
    Column("head_name", "head", "Site, layer and head, each counted from 0."),
    Column(
        "mark",
        "mark",
        "✓: the role is confirmed and significant against controls; (✓): it is confirmed, and controls "
        "were left out.",
    ),
    Column("evidence", "evidence", "The figure of the closest role, and what it would be without."),
    Column(
        "phrase",
        "strongest function",
        "The strongest label: the figure with its 95 % interval, and the threshold that "
        "it lies above or below, or about where the interval holds the threshold.",
    ),
    Column(
        "structure_phrase",
        "structure",
        "The family of matrices that describes the head's matrices, with the keys of the view, in "
        "the fewest bits; a tie where the next family needs less than "
        f"{TIE_BITS_PER_ROW:g} bits per row more. It says what they look like, not what for; "
        f"{STRUCTURE_SAID}.",
    ),
    Column(
        "best_head", "best head", "The head that follows the relation most often on the other half."
    ),
)


def columns_named(names: Iterable[str], declared: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of these names, of those declared and those that are only shown.

    Raises:
        KeyError: a column that nobody has declared.
    """
    known = {column.name: column for column in (*ONLY_SHOWN, *declared)}
    return tuple(known[name] for name in names)
