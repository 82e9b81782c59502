"""The page of all plan searches: its models counted again by loops over the published rows."""

import csv
from collections import defaultdict
from statistics import mean

import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from experiments.plan_search_pooled.run import NAMES, OUT, lost
from experiments.shared.readme import RESULTS, read_table


def gains(measure: str) -> dict[str, list[float]]:
    """By baseline one figure a model: the mean over its budgets below the keys of full attention."""
    found: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for path in sorted(RESULTS.glob("plan_search_*/table.csv")):
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        full = {
            (row["layers"], row["seed"]): float(row["keys_per_row"])
            for row in rows
            if row["plan"] == "full"
        }
        for row in rows:
            model = row["layers"], row["seed"]
            if row["plan"] in NAMES and float(row["budget"]) < full[model]:
                found[row["plan"], path.parent.name, *model].append(float(row[measure]))
    by_plan: dict[str, list[float]] = defaultdict(list)
    for (plan, *_), values in found.items():
        by_plan[plan].append(mean(values))
    return by_plan


@pytest.mark.parametrize("measure", ["loss_gain", "bleu_gain"])
def test_models_are_the_units(measure: str) -> None:
    table = read_table(OUT, "over_models").set_index("plan")
    text = (OUT / "README.md").read_text("utf-8")
    for plan, values in gains(measure).items():
        assert len(values) == table.loc[plan, "models"]
        interval = ttest_1samp(values, 0).confidence_interval(0.95)
        ends = [table.loc[plan, f"{measure}{end}"] for end in ("", "_low", "_high")]
        assert ends == pytest.approx([mean(values), interval.low, interval.high])
        ahead = sum(value > 0 for value in values)
        sentence = text.split(f"**{NAMES[plan]}**: ")[1].split("*")[0]
        assert f"in {ahead} of {len(values)} models" in sentence


def test_what_is_lost_is_what_lies_beyond_0() -> None:
    rows = [
        {"families": arm, "budget": budget, "loss_gain_low": low, "bleu_gain_low": -low}
        for arm in ("all", "without ends")
        for budget, low in ((3, 0.1), (4, -0.2))
    ]
    assert lost(pd.DataFrame(rows)) == {"without ends": {"loss": [3], "bleu": [4]}}
