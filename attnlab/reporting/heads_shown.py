"""The table of heads as terminal, page and notebook show it, and what its words mean."""

from collections.abc import Sequence

import pandas as pd

from attnlab.core.columns import Column
from attnlab.core.texts import counted
from attnlab.families import NO_FAMILY
from attnlab.labels.label_columns import NO_STRUCTURE, NO_STRUCTURE_MEANS, TIE_BITS_PER_ROW
from attnlab.reporting.columns import columns_named
from attnlab.reporting.function_phrases import evidence_phrase
from attnlab.reporting.naming import family_words, head_names
from attnlab.studies.analysis.columns import SUMMARY
from attnlab.studies.analysis.roles import NO_ROLE, marked

MARK = "✓"
# Of a confirmed role where there is nothing to say whether an untrained head would have it too.
MARK_WITHOUT_CONTROLS = "(✓)"
TIE = "~"
STRENGTH = "control 0, threshold 1, the least where a rule asks for several figures"
_SHOWN = (
    "head_name",
    "role",
    "mark",
    "strength",
    "evidence",
    "structure",
    "ablation_loss_change",
    "ablation_low",
    "ablation_high",
    "output",
)
# Shown even where all heads have the same.
_ALWAYS = {"head_name", "role", "strength", "structure", "ablation_loss_change"}


def heads_shown(summary: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Column, ...]]:
    """The rows of `Analysis.summary` with words for what they hold, and the columns to show of them.

    A column that is the same in every row is left out, unless it is one of the few that every reader
    looks for. The mark is there wherever some head has it.
    """
    table = summary.assign(head_name=head_names(summary))
    if "role" in table:
        table = table.assign(
            mark=marked(table).map({True: mark_of(table), False: ""}),
            evidence=[evidence_phrase(row) for row in table.itertuples(index=False)],
        )
    if "structure" in table:
        tie = table["structure_tie"].astype(bool).map({True: f" {TIE}", False: ""})
        table = table.assign(structure=table["structure"].map(family_words) + tie)
    columns = columns_named([name for name in _SHOWN if name in table], SUMMARY.columns)
    kept = {column.name for column in varying(table, columns)} | _ALWAYS
    if "mark" in table and table["mark"].ne("").any():
        kept.add("mark")
    return table, tuple(column for column in columns if column.name in kept)


def mark_of(summary: pd.DataFrame) -> str:
    """What stands beside the roles that `marked` says: another mark where controls were left out."""
    return MARK if "significant" in summary else MARK_WITHOUT_CONTROLS


def varying(table: pd.DataFrame, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that are not the same in every row, behind the first one; all where there is one row."""
    first, *others = columns
    shown = [one for one in others if len(table) < 2 or table[one.name].nunique(dropna=False) > 1]
    return (first, *shown)


def words_of_heads(summary: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """The words and marks of the table of heads that need a line, each with what it means."""
    words = []
    if "role" in summary:
        compared = "significant" in summary
        against = ", significant against controls" if compared else "; controls were left out"
        words += [("strength", STRENGTH), (mark_of(summary), f"confirmed{against}")]
    if "structure" in summary:
        words += [
            ("structure", "the family of the fewest bits per row"),
            (TIE, f"the next within {TIE_BITS_PER_ROW:g}"),
        ]
        if (summary["structure"] == NO_FAMILY).any():
            words += [(f"structure {NO_STRUCTURE}", NO_STRUCTURE_MEANS)]
    if "ablation_loss_change" in summary:
        words += [("loss", "its change without the head, nats per token")]
    return tuple(words)


def describe_roles(summary: pd.DataFrame) -> str:
    """How many heads have a confirmed role, and which, as a sentence; the same numbers as in every map.

    >>> describe_roles(pd.DataFrame({"role": ["sink", "sink", "none"], "confirmed": [True, False, False],
    ...     "significant": [True, False, False]}))
    '1 of 3 heads has a role that is confirmed and significant against controls: 1 sink.'
    """
    chosen = summary[marked(summary)]
    against = " and significant against controls" if "significant" in summary else ""
    roles = chosen["role"].value_counts(sort=False)
    ordered = sorted(roles.items(), key=lambda pair: (-pair[1], str(pair[0])))
    named = ", ".join(f"{count} {role}" for role, count in ordered if role != NO_ROLE)
    have = "has" if len(chosen) == 1 else "have"
    which = f": {named}" if named else ""
    heads = counted(len(summary), "head")
    return f"{len(chosen)} of {heads} {have} a role that is confirmed{against}{which}."
