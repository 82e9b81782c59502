"""A plan search as files: the plans, its tables, and a figure of error and BLEU by keys per row."""

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
        "Error, and BLEU where sentences were translated, by the keys that rows saw on the test "
        "sentences, with 95 % intervals.",
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


def draw_planning(scores: pd.DataFrame) -> Figure:
    """Error, and BLEU where there is any, of each plan by the keys that its rows see, with intervals."""
    figures = {"error": "relative l1 error", "bleu": "BLEU (greedy)"}
    shown = [name for name in figures if name in scores]
    width, height, left, top = 3.2, 2.5, 0.65, 0.4
    with style():
        figure = blank(left + len(shown) * (width + 0.7) + 0.9, top + height + 0.55)
        for index, name in enumerate(shown):
            axes = panel(figure, left + index * (width + 0.7), top, width, height)
            _draw(axes, scores, name)
            axes.set_xlabel("keys per row, counted on test")
            axes.set_ylabel(figures[name])
            if index == len(shown) - 1:
                axes.legend(
                    frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0)
                )
    return figure


def _draw(axes: Axes, scores: pd.DataFrame, name: str) -> None:
    whole = scores[scores["plan"] == FULL].iloc[0]
    if name == "bleu":
        axes.axhline(whole[name], color=INK, linewidth=1, linestyle=":", label="full attention")
    for plan, (colour, marker) in PLANS.items():
        own = scores[scores["plan"] == plan].sort_values("keys_per_row")
        if own.empty:
            continue
        low, high = (_ends(own, whole, name, end) for end in ("low", "high"))
        axes.vlines(own["keys_per_row"], low, high, color=colour, linewidth=1)
        axes.plot(
            own["keys_per_row"],
            own[name],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.2,
            label=plan,
        )
    axes.set_ylim(bottom=0)


def _ends(own: pd.DataFrame, whole: pd.Series, name: str, end: str) -> pd.Series:
    """Ends of the intervals; that of BLEU is the one of its change, put at the run's own."""
    return own[f"error_{end}"] if name == "error" else whole["bleu"] + own[f"bleu_change_{end}"]


def _explanation(found: Planning) -> str:
    return "\n".join(
        [
            "# A plan of attention under a budget",
            "",
            f"![Error and BLEU by keys per row]({PLAN_FIGURE}.svg)",
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
