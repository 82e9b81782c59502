"""Heads of several models drawn: a map of each, the strongest head of each label, and what was found."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from attnlab.core import counted
from attnlab.figures import FUNCTIONS, INK, WIDE, blank, panel, style
from attnlab.labels import MASS, NAMED_FROM, NO_ROLE, ROLE_LEGEND
from attnlab.questions.across.question import ACROSS, COLUMNS, FORMATION
from attnlab.results import (
    Cell,
    Contents,
    DrawnFigure,
    HeadMap,
    Overview,
    Result,
    TerminalTable,
    head_map,
    head_names,
    rows_shown,
    style_class,
)

_MARK = "✓"
_FILLED, _PARTIAL, _EMPTY = "filled", "partial", "empty"
_STYLES = {
    _FILLED: "confirmed against controls",
    _PARTIAL: "not confirmed; the bar is the strength",
}
# Heads whose rows are no further apart are the same, but for rounding.
_SAME = 0.01
_MOST_SAID = 6
# Models beside the first one, on a terminal.
_MOST_BESIDE = 2
# Inches.
_LEFT, _TOP, _ACROSS, _HIGH, _GAP, _BELOW = 0.4, 0.3, 1.3, 0.95, 0.42, 0.35
_BAND = "#d5d9de"


def contents(result: Result) -> Contents:
    """What the page shows."""
    formation = result.tables.get("formation")
    models = dict.fromkeys(result.across["model"])
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(models, start=1))
    by = f"model: {numbered}" if formation is None else "step; grey: untrained models"
    panels = [
        (site, what, group)
        for (site, what), group in result.degrees.groupby(["site", "what"], sort=False)
        if group["degree"].max() > 0
    ]
    caption = f"Degree of the strongest head of each site, by {by}."
    drawn = [DrawnFigure("degrees", _draw_degrees(panels, formation), caption)] if panels else []
    return Contents(drawn, overview=Overview(steps=tuple(_maps(rows(result)))))


def rows(result: Result) -> pd.DataFrame:
    """The heads with their roles, `none` below the strength from which a role is named."""
    heads = result.across
    named = heads["significant"] | (heads["strength"] >= NAMED_FROM)
    return heads.assign(
        role=heads["role"].where(named, NO_ROLE), detail=heads["detail"].where(named, "")
    )


def legend(_: Result) -> list[str]:
    """What `none` means in the table of heads."""
    return [f"closest role: {ROLE_LEGEND}"]


def _maps(heads: pd.DataFrame) -> Iterator[HeadMap]:
    for model, group in heads.groupby("model", sort=False):
        records = group.assign(name=head_names(group)).to_dict("records")
        cells = [(_cell(row), str(row["role"])) for row in records]
        yield head_map(f"Closest role of each head: {model}", cells, _STYLES)


def _cell(row: Mapping[Any, Any]) -> Cell:
    named = row["role"] != NO_ROLE
    strength = 0.0 if pd.isna(row["strength"]) else float(row["strength"])
    detail = f", {row['detail']}" if row["detail"] else ""
    return Cell(
        row["name"],
        style_class(row["role"]),
        (_FILLED if row["significant"] else _PARTIAL) if named else _EMPTY,
        row["role"] if named else "·",
        "",
        f"{row['name']}: {row['role']}{detail}, strength {strength:.2f}",
        strength,
    )


def answers(result: Result) -> list[str]:
    """How far heads are apart, and how many differ beyond seeds; of checkpoints what forms when."""
    return list(_formed(result.formation) if "formation" in result.tables else _compared(result))


def _compared(result: Result) -> Iterator[str]:
    first, seeds = result.details["first"], result.details["seeds"]
    for name, pairs in list(result.matching.groupby("model", sort=False))[:_MOST_SAID]:
        yield _matched(str(name), first, pairs[pairs["matched"] != ""])
    yield from _patterns(result.degrees)
    beyond = result.differences.get("beyond_seeds", pd.Series(dtype=bool)).dropna()
    if len(beyond):
        yield (
            f"{beyond.sum()} of {len(beyond)} degrees differ by more than any head of the site does between "
            f"seeds; of a label at a site any would by chance in at most 1 of {len(seeds) + 1} cases, with "
            f"{counted(len(seeds), 'further seed')}."
        )


def _patterns(degrees: pd.DataFrame) -> Iterator[str]:
    """The head of each model that a pattern fits best; patterns alone have a mass."""
    hits = degrees[degrees[MASS.name].notna()] if MASS.name in degrees else degrees.head(0)
    for what, group in hits.groupby("what", sort=False):
        best = group.loc[group.groupby("model", sort=False)["degree"].idxmax()]
        cells = zip(head_names(best), best["model"], best["degree"], strict=True)
        shown = ", ".join(f"{head} of {model} ({degree:.2f})" for head, model, degree in cells)
        yield f"{what}: most hits {shown}."


def _matched(name: str, first: str, rows: pd.DataFrame) -> str:
    distance, moved = COLUMNS["matched_distance"], int(rows["moved"].sum())
    if rows.empty:
        return f"No head of {name} is matched with one of {first}."
    if rows["matched_distance"].max() < _SAME:
        where = f"{moved} of {len(rows)} at another number" if moved else "each at its number"
        return f"The heads of {name} are those of {first}, {where}."
    by_number = distance.shown(rows["number_distance"].mean())
    moves = (
        f"; {moved} of {len(rows)} are at another number ({by_number} by number)" if moved else ""
    )
    return (
        f"Matched heads of {name} and {first} are {distance.shown(rows['matched_distance'].mean())} apart on "
        f"average, where 0 is alike and 1 has no key in common{moves}."
    )


def _formed(formation: pd.DataFrame) -> Iterator[str]:
    when = formation.dropna(subset="half_step").sort_values("half_step", kind="stable")
    first = when.head(_MOST_SAID)
    shown = [
        f"{what} ({site}) at step {step:.0f}"
        for what, site, step in zip(first["what"], first["site"], first["half_step"], strict=True)
    ]
    if shown:
        yield f"Halfway between start and end: {', '.join(shown)}."
    if len(when) < len(formation):
        yield (
            f"{len(formation) - len(when)} of {len(formation)} (labels and patterns by site) do not end 0.1 "
            "above untrained models."
        )


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Heads of the first model beside those that they are matched with; of checkpoints what forms when."""
    if "formation" in result.tables:
        formation = result.formation
        done = (formation["first_degree"] > 0) | (formation["last_degree"] > 0)
        yield rows_shown(formation[done], FORMATION.columns)
        return
    first, *others = dict.fromkeys(result.across["model"])
    heads = rows(result)
    roles = pd.Series(_told(heads), [heads["model"], head_names(heads)])
    columns = [[*roles[first].index], [*roles[first]]]
    for name in others[:_MOST_BESIDE]:
        pairs = result.matching[result.matching["model"] == name]
        matched = zip(pairs["matched"], head_names(pairs), pairs["matched_distance"], strict=True)
        cells = {
            key: f"{head} ({distance:.2f}) {roles[name][head]}" for key, head, distance in matched
        }
        columns.append([cells.get(head, "") for head in columns[0]])
    more, names = len(others[_MOST_BESIDE:]), (first, *others[:_MOST_BESIDE])
    yield TerminalTable(
        ("head", *names),
        tuple(zip(*columns, strict=True)),
        prose=names,
        caption=f"and the heads of {more} more in {ACROSS.file}" if more else None,
        legend=f"closest role with its strength: {ROLE_LEGEND}; {_MARK}: confirmed against controls; in "
        "brackets the distance to the first model's head.",
    )


def _told(heads: pd.DataFrame) -> list[str]:
    """The closest role of each head, what was picked, its strength, and whether it is confirmed."""
    return [
        NO_ROLE
        if row["role"] == NO_ROLE
        else f"{row['detail'] or row['role']} {row['strength']:.2f}"
        + (f" {_MARK}" if row["significant"] else "")
        for row in heads.to_dict("records")
    ]


def _draw_degrees(
    panels: Sequence[tuple[str, str, pd.DataFrame]], formation: pd.DataFrame | None
) -> Figure:
    """A panel per site and label or pattern: the degree of its strongest head, model by model.

    Args:
        panels: sites, and labels or patterns, with their degrees: a row per model and head.
        formation: of checkpoints: what untrained models reach is grey.
    """
    columns = int((WIDE - _LEFT) / (_ACROSS + _GAP))
    down = _HIGH + _TOP + _BELOW
    with style():
        figure = blank(WIDE, -(-len(panels) // columns) * down)
        for number, (site, what, group) in enumerate(panels):
            row, column = divmod(number, columns)
            axes = panel(
                figure, _LEFT + column * (_ACROSS + _GAP), _TOP + row * down, _ACROSS, _HIGH
            )
            values = group.groupby("model", sort=False)["degree"].max()
            names = [*range(1, len(values) + 1)]
            if formation is not None:
                names = group["training_step"].unique().tolist()
                band = formation[(formation["site"] == site) & (formation["what"] == what)].iloc[0]
                axes.axhspan(
                    band["untrained_low"], band["untrained_high"], color=_BAND, linewidth=0
                )
            mark = FUNCTIONS[what].colour if what in FUNCTIONS else INK
            form = "o" if formation is None else "-o"
            axes.plot(range(len(values)), values, form, color=mark, markersize=3)
            ticks = sorted({0, len(values) // 2, len(values) - 1})
            axes.set_xticks(ticks, [f"{names[tick]:.0f}" for tick in ticks])
            axes.set(ylim=(-0.05, 1.05), yticks=[0, 0.5, 1])
            axes.set_title(f"{site}: {what}", loc="left", color=INK, fontsize=7)
            axes.spines[["top", "right"]].set_visible(False)
    return figure
