"""Phrases for how far a head carries a label, from the figures of its verdict."""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from attnlab.core.columns import rounded
from attnlab.labels.label_columns import OFFSET_OR_CHANCE
from attnlab.labels.verdict import BELOW, BORDERLINE, HOLDS, UNDECIDED, status_of
from attnlab.reporting.naming import family_words
from attnlab.studies.analysis.roles import NO_ROLE

_BESIDE = {HOLDS: "above", BORDERLINE: "about", BELOW: "below", UNDECIDED: "against"}
# The others are shares, and shown in percent.
_NO_SHARES = ("mean_rank_correlation", "mean_slope")
_SECOND = {
    "argmax_rate_contested": "among more uncommon tokens",
    "argmax_accuracy_choosing": "on the other half of the sentences",
    "mean_slope": "slope",
}


def function_phrase(found: Any) -> str:
    """The strongest function of a head with its interval and threshold.

    Args:
        found: a row of `strongest_functions`, with attributes.

    >>> import math
    >>> from types import SimpleNamespace
    >>> print(function_phrase(SimpleNamespace(
    ...     function="positional", detail="offset +1", statistic="argmax_rate",
    ...     value=0.83, low=0.812, high=0.847, threshold=0.9, second_value=math.nan,
    ...     status="below", counted=2000, needed=1000, unit="rows")))
    positional, offset +1: 83 % [81, 85], below 90 %
    """
    name = f"{found.function}, {found.detail}" if found.detail else found.function
    if found.status == UNDECIDED:
        few = f"only {found.counted:,} {found.unit}, {found.needed:,} needed"
        figures = few if math.isnan(found.value) else f"{_figure(found, '', UNDECIDED)}; {few}"
        return f"{name}: {figures}"
    own = status_of(found.low, found.high, found.threshold)
    phrase = f"{name}: {_figure(found, '', own)}"
    if own == found.status:
        return phrase
    second = status_of(found.second_low, found.second_high, found.second_threshold)
    return f"{phrase}; {_SECOND[found.second_statistic]} {_figure(found, 'second_', second)}"


def _figure(found: Any, which: str, status: str) -> str:
    """The value with its interval, and the threshold that it lies above, about or below."""
    share = getattr(found, f"{which}statistic") not in _NO_SHARES
    names = ("value", "low", "high", "threshold")
    values = [getattr(found, which + name) * (100 if share else 1) for name in names]
    value, low, high, threshold = (rounded(one, 0 if share else 2) for one in values)
    unit = " %" if share else ""
    return f"{value}{unit} [{low}, {high}], {_BESIDE[status]} {threshold}{unit}"


def evidence_phrase(found: Any) -> str:
    """The figure of the role that a head is shown with, and the one that decides its strength.

    Empty where it has no role; a second figure stands there only where it lowers the strength.

    Args:
        found: a row of `Analysis.summary`, with attributes.

    >>> from types import SimpleNamespace
    >>> print(evidence_phrase(SimpleNamespace(role="positional", detail="offset +1",
    ...     statistic="argmax_rate", value=0.63, control=0.4)))
    +1 in 63 %
    >>> print(evidence_phrase(SimpleNamespace(role="syntactic", detail="case head>dependent",
    ...     statistic="argmax_accuracy", value=0.65, control=0.56)))
    case: head to dependent 65 %, offset or chance 56 %
    >>> print(evidence_phrase(SimpleNamespace(role="rare tokens", detail="two rarest",
    ...     statistic="argmax_rate", value=0.4, control=0.3)))
    two rarest in 40 %, by chance among more uncommon tokens 30 %
    """
    if not found.role or found.role == NO_ROLE or pd.isna(found.value):
        return ""
    figure = _value(found.value, found.statistic)
    subject, beside = _EVIDENCE.get(found.role, (_named, ""))
    text = f"{subject(str(found.detail or ''))} {figure}".strip()
    text += _beside(beside, found.control, found.statistic)
    second = getattr(found, "second_statistic", "")
    if not second or pd.isna(second):
        return text
    other = f"{_SECOND[second]} {_value(found.second_value, second)}"
    return f"{text}; {other}{_beside(beside, found.second_control, second)}"


def _beside(words: str, control: float, statistic: str) -> str:
    """The figure that would come without the role, behind a comma; nothing where there is none."""
    return f", {words} {_value(control, statistic)}" if words and not pd.isna(control) else ""


def _value(value: float, statistic: str) -> str:
    return rounded(value, 2) if statistic in _NO_SHARES else f"{rounded(100 * value, 0)} %"


def _named(detail: str) -> str:
    return detail


def _offset(detail: str) -> str:
    return f"{detail.removeprefix('offset ')} in"


def _relation(detail: str) -> str:
    """`case: head to dependent` of `case head>dependent`."""
    relation, _, direction = detail.partition(" ")
    return f"{relation}: {direction.replace('>', ' to ')}" if direction else relation


def _always(text: str) -> Callable[[str], str]:
    return lambda _: text


_SINKS = {
    "first": "the first token",
    "opening": "the start token",
    "closing": "end or separator",
    "punctuation": "punctuation",
}
# How the figure of each role is introduced, and what the figure beside it is.
_EVIDENCE: dict[str, tuple[Callable[[str], str], str]] = {
    "positional": (_offset, ""),
    "syntactic": (_relation, OFFSET_OR_CHANCE),
    "alignment": (_relation, OFFSET_OR_CHANCE),
    "rare tokens": (_always("two rarest in"), "by chance among more uncommon tokens"),
    "sink": (lambda detail: f"weight on {_SINKS.get(detail, detail)}", ""),
    "broad": (_always("entropy, of the largest,"), ""),
    "monotone": (_always("rank correlation"), ""),
}


def structure_phrase(found: Any) -> str:
    """The family of a head's matrices, or the two that describe them equally well.

    >>> from types import SimpleNamespace
    >>> row = SimpleNamespace(structure="rare_columns", structure_runner_up="band",
    ...     structure_tie=True)
    >>> structure_phrase(row)
    'tie: rare columns, band'
    """
    first, second = map(family_words, (found.structure, found.structure_runner_up))
    return f"tie: {first}, {second}" if found.structure_tie else first
