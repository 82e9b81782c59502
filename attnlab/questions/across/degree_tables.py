"""How far degrees of matched heads differ between models, and when they come about in a training."""

import math
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from attnlab.core import HEAD_COLUMNS
from attnlab.labels import MARGIN
from attnlab.questions.across.question import DIFFERENCES
from attnlab.results import head_names

_ONE = ["matched", "what"]
Numbers = Sequence[int] | Sequence[float]


def differences(
    degrees: pd.DataFrame, matching: pd.DataFrame, first: str, seeds: Collection[str]
) -> pd.DataFrame:
    """A row per model, head of the first model that it has a match for, and label or pattern.

    Args:
        degrees: of all models.
        matching: of all models but the first.
        first: the name of the first.
        seeds: names of the models that only say how far seeds differ.
    """
    reference = degrees[degrees["model"] == first]
    reference = reference.assign(matched=head_names(reference))[[*HEAD_COLUMNS, *_ONE, "degree"]]
    heads = matching[["model", *HEAD_COLUMNS, "matched"]]
    others = degrees.merge(heads, on=["model", *HEAD_COLUMNS])
    others = others.assign(counterpart=head_names(others), other_degree=others["degree"])
    both = reference.merge(others[["model", *_ONE, "counterpart", "other_degree"]], on=_ONE)
    both = both.assign(degree_change=both["other_degree"] - both["degree"])
    of_seeds = both["model"].isin([*seeds])
    table = both[~of_seeds]
    if seeds:
        changes = both[of_seeds].assign(seed_change=both["degree_change"].abs())
        # Of all heads: with few seeds each head alone would be beyond its own by chance.
        most = changes.groupby(["site", "what"], as_index=False)["seed_change"].max()
        table = table.merge(most, on=["site", "what"], how="left")
        complete = table[["degree_change", "seed_change"]].notna().all(axis="columns")
        beyond = (table["degree_change"].abs() > table["seed_change"]).astype("boolean")
        table = table.assign(beyond_seeds=beyond.where(complete))
    return table[[name for name in DIFFERENCES if name in table]]


def formation(degrees: pd.DataFrame, untrained: pd.DataFrame) -> pd.DataFrame:
    """When the strongest head of each label or pattern is halfway to where it ends, by site.

    Args:
        degrees: of the checkpoints.
        untrained: of models with weights drawn anew.
    """
    what = ["site", "what"]
    twins = untrained.fillna({"degree": 0.0}).groupby([*what, "model"])["degree"].max()
    rows = []
    for key, group in degrees.fillna({"degree": 0.0}).groupby(what, sort=False):
        by_step = group.groupby("training_step")["degree"].max()
        values, band = by_step.tolist(), twins.xs(key)
        formed = values[-1] > band.max() + MARGIN
        half = halfway(by_step.index.tolist(), values) if formed else math.nan
        rows.append((*key, values[0], values[-1], band.min(), band.max(), half))
    columns = ["first_degree", "last_degree", "untrained_low", "untrained_high", "half_step"]
    return pd.DataFrame(rows, columns=[*what, *columns])


def reached(steps: Numbers, values: Numbers, level: float) -> float:
    """The first step at which the values have come from the first of them to a level.

    Between two steps the values lie on a line. NaN where they never reach it.

    >>> reached([0, 8, 16], [4.0, 4.0, 2.0], 2.5)
    14.0
    """
    sign = np.sign(level - values[0])
    passed = sign * (np.asarray(values) - level) >= 0
    if sign == 0 or not passed.any():
        return math.nan
    after = int(passed.argmax())
    part = (level - values[after - 1]) / (values[after] - values[after - 1])
    return float(steps[after - 1] + part * (steps[after] - steps[after - 1]))


def halfway(steps: Numbers, values: Numbers) -> float:
    """The first step at which half of what changes from the first value to the last is reached.

    Between two steps the values lie on a line. NaN where the two are equal.

    >>> halfway([0, 8, 16], [4.0, 4.0, 2.0])
    12.0
    """
    return reached(steps, values, (values[0] + values[-1]) / 2)
