"""A plan search as files: the plans, its tables, and a figure of error and change of BLEU by keys."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.attention.plan import AttentionPlan, write_plan
from attnlab.core.files import write_table, write_text
from attnlab.core.folders import replacing_result
from attnlab.reporting.canvas import INK, blank, panel, style
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.page.result_page import (
    Contents,
    DrawnFigure,
    ShownTable,
    Tables,
    write_result_page,
)
from attnlab.reporting.planning_answers import BY_BLEU, BY_LOSS, goodness_of, planning_answers
from attnlab.reporting.record import ResultRecord, write_record
from attnlab.reporting.result_folder import PLAN_EXPLANATION, PLAN_FIGURE, PLANNING, plan_path
from attnlab.studies.planning.columns import HEADS, SCORES, TABLES
from attnlab.studies.planning.planning import FULL, SEARCHED, Planning

# Plans are told by marker too, for readers who cannot tell the colours apart.
PLANS = {
    SEARCHED: ("#2178d9", "o"),
    "band": ("#6b7280", "s"),
    "longformer": ("#3a8f4d", "^"),
    "bigbird": ("#c2571a", "D"),
}

# The change that is drawn, with its label, by what plans are ranked by.
CHANGES = {
    BY_BLEU: {"bleu_change": "change of BLEU (greedy)"},
    BY_LOSS: {"loss_change": "change of loss (nats per token)"},
}


def write_plans(plans: Mapping[int, AttentionPlan], path: str | Path) -> list[Path]:
    """Writes the plan of each budget as JSON; returns the paths (`plan_path`)."""
    paths = [plan_path(path, budget, list(plans)) for budget in plans]
    for one, plan in zip(paths, plans.values(), strict=True):
        write_plan(one, plan)
    return paths


def write_planning(found: Planning, folder: str | Path) -> None:
    """Writes `plan_heads.csv`, `plan_scores.csv`, the figure, `plan.md`, which explains them, and the page.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, PLANNING.last, PLANNING.older) as aside:
        tables = {HEADS.file: found.heads, SCORES.file: found.scores}
        for name, table in tables.items():
            write_table(aside / name, table)
        write_text(aside / PLAN_EXPLANATION, _explanation(found))
        title = "A plan of attention under a budget"
        record = ResultRecord(PLANNING.what, title, found.about, found.notes, weights=found.weights)
        write_record(aside, record, tables)
        write_result_page(aside, planning_contents)


def planning_contents(record: ResultRecord, tables: Tables) -> Contents:
    """What the page of a plan search shows."""
    scores = tables[SCORES.file]
    figure = DrawnFigure(
        PLAN_FIGURE,
        draw_planning(scores),
        f"Error, and {_quality(scores)} against the run as it is, by the keys that rows saw on the test "
        "sentences, with 95 % intervals; those of the change are paired.",
    )
    shown = (
        ShownTable(SCORES.file, "Plans and their scores", ("seed",)),
        ShownTable(HEADS.file, "What each head gets"),
    )
    facts = {
        "Run": str(record.about["run"]),
        "Sentences": ", ".join(f"{n} {name}" for name, n in record.about["sentences"].items()),
        "Families": ", ".join(record.about["families"]),
        "Seed": str(record.about["seed"]),
    }
    return Contents(planning_answers(scores, tables[HEADS.file]), facts, [figure], shown)


def _quality(scores: pd.DataFrame) -> str:
    """What the change of is drawn beside the error."""
    return f"change of {goodness_of(scores).name}"


def draw_planning(scores: pd.DataFrame) -> Figure:
    """Error, and change of BLEU or else of loss, of each plan by the keys that its rows see, with intervals.

    Changes are against the run as it is, the intervals theirs: paired, and none of BLEU itself.
    """
    figures = {"error": "relative l1 error", **CHANGES[goodness_of(scores)]}
    width, height, left, top = 3.2, 2.5, 0.65, 0.4
    with style():
        figure = blank(left + len(figures) * (width + 0.7) + 1.3, top + height + 0.55)
        for index, (name, label) in enumerate(figures.items()):
            axes = panel(figure, left + index * (width + 0.7), top, width, height)
            _draw(axes, scores, name)
            axes.set_xlabel("keys per row, counted on test")
            axes.set_ylabel(label)
        axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _named_full(scores: pd.DataFrame) -> str:
    """Full attention with the measure that changes are against."""
    measure = goodness_of(scores).column
    value = scores.loc[scores["plan"] == FULL, measure.name].iloc[0]
    return f"full attention ({measure.narrow} {measure.shown(value)})"


def _draw(axes: Axes, scores: pd.DataFrame, name: str) -> None:
    if name != "error":
        axes.axhline(0, color=INK, linewidth=1, linestyle=":", label=_named_full(scores))
    for plan, (colour, marker) in PLANS.items():
        own = scores[scores["plan"] == plan].sort_values("keys_per_row")
        if own.empty:
            continue
        axes.vlines(
            own["keys_per_row"], own[f"{name}_low"], own[f"{name}_high"], color=colour, linewidth=1
        )
        axes.plot(
            own["keys_per_row"],
            own[name],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.2,
            label=plan,
        )
    if name == "error":
        axes.set_ylim(bottom=0)


def _explanation(found: Planning) -> str:
    return "\n".join(
        [
            "# A plan of attention under a budget",
            "",
            f"![Error and {_quality(found.scores)} by keys per row]({PLAN_FIGURE}.svg)",
            "",
            _origin(found.about),
            "",
            *_listed(describe_notes(found.notes)),
            *(table.explained() for table in TABLES),
        ]
    )


def _origin(about: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in about["sentences"].items())
    return (
        f"Run {about['run']}, corpus checksum {about['corpus_checksum']}, sentences: {counts}; "
        f"seed {about['seed']}."
    )


def _listed(notes: Sequence[str]) -> list[str]:
    return [*(f"- {note}" for note in notes), ""] if notes else []
