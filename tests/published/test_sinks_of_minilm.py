"""What the README says of sinks stands in the table of the result."""

from pathlib import Path

import pandas as pd

from experiments.shared.sinks import sink_counts

ROOT = Path(__file__).resolve().parents[2]


def test_sink_counts_fall_with_the_threshold() -> None:
    mass = [0.35, 0.45, 0.55, 0.65, 0.05]
    controls = pd.DataFrame({"label": ["sink"] * 5 + ["broad"], "value": [*mass, 0.95]})
    assert [row["heads"] for row in sink_counts(controls)] == [4, 3, 2, 1]


def test_the_readme_says_of_sinks_what_the_table_says() -> None:
    controls = pd.read_csv(ROOT / "results" / "heads_of_minilm" / "controls.csv")
    first, *others = sink_counts(controls)
    said = [f"{first['heads']} put more than {first['threshold']:g} of their weight on one"]
    said += [f"{one['heads']} more than {one['threshold']:g}" for one in others]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert not [part for part in said if part not in text]
