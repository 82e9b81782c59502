"""What the README of a plan search says of tables in which something is missing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from experiments.plan_search.run import NAMES, readme, shown_gains
from experiments.shared.readme import RESULTS, read_table

COMMITTED = RESULTS / "plan_search_tatoeba"
HOLDS = "Answer: the claim holds here"


def written(folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> str:
    """The README of the committed tables after a change to both."""
    shutil.copy(COMMITTED / "facts.json", folder)
    for name in ("table", "over_models"):
        change(read_table(COMMITTED, name)).to_csv(folder / f"{name}.csv", index=False)
    return readme(folder)


def winning(rows: pd.DataFrame) -> pd.DataFrame:
    """The searched plan is significantly better everywhere."""
    return rows.assign(bleu_gain=rows["bleu_gain"].abs() + 1, bleu_gain_p_value=0.01)


def test_a_baseline_that_fits_no_useful_budget_is_named_and_the_claim_not_shown(
    tmp_path: Path,
) -> None:
    def without_bigbird(rows: pd.DataFrame) -> pd.DataFrame:
        return winning(rows[(rows["plan"] != "bigbird") | (rows["budget"] > 10)])

    assert HOLDS in written(tmp_path, winning)
    text = written(tmp_path, without_bigbird)
    assert HOLDS not in text
    assert "**BigBird**: the claim is not shown. No setting fits any budget up to 10." in text


def test_the_claim_is_not_shown_where_every_budget_is_above_full_attention(tmp_path: Path) -> None:
    text = written(tmp_path, lambda rows: winning(rows[~(rows["budget"] <= 10)]))
    assert HOLDS not in text
    assert "so none of the budgets replaces anything." in text
    assert not any(f"**{name}**" in text for name in NAMES.values())


def test_the_claim_names_the_budgets_of_the_table(tmp_path: Path) -> None:
    text = written(tmp_path, lambda rows: rows[~rows["budget"].isin(range(5, 14))])
    assert "at every budget (3, 4)." in text


def test_a_gain_without_an_interval_is_shown_alone() -> None:
    models = read_table(COMMITTED, "over_models")
    ends = [f"{name}_gain_{end}" for name in ("bleu", "loss") for end in ("low", "high")]
    shown = shown_gains(models.assign(**dict.fromkeys(ends, float("nan"))))
    assert "nan" not in shown.to_string()
    first = models[(models["plan"] == "band") & (models["budget"] == models["budget"].min())].iloc[0]
    assert shown["band"].iloc[0] == f"{first['bleu_gain']:+.1f}; {first['loss_gain']:+.3f}"
