"""The labels there are; all of them counted for a layer at once, and decided at the end."""

from collections.abc import Mapping
from functools import cache

import pandas as pd

from attnlab.extraction.views import ALL, View
from attnlab.extraction.weights import LayerWeights
from attnlab.functions.counts import Counts
from attnlab.functions.label import BatchFacts, HeadLabel, LayerView
from attnlab.functions.labels.broad import BROAD_LABEL
from attnlab.functions.labels.monotone import MONOTONE_LABEL
from attnlab.functions.labels.positional import POSITIONAL_LABEL
from attnlab.functions.labels.rare import RARE_LABEL
from attnlab.functions.labels.sink import SINK_LABEL
from attnlab.functions.labels.syntactic import ALIGNMENT_LABEL, SYNTACTIC_LABEL, relation_table
from attnlab.functions.links import LinkCounts
from attnlab.functions.verdict import verdict_table
from attnlab.plugins import with_plugins
from attnlab.sums import Sums

# In the order of the rows of verdicts.
OWN_LABELS = (
    RARE_LABEL,
    SINK_LABEL,
    BROAD_LABEL,
    POSITIONAL_LABEL,
    MONOTONE_LABEL,
    SYNTACTIC_LABEL,
    ALIGNMENT_LABEL,
)
# By label and view.
LabelCounts = Sums[tuple[str, View], Counts]


@cache
def known_labels() -> dict[str, HeadLabel]:
    """Every label by its name, those that other distributions register (`attnlab.labels`) last.

    Raises:
        InputError: what is registered is no `HeadLabel`, or has the name of another.
    """
    return with_plugins(
        "attnlab.labels",
        {label.name: label for label in OWN_LABELS},
        "an attnlab.functions.label.HeadLabel",
        lambda label: isinstance(label, HeadLabel),
        lambda label: label.name,
    )


def in_precedence(names: pd.Series) -> list[str]:
    """The labels with those first that come first where several hold."""
    known = known_labels()
    return sorted(names, key=lambda name: known[name].precedence)


def count_functions(layer: LayerWeights, facts: Mapping[View, BatchFacts]) -> LabelCounts:
    """Counts of every label of one layer and batch, by view."""
    views = {keys: LayerView(layer, keys, mine) for keys, mine in facts.items()}
    found: LabelCounts = Sums()
    for label in known_labels().values():
        for keys in views if label.by_view else (ALL,):
            counts = label.count(views[keys])
            if counts is not None:
                found[label.name, keys] = counts
    return found


def decide_functions(counts: LabelCounts, keys: View = ALL, seed: int = 0) -> pd.DataFrame:
    """Verdicts of a layer's heads in one view, one row per head and label.

    Args:
        counts: of all sentences.
        keys: the view.
        seed: of the bootstrap draws behind `stability`.
    """
    verdicts = []
    for label in known_labels().values():
        own = (label.name, keys if label.by_view else ALL)
        if own in counts:
            verdicts += label.decide(counts[own], seed)
    return verdict_table(verdicts)


def relations_of_layer(counts: LabelCounts, seed: int = 0) -> pd.DataFrame:
    """How well a layer's heads follow each kind of gold link; empty where there were none."""
    tables = [
        relation_table(one, seed=seed) for one in counts.values() if isinstance(one, LinkCounts)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
