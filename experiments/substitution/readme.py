"""What the README of a substitution result says, from its tables and facts."""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import SIGNIFICANCE_LEVEL
from experiments.shared.model_study import MODEL
from experiments.shared.readme import read_facts, read_table, render
from experiments.substitution.prediction import DRAWS, PREDICTORS

# A translation model of less BLEU is called weak.
WEAK = 25
FORMS = {"loss_change": "+.3f", "bleu_change": "+.1f"}


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table")
    models = read_table(folder, "over_models")
    agreement = read_table(folder, "prediction_over_models")
    tests = read_table(folder, "contrasts")
    sizes = [size(table, models, agreement, int(layers)) for layers in models["layers"].unique()]
    return render(
        __file__,
        read_facts(folder),
        folder=folder.name,
        sizes=sizes,
        several=bool((models["models"] > 1).all()),
        tuned=int(table["steps"].max()),
        tunings=tunings(table),
        counts={name: int(table[name].iloc[0]) for name in COUNTS},
        level=100 * SIGNIFICANCE_LEVEL,
        draws=DRAWS,
        weak=WEAK,
        contrasts=shown_contrasts(tests),
        shown=shown(models),
        settings=settings(table),
        agreement=shown_agreement(agreement),
    )


def tunings(table: pd.DataFrame) -> int:
    """How many replacements of a model were fine-tuned."""
    tuned = table[(table["steps"] > 0) & (table["replaced_heads"] > 0)]
    return int(tuned.groupby(MODEL).size().max()) if len(tuned) else 0


COUNTS = ("sentences", "validation_sentences", "calibration_sentences")


def figure_of(layers: int, models: pd.DataFrame) -> str:
    """The name of the figure of the models of a size."""
    return "figure" if models["layers"].nunique() == 1 else f"figure_{layers}_layers"


def size(
    table: pd.DataFrame, models: pd.DataFrame, agreement: pd.DataFrame, layers: int
) -> dict[str, Any]:
    """What is said of the models of one size."""
    runs, own = table[table["layers"] == layers], models[models["layers"] == layers]
    usable = own[(own["level"] != "oracle") & (own["scope"] == "model")]
    cases = [case(runs, rows) for _, rows in usable.groupby(["steps", "budget"])]
    whole = runs[(runs["replaced_heads"] == 0) & (runs["steps"] == 0)]
    sites = agreement[agreement["layers"] == layers].set_index("site").to_dict("index")
    return {
        "layers": layers,
        "models": int(own["models"].max()),
        "bleu": whole["bleu"].tolist(),
        "loss": whole["loss"].tolist(),
        "heads": int(runs[runs["scope"] == "model"]["replaced_heads"].max()),
        "cases": cases,
        "figure": figure_of(layers, models),
        "predictors": sites.get("all") or next(iter(sites.values()), None),
        "sites": {site: found for site, found in sites.items() if site != "all"},
    }


def case(runs: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """The mechanism that costs least in place of all heads at a budget, and in how many models it does."""
    best = rows.iloc[int(rows["loss_change"].argmin())]
    steps, budget = best["steps"], best["budget"]
    alone = runs[
        (runs["scope"] == "model") & (runs["level"] != "oracle") & (runs["replaced_heads"] > 0)
        & (runs["steps"] == steps) & (runs["budget"] == budget)
    ]  # fmt: skip
    least = alone.loc[alone.groupby("seed")["loss_change"].idxmin()]
    whole = runs[(runs["replaced_heads"] == 0) & (runs["steps"] == steps)]
    return {
        "steps": int(steps),
        "budget": int(budget),
        "mechanism": best["mechanism"],
        "mechanisms": len(rows),
        "loss": written(best, "loss_change"),
        "bleu": written(best, "bleu_change"),
        "least_in": int((least["mechanism"] == best["mechanism"]).sum()),
        "worse_in": int((alone[alone["mechanism"] == best["mechanism"]]["loss_change"] > 0).sum()),
        "everywhere": sorted(
            name for name, own in alone.groupby("mechanism") if (own["loss_change"] > 0).all()
        ),
        "whole_loss": whole["loss"].mean(),
    }


def written(row: Any, name: str) -> str:
    """A change with its interval, where there is one."""
    form = FORMS[name]
    ends = row[f"{name}_low"], row[f"{name}_high"]
    interval = "" if any(map(pd.isna, ends)) else f" [{ends[0]:{form}}, {ends[1]:{form}}]"
    return f"{row[name]:{form}}{interval}"


def shown(models: pd.DataFrame) -> pd.DataFrame:
    """Change of loss and of BLEU by mechanism, a column a target, the cheapest first."""
    rows: list[dict[str, Any]] = []
    keys = ["layers", "steps", "budget", "mechanism", "level"]
    for values, own in models.groupby(keys, sort=False):
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        for each in own.to_dict("records"):
            parts = [written(each, name) for name in FORMS if pd.notna(each[name])]
            row[f"{each['replaced']}: loss, BLEU"] = ", ".join(parts)
        row["order"] = own["loss_change"].mean()
        rows.append(row)
    table = pd.DataFrame(rows).sort_values(["layers", "steps", "budget", "order"])
    return table.drop(columns="order").fillna("")


def settings(table: pd.DataFrame) -> pd.DataFrame:
    """The chosen settings of the first model of each size, and how many were tried."""
    first = table[(table["scope"] == "site") & (table["steps"] == 0)]
    first = first[first["seed"] == first["seed"].min()]
    columns = ["layers", "budget", "mechanism", "replaced", "setting", "settings_tried"]
    chosen = first.loc[first["replaced_heads"] > 0, columns]
    return chosen.astype({"budget": int, "settings_tried": int})


def shown_agreement(agreement: pd.DataFrame) -> pd.DataFrame:
    """Both rank correlations and their difference, with intervals."""
    names = {**{name: name.replace("_", " ") for name in PREDICTORS}, "difference": "difference"}
    rows = []
    for row in agreement.to_dict("records"):
        found = {name: row[name] for name in ("layers", "site", "models")}
        for name, heading in names.items():
            ends = row[f"{name}_low"], row[f"{name}_high"]
            known = not any(map(pd.isna, ends))
            interval = f" [{ends[0]:.2f}, {ends[1]:.2f}]" if known else ""
            found[heading] = f"{row[name]:.2f}{interval}"
        rows.append(found)
    return pd.DataFrame(rows)


def shown_contrasts(tests: pd.DataFrame) -> pd.DataFrame:
    """The contrasts with intervals and corrected p-values; those of one model have neither."""
    rows = []
    for row in tests.to_dict("records"):
        ends = row["difference_low"], row["difference_high"]
        known = not any(map(pd.isna, ends))
        interval = f" [{ends[0]:+.3f}, {ends[1]:+.3f}]" if known else ""
        rows.append(
            {
                "layers": row["layers"],
                "contrast": row["contrast"],
                "difference": f"{row['difference']:+.3f}{interval}",
                "in the same direction": f"{row['same_sign']} of {row['models']} models",
                "p": "" if pd.isna(row["p_value"]) else f"{row['p_value']:.3f}",
            }
        )
    return pd.DataFrame(rows)
