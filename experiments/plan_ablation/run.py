"""What a searched plan owes to its families of mechanisms, to its criterion and to its freedom.

    python experiments/plan_ablation/run.py ../shared/data --only multi30k-en-fr multi30k-en-cs --seeds 3

writes results/plan_ablation/, a row a model, budget and arm. Models are those of experiments/models.
The arms and the two contrasts below were fixed before a model was read. Models that are not asked for stay.
"""

import argparse
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.budget import FULL, BudgetedPlan
from attnlab.core import path_label, quiet, write_table
from attnlab.figures import write_figure
from attnlab.models import Run
from attnlab.questions.compare.comparison import compare
from attnlab.questions.plan.planning import plan, plans_of
from attnlab.questions.plan.question import DEFAULT_FAMILIES, LAYER
from attnlab.questions.plan.question import SEARCHED as PLANNED
from experiments.models.catalogue import CORPORA, model_of
from experiments.plan_ablation.figure import draw_arms
from experiments.shared.readme import (
    RESULTS,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = RESULTS / "plan_ablation"
MODEL = ["corpus", "layers", "seed"]
BUDGETS = (3, 4, 5)
LAYERS, SENTENCES, SEED, DIGITS = 1, 500, 0, 6
SEARCHED = "all families"
# By arm: what the search is told. With one layer, a mechanism a layer is one a site.
ARMS: dict[str, dict[str, Any]] = {
    SEARCHED: {},
    "bands": {"families": ("band",)},
    "bands and first or last keys": {"families": ("band", "ends")},
    "bands, rare tokens and blocks": {"families": ("band", "tokens", "blocks")},
    "all families, by l1": {"criterion": "l1"},
    "all families, by output error": {"criterion": "output"},
    "a band a site": {"families": ("band",), "granularity": LAYER},
    "a window with first or last keys a site": {"families": ("ends",), "granularity": LAYER},
}
# One setting a site, nearest by l1 on validation sentences: a band, Longformer and BigBird, whose sites share
# the budget as those of a plan do, and sigma with columns of most trained attention.
UNIFORM = (SIGMA := "sigma salience", "longformer", "band", "bigbird")
# Loss of the arm minus that of the search of all families, mean over the budgets; models are the units.
CONTRASTS = ("longformer", "bands and first or last keys")
SHOWN = [
    "visible_keys", "error", "loss", "loss_change", "loss_gain", "bleu", "bleu_change", "bleu_gain",
    "length_ratio",
]  # fmt: skip


def main() -> None:
    """Measures each model that is asked for, and writes tables, figure and README."""
    chosen = _parser().parse_args()
    for corpus, seed in product(chosen.only, range(chosen.seeds)):
        with quiet():
            run = model_of(corpus, LAYERS, seed, chosen.data, chosen.runs)
            rows = measured(run, chosen.sentences)
        model = {"corpus": corpus, "layers": LAYERS, "seed": seed}
        put_rows(OUT, "table", model, rows.round(DIGITS))
        print(rows.to_string(), flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(OUT, f"python experiments/plan_ablation/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the corpora")
    parser.add_argument("--only", nargs="*", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "models")
    return parser


def measured(
    run: Run, sentences: int = SENTENCES, budgets: tuple[int, ...] = BUDGETS
) -> pd.DataFrame:
    """A row an arm and budget of one model, and the row of full attention; gains are of all families."""
    plans, tables = [], []
    for arm, told in ARMS.items():
        found = plan(
            run, budgets, quick=arm != SEARCHED, sentences=sentences, seed=SEED,
            **({"families": DEFAULT_FAMILIES} | told),
        )  # fmt: skip
        plans += [BudgetedPlan(one, arm, budget) for budget, one in plans_of(found).items()]
        if arm == SEARCHED:
            rows = found.summary
            tables.append(rows[~rows["mechanism"].isin([PLANNED, FULL])])
    compared = compare(
        run, budgets, mechanisms=(SIGMA,), plans=plans, against=SEARCHED, sentences=sentences,
        seed=SEED,
    )  # fmt: skip
    rows = compared.summary
    # Of the sites one by one, sigma is no arm.
    whole = rows["sites"] == rows["sites"].loc[rows["mechanism"] == SEARCHED].iloc[0]
    tables.insert(0, rows[whole | (rows["mechanism"] == FULL)])
    together = pd.concat(tables, ignore_index=True).rename(columns={"mechanism": "arm"})
    return together[["budget", "arm", "written", *SHOWN]]


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


def write_result(folder: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table = read_table(folder, "table")
    write_table(folder / "contrasts.csv", tested(table).round(DIGITS))
    models = over_models(table[table["arm"] != FULL], ["budget", "arm"], SHOWN)
    write_table(folder / "over_models.csv", models.round(DIGITS))
    write_figure(draw_arms(models), folder, "arms")
    known = read_facts(folder)["commands"] if (folder / "facts.json").exists() else []
    write_facts(
        folder, __file__, "torch", "transformers", "sacrebleu",
        commands=[*(one for one in known if one != command), command],
    )  # fmt: skip
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, models = read_table(folder, "table"), read_table(folder, "over_models")
    whole = table[table["arm"] == FULL]
    means = gains(table)
    return render(
        __file__, read_facts(folder),
        whole=whole, corpora=sorted(set(whole["corpus"])), searched=SEARCHED,
        contrasts=read_table(folder, "contrasts").to_dict("records"),
        budgets=BUDGETS, arms=shown(models), by_model=by_model(means), sentences=SENTENCES,
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


def by_model(means: pd.DataFrame) -> pd.DataFrame:
    """By how much each arm loses to the search of all families in each model."""
    found = means[means["arm"] != SEARCHED].pivot_table(
        index="arm", columns=MODEL, values="loss_gain", sort=False
    )
    found.columns = pd.Index(
        [
            f"{corpus}, seed {seed}"
            for corpus, _, seed in found.columns.to_frame().itertuples(index=False)
        ]
    )
    return found.map(lambda value: f"{value:+.3f}").reset_index()


if __name__ == "__main__":
    main()
