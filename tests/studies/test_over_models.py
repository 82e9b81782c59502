"""Means over models: their t intervals and tests, against scipy's."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from attnlab.attribution.significance import holm_adjusted
from attnlab.studies.over_models import over_models

VALUES = {3: (1.0, 2.5, 0.5), 5: (0.2, -0.1, 0.4)}


def table(values: dict[int, tuple[float, ...]]) -> pd.DataFrame:
    rows = [(budget, seed, one) for budget, own in values.items() for seed, one in enumerate(own)]
    return pd.DataFrame(rows, columns=["budget", "seed", "gain"])


def test_intervals_and_tests_are_those_of_scipy() -> None:
    found = over_models(table(VALUES), ["budget"], ["gain"])
    assert found["budget"].tolist() == [3, 5]
    assert found["models"].tolist() == [3, 3]
    tests = [ttest_1samp(own, 0) for own in VALUES.values()]
    for row, own, test in zip(found.to_dict("records"), VALUES.values(), tests, strict=True):
        interval = test.confidence_interval(0.95)
        assert row["gain"] == pytest.approx(np.mean(own))
        assert (row["gain_low"], row["gain_high"]) == pytest.approx((interval.low, interval.high))
    expected = holm_adjusted(np.array([test.pvalue for test in tests]))
    assert found["gain_p_value"].to_numpy() == pytest.approx(expected)
    assert found["gain_p_value"].iloc[0] > tests[0].pvalue


def test_one_model_says_nothing_about_others() -> None:
    row = over_models(table({3: (1.5,), 5: ()}), ["budget"], ["gain"]).iloc[0]
    assert (row["models"], row["gain"]) == (1, 1.5)
    assert row[["gain_low", "gain_high", "gain_p_value"]].isna().all()


def test_missing_values_are_left_out_and_equal_ones_have_no_spread() -> None:
    values = {3: (1.0, np.nan, 3.0), 5: (0.0, 0.0, 0.0), 7: (2.0, 2.0, 2.0)}
    found = over_models(table(values), ["budget"], ["gain"]).set_index("budget")
    assert found.loc[3, "gain"] == 2.0
    assert found.loc[5, ["gain_low", "gain_high", "gain_p_value"]].tolist() == [0, 0, 1]
    assert found.loc[7, "gain"] == 2.0
    assert found.loc[7, ["gain_low", "gain_high", "gain_p_value"]].isna().all()


def test_values_that_are_equal_up_to_rounding_have_no_spread() -> None:
    row = over_models(table({3: (0.1 + 0.2, 0.3, 0.3)}), ["budget"], ["gain"]).iloc[0]
    assert row["gain"] == pytest.approx(0.3)
    assert row[["gain_low", "gain_high", "gain_p_value"]].isna().all()


def test_no_rows_are_an_empty_table_with_its_columns() -> None:
    some, none = (over_models(table(values), ["budget"], ["gain"]) for values in (VALUES, {}))
    assert none.empty
    assert list(none) == list(some)
