"""What a searched plan owes to its families of mechanisms, to its criterion and to its freedom.

    python experiments/plan_ablation/run.py ../shared/data --only multi30k-en-fr multi30k-en-fr-d128

writes results/plan_ablation/, a row a model, budget and arm. The arms and the two contrasts below were fixed
before a model was read. Models whose rows are there are not read again.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.budget import FULL, BudgetedPlan
from attnlab.core import quiet, write_table
from attnlab.figures import write_figure
from attnlab.models import Run
from attnlab.questions.compare.comparison import compare
from attnlab.questions.plan.planning import plan, plans_of
from attnlab.questions.plan.question import DEFAULT_FAMILIES, LAYER
from attnlab.questions.plan.question import SEARCHED as PLANNED
from experiments.plan_ablation.figure import draw_arms
from experiments.shared.readme import (
    RESULTS,
    put_rows,
    read_facts,
    read_table,
    render,
    write_readme,
)
from experiments.shared.translators import (
    MODEL,
    bleu_range,
    models_of,
    names_of,
    parser_of_models,
    put_facts,
)

OUT = RESULTS / "plan_ablation"
BUDGETS = (3, 4, 5)
SENTENCES, SEED, DIGITS = 500, 0, 6
# An arm is searched on other sentences; all arms are measured together afterwards.
UNREAD = 8
SEARCHED = "all families"
# By arm: what the search is told. With one layer, a mechanism a layer is one a site.
ARMS: dict[str, dict[str, Any]] = {
    SEARCHED: {},
    "bands": {"families": ("band",)},
    "bands and first or last keys": {"families": ("band", "ends")},
    "bands, rare tokens and blocks": {"families": ("band", "tokens", "blocks")},
    "all families, by l1": {"criterion": "l1"},
    "all families, by output error": {"criterion": "output"},
    "all families, by divergence": {"criterion": "divergence"},
    "a band a site": {"families": ("band",), "granularity": LAYER},
    "a window with first or last keys a site": {"families": ("ends",), "granularity": LAYER},
}
# One setting a site, nearest by l1 on validation sentences: a band, Longformer and BigBird, whose sites share
# the budget as those of a plan do, and sigma with columns of most trained attention.
UNIFORM = (SIGMA := "sigma salience", "longformer", "band", "bigbird")
# Loss of the arm minus that of the search of all families, mean over the budgets; models are the units.
CONTRASTS = ("longformer", "bands and first or last keys")
# Shown by model beside those of the contrasts.
BESIDE = ("bands", "all families, by l1", "all families, by divergence")
SHOWN = [
    "visible_keys", "error", "loss", "loss_change", "loss_gain", "bleu", "bleu_change", "bleu_gain",
    "length_ratio",
]  # fmt: skip


def main() -> None:
    """Measures each model that is asked for, and writes tables, figure and README."""
    chosen = parser_of_models(__doc__, sentences=SENTENCES).parse_args()
    for model, run in models_of(chosen, OUT):
        with quiet():
            rows = measured(run, chosen.sentences)
        put_rows(OUT, "table", model, rows.round(DIGITS))
        print(model, rows.to_string(), sep="\n", flush=True)
    put_facts(OUT, __file__)
    write_result(OUT)


def measured(
    run: Run, sentences: int = SENTENCES, budgets: tuple[int, ...] = BUDGETS
) -> pd.DataFrame:
    """A row an arm and budget of one model, and the row of full attention; gains are of all families."""
    plans, tables = [], []
    for arm, told in ARMS.items():
        whole = arm == SEARCHED
        found = plan(
            run, budgets, quick=not whole, sentences=sentences if whole else UNREAD, seed=SEED,
            **({"families": DEFAULT_FAMILIES} | told),
        )  # fmt: skip
        plans += [BudgetedPlan(one, arm, budget) for budget, one in plans_of(found).items()]
        if whole:
            rows = found.summary
            tables.append(rows[~rows["mechanism"].isin([PLANNED, FULL])])
    compared = compare(
        run, budgets, mechanisms=(SIGMA,), plans=plans, against=SEARCHED, sentences=sentences,
        seed=SEED,
    )  # fmt: skip
    rows = compared.summary
    # Of the sites one by one, sigma is no arm.
    together = rows["sites"] == rows["sites"].loc[rows["mechanism"] == SEARCHED].iloc[0]
    tables.insert(0, rows[together | (rows["mechanism"] == FULL)])
    found = pd.concat(tables, ignore_index=True).rename(columns={"mechanism": "arm"})
    return found[["budget", "arm", "written", *SHOWN]]


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model and arm: means over the budgets."""
    rows = table[table["arm"].isin([*ARMS, *UNIFORM])]
    grouped = rows.groupby([*MODEL, "arm"], as_index=False, sort=False)
    return grouped[["loss_change", "bleu_change", "loss_gain", "bleu_gain"]].mean()


def tested(table: pd.DataFrame) -> pd.DataFrame:
    """The contrasts that were fixed beforehand: loss of the arm minus that of all families, over models."""
    means = gains(table)
    return contrasts(
        {arm: means.loc[means["arm"] == arm, "loss_gain"].tolist() for arm in CONTRASTS}
    )


def write_result(folder: Path) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table = read_table(folder, "table")
    write_table(folder / "contrasts.csv", tested(table).round(DIGITS))
    models = over_models(table[table["arm"] != FULL], ["budget", "arm"], SHOWN)
    write_table(folder / "over_models.csv", models.round(DIGITS))
    write_figure(draw_arms(models), folder, "arms")
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, models = read_table(folder, "table"), read_table(folder, "over_models")
    whole = table[table["arm"] == FULL]
    return render(
        __file__, read_facts(folder),
        models=len(whole), names=names_of(whole["corpus"]), bleus=bleu_range(whole["bleu"]),
        visible_keys=whole["visible_keys"].mean(),
        contrasts=read_table(folder, "contrasts").to_dict("records"),
        budgets=BUDGETS, arms=shown(models), by_model=by_model(table), sentences=SENTENCES,
    )  # fmt: skip


def shown(models: pd.DataFrame) -> pd.DataFrame:
    """Change of loss and BLEU of each arm, a column a budget; those that cost least first."""
    order = models.groupby("arm")["loss_change"].mean().sort_values().index
    rows = []
    for arm in order:
        row = {"arm": arm}
        for one in models[models["arm"] == arm].to_dict("records"):
            row[f"{one['budget']:.0f} keys"] = (
                f"{one['loss_change']:+.3f} [{one['loss_change_low']:+.3f}, "
                f"{one['loss_change_high']:+.3f}], {one['bleu_change']:+.1f}, {one['visible_keys']:.2f}"
            )
        rows.append(row)
    return pd.DataFrame(rows)


def by_model(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model: what the search of all families costs, and how much more some other arms do."""
    means = gains(table).set_index("arm")
    whole = table[table["arm"] == FULL].set_index(MODEL)["bleu"]
    found = pd.DataFrame({"BLEU": whole.map("{:.1f}".format)})
    costs = means.loc[[SEARCHED]].set_index(MODEL)["loss_change"]
    found[SEARCHED] = costs.map("{:+.3f}".format)
    for arm in (*CONTRASTS, *BESIDE):
        if arm in means.index:
            more = means.loc[[arm]].set_index(MODEL)["loss_gain"]
            found[f"{arm}: more"] = more.map("{:+.3f}".format)
    return found.reset_index()


if __name__ == "__main__":
    main()
