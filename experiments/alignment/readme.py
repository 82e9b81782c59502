"""The README of the result, from the tables and facts of its folder."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import over_models
from attnlab.questions.align.question import CHOSEN, ORACLE, SYMMETRIZED, both_named
from experiments.aligners.run import most_text
from experiments.alignment.contrasts import FEW_PAIRS, FIRST_HEAD, STATISTICAL, WANTED
from experiments.alignment.corpus import TEXTS
from experiments.alignment.figure import EMBEDDED, KIND, MODEL, kind_name, model_name
from experiments.shared.readme import RESULTS, read_facts, read_table, render

# So near to the chosen heads an engine's default is said to be as good, in AER.
NEAR = 0.02
# The aligner that joins no directions.
ONE_DIRECTION = "statistical aligner"
# Models of one kind from which on something is said of models in general.
FEWEST_MODELS = 3
# Numbers of layers that models were to have.
LAYERS = (1, 3, 6)
TABLES = (
    "models", "systems", "heads", "calibration", "contrasts", "generation", "engines", "directions", "alike",
    "weights",
)  # fmt: skip


def readme(folder: Path) -> str:
    """The README, from the tables of the folder."""
    facts = read_facts(folder)
    tables = {
        name: read_table(folder, name) for name in TABLES if (folder / f"{name}.csv").exists()
    }
    models, systems = tables["models"], tables["systems"]
    texts = [text for text in TEXTS if text in set(models["text"])]
    main = headline(tables, models[models["text"] == (texts[0] if texts else EMBEDDED)])
    real = models[models["text"] != EMBEDDED]
    generation = tables.get("generation", pd.DataFrame(columns=[*MODEL, "word_share"]))
    shares = generation.set_index(MODEL)["word_share"]
    return render(
        Path(__file__).with_name("run.py").as_posix(),
        facts,
        points=points,
        aligners=most_text(RESULTS / "aligners"),
        main=main,
        near=list(near_defaults(systems)),
        reached=list(reached_counts(tables["contrasts"])),
        engine_row=engine_row(tables["heads"], main["model"]),
        engine_models=len(tables["engines"][MODEL].drop_duplicates()) if "engines" in tables else 0,
        engines=shown_engines(tables["engines"]) if "engines" in tables else None,
        directions=shown_directions(tables["directions"], systems)
        if "directions" in tables
        else None,
        both=list(both_directions(tables["directions"], systems)) if "directions" in tables else [],
        by_weights=shown_weights(tables["weights"]) if "weights" in tables else None,
        one_direction=one_direction(systems, main["model"]),
        by_looks=by_looks(tables["heads"]),
        alike=by_alike(tables["alike"]) if "alike" in tables else None,
        drawn_of=[
            {"name": kind_name(key), "pairs": span(own["calibration_pairs"], ".0f")}
            for key, own in models.groupby(KIND, sort=True)
            if own["calibration_pairs"].min() >= FEW_PAIRS
        ],
        near_points=100 * NEAR,
        worse=list(worse_than_diagonal(systems)),
        kinds=[(kind_name(key), len(own)) for key, own in models.groupby(KIND, sort=True)],
        others=[
            headline(tables, own)
            for key, own in real.groupby(KIND, sort=True)
            if list(key) != main["model"][KIND].tolist()
        ],
        texts=[TEXTS[text] for text in texts],
        real=real,
        translators=list(translators(real, shares)),
        unread=[count for count in LAYERS if count not in set(models["layers"])],
        embedded=models[models["text"] == EMBEDDED],
        fewest=FEWEST_MODELS,
        few_pairs=FEW_PAIRS,
        draws=tables["calibration"]["draws"].max(),
        contrasts=shown_contrasts(tables["contrasts"]),
        over_seeds=shown_over_seeds(tables["contrasts"]),
        consistency=consistency(systems),
        described=shown_models(models),
        systems=shown_systems(systems),
        choices=shown_choices(systems),
        calibration=shown_calibration(tables["calibration"]),
        generation=shown_generation(tables.get("generation", pd.DataFrame())),
        best=list(best_rows(tables["heads"])),
        files=[f"{name}.csv" for name in (*TABLES, "steps") if (folder / f"{name}.csv").exists()],
    )


def points(row: "Mapping[Any, Any] | pd.Series[Any]", name: str, sign: str = "+") -> str:
    """The figure of that name with its interval, if it has one, in AER points."""
    # 0 is added so that no difference is -0.0.
    value, low, high = (
        f"{round(100 * row[name + end], 1) + 0:{sign}.1f}" for end in ("", "_low", "_high")
    )
    return value if math.isnan(row[f"{name}_low"]) else f"{value} [{low}, {high}]"


def translators(models: pd.DataFrame, shares: "pd.Series[Any]") -> Iterator[dict[str, Any]]:
    """How well the models of each kind translate, and what they learned from.

    Args:
        models: rows of `models.csv`.
        shares: of the words of the reported pairs that a model's own translations have, by model.
    """
    for key, own in models.groupby(KIND, sort=True):
        keys = own[MODEL].itertuples(index=False, name=None)
        words = pd.Series([float(shares.get(one, math.nan)) for one in keys])
        yield {
            "name": kind_name(key),
            "models": len(own),
            "pairs": span(own["training_pairs"], ","),
            "epochs": span(own["epochs"], "g"),
            "bleu": span(own["validation_bleu"], ".1f"),
            "words": "" if words.isna().all() else span(100 * words, ".0f"),
        }


def span(values: "pd.Series[Any]", form: str) -> str:
    """From the least to the greatest, or the one that both are."""
    low, high = f"{values.min():{form}}", f"{values.max():{form}}"
    return low if low == high else f"{low} to {high}"


def by_model(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of every model, with its name."""
    for key, rows in table.groupby(MODEL, sort=True):
        yield model_name(key), rows


def headline(tables: dict[str, pd.DataFrame], models: pd.DataFrame) -> dict[str, Any]:
    """The figures of the one of some models that an answer is given for: with the highest BLEU."""
    taken = models.nlargest(1, "validation_bleu").iloc[0]
    systems = _of_model(tables["systems"], taken)
    rows = systems.set_index("system")
    alike = tables["contrasts"]
    alike = alike[(alike[KIND] == taken[KIND]).all(axis=1)]
    over = over_models(alike[alike["contrast"] == FIRST_HEAD], ["contrast"], ["difference"])
    several = len(over) > 0 and over["models"].iloc[0] >= FEWEST_MODELS
    return {
        "over": over.iloc[0] if several else None,
        "name": model_name(taken[MODEL].tolist()),
        "models": len(models),
        "model": taken,
        "chosen": rows.loc[CHOSEN],
        "bound": rows.loc[ORACLE],
        "first": rows.loc[FIRST_HEAD],
        "statistical": rows.loc[STATISTICAL] if STATISTICAL in rows.index else None,
    }


def _of_model(table: pd.DataFrame, model: "pd.Series[Any]") -> pd.DataFrame:
    return table[(table[MODEL] == model[MODEL]).all(axis=1)]


def reached_counts(contrasts: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """In how many models each contrast was reached, of those where it was measured."""
    for name in WANTED:
        own = contrasts.loc[contrasts["contrast"] == name, "reached"].astype(bool)
        if len(own):
            yield {"contrast": _titled(name), "count": int(own.sum()), "models": len(own)}


def engine_row(heads: pd.DataFrame, model: "pd.Series[Any]") -> dict[str, str]:
    """The least AER of a single head of a model on the row that engines read."""
    own = _of_model(heads, model)
    return {"best": f"{100 * own.loc[own['row'] == 'output', 'aer'].min():.1f}"}


def shown_engines(engines: pd.DataFrame) -> pd.DataFrame:
    """What engines can be told of, a row a model and choice, in AER points."""
    return pd.DataFrame(
        {
            "model": [model_name(key) for key in engines[MODEL].itertuples(index=False)],
            "choice": engines["choice"],
            "heads": engines["heads"],
            "AER": [points(row, "aer", sign="") for row in engines.to_dict("records")],
            "first head of the last layer": [
                points(row, "first_head") for row in engines.to_dict("records")
            ],
        }
    )


def shown_weights(weights: pd.DataFrame) -> pd.DataFrame:
    """AER by weights and by contributions, a row a model and choice."""
    return pd.DataFrame(
        {
            "model": [model_name(key) for key in weights[MODEL].itertuples(index=False)],
            "read": weights["weights"],
            "heads": weights["system"],
            "AER": [points(row, "aer", sign="") for row in weights.to_dict("records")],
        }
    )


def both_directions(directions: pd.DataFrame, systems: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Links of both directions beside those of the statistical aligner, of the models that have both."""
    for name, own in by_model(directions):
        heads = own.set_index("system").loc[both_named(SYMMETRIZED)]
        others = _of_model(systems, own.iloc[0]).set_index("system")
        if STATISTICAL in others.index:
            yield {"model": name, "heads": heads, "statistical": others.loc[STATISTICAL]}


def shown_directions(directions: pd.DataFrame, systems: pd.DataFrame) -> pd.DataFrame:
    """Links of each direction and of both, and those of the statistical aligner, a row a model and way."""
    statistical = systems[systems["system"].isin([ONE_DIRECTION, STATISTICAL])]
    directions = pd.concat(
        [
            part
            for _, own in by_model(directions)
            for part in (own, _of_model(statistical, own.iloc[0])[list(own)])
        ]
    )
    return pd.DataFrame(
        {
            "model": [model_name(key) for key in directions[MODEL].itertuples(index=False)],
            "links of": directions["system"],
            "heads": directions["heads"].fillna(""),
            "AER": [points(row, "aer", sign="") for row in directions.to_dict("records")],
            "precision": (100 * directions["precision"]).map("{:.1f}".format),
            "recall": (100 * directions["recall"]).map("{:.1f}".format),
            "minus chosen heads": [
                "" if math.isnan(row["aer_change"]) else points(row, "aer_change")
                for row in directions.to_dict("records")
            ],
        }
    )


def one_direction(systems: pd.DataFrame, model: "pd.Series[Any]") -> dict[str, Any] | None:
    """AER of the statistical aligner of one direction, and in how many models the chosen heads' is lower."""
    rows = systems[systems["system"] == ONE_DIRECTION]
    if rows.empty:
        return None
    aer = 100 * _of_model(rows, model)["aer"].iloc[0]
    lower = int((rows["aer_change"] > 0).sum())
    return {"aer": f"{aer:.1f}", "lower": lower, "models": len(rows)}


def by_looks(heads: pd.DataFrame) -> dict[str, Any]:
    """How much worse the head of the highest score without gold is than the best, over models."""
    hoped = WANTED["heads chosen without gold links"].most
    worse = pd.Series(
        [
            100 * (own.nlargest(1, "score_without_gold")["aer"].iloc[0] - own["aer"].min())
            for _, own in by_model(heads)
        ]
    )
    return {
        "most": f"{worse.max():.1f}",
        "mean": f"{worse.mean():.1f}",
        "worse": int((worse > 100 * hoped).sum()),
        "models": len(worse),
    }


def by_alike(table: pd.DataFrame) -> dict[str, Any]:
    """How much worse heads chosen by words written alike are than the best single head, over models."""
    worse = 100 * table["worse"]
    hoped = WANTED["heads chosen without gold links"].most
    return {
        "most": f"{worse.max():.1f}",
        "mean": f"{worse.mean():.1f}",
        "worse": int((worse > 100 * hoped).sum()),
        "models": len(table),
    }


def near_defaults(systems: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Of each model the best default of engines, where it is less than `NEAR` above the chosen heads."""
    for name, rows in by_model(systems):
        best = rows[rows["system_kind"] == "default"].nsmallest(1, "aer").iloc[0]
        if best["aer_change"] < NEAR:
            shown = points(best.to_dict(), "aer_change")
            yield {"model": name, "system": best["system"], "points": shown}


def worse_than_diagonal(systems: pd.DataFrame) -> Iterator[str]:
    """Models whose chosen heads have a higher AER than the diagonal, which reads no attention."""
    for name, rows in by_model(systems):
        aer = rows.set_index("system")["aer"]
        if aer[CHOSEN] > aer["diagonal"]:
            yield name


def shown_contrasts(contrasts: pd.DataFrame) -> pd.DataFrame:
    """A row a model, a column a contrast: whether it was reached, with the figure in AER points."""
    rows = []
    for name, own in by_model(contrasts):
        cells = {
            row["contrast"]: f"{'reached' if row['reached'] else 'missed'} "
            f"{points(row, 'difference')}"
            for row in own.to_dict("records")
        }
        found = {_titled(one): cells.get(one, "not measured") for one in WANTED}
        rows.append({"model": name} | found)
    return pd.DataFrame(rows)


def _titled(contrast: str) -> str:
    least, most = WANTED[contrast]
    limit = f"at most {100 * most:+g}" if least == float("-inf") else f"at least {100 * least:+g}"
    return f"{contrast}: {limit.replace('+0', '0')}"


def shown_over_seeds(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts as means over the models of a kind, where there are enough of them."""
    found = over_models(contrasts, [*KIND, "contrast"], ["difference"])
    enough = found[found["models"] >= FEWEST_MODELS]
    rows = [
        {
            "models": f"{row['models']} of {kind_name([row[name] for name in KIND])}",
            "contrast": row["contrast"],
            "mean": points(row, "difference"),
        }
        for row in enough.to_dict("records")
    ]
    return pd.DataFrame(rows)


def consistency(systems: pd.DataFrame) -> pd.DataFrame:
    """What the chosen sets of several models of a kind have in common: row, layers, how many heads."""
    rows = []
    for key, own in systems[systems["system"] == CHOSEN].groupby(KIND, sort=True):
        if len(own) < 2:
            continue
        heads = own["heads"].astype(str).str.split(", ")
        layers = heads.map(lambda each: {int(one.split(".")[0]) for one in each})
        rows.append(
            {
                "models": f"{len(own)} of {kind_name(key)}",
                "row": ", ".join(f"{row} in {n}" for row, n in own["row"].value_counts().items()),
                "layers in all of them": _listed(set.intersection(*layers)),
                "layers in any": _listed(set.union(*layers)),
                "number of heads": _range(heads.map(len), "d"),
                "AER": _range(100 * own["aer"], ".1f"),
            }
        )
    return pd.DataFrame(rows)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _range(values: "pd.Series[Any]", form: str) -> str:
    low, high = format(values.min(), form), format(values.max(), form)
    return low if low == high else f"{low} to {high}"


def shown_models(models: pd.DataFrame) -> pd.DataFrame:
    """How every model was trained."""
    return pd.DataFrame(
        {
            "model": [model_name(key) for key in models[MODEL].itertuples(index=False)],
            "training pairs": models["training_pairs"].map("{:,}".format),
            "epochs, kept": [f"{one.epochs:g}, {one.kept_epoch:g}" for one in models.itertuples()],
            "steps": models["steps"].map("{:,}".format),
            "layers x heads": [
                f"{one.layers} x {one.heads_per_layer}" for one in models.itertuples()
            ],
            "dim": models["dim"],
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
    chosen = systems[systems["system_kind"].isin(["choice", "bound"])]
    return pd.DataFrame(
        {
            "model": [model_name(key) for key in chosen[MODEL].itertuples(index=False)],
            "choice": chosen["system"],
            "row": chosen["row"],
            "heads": chosen["heads"],
            "AER": [points(row, "aer", sign="") for row in chosen.to_dict("records")],
            "precision": (100 * chosen["precision"]).map("{:.1f}".format),
            "recall": (100 * chosen["recall"]).map("{:.1f}".format),
        }
    )


def shown_calibration(curve: pd.DataFrame) -> pd.DataFrame:
    """AER by the number of calibration pairs, with its quantiles over draws; a row a model."""
    rows = []
    for name, own in by_model(curve):
        cells = {
            "all" if row["draws"] == 1 else str(row["pairs"]): f"{100 * row['aer']:.1f} "
            f"({100 * row['aer_low']:.1f} to {100 * row['aer_high']:.1f})"
            if row["draws"] > 1
            else f"{100 * row['aer']:.1f} ({row['pairs']} pairs)"
            for row in own.to_dict("records")
        }
        rows.append({"model": name} | cells)
    table = pd.DataFrame(rows).fillna("")
    return table[[*(column for column in table if column != "all"), "all"]]


def shown_generation(table: pd.DataFrame) -> pd.DataFrame:
    """AER of words that a model wrote itself, beside that of the same words under teacher forcing."""
    rows = [
        {
            "model": model_name([row[name] for name in MODEL]),
            "words in common": f"{row['words']:,} ({100 * row['word_share']:.0f} %)",
            "AER, teacher forcing": f"{100 * row['aer']:.1f}",
            "AER, own translation": f"{100 * row['generated_aer']:.1f}",
            "change": points(row, "generated_change"),
        }
        for row in table.to_dict("records")
    ]
    return pd.DataFrame(rows)


def best_rows(heads: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """By model the head with the lowest AER on the reported pairs of each row of the weights."""
    for name, own in by_model(heads):
        best = own.sort_values("aer").drop_duplicates("row").set_index("row")
        yield {"model": name, "output": best.loc["output"], "input": best.loc["input"]}
