"""Claims drawn: the hit of each with its interval, beside its controls; and their grades as sentences."""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from attnlab.core import Head, counted
from attnlab.figures import INK, PAGE, WIDE, blank, check_table, colour, panel, style
from attnlab.labels import HIT
from attnlab.questions.claim.grading import OF_ALWAYS, OF_MOSTLY
from attnlab.questions.claim.question import CLAIMS, GRADES, UNDECIDED
from attnlab.results import Contents, DrawnFigure, Result, kept_viewer, plain_heads

_CONTROLS = {
    "chance_hit": "chance", "offset_hit": "best offset", "untrained_most": "untrained, largest",
    "shuffled_hit": "shuffled words",
}  # fmt: skip
_ROW, _TOP, _MOST_SAID, _MOST_DRAWN = 0.26, 0.35, 5, 40


def contents(result: Result) -> Contents:
    """What the page of claims shows."""
    caption = (
        "The hit of each claim with its interval, beside its controls; lines stand at 50 and 90 %."
    )
    drawn = result.claims.head(_MOST_DRAWN)
    kept = result.matrices
    return Contents(
        [DrawnFigure("claims", draw_claims(drawn, width=WIDE), caption)],
        viewer=lambda: kept_viewer(
            kept, result.title, lambda _: list(plain_heads(kept)), analyzed=False
        ),
    )


def answers(result: Result) -> list[str]:
    """How many claims have each grade, and each of the first few with its hit."""
    claims = result.claims
    counts = claims["grade"].value_counts()
    parts = [f"{counts[grade]} {grade}" for grade in GRADES if grade in counts]
    summary = [f"{counted(len(claims), 'claim')}: {', '.join(parts)}."]
    return [*summary, *_each(claims.head(_MOST_SAID))]


def _each(claims: pd.DataFrame) -> Iterator[str]:
    for row in claims.to_dict("records"):
        needed = row["texts_needed"]
        reached = max(row[name] for name in _CONTROLS if not pd.isna(row.get(name, math.nan)))
        controls = (
            f", controls reach {HIT.column.shown(reached)}"
            if HIT.ends(row)[0] <= row["bar"]
            else ""
        )
        more = (
            f"; about {counted(int(needed), 'text')} would decide it"
            if row["grade"] == UNDECIDED and not pd.isna(needed)
            else ""
        )
        yield f"'{_name(row)}': {row['grade']}, hit {HIT.shown(row)}{controls}{more}."


def _name(row: Mapping[Hashable, Any]) -> str:
    return f"{Head(row['site'], row['layer'], row['head'])}: {row['pattern']}"


def draw_claims(claims: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """A line per claim: its hit with the interval, and a mark for each control.

    Args:
        claims: a row per claim, such as `claim(...).claims`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, a column is missing, or there are no rows.
    """
    check_table(
        claims, ["site", "layer", "head", "pattern", *(column.name for column in HIT)], CLAIMS.file
    )
    rows = claims.to_dict("records")
    height = _ROW * len(rows)
    with style():
        figure = blank(width, height + _TOP + 0.5)
        axes = panel(figure, 2.6, _TOP, width - 2.8, height)
        places = range(len(rows))
        for place, row in zip(places, rows, strict=True):
            low, high = HIT.ends(row)
            axes.plot([low, high], [place, place], color=INK, linewidth=1.5)
        axes.plot(claims[HIT.name], places, "o", color=INK, markersize=5, label="hit")
        for index, (name, label) in enumerate(_CONTROLS.items()):
            if name in claims and claims[name].notna().any():
                axes.plot(
                    claims[name], places, "|", color=colour(index), markersize=9, markeredgewidth=2,
                    label=label,
                )  # fmt: skip
        for limit in (OF_MOSTLY, OF_ALWAYS):
            axes.axvline(limit, color=INK, linewidth=0.5, linestyle=":")
        axes.set_yticks(places, [_name(row) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("share of rows")
        figure.legend(frameon=False, ncols=5, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
