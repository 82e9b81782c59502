"""Writes an importance study: tables, the figure, and what they say."""

from pathlib import Path

import pandas as pd

from attnlab.files import write_table, write_text
from attnlab.folders import replacing_result
from attnlab.reporting.importance_figure import draw_importance
from attnlab.reporting.naming import head_names
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
    IMPORTANCE,
    IMPORTANCE_EXPLANATION,
    IMPORTANCE_FIGURE,
)
from attnlab.studies.importance.columns import (
    AGREEMENT_OF_MEASURES,
    CHANGES,
    CUMULATIVE,
    IMPORTANCE_OF_HEADS,
    TABLES,
)
from attnlab.studies.importance.importance import Importance
from attnlab.texts import counted


def write_importance(found: Importance, folder: str | Path, *, title: str) -> Path:
    """Writes tables, `importance.md`, which explains them, the figure and, last, the page.

    Until the new study is whole, an older one in the folder stays as it is. Returns `folder`.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, IMPORTANCE.last, IMPORTANCE.older) as aside:
        tables = {
            IMPORTANCE_OF_HEADS.file: found.heads,
            CUMULATIVE.file: found.cumulative,
            AGREEMENT_OF_MEASURES.file: found.agreement,
        }
        for name, table in tables.items():
            write_table(aside / name, table)
        record = ResultRecord(
            IMPORTANCE.what, title, found.about, found.notes, weights=found.weights
        )
        write_record(aside, record, tables)
        write_text(aside / IMPORTANCE_EXPLANATION, _explanation(found, title))
        write_result_page(aside, importance_contents)
    return Path(folder)


def importance_contents(record: ResultRecord, tables: Tables) -> Contents:
    """What the page of an importance study shows."""
    heads, cumulative = tables[IMPORTANCE_OF_HEADS.file], tables[CUMULATIVE.file]
    figure = DrawnFigure(
        IMPORTANCE_FIGURE,
        draw_importance(heads, cumulative),
        "Above: change of loss with each head replaced alone; right of 0 the model needs it. Below: what "
        "is left when heads are removed one after another.",
    )
    shown = (
        ShownTable(IMPORTANCE_OF_HEADS.file, "Every head replaced alone", ("_p_value",)),
        ShownTable(
            CUMULATIVE.file, "Heads removed one after another", ("chosen_on", "reported_on")
        ),
        ShownTable(AGREEMENT_OF_MEASURES.file, "Do the measures agree?"),
    )
    facts = {
        name: str(record.about[name])
        for name in ("Model", "Sentences", "Loss of the whole model")
        if name in record.about
    }
    return Contents([*_needed(heads), *removable(cumulative)], facts, [figure], shown)


def _needed(heads: pd.DataFrame) -> list[str]:
    """How many heads the model needs when each is replaced alone, and which most, as sentences."""
    found = []
    for change, proof in CHANGES:
        if change.name not in heads or heads[change.name].isna().all() or "loss" not in change.name:
            continue
        needed = heads[(heads[change.name] > 0) & (heads[proof.name] == True)]  # noqa: E712 - may be missing
        replacement = change.name.partition("_")[0]
        ranked = heads.sort_values(change.name, ascending=False)
        raises = "raises" if len(needed) == 1 else "raise"
        found.append(
            f"Replaced alone ({replacement}), {len(needed)} of {counted(len(heads), 'head')} "
            f"{raises} the loss beyond chance, most {head_names(ranked)[0]} "
            f"({change.shown(float(ranked[change.name].iloc[0]), signed=True)} nats per token)."
        )
    return found


def removable(cumulative: pd.DataFrame) -> list[str]:
    """How many heads can go together at little loss, in the best order, as a sentence.

    An interval that lies above 0 ends an order, even where a later one does not.
    """
    found = {
        str(order): int((own["loss_change_low"] <= 0).cummin().sum()) - 1
        for order, own in cumulative.sort_values("heads_removed").groupby("order", sort=False)
    }
    if not found:
        return []
    best = max(found, key=found.__getitem__)
    where = ", on the half of the sentences that did not choose the order"
    if found[best] < 1:
        return [f"Already the first head that is removed raises the loss beyond chance{where}."]
    total = cumulative["heads_removed"].max()
    told = (
        f"{found[best]} of {counted(total, 'head')} can go, one after another (order: {best}), before the "
        f"interval of the loss lies above that of the whole model{where}."
    )
    return [told]


def _explanation(found: Importance, title: str) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in found.about.items() if value)
    notes = "".join(f"\nNote: {note}\n" for note in describe_notes(found.notes))
    written = (found.heads, found.cumulative, found.agreement)
    columns = "\n".join(
        table.explained(rows.columns) for table, rows in zip(TABLES, written, strict=True)
    )
    drawn = f"![Importance of each head]({IMPORTANCE_FIGURE}.svg)"
    return f"# {title}\n\n{facts}\n{notes}\n{drawn}\n\n{columns}"
