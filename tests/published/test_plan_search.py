"""The page of all plan searches: its models and corpora counted again by loops over the published rows."""

import csv
from collections import defaultdict
from statistics import mean

import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from experiments.plan_search.run import NAMES, OUT, lost
from experiments.shared.readme import read_table


def gains(measure: str) -> dict[str, dict[str, list[float]]]:
    """By baseline and corpus one figure a model: the mean over budgets below the keys of full attention."""
    found: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    with (OUT / "rows.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if float(row["budget"]) < float(row["full_keys"]):
                model = row["corpus"], row["layers"], row["seed"]
                found[row["mechanism"], *model].append(float(row[measure]))
    by_plan: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (plan, corpus, *_), values in found.items():
        by_plan[plan][corpus].append(mean(values))
    return by_plan


def described(values: list[float]) -> list[float]:
    """The mean of the values and the ends of their 95 % t interval."""
    interval = ttest_1samp(values, 0).confidence_interval(0.95)
    return [mean(values), interval.low, interval.high]


def sentences_about(plan: str) -> str:
    text = " ".join((OUT / "README.md").read_text("utf-8").split())
    return text.split(f"**{NAMES[plan]}**, ")[1].split(" * **")[0]


@pytest.mark.parametrize("measure", ["loss_gain", "bleu_gain"])
def test_models_are_described_and_corpora_are_the_units(measure: str) -> None:
    models = read_table(OUT, "over_models").set_index("mechanism")
    corpora = read_table(OUT, "over_corpora").set_index("mechanism")
    names = [f"{measure}{end}" for end in ("", "_low", "_high")]
    found = gains(measure)
    assert set(found) == set(NAMES)
    for plan, by_corpus in found.items():
        every = [value for own in by_corpus.values() for value in own]
        each = [mean(own) for own in by_corpus.values()]
        assert (models.loc[plan, "models"], corpora.loc[plan, "corpora"]) == (7, 4)
        assert (len(every), len(each)) == (7, 4)
        assert models.loc[plan, names].tolist() == pytest.approx(described(every))
        assert corpora.loc[plan, names].tolist() == pytest.approx(described(each))
        assert f"in {sum(value > 0 for value in every)} of 7" in sentences_about(plan)


def test_contrasts_are_tested_over_corpora_and_corrected_over_all_three() -> None:
    tests = read_table(OUT, "contrasts").set_index("contrast")
    each = {
        plan: [mean(own) for own in by_corpus.values()]
        for plan, by_corpus in gains("loss_gain").items()
    }
    ordered = sorted((ttest_1samp(values, 0).pvalue, plan) for plan, values in each.items())
    least = 0.0
    for rank, (p_value, plan) in enumerate(ordered):
        least = max(least, p_value * (len(ordered) - rank))
        assert tests.loc[plan, "p_value"] == pytest.approx(least)
        assert tests.loc[plan, "corpora"] == 4
        # The contrasts were chosen when the figures were known.
        assert "p = " not in sentences_about(plan)


def test_the_page_begins_with_what_corpora_do_not_show() -> None:
    begin = (OUT / "README.md").read_text("utf-8").split("\n* **")[0]
    corpora = read_table(OUT, "over_corpora").set_index("mechanism")
    assert "chosen when the figures of these models were known" in begin
    sentence = next(one for one in begin.splitlines() if "is not shown beyond" in one)
    for plan, low in corpora["bleu_gain_low"].items():
        assert (NAMES[str(plan)] in sentence) == (low <= 0)


def test_what_is_lost_is_what_lies_beyond_0() -> None:
    rows = [
        {"families": arm, "budget": budget, "loss_gain_low": low, "bleu_gain_low": -low}
        for arm in ("all", "without ends")
        for budget, low in ((3, 0.1), (4, -0.2))
    ]
    assert lost(pd.DataFrame(rows)) == {"without ends": {"loss": [3], "bleu": [4]}}
