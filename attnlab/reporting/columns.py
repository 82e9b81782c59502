"""The column that only pages and terminals have, and declared ones by name."""

from collections.abc import Iterable

from attnlab.core.columns import Column

ADDITIVE = (
    "additive splits the same number between whole diagonals around offset 0, whole columns and E as "
    "is best"
)
BAND = "The band holds the diagonals and the blocks in its reach, so it is never farther away"
HEAD_NAME = Column("head_name", "head", "Site, layer and head, each counted from 0.")


def columns_named(names: Iterable[str], declared: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of these names, of those declared and `head_name`.

    Raises:
        KeyError: a column that nobody has declared.
    """
    known = {column.name: column for column in (HEAD_NAME, *declared)}
    return tuple(known[name] for name in names)
