"""What a result holds of one head."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from attnlab.core import HEAD_COLUMNS, InputError, address_of, briefly
from attnlab.results.export import head_names


@dataclass(frozen=True, repr=False)
class HeadEvidence:
    """The rows of one head in all tables of a result.

    Attributes:
        head: its address.
        tables: those that hold rows of it, by name.
    """

    head: str
    tables: Mapping[str, pd.DataFrame]

    @property
    def table(self) -> pd.DataFrame:
        """Its rows of the first table."""
        return next(iter(self.tables.values()))

    def __repr__(self) -> str:
        parts = (f"{name}\n{_upright(rows).to_string()}" for name, rows in self.tables.items())
        return "\n\n".join([self.head, *parts])

    def _repr_html_(self) -> str:
        parts = (f"<h4>{name}</h4>{_upright(rows).to_html()}" for name, rows in self.tables.items())
        return f"<h3>{self.head}</h3>{''.join(parts)}"


def _upright(rows: pd.DataFrame) -> pd.DataFrame:
    """A single row as a column, without what is empty."""
    measured = rows.drop(columns=HEAD_COLUMNS).dropna(axis="columns", how="all")
    return measured.T.set_axis([""], axis="columns") if len(rows) == 1 else measured


def evidence_of(
    tables: Mapping[str, pd.DataFrame], head: str | tuple[str | int, ...]
) -> HeadEvidence:
    """The rows of a head in all tables that have heads.

    Raises:
        InputError: there is no such head, or at several sites.
    """
    of_heads = {key: rows for key, rows in tables.items() if set(HEAD_COLUMNS) <= set(rows)}
    names = {key: pd.Series(head_names(rows), rows.index) for key, rows in of_heads.items()}
    heads = [*dict.fromkeys(name for rows in names.values() for name in rows)]
    name = address_of(head, heads)
    evidence = {
        key: rows[names[key] == name].reset_index(drop=True)
        for key, rows in of_heads.items()
        if (names[key] == name).any()
    }
    if not evidence:
        choices = f"its heads are {heads[0]} to {heads[-1]}" if heads else "it has no rows of heads"
        choices += f"; its tables are attributes, as in result.{next(iter(tables))}"
        msg = f"The result has no head {briefly(name)}; {choices}."
        raise InputError(msg)
    return HeadEvidence(name, evidence)
