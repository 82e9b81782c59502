"""Means over models and tests of contrasts: their t intervals and p-values, against scipy's."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from attnlab.attribution.significance import holm_adjusted
from attnlab.studies.over_models import contrasts, over_models

VALUES = {3: (1.0, 2.5, 0.5), 5: (0.2, -0.1, 0.4)}


def table(values: dict[int, tuple[float, ...]]) -> pd.DataFrame:
    rows = [(budget, seed, one) for budget, own in values.items() for seed, one in enumerate(own)]
    return pd.DataFrame(rows, columns=["budget", "seed", "gain"])


def test_intervals_are_those_of_scipy_and_rows_carry_no_test() -> None:
    found = over_models(table(VALUES), ["budget"], ["gain"])
    assert list(found) == ["budget", "models", "gain", "gain_low", "gain_high"]
    assert found["budget"].tolist() == [3, 5]
    assert found["models"].tolist() == [3, 3]
    for row, own in zip(found.to_dict("records"), VALUES.values(), strict=True):
        interval = ttest_1samp(own, 0).confidence_interval(0.95)
        assert row["gain"] == pytest.approx(np.mean(own))
        assert (row["gain_low"], row["gain_high"]) == pytest.approx((interval.low, interval.high))


def test_contrasts_are_corrected_among_themselves() -> None:
    values = {"first": (1.0, 2.5, 0.5), "second": (0.2, -0.1, 0.4), "alone": (1.0,)}
    found = contrasts(values).set_index("contrast")
    tests = [ttest_1samp(values[name], 0) for name in ("first", "second")]
    expected = holm_adjusted(np.array([test.pvalue for test in tests]))
    assert found["p_value"].to_numpy()[:2] == pytest.approx(expected)
    assert expected[0] > tests[0].pvalue
    assert found["same_sign"].tolist() == [3, 2, 1]
    assert found["models"].tolist() == [3, 3, 1]
    interval = tests[0].confidence_interval(0.95)
    ends = found.loc["first", ["difference_low", "difference_high"]].tolist()
    assert ends == pytest.approx([interval.low, interval.high])
    assert found.loc["alone", ["difference_low", "difference_high", "p_value"]].isna().all()


def test_one_model_says_nothing_about_others() -> None:
    row = over_models(table({3: (1.5,), 5: ()}), ["budget"], ["gain"]).iloc[0]
    assert (row["models"], row["gain"]) == (1, 1.5)
    assert row[["gain_low", "gain_high"]].isna().all()


def test_missing_values_are_left_out_and_equal_ones_have_no_spread() -> None:
    values = {3: (1.0, np.nan, 3.0), 5: (0.0, 0.0, 0.0), 7: (2.0, 2.0, 2.0)}
    found = over_models(table(values), ["budget"], ["gain"]).set_index("budget")
    assert found.loc[3, "gain"] == 2.0
    assert found.loc[5, ["gain_low", "gain_high"]].tolist() == [0, 0]
    assert found.loc[7, "gain"] == 2.0
    assert found.loc[7, ["gain_low", "gain_high"]].isna().all()


def test_values_that_are_equal_up_to_rounding_have_no_spread() -> None:
    row = over_models(table({3: (0.1 + 0.2, 0.3, 0.3)}), ["budget"], ["gain"]).iloc[0]
    assert row["gain"] == pytest.approx(0.3)
    assert row[["gain_low", "gain_high"]].isna().all()


def test_no_rows_are_an_empty_table_with_its_columns() -> None:
    some, none = (over_models(table(values), ["budget"], ["gain"]) for values in (VALUES, {}))
    assert none.empty
    assert list(none) == list(some)
