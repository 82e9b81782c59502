"""What the README of a plan search says of tables in which something is missing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from experiments.plan_search.run import NAMES, readme, shown_gains
from experiments.shared.readme import RESULTS, read_table

COMMITTED = RESULTS / "plan_search_tatoeba"


def written(folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> str:
    """The README of the committed tables after a change to both."""
    shutil.copy(COMMITTED / "facts.json", folder)
    for name in ("table", "over_models"):
        change(read_table(COMMITTED, name)).to_csv(folder / f"{name}.csv", index=False)
    return readme(folder)


def test_cases_and_models_are_counted_and_nothing_is_called_not_shown(tmp_path: Path) -> None:
    text = " ".join(written(tmp_path, lambda rows: rows).split())
    table = read_table(COMMITTED, "table")
    cases = table[(table["budget"] <= 10) & table["mechanism"].isin(NAMES)]
    smaller, more = (int((cases[f"{name}_gain"] > 0).sum()) for name in ("loss", "bleu"))
    assert (
        f"the smaller loss in {smaller} of {len(cases)} cases and keeps more BLEU in {more}."
        in text
    )
    assert "Of models of BLEU 14.5, 15.2, 15.8:" in text
    assert text.count("in 3 of 3 models; it keeps") == 3
    assert "not shown" not in text


def test_a_baseline_that_fits_no_useful_budget_is_named(tmp_path: Path) -> None:
    def without_bigbird(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[(rows["mechanism"] != "bigbird") | (rows["budget"] > 10)]

    text = written(tmp_path, without_bigbird)
    assert "**BigBird**: no setting fits any budget up to 10." in text


def test_budgets_above_full_attention_replace_nothing(tmp_path: Path) -> None:
    text = written(tmp_path, lambda rows: rows[~(rows["budget"] <= 10)])
    assert "so none of the budgets replaces anything." in text
    assert not any(f"**{name}**" in text for name in NAMES.values())


def test_the_question_names_the_budgets_of_the_table(tmp_path: Path) -> None:
    text = written(tmp_path, lambda rows: rows[~rows["budget"].isin(range(5, 14))])
    assert "(budgets 3, 4)" in text


def test_a_gain_without_an_interval_is_shown_alone() -> None:
    models = read_table(COMMITTED, "over_models")
    ends = [f"{name}_gain_{end}" for name in ("bleu", "loss") for end in ("low", "high")]
    shown = shown_gains(models.assign(**dict.fromkeys(ends, float("nan"))))
    assert "nan" not in shown.to_string()
    first = models[
        (models["mechanism"] == "band") & (models["budget"] == models["budget"].min())
    ].iloc[0]
    assert shown["band"].iloc[0] == f"{first['bleu_gain']:+.1f}; {first['loss_gain']:+.3f}"
