"""A plan search as files: the plans, its tables, and a figure of error and change of BLEU by keys."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.attention.plan import AttentionPlan, write_plan
from attnlab.files import write_table, write_text
from attnlab.folders import replacing_result
from attnlab.reporting.canvas import INK, blank, panel, style
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.page.result_page import (
    Contents,
    DrawnFigure,
    ShownTable,
    Tables,
    write_result_page,
)
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

CHANGE_LABELS = {
    "bleu_change": "change of BLEU (greedy)",
    "loss_change": "change of loss (nats per token)",
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
        ShownTable(SCORES.file, "Plans and their scores", ("_p_value", "seed")),
        ShownTable(HEADS.file, "What each head gets"),
    )
    facts = {
        "Run": str(record.about["run"]),
        "Sentences": ", ".join(f"{n} {name}" for name, n in record.about["sentences"].items()),
        "Families": ", ".join(record.about["families"]),
        "Seed": str(record.about["seed"]),
    }
    return Contents(_answers(scores), facts, [figure], shown)


def _answers(scores: pd.DataFrame) -> list[str]:
    """The searched plan of each budget beside the baseline of least test error, a sentence each."""
    found = []
    error = SCORES["error"]
    for budget, rows in scores[scores["plan"] != FULL].groupby("budget", sort=False):
        searched = rows[rows["plan"] == SEARCHED].iloc[0]
        text = (
            f"At {budget} keys per row the searched plan ({searched['written']}) has error "
            f"{error.shown(searched['error'])}"
        )
        others = rows[rows["plan"] != SEARCHED]
        if len(others):
            best = others.sort_values("error", kind="stable").iloc[0]
            text += (
                f", the baseline of least error on these sentences ({best['plan']}) "
                f"{error.shown(best['error'])}"
            )
            if pd.notna(best.get("bleu_gain")):
                low, gain, high = (
                    SCORES["bleu_gain"].shown(best[name], signed=True)
                    for name in ("bleu_gain_low", "bleu_gain", "bleu_gain_high")
                )
                text += f"; it gains {gain} [{low}, {high}] BLEU over that one"
        found.append(f"{text}.")
    return found


def has_bleu(scores: pd.DataFrame) -> bool:
    """Whether the plans were translated with, so that there is BLEU."""
    return "bleu" in scores


def _quality(scores: pd.DataFrame) -> str:
    """What the change of is drawn beside the error."""
    return "change of BLEU" if has_bleu(scores) else "change of loss"


def draw_planning(scores: pd.DataFrame) -> Figure:
    """Error, and change of BLEU or else of loss, of each plan by the keys that its rows see, with intervals.

    Changes are against the run as it is, the intervals theirs: paired, and none of BLEU itself.
    """
    change = "bleu_change" if has_bleu(scores) else "loss_change"
    figures = {"error": "relative l1 error", change: CHANGE_LABELS[change]}
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
    measure = SCORES["bleu" if has_bleu(scores) else "loss_nats"]
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
