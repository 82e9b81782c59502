"""How much more BLEU a searched plan keeps than BigBird, Longformer and a band at equal budgets.

    python experiments/plan_search/run.py ../shared/data/tatoeba --seeds 3

writes results/plan_search_tatoeba/: the study with its cells, tables and a figure. Cells that are there
are not computed again; each trains a model first.
"""

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import over_models
from attnlab.budget import FULL
from attnlab.core import write_table
from attnlab.figures import write_figure
from attnlab.questions.plan.planning import NEAR
from attnlab.questions.plan.question import BASELINES, SEARCHED
from attnlab.studies import BUDGETS
from experiments.plan_search.figure import draw_plans
from experiments.shared.model_study import (
    MODEL,
    options_of_models,
    over_models_or_sentences,
    run_models,
)
from experiments.shared.readme import (
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

STUDY = "plan_search"


def main() -> None:
    """Runs the study, and writes what its cells say together."""
    parser = options_of_models(__doc__, budgets=BUDGETS, sentences=500)
    found = run_models(STUDY, parser)
    write_table(found.folder / "table.csv", found.published)
    models = plans_over_models(found.rows)
    write_table(found.folder / "over_models.csv", models)
    write_figure(draw_plans(models), found.folder, "figure")
    write_facts(
        found.folder,
        __file__,
        "torch",
        "transformers",
        "sacrebleu",
        **found.facts,
        criterion=str(found.rows["criterion"].iloc[0]),
    )
    write_readme(found.folder, readme(found.folder))


def plans_over_models(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a size, budget and plan: means over the models of that size, and what is kept of their BLEU.

    A single model has the intervals over its sentences.
    """
    whole = rows[rows["mechanism"] == FULL].set_index(MODEL)
    own = whole.loc[pd.MultiIndex.from_frame(rows[MODEL])]
    bleu = own["bleu"].where(own["bleu"] > 0).to_numpy()
    rows = rows.assign(
        bleu_kept=100 * rows["bleu"] / bleu,
        share_of_full=rows["visible_keys"] / own["visible_keys"].to_numpy(),
    )
    for end in ("low", "high"):
        rows[f"bleu_kept_{end}"] = 100 + 100 * rows[f"bleu_change_{end}"] / bleu
    measures = [
        "bleu", "bleu_kept", "loss_change", "error", "visible_keys", "share_of_full", "length_ratio",
        "bleu_gain", "loss_gain",
    ]  # fmt: skip
    return over_models_or_sentences(rows, ["layers", "budget", "mechanism"], measures)


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table").astype({"budget": "Int64"})
    models = read_table(folder, "over_models").astype({"budget": "Int64"})
    sizes = [size(table, models, int(layers)) for layers in models["layers"].unique()]
    baselines = [baseline for one in sizes for baseline in one["baselines"]]
    return render(
        __file__,
        read_facts(folder),
        folder=folder.name,
        sizes=sizes,
        all=added(baselines),
        counts={name: int(table[name].iloc[0]) for name in COUNTS},
        names=NAMES,
        budgets=sorted(table["budget"].dropna().unique()),
        whole=[row["bleu"] for row in table[table["mechanism"] == FULL].to_dict("records")],
        ends=ends,
        several=bool((models["models"] > 1).all()),
        gains=shown_gains(models),
        plans=shown_plans(models),
        families=families(table),
        criterion=read_facts(folder).get("criterion", "l1"),
    )


NAMES = {"band": "a plain band", "longformer": "Longformer", "bigbird": "BigBird"}
COUNTS = ("sentences", "validation_sentences", "calibration_sentences")


def size(table: pd.DataFrame, models: pd.DataFrame, layers: int) -> dict[str, Any]:
    """What is said of the models of one size."""
    own, runs = models[models["layers"] == layers], table[table["layers"] == layers]
    whole = own[own["mechanism"] == FULL].iloc[0]
    searched, replaced = own[own["mechanism"] == SEARCHED], own[own["mechanism"] != FULL]
    near = searched[searched["share_of_full"] >= NEAR]["budget"]
    useful = searched[searched["budget"] < whole["visible_keys"]]["budget"]
    runs_below = runs[runs["budget"].isin(useful)]
    fitting = [name for name in BASELINES if (runs_below["mechanism"] == name).any()]
    return {
        "layers": layers,
        "models": int(whole["models"]),
        "bleu": runs[runs["mechanism"] == FULL]["bleu"].tolist(),
        "full_keys": whole["visible_keys"],
        "length_ratio": whole["length_ratio"],
        "most_kept": replaced["bleu_kept"].max(),
        "near": int(near.min()) if len(near) else None,
        "useful": int(useful.max()) if len(useful) else None,
        "budgets": len(useful),
        "unfit": [name for name in BASELINES if name not in fitting],
        "baselines": [standing(runs_below, name) for name in fitting],
    }


def standing(runs: pd.DataFrame, baseline: str) -> dict[str, Any]:
    """How far the plan is ahead of a baseline: means over budgets by model, models as units, and cases.

    A case is a model and a budget.
    """
    rows = runs[runs["mechanism"] == baseline]
    found: dict[str, Any] = {
        "name": baseline,
        "cases": len(rows),
        "budgets": rows["budget"].nunique(),
    }
    for measure in ("bleu", "loss"):
        name = f"{measure}_gain"
        means = rows.groupby(MODEL, as_index=False)[name].mean().assign(mechanism=baseline)
        together = over_models(means, ["mechanism"], [name]).iloc[0]
        found[measure] = {
            "low": together[f"{name}_low"],
            "high": together[f"{name}_high"],
            "mean": together[name],
            "models": int((means[name] > 0).sum()),
            "ahead": int((rows[name] > 0).sum()),
            "least": rows[name].min(),
            "most": rows[name].max(),
        }
    return found


def added(baselines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The cases of all baselines together."""
    return {"cases": sum(baseline["cases"] for baseline in baselines)} | {
        measure: {"ahead": sum(baseline[measure]["ahead"] for baseline in baselines)}
        for measure in ("bleu", "loss")
    }


def ends(found: dict[str, float], form: str) -> str:
    """The interval in brackets; nothing where there is none."""
    return "" if isnan(found["low"]) else f" [{found['low']:{form}}, {found['high']:{form}}]"


def shown_gains(models: pd.DataFrame) -> pd.DataFrame:
    """Gains of BLEU and of loss by the searched plan, a column a baseline."""
    return _by_plan(models, BASELINES, lambda row: (
        f"{row['bleu_gain']:+.1f}{_ends(row, 'bleu_gain', '+.1f')}; "
        f"{row['loss_gain']:+.3f}{_ends(row, 'loss_gain', '+.3f')}"
    ))  # fmt: skip


def shown_plans(models: pd.DataFrame) -> pd.DataFrame:
    """Keys really seen, BLEU kept and change of loss, a column a plan."""
    return _by_plan(models, (SEARCHED, *BASELINES), lambda row: (
        f"{row['visible_keys']:.2f}: {row['bleu_kept']:.0f} %, {row['loss_change']:+.3f}, "
        f"{row['length_ratio']:.2f}"
    ))  # fmt: skip


def _by_plan(models: pd.DataFrame, plans: Sequence[str], written: Any) -> pd.DataFrame:
    rows = []
    for (layers, budget), own in models[models["mechanism"] != FULL].groupby(["layers", "budget"]):
        row = {"layers": layers, "budget": budget}
        by_plan = {one["mechanism"]: one for one in own.to_dict("records")}
        row |= {name: written(by_plan[name]) if name in by_plan else "none fits" for name in plans}
        rows.append(row)
    return pd.DataFrame(rows)


def _ends(row: Any, name: str, form: str) -> str:
    return ends({end: row[f"{name}_{end}"] for end in ("low", "high")}, form)


def families(table: pd.DataFrame) -> pd.DataFrame:
    """What the searched plans of the first model of each size are made of."""
    first = table[(table["mechanism"] == SEARCHED) & (table["seed"] == table["seed"].min())]
    return first[["layers", "budget", "setting"]].rename(columns={"setting": "heads by family"})


if __name__ == "__main__":
    main()
