"""Sinks of an older table by today's rule: interval above the threshold, that of the untrained head below."""

import pandas as pd
import pytest

from attnlab.labels.label_columns import SINK
from experiments.language_model.run import MODELS, OUT
from experiments.shared.readme import read_table
from experiments.shared.sinks import sinks_today

AT = SINK.threshold
ROW = {"label": "sink", "head": 3, "value_low": AT + 0.01, "untrained_value_high": AT - 0.01}


@pytest.mark.parametrize(
    ("other", "sink"),
    [
        ({}, True),
        ({"value_low": AT}, False),
        ({"untrained_value_high": AT}, False),
        ({"label": "broad"}, False),
    ],
)
def test_a_sink_is_confirmed_and_significant(other: dict[str, object], sink: bool) -> None:
    found = sinks_today(pd.DataFrame([ROW | other]))
    assert [one["head"] for one in found] == [3] * sink


def test_the_page_of_language_models_names_the_one_sink() -> None:
    found = {name: sinks_today(read_table(OUT / name, "controls")) for name in MODELS}
    heads = [(one["layer"], one["head"], one["detail"]) for one in found["one_layer"]]
    assert heads == [(0, 1, "opening")]
    assert found["three_layers"] == []
    text = (OUT / "README.md").read_text("utf-8").split("In short")[0]
    assert "decoder.0.1 is a sink, with 0.389 [0.373, 0.405]" in text
    assert "ends at 0.097; no other head is" in text
    assert "three layers: no head is a sink" in text
