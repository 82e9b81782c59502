"""A substitution study as files: its tables, a figure, and what they say."""

from pathlib import Path

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.core.columns import rounded
from attnlab.core.files import write_table, write_text
from attnlab.core.folders import replacing_result
from attnlab.core.texts import counted
from attnlab.reporting.canvas import INK, blank, panel, style
from attnlab.reporting.drawing.levels import LEVEL_COLOURS, LEVEL_MARKERS, example_of
from attnlab.reporting.drawing.stretching import stretch
from attnlab.reporting.notes import describe_notes
from attnlab.reporting.page.result_page import (
    Contents,
    DrawnFigure,
    ShownTable,
    Tables,
    write_result_page,
)
from attnlab.reporting.record import ResultRecord, write_record
from attnlab.reporting.result_folder import (
    SUBSTITUTION,
    SUBSTITUTION_EXPLANATION,
    SUBSTITUTION_FIGURE,
)
from attnlab.studies.substitution.columns import ORACLE, PREDICTION, SUBSTITUTIONS, TABLES
from attnlab.studies.substitution.substitution import Substitution

_LEFT, _WIDTH, _GAP, _TOP, _HEIGHT = 0.9, 2.2, 0.55, 0.75, 2.2
_PREDICTORS = {"missing_mass": "attention not captured", "output_error": "relative output error"}
_SITE_MARKERS = {"encoder": "o", "decoder": "s", "cross": "^"}


def write_substitution(found: Substitution, folder: str | Path, *, title: str) -> None:
    """Writes `substitutions.csv`, `prediction.csv`, the figure, `substitution.md` and, last, the page.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, SUBSTITUTION.last, SUBSTITUTION.older) as aside:
        tables = {SUBSTITUTIONS.file: found.substitutions, PREDICTION.file: found.prediction}
        for name, table in tables.items():
            write_table(aside / name, table)
        about = {
            **{f"{part.capitalize()} sentences": count for part, count in found.sentences.items()},
            "Seed": found.settings.seed,
        }
        record = ResultRecord(
            SUBSTITUTION.what, title, about, found.notes, weights=found.run.weights
        )
        write_record(aside, record, tables)
        write_text(aside / SUBSTITUTION_EXPLANATION, _explanation(found, title))
        write_result_page(aside, substitution_contents)


def substitution_contents(record: ResultRecord, tables: Tables) -> Contents:
    """What the page of a substitution study shows."""
    rows = tables[SUBSTITUTIONS.file]
    figure = DrawnFigure(
        SUBSTITUTION_FIGURE,
        draw_substitution(rows),
        "Change of loss with heads replaced, and what predicts it. Colours tell mechanisms that can be "
        "used from oracles, which choose from the very matrices that they replace.",
    )
    shown = (
        ShownTable(SUBSTITUTIONS.file, "What each replacement costs"),
        ShownTable(PREDICTION.file, "What predicts the cost of a head"),
    )
    facts = {name: str(value) for name, value in record.about.items()}
    return Contents(answers(rows, tables[PREDICTION.file]), facts, [figure], shown)


def answers(rows: pd.DataFrame, prediction: pd.DataFrame) -> list[str]:
    """What the tables say about the cheapest replacement and about the predictors, a sentence each.

    Args:
        rows: see `Substitution.substitutions`.
        prediction: see `Substitution.prediction`.
    """
    return [*_cheapest(rows), *_correlations(prediction)]


def _cheapest(rows: pd.DataFrame) -> list[str]:
    """The cheapest mechanism in place of all heads that can be used, a sentence for each number of steps."""
    sentences = []
    together = rows[rows["scope"] != "head"]
    usable = together[together["level"] == "calibrated"]
    # All heads, which in a model of one site are those of the site.
    usable = usable[usable["replaced_heads"] == usable["replaced_heads"].max()]
    for steps in sorted(set(rows["steps"])):
        whole = usable[usable["steps"] == steps]
        if whole["replaced"].nunique() != 1:
            continue
        best = whole.loc[whole["loss_change_nats"].idxmin()]
        change = rounded(best["loss_change_nats"], 3, signed=True)
        low, high = (rounded(best[f"loss_{end}"], 3, signed=True) for end in ("low", "high"))
        when = f"After {counted(steps, 'batch')} of fine-tuning" if steps else "Without retraining"
        counts = {name: whole[name].nunique() for name in ("mechanism", "budget")}
        among = " and ".join(counted(count, name) for name, count in counts.items() if count > 1)
        text = (
            f"{when}, {best['mechanism']} at {counted(best['budget'], 'key')} per row in place of "
            f"{counted(best['replaced_heads'], 'head')} costs "
            f"{f'least of {among} on these test sentences: ' if among else ''}"
            f"{change} [{low}, {high}] nats per token."
        )
        if among:
            text += " Being the least of several, it is likely to look a little better than it is."
        oracles = dict.fromkeys(together.loc[together["level"] == ORACLE, "mechanism"])
        if oracles:
            text += (
                f" Oracles ({', '.join(oracles)}) are left out here, since they are chosen from the full "
                "matrix that they replace."
            )
        sentences.append(text)
    return sentences


def _correlations(prediction: pd.DataFrame) -> list[str]:
    """How well the predictors rank the cost of a head, as a sentence."""
    pairs = prediction[prediction["across"] == "pairs"]
    if pairs.empty:
        return []
    parts = []
    for site, own in pairs.groupby("site", sort=False):
        by_name = own.set_index("predictor")["spearman"].reindex(list(_PREDICTORS))
        if by_name.isna().any():
            continue
        mass, error = (rounded(by_name[name], 2) for name in _PREDICTORS)
        parts.append(f"{site} {mass} and {error}")
    if not parts:
        return []
    text = (
        "Rank correlation of the loss of a replaced head with the attention not captured and with "
        f"the output error, over pairs of head and mechanism: {'; '.join(parts)}."
    )
    return [text]


def draw_substitution(rows: pd.DataFrame) -> Figure:
    """Above: change of loss and BLEU with all heads replaced; below: what predicts the loss of one head."""
    alone = rows[(rows["scope"] == "head") & rows["mass_fraction"].notna()]
    together = rows[(rows["scope"] != "head") & (rows["replaced_heads"] > 0)]
    names = _labels(together)
    height = 0.17 * max(len(names), 3) + 0.2
    columns = list(dict.fromkeys(together["replaced"]))
    wide = 1.5 + _LEFT + max(len(columns), 2) * (_WIDTH + _GAP)
    lower = _HEIGHT + 1.3 if len(alone) else 0.0
    with style():
        figure = blank(wide, _TOP + height + 0.75 + lower)
        for position, column in enumerate(columns):
            left = _LEFT + 1.5 + position * (_WIDTH + _GAP)
            axes = panel(figure, left, _TOP, _WIDTH, height)
            _draw_changes(axes, together[together["replaced"] == column], names)
            axes.tick_params(axis="y", labelleft=position == 0, length=0)
            axes.set_title(str(column), loc="left")
        _headline(
            figure, 0.25, "Change of loss (nats per token, 95 % intervals) with all heads replaced"
        )
        figure.legend(
            handles=[example_of(level) for level in dict.fromkeys(together["level"]) if level],
            loc="center right", bbox_to_anchor=(0.99, 1 - 0.25 / figure.get_figheight()),
            frameon=False, fontsize=8, ncols=3,
        )  # fmt: skip
        if len(alone):
            top = _TOP + height + 1.45
            for position, (name, label) in enumerate(_PREDICTORS.items()):
                left = _LEFT + position * (_WIDTH * 1.5 + _GAP + 0.35)
                axes = panel(figure, left, top, _WIDTH * 1.5, _HEIGHT)
                _draw_prediction(axes, alone, name)
                axes.set_xlabel(label, fontsize=8.5)
            axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=8)
            _headline(
                figure, top - 0.3, "Change of loss with one head replaced, by what is known before"
            )
    return figure


def _headline(figure: Figure, top: float, text: str) -> None:
    figure.text(0.012, 1 - top / figure.get_figheight(), text, va="center", fontsize=11)


def _label(row: pd.Series) -> str:
    keys = "" if pd.isna(row["budget"]) else f" ({row['budget']})"
    tuned = f", {row['steps']} steps" if row["steps"] else ""
    return f"{row['mechanism']}{keys}{tuned}"


def _labels(rows: pd.DataFrame) -> list[str]:
    """Mechanisms by their mean change of loss, the worst first."""
    if rows.empty:
        return []
    labels = rows.apply(_label, axis=1)
    order = rows["loss_change_nats"].groupby(labels).mean().sort_values(ascending=False)
    return [str(name) for name in order.index]


def _draw_changes(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for row in rows.to_dict("records"):
        height = names.index(_label(pd.Series(row)))
        colour = LEVEL_COLOURS.get(row["level"], INK)
        axes.plot([row["loss_low"], row["loss_high"]], [height, height], color=colour, linewidth=1)
        marker = LEVEL_MARKERS.get(row["level"], "*")
        axes.plot(row["loss_change_nats"], height, marker, color=colour, markersize=4)
    axes.margins(x=0.08)
    largest = float(rows[["loss_low", "loss_high"]].abs().to_numpy().max())
    scale = stretch(axes, "x", threshold=0.1, largest=largest)
    axes.set_xlabel(f"nats per token{scale}", fontsize=8.5)
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(-0.7, len(names) - 0.3)
    sns.despine(ax=axes)


def _draw_prediction(axes: Axes, rows: pd.DataFrame, predictor: str) -> None:
    values = 1 - rows["mass_fraction"] if predictor == "missing_mass" else rows[predictor]
    sites = rows["replaced"].str.partition(".")[0]
    for site, marker in _SITE_MARKERS.items():
        own = sites == site
        if own.any():
            axes.plot(
                values[own], rows.loc[own, "loss_change_nats"], marker, markersize=3, alpha=0.6,
                label=site, markeredgewidth=0,
            )  # fmt: skip
    scale = stretch(axes, "y", threshold=0.01, largest=float(rows["loss_change_nats"].abs().max()))
    axes.set_ylabel(f"nats per token{scale}", fontsize=8.5)
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
    sns.despine(ax=axes)


def _explanation(found: Substitution, title: str) -> str:
    said = "\n\n".join(answers(found.substitutions, found.prediction))
    facts = (
        f"{found.sentences['test']} test sentences, {found.sentences['validation']} validation sentences, "
        f"which choose settings, {found.sentences['calibration']} training sentences for what is "
        f"learned, seed {found.settings.seed}."
    )
    columns = "\n".join(table.explained() for table in TABLES)
    drawn = f"![Change of loss by mechanism]({SUBSTITUTION_FIGURE}.svg)"
    notes = "".join(f"Note: {note}\n\n" for note in describe_notes(found.notes))
    return f"# {title}\n\n{said}\n\n{facts}\n\n{notes}{drawn}\n\n{columns}"
