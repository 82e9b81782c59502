"""What translation models lose when their heads are replaced at equal budgets, and what predicts it.

    python experiments/substitution/run.py ../shared/data/tatoeba --seeds 3 --finetune-steps 200

writes results/substitution_tatoeba/: the study with its cells, tables and a figure of each size. Cells that
are there are not computed again; each trains a model first.
"""

import pandas as pd

from attnlab.attribution.significance import holm_adjusted
from attnlab.files import write_table
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.substitution import draw_substitution
from attnlab.studies.substitution.prediction import PREDICTORS, prediction
from experiments.shared.model_study import (
    MODEL,
    ModelStudy,
    options_of_models,
    over_models_or_sentences,
    run_models,
)
from experiments.shared.readme import write_facts, write_readme
from experiments.substitution.readme import figure_of, readme

STUDY = "substitution"
# Measures with what the names of their intervals begin with in the tables of a model.
CHANGES = {"loss_change_nats": "loss", "bleu_change": "bleu"}
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
    write_table(found.folder / "prediction.csv", predicted(rows))
    write_table(found.folder / "prediction_over_models.csv", predicted_over_models(predicted(rows)))
    for layers in models["layers"].unique():
        figure = draw_substitution(drawn(rows, models, layers))
        write_figure(figure, found.folder, figure_of(layers, models))
    write_facts(found.folder, __file__, "torch", "transformers", "sacrebleu", **found.facts)
    write_readme(found.folder, readme(found.folder))


def replaced_over_models(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a size, number of steps, target, budget and mechanism: means over the models of that size.

    P-values are corrected for the number of rows. A single model has the intervals and tests of its
    bootstrap over sentences.
    """
    ends = ("low", "high", "p_value")
    names = {f"{stem}_{end}": f"{name}_{end}" for name, stem in CHANGES.items() for end in ends}
    replaced = rows[(rows["replaced_heads"] > 0) & (rows["scope"] != "head")].rename(columns=names)
    others = ["visible_keys", "time_ratio"]
    found = over_models_or_sentences(replaced, TOGETHER, [*CHANGES, *others])
    for name in (f"{change}_p_value" for change in CHANGES):
        # Those of a single model stand in its table as they are, those of several are corrected already.
        single = (found["models"] == 1) & found[name].notna()
        found.loc[single, name] = holm_adjusted(found.loc[single, name].to_numpy(dtype=float))
    return found.drop(columns=[f"{name}_p_value" for name in others])


def predicted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rank correlations of each model."""
    tables = []
    for model, own in rows[rows["scope"] == "head"].groupby(MODEL):
        layers, seed = (int(str(value)) for value in model)
        heads = own.assign(site=own["replaced"].str.partition(".")[0])
        tables.append(prediction(heads, seed=seed).assign(layers=layers, seed=seed))
    return pd.concat(tables, ignore_index=True)


def predicted_over_models(predictions: pd.DataFrame) -> pd.DataFrame:
    """Both rank correlations over pairs of head and mechanism, and their difference, means over models.

    P-values of the difference are corrected for the number of sites and sizes. A single model has the
    intervals of its bootstrap over heads; its difference has none.
    """
    keys, pairs = [*MODEL, "site"], predictions[predictions["across"] == "pairs"]
    sides = []
    for name in PREDICTORS:
        own = pairs[pairs["predictor"] == name]
        values = {"spearman": name, "low": f"{name}_low", "high": f"{name}_high"}
        sides.append(own[[*keys, *values]].rename(columns=values))
    wide = sides[0].merge(sides[1], on=keys)
    mass, error = PREDICTORS
    wide["difference"] = wide[error] - wide[mass]
    found = over_models_or_sentences(
        wide, ["layers", "site"], [*PREDICTORS, "difference"], alone="heads"
    )
    return found.drop(columns=[f"{name}_p_value" for name in PREDICTORS])


def drawn(rows: pd.DataFrame, models: pd.DataFrame, layers: int) -> pd.DataFrame:
    """What the figure of a size shows: means over its models, and every head of them alone."""
    ends = {
        f"{name}_{end}": f"{stem}_{end}"
        for name, stem in CHANGES.items()
        for end in ("low", "high")
    }
    means = models[models["layers"] == layers].rename(columns=ends).assign(replaced_heads=1)
    heads = rows[(rows["layers"] == layers) & (rows["scope"] == "head")]
    return pd.concat([means, heads], ignore_index=True)


if __name__ == "__main__":
    main()
