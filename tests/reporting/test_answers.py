"""What pages say of tables in sentences."""

import re
from typing import Any

import pandas as pd
import pytest

from attnlab.reporting.importance_folder import removable
from attnlab.reporting.substitution import answers


def curve(order: str, lows: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {"order": order, "heads_removed": range(len(lows)), "loss_change_low": lows}
    )


@pytest.mark.parametrize(
    ("lows", "said"),
    [
        ({"a": [0.0, -0.1, 0.2, 0.3], "b": [0.0, -0.1, -0.1, 0.3]}, "2 of 3 heads .*order: b"),
        # Behind an interval above 0 nothing goes, though the loss falls again.
        ({"a": [0.0, -0.1, 0.2, -0.3]}, "1 of 3 heads"),
        ({"a": [0.0, 0.1, -0.2, -0.3]}, "Already the first head"),
    ],
)
def test_heads_go_up_to_the_first_that_is_missed(lows: dict[str, list[float]], said: str) -> None:
    cumulative = pd.concat([curve(order, own) for order, own in lows.items()])
    (sentence,) = removable(cumulative)
    assert re.search(said, sentence)


def replaced(scope: str, target: str, heads: int, change: float, level: str) -> dict[str, Any]:
    return {
        "scope": scope, "replaced": target, "replaced_heads": heads, "level": level, "steps": 0,
        "mechanism": f"m{change}", "budget": 5, "loss_change_nats": change, "loss_low": 0.0, "loss_high": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("sites", [("decoder",), ("encoder", "decoder")])
def test_the_cheapest_mechanism_for_all_heads_is_named(sites: tuple[str, ...]) -> None:
    rows = [replaced("head", "decoder.0.0", 1, 0.01, "calibrated")]
    rows += [replaced("plan", "all", 4, 0.02, ""), replaced("model", "", 0, 0.0, "")]
    costs = {"oracle": [0.1], "calibrated": [0.4, 0.3]}
    for site in sites:
        rows += [replaced("site", site, 4, one, level) for level in costs for one in costs[level]]
    if len(sites) > 1:
        rows += [
            replaced("model", "all", 8, one + 1, level) for level in costs for one in costs[level]
        ]
    nothing = pd.DataFrame(columns=["across"])
    (sentence,) = answers(pd.DataFrame(rows), nothing)
    cheapest = ("m0.3", 4) if len(sites) == 1 else ("m1.3", 8)
    text = "retraining, {} at 5 keys per row in place of {} heads costs least of 2 mechanisms on"
    assert text.format(*cheapest) in sentence
    oracles = "m0.1" if len(sites) == 1 else "m0.1, m1.1"
    assert f"Oracles ({oracles}) are left out here, since they look at the full matrix" in sentence


def test_no_oracle_is_left_out_where_there_is_none() -> None:
    rows = pd.DataFrame([replaced("model", "all", 1, 0.3, "calibrated")]).assign(budget=1, steps=1)
    (sentence,) = answers(rows, pd.DataFrame(columns=["across"]))
    assert sentence.startswith(
        "After 1 batch of fine-tuning, m0.3 at 1 key per row in place of 1 head costs"
    )
    assert "racle" not in sentence
