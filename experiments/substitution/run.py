"""What translation models lose when their heads are replaced at equal budgets, and what predicts it.

    python experiments/substitution/run.py ../shared/data/tatoeba --seeds 3 --finetune-steps 200

writes results/substitution_tatoeba/: the study with its cells, tables and a figure of each size. Cells that
are there are not computed again; each trains a model first.
"""

import pandas as pd

from attnlab.ablation import contrasts
from attnlab.core import write_table
from attnlab.figures import write_figure
from experiments.shared.model_study import (
    MODEL,
    ModelStudy,
    options_of_models,
    over_models_or_sentences,
    run_models,
)
from experiments.shared.readme import write_facts, write_readme
from experiments.substitution.figure import draw_substitution
from experiments.substitution.prediction import PREDICTORS, prediction
from experiments.substitution.readme import figure_of, readme

STUDY = "substitution"
CHANGES = ("loss_change", "bleu_change")
# The mechanisms whose losses in place of all heads are compared without retraining, and with what: beside
# the two predictors all that is tested. Other questions need other models.
CONTRASTS = (("sigma salience", "full"), ("sigma salience", "band"))
TOGETHER = ["layers", "steps", "scope", "replaced", "budget", "mechanism", "level"]


def main() -> None:
    """Runs the study, and writes what its cells say together."""
    parser = options_of_models(__doc__, budgets=[5], sentences=300)
    parser.add_argument(
        "--finetune-steps", dest="fine_tune_steps", type=int, default=0,
        help="number of training batches after the replacement, beside full attention",
    )  # fmt: skip
    write(run_models(STUDY, parser))


def write(found: ModelStudy) -> None:
    """Writes tables, figures, facts and README of the rows of all cells."""
    rows, together = found.rows, found.published[found.rows["scope"] != "head"]
    models = replaced_over_models(rows)
    write_table(found.folder / "table.csv", together.dropna(axis=1, how="all"))
    write_table(found.folder / "over_models.csv", models)
    predictions = predicted(rows)
    write_table(found.folder / "prediction.csv", predictions)
    write_table(found.folder / "prediction_over_models.csv", predicted_over_models(predictions))
    write_table(found.folder / "contrasts.csv", tested(rows, predictions))
    for layers in models["layers"].unique():
        figure = draw_substitution(drawn(rows, models, layers))
        write_figure(figure, found.folder, figure_of(layers, models))
    write_facts(found.folder, __file__, "torch", "transformers", "sacrebleu", **found.facts)
    write_readme(found.folder, readme(found.folder))


def replaced_over_models(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a size, number of steps, target, budget and mechanism: means over the models of that size.

    A single model has the intervals over its sentences.
    """
    replaced = rows[(rows["replaced_heads"] > 0) & (rows["scope"] != "head")]
    return over_models_or_sentences(replaced, TOGETHER, [*CHANGES, "visible_keys", "time_ratio"])


def tested(rows: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """The contrasts of the study by size, as `attnlab.ablation.significance.contrasts` tests them."""
    differences: dict[tuple[int, str], list[float]] = {}
    for model, own in rows[(rows["scope"] == "model") & (rows["steps"] == 0)].groupby(MODEL):
        layers = int(str(model[0]))
        for budget, at in own[own["replaced_heads"] > 0].groupby("budget"):
            losses = at.set_index("mechanism")["loss_change"].to_dict() | {"full": 0.0}
            for one, other in CONTRASTS:
                if one in losses and other in losses:
                    name = f"{one} less {other}, {budget} keys per row: loss"
                    change = losses[one] - losses[other]
                    differences.setdefault((layers, name), []).append(change)
    pairs = predictor_pairs(predictions)
    # A model of one site has no row of all sites.
    whole = "all" if (pairs["site"] == "all").any() else pairs["site"].iloc[0]
    for row in pairs[pairs["site"] == whole].to_dict("records"):
        name = "output error less missing mass: rank correlation with the loss of one head"
        differences.setdefault((row["layers"], name), []).append(row["difference"])
    sizes = sorted({layers for layers, _ in differences})
    tables = [
        contrasts(
            {name: own for (size, name), own in differences.items() if size == layers}
        ).assign(layers=layers)
        for layers in sizes
    ]
    return pd.concat(tables, ignore_index=True)


def predicted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rank correlations of each model."""
    tables = []
    for model, own in rows[rows["scope"] == "head"].groupby(MODEL):
        layers, seed = (int(str(value)) for value in model)
        heads = own.assign(site=own["replaced"].str.partition(".")[0])
        tables.append(prediction(heads, seed=seed).assign(layers=layers, seed=seed))
    return pd.concat(tables, ignore_index=True)


def predictor_pairs(predictions: pd.DataFrame) -> pd.DataFrame:
    """Both rank correlations over pairs of head and mechanism, and their difference, by model and site."""
    keys, pairs = [*MODEL, "site"], predictions[predictions["across"] == "pairs"]
    sides = []
    for name in PREDICTORS:
        own = pairs[pairs["predictor"] == name]
        values = {"spearman": name, "low": f"{name}_low", "high": f"{name}_high"}
        sides.append(own[[*keys, *values]].rename(columns=values))
    wide = sides[0].merge(sides[1], on=keys)
    mass, error = PREDICTORS
    return wide.assign(difference=wide[error] - wide[mass])


def predicted_over_models(predictions: pd.DataFrame) -> pd.DataFrame:
    """Both rank correlations and their difference, means over models.

    A single model has the intervals of its bootstrap over heads; its difference has none.
    """
    return over_models_or_sentences(
        predictor_pairs(predictions), ["layers", "site"], [*PREDICTORS, "difference"], alone="heads"
    )


def drawn(rows: pd.DataFrame, models: pd.DataFrame, layers: int) -> pd.DataFrame:
    """What the figure of a size shows: means over its models, and every head of them alone."""
    means = models[models["layers"] == layers].assign(replaced_heads=1)
    heads = rows[(rows["layers"] == layers) & (rows["scope"] == "head")]
    return pd.concat([means, heads], ignore_index=True)


if __name__ == "__main__":
    main()
