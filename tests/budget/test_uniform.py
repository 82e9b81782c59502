"""Settings that all heads of a site may get: none sees more keys than the search allows."""

import itertools

import pytest

from attnlab.attention import RULES_IN_WORDS
from attnlab.budget import WIDEST
from attnlab.budget.uniform import FIXED, SearchSpace, refusals, uniform, uniform_mechanisms

SITES = ("encoder", "decoder", "cross")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("columns", [0, 1, 4])
def test_windows_beside_columns_leave_room_for_them(causal: bool, columns: int) -> None:
    space = SearchSpace(24, causal, 512)
    windows = space.narrower(columns)
    sizes = {left + right + 1 for left, right in windows}
    assert sizes == {size for size in (*range(1, 16), 16, 20, 24) if size <= 24 - columns}
    ends = {right for left, right in windows if left + right + 1 == max(sizes)}
    assert ends == ({0} if causal else {0, (max(sizes) - 1) // 2, max(sizes) - 1})


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("budget", [2, 5, 9])
def test_windows_and_columns_of_a_setting_are_within_the_widest(site: str, budget: int) -> None:
    most = WIDEST * budget
    for name in uniform_mechanisms():
        for one in uniform(name, site, budget):
            window = getattr(one, "window", None)
            if isinstance(window, tuple):
                more = getattr(one, "num_pos", 0) + getattr(one, "extra", 0)
                assert sum(window) + 1 + more <= most, one


@pytest.mark.parametrize("site", SITES)
def test_every_mechanism_that_a_site_allows_has_settings_there(site: str) -> None:
    for name in uniform_mechanisms():
        assert bool(uniform(name, site, 5)) == (name not in refusals(site)), name
        for rules in itertools.product(*((None, rule) for rule in RULES_IN_WORDS)):
            chosen = {rule for rule in rules if rule is not None}
            allowed = name not in refusals(site, chosen)
            assert bool(uniform(name, site, 5, rules=chosen)) == allowed, (name, chosen)
    for rule in RULES_IN_WORDS:
        assert "linear" in refusals(site, {rule})
        assert not {"band", "top-k"} & set(refusals(site, {rule}))
        # Fixed weights need no scores to add to, and no softmax could follow the other rules with them.
        assert (FIXED in refusals(site, {rule})) == (rule != "bias")
    assert not {"linear", FIXED} & set(refusals(site))
