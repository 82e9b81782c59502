"""All models of the plan searches together, and which families of mechanisms a searched plan needs.

    python experiments/plan_search/run.py runs/demo

writes results/plan_search/ from its rows.csv, which studies `plan_search` of several corpora left, and from
the model of `attnlab demo`, which is trained in the folder where it is not there.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.budget import FULL, BudgetedPlan
from attnlab.cli.commands.demo import DEMO_SETTINGS
from attnlab.core import counted, quiet, write_table
from attnlab.models import settings_from
from attnlab.questions.compare.comparison import compare
from attnlab.questions.plan.planning import plan, plans_of
from attnlab.questions.plan.question import DEFAULT_FAMILIES
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_run

OUT = RESULTS / "plan_search"
MODELS = ["corpus", "layers", "seed"]
NAMES = {"band": "a plain band", "longformer": "Longformer", "bigbird": "BigBird"}
# What a head may not get in each arm of the ablation; the first arm leaves nothing out.
ARMS = {
    "all": (),
    "without tokens and blocks": ("tokens", "blocks"),
    "without ends": ("ends",),
    "without tokens, blocks and ends": ("tokens", "blocks", "ends"),
}
BUDGETS = (3, 4, 5, 6, 8)
SENTENCES, SEED = 500, 0
# As in the published searches.
CRITERION = "l1"
MEASURES = ("loss_gain", "bleu_gain")


def main() -> None:
    """Pools the published rows, measures the ablation, and writes tables and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "run",
        type=Path,
        nargs="?",
        help="folder of the demo's run; without it nothing is ablated again",
    )
    run = parser.parse_args().run
    if run is not None:
        write_table(OUT / "ablation.csv", ablated(run))
    models = by_model(OUT)
    write_table(OUT / "models.csv", models)
    write_table(OUT / "over_models.csv", over_models(models, ["mechanism"], list(MEASURES)))
    corpora = by_corpus(models)
    write_table(OUT / "corpora.csv", corpora)
    write_table(OUT / "over_corpora.csv", over_corpora(corpora))
    write_table(OUT / "contrasts.csv", tested(corpora))
    write_table(
        OUT / "by_budget.csv",
        over_models(rows_below_full(OUT), ["mechanism", "budget"], list(MEASURES)),
    )
    write_facts(
        OUT, __file__, "torch", "transformers", "sacrebleu",
        command="python experiments/plan_search/run.py runs/demo", searches=read_facts(OUT)["searches"],
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def rows_below_full(folder: Path) -> pd.DataFrame:
    """The rows of the searches at budgets below the keys of full attention of their models."""
    rows = read_table(folder, "rows")
    return rows[rows["budget"] < rows["full_keys"]]


def by_model(folder: Path) -> pd.DataFrame:
    """A row a model and baseline: gains of the searched plan, means over the budgets that have a setting."""
    grouped = rows_below_full(folder).groupby([*MODELS, "mechanism"], as_index=False)
    return grouped.agg(
        full_bleu=("full_bleu", "first"), full_keys=("full_keys", "first"),
        budgets=("budget", "nunique"), **{name: (name, "mean") for name in MEASURES},
    )  # fmt: skip


def by_corpus(models: pd.DataFrame) -> pd.DataFrame:
    """A row a corpus and baseline: gains, means over the models of the corpus, which share its sentences."""
    grouped = models.groupby(["corpus", "mechanism"], as_index=False)
    return grouped.agg(models=("seed", "size"), **{name: (name, "mean") for name in MEASURES})


def over_corpora(corpora: pd.DataFrame) -> pd.DataFrame:
    """A row a baseline: means over corpora with 95 % t intervals."""
    return over_models(corpora, ["mechanism"], list(MEASURES)).rename(columns={"models": "corpora"})


def tested(corpora: pd.DataFrame) -> pd.DataFrame:
    """The three contrasts over corpora: the loss of each baseline less that of the searched plan."""
    differences = {
        str(name): own["loss_gain"].tolist() for name, own in corpora.groupby("mechanism")
    }
    return contrasts(differences).rename(columns={"models": "corpora"})


def ablated(folder: Path) -> pd.DataFrame:
    """A row an arm and budget: scores on test sentences, and what all families would have gained."""
    plans = []
    with quiet():
        trained_run(folder, settings_from(DEMO_SETTINGS))
        for arm, left_out in ARMS.items():
            families = [name for name in DEFAULT_FAMILIES if name not in left_out]
            found = plan(
                folder, BUDGETS, criterion=CRITERION, sentences=SENTENCES, families=families, quick=True,
                seed=SEED,
            )  # fmt: skip
            plans += [BudgetedPlan(one, arm, budget) for budget, one in plans_of(found).items()]
        # Above 0 the search of all families is better.
        compared = compare(
            folder,
            BUDGETS,
            mechanisms=(),
            plans=plans,
            against="all",
            sentences=SENTENCES,
            seed=SEED,
        )
    rows = compared.summary
    bleu = rows.loc[rows["mechanism"] == FULL, "bleu"].iloc[0]
    rows = rows[rows["budget"].notna()].rename(columns={"mechanism": "families"})
    return rows.drop(columns=["sites", "level", "setting", "steps"]).assign(
        full_bleu=bleu, sentences=compared.about["Held-out sentences"]
    )


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    models = read_table(folder, "models")
    ablation = read_table(folder, "ablation")
    corpora = read_table(folder, "corpora")
    together = read_table(folder, "over_models").set_index("mechanism")
    apart = read_table(folder, "over_corpora").set_index("mechanism")
    tests = read_table(folder, "contrasts").set_index("contrast")
    each = models.drop_duplicates(MODELS)
    return render(
        __file__,
        read_facts(folder),
        bleu=sorted(each["full_bleu"]),
        models=len(each),
        of_corpus=each["corpus"].value_counts().to_dict(),
        ahead_of_all=int(models.groupby(MODELS)["loss_gain"].min().gt(0).sum()),
        bleu_not_shown=[NAMES[name] for name in apart.index[apart["bleu_gain_low"] <= 0]],
        names=NAMES,
        baselines={
            name: {
                "over_models": together.loc[name],
                "over_corpora": apart.loc[name],
                "tested": tests.loc[name],
                "ahead": int((own["loss_gain"] > 0).sum()),
                "bleu_ahead": int((own["bleu_gain"] > 0).sum()),
            }
            for name, own in models.groupby("mechanism")
        },
        by_corpus=shown_corpora(corpora),
        by_model=shown_models(models),
        by_budget=shown_budgets(read_table(folder, "by_budget")),
        ablation=shown_ablation(ablation),
        ablated_bleu=ablation["full_bleu"].iloc[0],
        sentences=int(ablation["sentences"].iloc[0]),
        lost=lost(ablation),
    )  # fmt: skip


def lost(ablation: pd.DataFrame) -> dict[str, dict[str, list[int]]]:
    """By arm the budgets whose intervals say that leaving out costs loss, and those that cost BLEU."""
    return {
        str(arm): {
            measure: own.loc[own[f"{measure}_gain_low"] > 0, "budget"].tolist()
            for measure in ("loss", "bleu")
        }
        for arm, own in ablation[ablation["families"] != "all"].groupby("families", sort=False)
    }


def shown_models(models: pd.DataFrame) -> pd.DataFrame:
    """Gains of each model, a column a baseline."""
    rows = []
    for key, own in models.groupby(MODELS):
        row: dict[str, Any] = dict(zip(MODELS, key, strict=True))
        row["BLEU"] = f"{own['full_bleu'].iloc[0]:.1f}"
        row["keys of full"] = f"{own['full_keys'].iloc[0]:.1f}"
        for one in own.to_dict("records"):
            row[NAMES[one["mechanism"]]] = (
                f"{one['loss_gain']:+.3f}, {one['bleu_gain']:+.1f} ({one['budgets']} budgets)"
            )
        rows.append(row)
    return pd.DataFrame(rows)


def shown_corpora(corpora: pd.DataFrame) -> pd.DataFrame:
    """Gains of each corpus, a column a baseline."""
    rows = []
    for (corpus, models), own in corpora.groupby(["corpus", "models"]):
        row: dict[str, Any] = {"corpus": corpus, "models": models}
        for one in own.to_dict("records"):
            row[NAMES[one["mechanism"]]] = f"{one['loss_gain']:+.3f}, {one['bleu_gain']:+.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def shown_budgets(rows: pd.DataFrame) -> pd.DataFrame:
    """Gains at each budget, means over models, a column a baseline."""
    shown = []
    for budget, own in rows.groupby("budget"):
        row: dict[str, Any] = {"budget": budget}
        by_plan = {one["mechanism"]: one for one in own.to_dict("records")}
        for name, heading in NAMES.items():
            one = by_plan.get(name)
            row[heading] = (
                "none fits"
                if one is None
                else f"{interval(one, 'loss_gain', '+.3f')}; {interval(one, 'bleu_gain', '+.1f')} "
                f"({counted(one['models'], 'model')})"
            )
        shown.append(row)
    return pd.DataFrame(shown)


def shown_ablation(ablation: pd.DataFrame) -> pd.DataFrame:
    """BLEU of each arm, and what it loses against the search of all families."""
    rows = []
    for budget, own in ablation.groupby("budget"):
        row: dict[str, Any] = {"budget": budget}
        for one in own.to_dict("records"):
            words = f"{one['bleu']:.1f}"
            if one["families"] != "all":
                words += (
                    f"; loses {interval(one, 'loss_gain', '+.3f')} nats, "
                    f"{interval(one, 'bleu_gain', '+.1f')} BLEU"
                )
            row[one["families"]] = words
        rows.append(row)
    return pd.DataFrame(rows)


def interval(row: Any, name: str, form: str) -> str:
    """A figure with its interval, where there is one."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    known = "" if pd.isna(low) else f" [{low:{form}}, {high:{form}}]"
    return f"{row[name]:{form}}{known}"


if __name__ == "__main__":
    main()
