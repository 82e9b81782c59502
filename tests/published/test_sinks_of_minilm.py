"""Heads that are sinks by threshold."""

import pandas as pd

from experiments.shared.sinks import sink_counts


def test_sink_counts_fall_with_the_threshold() -> None:
    mass = [0.35, 0.45, 0.55, 0.65, 0.05]
    controls = pd.DataFrame({"label": ["sink"] * 5 + ["broad"], "value": [*mass, 0.95]})
    assert [row["heads"] for row in sink_counts(controls)] == [4, 3, 2, 1]
