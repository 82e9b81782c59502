"""Phrases for how far a head carries a label, from the figures of its verdict."""

import math
from typing import Any

from attnlab.columns import rounded
from attnlab.functions.verdict import BELOW, BORDERLINE, HOLDS, UNDECIDED, status_of

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


def structure_phrase(found: Any) -> str:
    """The family of a head's matrices, or the two that describe them equally well.

    >>> from types import SimpleNamespace
    >>> row = SimpleNamespace(structure="rare_columns", structure_runner_up="band",
    ...     structure_tie=True)
    >>> structure_phrase(row)
    'tie: rare columns, band'
    """
    first, second = (
        name.replace("_", " ") for name in (found.structure, found.structure_runner_up)
    )
    return f"tie: {first}, {second}" if found.structure_tie else first
