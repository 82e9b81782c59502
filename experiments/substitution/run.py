"""What translation models lose when their heads are replaced at equal budgets, and what predicts it.

    python experiments/substitution/run.py ../shared/data/tatoeba

writes results/substitution_tatoeba/: the study with its cells, tables and a figure. Cells that are there
are not computed again; each trains a model first.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.files import write_table
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.substitution import draw_substitution
from attnlab.studies.engine.models import MODEL_LOCATIONS
from attnlab.studies.engine.running import run_study
from attnlab.studies.substitution.prediction import prediction
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

STUDY = "substitution"
MODEL = ["layers", "seed"]


def main() -> None:
    """Runs the study, and writes what its cells say together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("--limit", type=int, default=10_000, help="number of training pairs")
    parser.add_argument("--layers", type=int, nargs="+", default=[1])
    parser.add_argument("--budgets", type=int, nargs="+", default=[5])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--runs", default=None, help="folder that keeps trained models")
    parser.add_argument("--jobs", type=int, default=None)
    chosen = parser.parse_args()
    out = RESULTS / f"{STUDY}_{chosen.corpus.name}"
    found = run_study(
        STUDY,
        folder=out / "study",
        jobs=chosen.jobs,
        options={
            "corpus": str(chosen.corpus), "corpus_limit": chosen.limit, "layers": chosen.layers,
            "budgets": chosen.budgets, "seeds": chosen.seeds, "test_sentences": chosen.sentences,
            "runs": chosen.runs,
        },
    )  # fmt: skip
    if found.missing:
        msg = f"{found.missing} cells are missing; see {out / 'study' / 'failed'}"
        raise RuntimeError(msg)
    rows = found.table.astype({"budget": "Int64"})
    unneeded = ["data_checksum", *MODEL_LOCATIONS]
    together = rows[rows["scope"] != "head"].drop(columns=unneeded, errors="ignore")
    write_table(out / "table.csv", together.dropna(axis=1, how="all"))
    write_table(out / "prediction.csv", predicted(rows))
    first = rows[(rows[MODEL] == rows[MODEL].iloc[0]).all(axis=1)].fillna({"level": ""})
    write_figure(draw_substitution(first), out, "figure")
    write_facts(
        out, __file__, "torch", "transformers", "sacrebleu",
        corpus=chosen.corpus.name, pairs=chosen.limit, checksum=rows["data_checksum"].iloc[0][:12],
        sentences=int(rows["sentences"].iloc[0]), models=len(rows[MODEL].drop_duplicates()),
    )  # fmt: skip
    write_readme(out, readme(out))


def predicted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rank correlations of each model."""
    tables = []
    for model, own in rows[rows["scope"] == "head"].groupby(MODEL):
        layers, seed = (int(str(value)) for value in model)
        heads = own.assign(site=own["replaced"].str.partition(".")[0])
        tables.append(prediction(heads, seed=seed).assign(layers=layers, seed=seed))
    return pd.concat(tables, ignore_index=True)


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table")
    replaced = table[table["replaced_heads"] > 0].astype({"budget": int})
    usable = replaced[(replaced["level"] != "oracle") & (replaced["scope"] == "model")]
    best = usable.loc[usable.groupby(MODEL)["loss_change_nats"].idxmin()]
    pairs = read_table(folder, "prediction")
    pairs = pairs[pairs["across"] == "pairs"]
    wide = pairs.pivot_table(
        index=[*MODEL, "site"], columns="predictor", values="spearman", sort=False
    )
    return render(
        __file__,
        read_facts(folder),
        best=best.to_dict("records"),
        whole=table[table["replaced_heads"] == 0].to_dict("records"),
        shown=shown(replaced),
        prediction=pairs.drop(columns="across"),
        nearer=int((wide["output_error"] > wide["missing_mass"]).sum()),
        groups=len(wide),
    )


def shown(replaced: pd.DataFrame) -> pd.DataFrame:
    """Change of loss and of BLEU by mechanism, a column a target, the cheapest first."""
    rows: list[dict[str, Any]] = []
    for (layers, budget, mechanism, level), own in replaced.groupby(
        ["layers", "budget", "mechanism", "level"], sort=False
    ):
        row: dict[str, Any] = {
            "layers": layers, "keys": budget, "mechanism": mechanism, "level": level,
        }  # fmt: skip
        for target, each in own.groupby("replaced", sort=False):
            means = each[["loss_change_nats", "bleu_change"]].mean()
            row[f"{target}: loss, BLEU"] = f"{means.iloc[0]:+.3f}, {means.iloc[1]:+.1f}"
        row["order"] = own["loss_change_nats"].mean()
        rows.append(row)
    table = pd.DataFrame(rows).sort_values(["layers", "keys", "order"]).drop(columns="order")
    return table.fillna("")


if __name__ == "__main__":
    main()
