"""What the tables of a plan search say, in sentences."""

from typing import Any, NamedTuple

import pandas as pd

from attnlab.core.columns import Column
from attnlab.core.texts import counted
from attnlab.studies.planning.columns import SCORES
from attnlab.studies.planning.planning import FULL, SEARCHED
from attnlab.studies.planning.settings import NOTHING


class Metric(NamedTuple):
    """What plans are ranked by.

    Attributes:
        column: its value.
        gain: how much better the searched plan is than a row's.
        name: in a sentence.
        unit: of a gain.
        sign: 1 where more is better, else -1.
    """

    column: Column
    gain: Column
    name: str
    unit: str
    sign: int


BY_BLEU = Metric(SCORES["bleu"], SCORES["bleu_gain"], "BLEU", "BLEU", 1)
BY_LOSS = Metric(SCORES["loss_nats"], SCORES["loss_gain"], "loss", "nats per token", -1)


def goodness_of(scores: pd.DataFrame) -> Metric:
    """BLEU where sentences were translated, else the loss."""
    return BY_BLEU if BY_BLEU.column.name in scores else BY_LOSS


def planning_answers(scores: pd.DataFrame, heads: pd.DataFrame) -> list[str]:
    """Which plan of each budget is best, and what the searched one is like, a few sentences each.

    Args:
        scores: see `Planning.scores`.
        heads: see `Planning.heads`.
    """
    by = goodness_of(scores)
    return [
        " ".join(filter(None, (_best(budget, rows, by), _nearest(rows), _without_keys(own))))
        for budget, rows in scores[scores["plan"] != FULL].groupby("budget", sort=False)
        for own in [heads[heads["budget"] == budget]]
    ]


def _best(budget: Any, rows: pd.DataFrame, by: Metric) -> str:
    """The plan that is best on the test sentences, and how the searched one stands beside it."""
    at = f"At {counted(budget, 'key')} per row"
    searched = rows[rows["plan"] == SEARCHED].iloc[0]
    others = rows[rows["plan"] != SEARCHED]
    own = by.column.shown(searched[by.column.name])
    if others.empty:
        return f"{at} the searched plan ({searched['written']}) has {by.name} {own}, and no baseline fits."
    ranked = others.sort_values(by.column.name, ascending=by.sign < 0, kind="stable")
    baseline = ranked.iloc[0]
    theirs = by.column.shown(baseline[by.column.name])
    if by.sign * searched[by.column.name] >= by.sign * baseline[by.column.name]:
        return (
            f"{at} the searched plan ({searched['written']}) is best by {by.name} on these sentences: {own}, "
            f"the next ({baseline['plan']}) {theirs}; it gains {_gain(baseline, by, 'over')}."
        )
    return (
        f"{at} {baseline['plan']} is best by {by.name} on these sentences: {theirs}. The searched plan "
        f"({searched['written']}) has {own}; it loses {_gain(baseline, by, 'to')}."
    )


def _gain(baseline: pd.Series, by: Metric, beside: str) -> str:
    """The size of the gain, its interval, and whether that holds 0."""
    gain, low, high = (baseline[f"{by.gain.name}{end}"] for end in ("", "_low", "_high"))
    interval = ", ".join(by.gain.shown(end, signed=True) for end in (low, high))
    chance = ", which includes 0" if low <= 0 <= high else ""
    size = f"{by.gain.shown(abs(gain))} {by.unit}"
    return f"{size} {beside} it (95 % interval of its gain [{interval}]{chance})"


def _nearest(rows: pd.DataFrame) -> str:
    error = SCORES["error"]
    own = error.shown(rows.loc[rows["plan"] == SEARCHED, error.name].iloc[0])
    others = rows[rows["plan"] != SEARCHED].sort_values(error.name, kind="stable")
    if others.empty:
        return f"Its error is {own}."
    least = others.iloc[0]
    theirs = error.shown(least[error.name])
    return f"Its error is {own}; the least of a baseline is {theirs} ({least['plan']})."


def _without_keys(heads: pd.DataFrame) -> str:
    without = int((heads["family"] == NOTHING).sum())
    if not without:
        return ""
    are = "1 is" if without == 1 else f"{without} are"
    return f"Of its {counted(len(heads), 'head')}, {are} left out ({NOTHING})."
