"""Means over models and tests of contrasts: their t intervals and p-values, against scipy's."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from attnlab.ablation.significance import contrasts, holm_adjusted, over_models
from attnlab.core.errors import InputError

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


def test_intervals_of_shares_end_where_shares_do() -> None:
    near = table({3: (0.99, 0.7, 0.99), 5: (0.0, 0.2, 0.01)})
    free = over_models(near, ["budget"], ["gain"])
    assert free["gain_high"][0] > 1
    assert free["gain_low"][1] < 0
    found = over_models(near, ["budget"], ["gain"], shares=["gain"])
    pd.testing.assert_frame_equal(
        found,
        free.assign(gain_low=free["gain_low"].clip(0), gain_high=free["gain_high"].clip(None, 1)),
    )


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
    assert found["models"].tolist() == [2, 3, 3]
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


def test_models_are_those_that_the_figures_are_of() -> None:
    nan = np.nan
    rows = pd.DataFrame(
        {
            "budget": [3, 3, 3, 3, 5, 5, 7, 7],
            "gain": [1.0, 3.0, 8.0, nan, 4.0, 6.0, nan, nan],
            "bleu": [2.0, 4.0, nan, 9.0, nan, nan, nan, nan],
        }
    )
    found = over_models(rows, ["budget"], ["gain", "bleu"]).set_index("budget")
    assert found["models"].tolist() == [2, 2, 0]
    assert found["gain"].tolist() == pytest.approx([2.0, 5.0, nan], nan_ok=True)
    assert found["bleu"].tolist() == pytest.approx([3.0, nan, nan], nan_ok=True)
    # Two values 2 apart: standard error 1, and the 97.5 % point of t with 1 degree of freedom.
    reach = np.tan(np.pi * 0.475)
    assert found.loc[3, ["gain_low", "gain_high"]].tolist() == pytest.approx([2 - reach, 2 + reach])
    assert found.loc[[5, 7], ["bleu_low", "bleu_high"]].isna().all(axis=None)


def test_no_contrasts_are_an_empty_table_with_its_columns() -> None:
    none = contrasts({})
    assert none.empty
    assert list(none) == list(contrasts({"some": (1.0, 2.0)}))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_contrast_that_lacks_a_figure_is_refused(value: float) -> None:
    # Left out of Holm's correction it would make the p-values of the others too small.
    with pytest.raises(
        InputError, match=r"^Contrast 'second' has no .* 1 of 3 models; give [^.]+\.$"
    ):
        contrasts({"first": (1.0, 2.5, 0.5), "second": (0.2, value, 0.4)})


def test_holm_multiplies_the_smallest_p_value_by_the_number_of_contrasts() -> None:
    # Of values a and b the t-test has p = 1 - 2 / pi * atan(|a + b| / |a - b|).
    small, large = 1 - 2 / np.pi * np.arctan(9), 1 - 2 / np.pi * np.arctan(3)
    found = contrasts({"first": (4.0, 5.0), "second": (1.0, 2.0)})
    assert found["p_value"].tolist() == pytest.approx([2 * small, max(2 * small, large)])
