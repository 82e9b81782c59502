"""The first table of an analysis: a row per head, in the words of terminals, pages, notebooks and maps."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnlab.core import HEAD_COLUMNS, Column, Head, counted, read_columns, rounded
from attnlab.labels import NAMED_FROM, NO_ROLE, ROLE_LEGEND
from attnlab.questions.analyze.question import ABLATION_CHANGE, GENERATION_CHANGE, SUMMARY
from attnlab.questions.analyze.summary import (
    MARK,
    MARK_WITHOUT_CONTROLS,
    marked,
    marks_of,
    most_needed,
)
from attnlab.results import columns_named, family_words, head_names, readable

COLUMNS = read_columns(__file__)

# Columns that only pages and terminals have.
SHOWN = COLUMNS.of("role_figure control_figure shape best_head")
_FIRST_TABLE = (
    "head_name",
    "role_figure",
    "control_figure",
    "shape",
    ABLATION_CHANGE.name,
    "output",
)
_FIGURES = ("value", "control", "strength")
# The others are shares, and shown in percent.
_NO_SHARES = ("mean_rank_correlation", "mean_slope")
# What the columns and the signs in them mean, those of one line of a terminal together.
_LEGEND = (
    (("role_figure", "closest role", ROLE_LEGEND),),
    (
        (
            "role_figure",
            "%",
            "share of rows; of weight for a sink, of the largest entropy for broad",
        ),
    ),
    (
        (MARK, MARK, "interval above threshold, controls below"),
        (MARK_WITHOUT_CONTROLS, MARK_WITHOUT_CONTROLS, "above threshold, no control"),
    ),
    (("shape", "shape", "the family that describes the matrices in the fewest bits, or none"),),
    (
        (
            ABLATION_CHANGE.name,
            "loss",
            f"change when the head is zeroed, in nats per token; intervals: {SUMMARY.file}",
        ),
    ),
)


def head_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `analyze(...).summary`, or of its roles alone, with the words of the first table.

    `role` is `none` below the strength from which a role is named, and `mark` as in `marks_of`.
    """
    rows = table.assign(head_name=head_names(table))
    if "role" in rows:
        # A file that was read with empty cells as text has its numbers as text too.
        figures = {name: pd.to_numeric(rows[name]) for name in _FIGURES if name in rows}
        rows = rows.assign(**figures)
        named = rows["confirmed"].astype(bool) | (rows["strength"] >= NAMED_FROM)
        rows = rows.assign(role=rows["role"].where(named, NO_ROLE), mark=marks_of(rows))
        records = rows.to_dict("records")
        rows = rows.assign(
            role_figure=[role_figure(row) for row in records],
            control_figure=[control_figure(row) for row in records],
        )
    return rows.assign(shape=rows["structure"].map(family_words)) if "structure" in rows else rows


def first_table(summary: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Column, ...]]:
    """The first table of an analysis, and the columns to show of it."""
    rows = head_rows(summary)
    names = [name for name in _FIRST_TABLE if name in rows]
    columns = columns_named(names, (*SUMMARY.columns, *SHOWN))
    return rows, tuple(
        readable(column, rows) if column.name == ABLATION_CHANGE.name else column
        for column in columns
    )


def legend(rows: pd.DataFrame) -> list[list[tuple[str, str]]]:
    """The words and signs of the first table with what they mean, by line: at most five.

    Args:
        rows: see `head_rows`.
    """
    present = {*rows, *rows.get("mark", ()), *rows.get("role", ())}
    lines = [[(word, means) for name, word, means in line if name in present] for line in _LEGEND]
    return [line for line in lines if line]


def role_figure(row: Mapping[Any, Any]) -> str:
    """What was picked of a head's role, else the role, with its figure and its mark; `none` without a role.

    >>> role_figure({"role": "sink", "detail": "first token", "statistic": "mean_mass_fraction",
    ...     "value": 0.54, "mark": "✓"})
    'first token 54% ✓'
    >>> role_figure({"role": "monotone", "detail": "", "statistic": "mean_rank_correlation",
    ...     "value": 0.93, "mark": ""})
    'monotone 0.93'
    """
    if row["role"] == NO_ROLE:
        return NO_ROLE
    return f"{row['detail'] or row['role']} {_figure(row, 'value')} {row['mark']}".strip()


def control_figure(row: Mapping[Any, Any]) -> str:
    """The kind and the figure of a role's control, such as `equal rows 25%`; empty without any."""
    if row["role"] == NO_ROLE or pd.isna(row["control"]):
        return ""
    return f"{row['control_kind']} {_figure(row, 'control')}"


def _figure(row: Mapping[Any, Any], name: str) -> str:
    value = row[name]
    if pd.isna(value):
        return ""
    return rounded(value, 2) if row["statistic"] in _NO_SHARES else f"{rounded(100 * value, 0)}%"


def named_label(label: str, detail: Any) -> str:
    """A label with what was picked, without a word that both have.

    >>> named_label("syntactic", "case head>dependent"), named_label("alignment", "alignment target>source")
    ('syntactic, case head>dependent', 'alignment, target>source')
    """
    picked = str(detail or "").removeprefix(label).strip()
    return f"{label}, {picked}" if picked else label


def describe_heads(summary: pd.DataFrame) -> list[str]:
    """How many heads have a confirmed role, and without which head the loss rises most, in sentences."""
    sentences = [describe_roles(summary)] if "role" in summary else []
    needed = most_needed(summary)
    if needed is not None:
        head, change = needed
        # Of a model that scores at random changes are below what tables show.
        column = readable(ABLATION_CHANGE.column, summary)
        by = column.shown(change) if round(change, column.digits or 0) > 0 else f"{change:.1g}"
        sentences.append(f"The loss rises most without {head}, by {by} nats per token.")
    return sentences


def describe_roles(summary: pd.DataFrame) -> str:
    """How many heads have a confirmed role, and which, as a sentence.

    Roles that no control is compared with are counted apart, unless controls were left out.

    >>> describe_roles(pd.DataFrame({"role": ["sink", "sink", "none"], "confirmed": [True, False, False],
    ...     "significant": [True, False, False]}))
    '1 of 3 heads has a role that is confirmed against controls: 1 sink.'
    >>> print(describe_roles(pd.DataFrame({"role": ["broad", "broad"], "confirmed": True,
    ...     "significant": False})))
    0 of 2 heads have a role that is confirmed against controls; 2 broad are confirmed without a control.
    """
    roles = summary.loc[marked(summary), "role"]
    compared = "significant" in summary
    against = " against controls" if compared else ""
    have = "has" if len(roles) == 1 else "have"
    which = f": {_counted_roles(roles)}" if len(roles) else ""
    heads = counted(len(summary), "head")
    sentence = f"{len(roles)} of {heads} {have} a role that is confirmed{against}{which}"
    alone = summary.loc[marks_of(summary) == MARK_WITHOUT_CONTROLS, "role"]
    if compared and len(alone):
        are = "is" if len(alone) == 1 else "are"
        sentence += f"; {_counted_roles(alone)} {are} confirmed without a control"
    return f"{sentence}."


def _counted_roles(roles: "pd.Series[str]") -> str:
    """The roles with their counts, such as `2 sink, 1 positional`."""
    ordered = sorted(roles.value_counts().items(), key=lambda pair: (-pair[1], str(pair[0])))
    return ", ".join(f"{count} {role}" for role, count in ordered)


def titled_heads(summary: pd.DataFrame) -> dict[Head, str]:
    """The name of each head and below it its role where that has a mark, else its shape.

    Such as `encoder.0.3` above `role: positional`; see `marks_of`.

    Args:
        summary: see `analyze(...).summary`.
    """
    return {
        Head(*(row[name] for name in HEAD_COLUMNS)): _titled(row)
        for row in head_rows(summary).to_dict("records")
    }


def _titled(row: Mapping[Any, Any]) -> str:
    if row.get("mark"):
        return f"{row['head_name']}\nrole: {row['role']}"
    return f"{row['head_name']}\nshape: {row['shape']}" if row.get("shape") else row["head_name"]


def describe_generation(generated: pd.DataFrame) -> str:
    """The largest change of each statistic from teacher forcing to own output, as a sentence."""
    change = generated["generation_change"].abs()
    largest = generated.loc[change.groupby(generated["statistic"], sort=False).idxmax()]
    changes = [
        f"{row['statistic'].replace('_', ' ')} by {GENERATION_CHANGE.shown(row, signed=True)} "
        f"({Head(row['site'], row['layer'], row['head'])})"
        for row in largest.to_dict("records")
    ]
    sentences = counted(int(generated["sentences"].max()), "sentence")
    return f"While the model writes itself ({sentences}), no head changes more than: {'; '.join(changes)}."
