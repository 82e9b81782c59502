"""The labels of heads as phrases of the README."""

import math
from typing import Any

import pandas as pd

from attnlab.core import counted, rounded
from attnlab.labels import (
    BORDERLINE,
    CONFIRMED,
    NOT_COMPARED,
    REJECTED,
    UNDECIDED,
    UNKNOWN,
    status_of,
)

NO_LABEL = (UNKNOWN, UNDECIDED, NOT_COMPARED)
_AGAINST = {CONFIRMED: "above", BORDERLINE: "about", REJECTED: "below", UNDECIDED: "against"}
# The others are shares, and shown in percent.
_NO_SHARES = ("mean_rank_correlation", "mean_slope")
_SECOND = {
    "argmax_rate_contested": "among more uncommon tokens",
    "argmax_accuracy_choosing": "on the choosing half",
    "mean_slope": "slope",
}


def function_phrase(head: Any) -> str:
    """The strongest function of a head with its interval and threshold.

    Args:
        head: a row of `strongest_functions`, with attributes.

    >>> import math
    >>> from types import SimpleNamespace
    >>> print(function_phrase(SimpleNamespace(
    ...     function="positional", detail="offset +1", statistic="argmax_rate",
    ...     value=0.83, value_low=0.812, value_high=0.847, threshold=0.9, second_value=math.nan,
    ...     status="rejected", counted=2000, needed=1000, unit="rows")))
    positional, offset +1: 83 % [81, 85], below 90 %
    """
    name = _named(head.function, str(head.detail or "")).replace(">", " to ")
    if head.status == UNDECIDED:
        few = f"only {head.counted:,} {head.unit}, {head.needed:,} needed"
        figures = few if math.isnan(head.value) else f"{_figure(head, '', UNDECIDED)}; {few}"
        return f"{name}: {figures}"
    first = status_of(head.value_low, head.value_high, head.threshold)
    phrase = f"{name}: {_figure(head, '', first)}"
    if first == head.status:
        return phrase
    second = status_of(head.second_value_low, head.second_value_high, head.second_threshold)
    return f"{phrase}; {_SECOND[head.second_statistic]} {_figure(head, 'second_', second)}"


def _named(label: str, detail: str) -> str:
    """A label with what was picked, without a word that both have."""
    picked = detail.removeprefix(label).strip()
    return f"{label}, {picked}" if picked else label


def _figure(head: Any, which: str, status: str) -> str:
    """The value with its interval, and the threshold that it lies above, about or below."""
    share = getattr(head, f"{which}statistic") not in _NO_SHARES
    names = ("value", "value_low", "value_high", "threshold")
    values = [getattr(head, which + name) * (100 if share else 1) for name in names]
    value, low, high, threshold = (rounded(number, 0 if share else 2) for number in values)
    unit = " %" if share else ""
    return f"{value}{unit} [{low}, {high}], {_AGAINST[status]} {threshold}{unit}"


def count_labels(labels: pd.DataFrame) -> str:
    """How many heads carry each label, as a phrase; a head of several labels counts for each.

    >>> count_labels(pd.DataFrame({"labels": ["sink; broad", "unknown", "sink"]}))
    '2 sink, 1 broad, 1 unknown (3 heads)'
    """
    counts = labels["labels"].str.split("; ").explode().value_counts()
    ordered = sorted(counts.items(), key=lambda pair: (pair[0] in NO_LABEL, -pair[1], pair[0]))
    return (
        ", ".join(f"{count} {label}" for label, count in ordered)
        + f" ({counted(len(labels), 'head')})"
    )
