"""The README of the result, from the tables and facts of its folder."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.questions.align.question import CHOICE_NAMES, CHOSEN, ORACLE
from experiments.alignment.corpus import TEXTS
from experiments.alignment.figure import MODEL, model_name
from experiments.shared.readme import read_facts, read_table, render

# So near to the chosen heads an engine's default is said to be as good, in AER.
NEAR = 0.02
# Models of one kind from which on something is said of models in general.
FEWEST_MODELS = 3
# Calibration pairs at which the chosen set is compared with the bound.
FEW_PAIRS = 100
FIRST_HEAD = "first head of the last layer"
STATISTICAL = "statistical aligner, both directions (grow-diag-final-and)"


def readme(folder: Path) -> str:
    """The README, from the tables of the folder."""
    facts = read_facts(folder)
    tables = {
        name: read_table(folder, name)
        for name in ("models", "systems", "heads", "calibration", "contrasts")
    }
    models, systems = tables["models"], tables["systems"]
    return render(
        Path(__file__).with_name("run.py").as_posix(),
        facts,
        models=models,
        main=headline(models, systems),
        near=near_defaults(systems),
        near_points=100 * NEAR,
        alike=int(models.groupby(["text", "layers"]).size().max()),
        fewest=FEWEST_MODELS,
        few_pairs=FEW_PAIRS,
        texts={name: TEXTS[name] for name in models["text"].unique() if name in TEXTS},
        hopes=pd.DataFrame(hopes(tables)),
        contrasts=shown_contrasts(tables["contrasts"]),
        described=shown_models(models),
        systems=shown_systems(systems),
        choices=shown_choices(systems),
        calibration=shown_calibration(tables["calibration"]),
        rows=list(best_rows(tables["heads"])),
    )


def by_model(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of every model, with its name."""
    for key, rows in table.groupby(MODEL, sort=True):
        yield model_name(*key), rows


def headline(models: pd.DataFrame, systems: pd.DataFrame) -> dict[str, Any]:
    """The figures of the model that the answer is given for: of real text, with the highest BLEU."""
    real = models[models["text"].isin(TEXTS)]
    taken = (real if len(real) else models).nlargest(1, "validation_bleu").iloc[0]
    own = systems[(systems[MODEL] == taken[MODEL]).all(axis=1)].set_index("system")
    return {
        "name": model_name(*taken[MODEL]),
        "model": taken,
        "chosen": own.loc[CHOSEN],
        "first": own.loc[FIRST_HEAD],
        "statistical": own.loc[STATISTICAL],
    }


def near_defaults(systems: pd.DataFrame) -> list[dict[str, Any]]:
    """Defaults of engines less than `NEAR` above the chosen heads; one set of heads stands there once."""
    found = []
    for name, rows in by_model(systems):
        defaults = rows[(rows["kind"] == "default") & (rows["aer_change"] < NEAR)]
        each = defaults.drop_duplicates("heads").to_dict("records")
        found.extend({"model": name, **row} for row in each)
    return found


def hopes(tables: dict[str, pd.DataFrame]) -> Iterator[dict[str, str]]:
    """What was hoped for before a model was read, and by model whether it is so and by which figure."""
    rows: dict[str, dict[str, str]] = {}
    curves = dict(by_model(tables["calibration"]))
    for name, own in by_model(tables["systems"]):
        systems = own.set_index("system")
        curve = curves[name].set_index("pairs")["aer"]
        change = systems["aer_change"]
        least = change[systems["kind"] == "default"].min()
        figures = {
            f"the set from {FEW_PAIRS} pairs within 1 point of the bound": (
                curve.get(FEW_PAIRS, float("nan")) - systems.loc[ORACLE, "aer"],
                lambda figure: figure <= 0.01,
            ),
            "every default of engines at least 10 points higher": (least, lambda f: f >= 0.1),
            "heads without gold links within 3 points": (
                change[CHOICE_NAMES["unsupervised"]],
                lambda figure: figure <= 0.03,
            ),
            "the statistical aligner not below": (change[STATISTICAL], lambda f: f >= 0),
        }
        for hope, (figure, fulfilled) in figures.items():
            answer = "yes" if fulfilled(figure) else "no"
            known = "not measured" if math.isnan(figure) else f"{answer} ({100 * figure:+.1f})"
            rows.setdefault(hope, {"hope": hope})[name] = known
    yield from rows.values()


def shown_contrasts(contrasts: pd.DataFrame) -> pd.DataFrame:
    """A row a contrast, a column a model: AER of the other minus that of the chosen heads, in points."""
    rows: dict[str, dict[str, str]] = {}
    for name, own in by_model(contrasts):
        for row in own.to_dict("records"):
            shown = " ".join(
                [
                    f"{100 * row['difference']:+.1f}",
                    f"[{100 * row['difference_low']:+.1f}, {100 * row['difference_high']:+.1f}]",
                ]
            )
            contrast = row["contrast"]
            rows.setdefault(contrast, {"against": contrast})[name] = shown
    return pd.DataFrame(list(rows.values()))


def shown_models(models: pd.DataFrame) -> pd.DataFrame:
    """How every model was trained."""
    return pd.DataFrame(
        {
            "model": [model_name(*key) for key in models[MODEL].itertuples(index=False)],
            "training pairs": models["training_pairs"].map("{:,}".format),
            "epochs": models["epochs"],
            "parameters": models["parameters"].map("{:,}".format),
            "validation BLEU": models["validation_bleu"].map("{:.1f}".format),
            "reported pairs": models["reported_pairs"],
            "calibration pairs": models["calibration_pairs"],
        }
    )


def shown_systems(systems: pd.DataFrame) -> pd.DataFrame:
    """AER by way to align, a column a model, in points."""
    rows: dict[str, dict[str, str]] = {}
    for name, own in by_model(systems):
        for row in own.to_dict("records"):
            shown = f"{100 * row['aer']:.1f}"
            rows.setdefault(row["system"], {"links of": row["system"]})[name] = shown
    return pd.DataFrame(list(rows.values())).fillna("")


def shown_choices(systems: pd.DataFrame) -> pd.DataFrame:
    """Which heads were chosen of which row of the weights."""
    chosen = systems[systems["kind"].isin(["choice", "bound"])]
    return pd.DataFrame(
        {
            "model": [model_name(*key) for key in chosen[MODEL].itertuples(index=False)],
            "choice": chosen["system"],
            "row": chosen["row"],
            "heads": chosen["heads"],
            "AER": [
                f"{100 * row.aer:.1f} [{100 * row.aer_low:.1f}, {100 * row.aer_high:.1f}]"
                for row in chosen.itertuples()
            ],
            "precision": (100 * chosen["precision"]).map("{:.1f}".format),
            "recall": (100 * chosen["recall"]).map("{:.1f}".format),
        }
    )


def shown_calibration(curve: pd.DataFrame) -> pd.DataFrame:
    """AER by the number of calibration pairs, with its quantiles over draws of pairs."""
    return pd.DataFrame(
        {
            "model": [model_name(*key) for key in curve[MODEL].itertuples(index=False)],
            "pairs": curve["pairs"],
            "draws": curve["draws"],
            "AER": [
                f"{100 * row.aer:.1f} ({100 * row.aer_low:.1f} to {100 * row.aer_high:.1f})"
                for row in curve.itertuples()
            ],
            "heads": curve["heads"].map("{:.1f}".format),
        }
    )


def best_rows(heads: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """By model the head with the lowest AER on the reported pairs of each row of the weights."""
    for name, own in by_model(heads):
        best = own.sort_values("aer").drop_duplicates("row").set_index("row")
        yield {"model": name, "output": best.loc["output"], "input": best.loc["input"]}
