"""What a translation model loses when another mechanism stands in its encoder from the first step on.

    python experiments/trained_mechanisms/run.py ../shared/data --seeds 0 1 2
    python experiments/trained_mechanisms/run.py ../shared/data --long --seeds 0 1 2

trains the models that the folder of runs does not hold yet, all seeds of an arm before the next arm, and
writes results/trained_mechanisms/, or trained_mechanisms_long/ of larger models that are trained for longer,
a row a model. A model whose weights are in the table already is not
measured again. The arms and the contrasts below were fixed before a model was trained. Several processes can
train other `--arms` or `--seeds` at a time; one more call with all of them then completes the tables.
"""

import argparse
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.ablation import contrasts, over_models
from attnlab.core import file_checksum, path_label, quiet, write_table
from attnlab.evaluation import load_evaluator
from attnlab.figures import write_figure
from attnlab.models import Run
from experiments.models.run import described
from experiments.shared.readme import (
    RESULTS,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.trained_mechanisms.figure import draw_arms
from experiments.trained_mechanisms.models import (
    ARMS,
    BAND,
    FULL,
    GAUSSIAN,
    LONG,
    PAIRS,
    PLANS,
    RARE,
    SHORT,
    model_of,
)

OUT, OUT_LONG = RESULTS / "trained_mechanisms", RESULTS / "trained_mechanisms_long"
MODEL = ["pair", "arm", "seed"]
DIGITS, SEEDS = 4, 3
# Loss of the first minus that of the second, of the models of one pair and seed; these are tested.
CONTRASTS = ((BAND, FULL), (GAUSSIAN, FULL), (RARE, BAND))
MEASURES = ["loss", "bleu", "chrf", "length_ratio", "keys_per_row", "target_tokens_per_second"]


def main() -> None:
    """Trains what is not there, measures it, and writes tables, figure and README."""
    chosen = _parser().parse_args()
    out, training = (OUT_LONG, LONG) if chosen.long else (OUT, SHORT)
    for pair, arm, seed in product(chosen.pairs, chosen.arms, chosen.seeds):
        with quiet():
            run = model_of(pair, arm, seed, chosen.data, chosen.runs, training=training)
            publish(out, {"pair": pair, "arm": arm, "seed": seed}, run)
        print(pair, arm, seed, flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(out, f"python experiments/trained_mechanisms/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of multi30k")
    parser.add_argument("--long", action="store_true", help="256 dimensions, 14 epochs")
    parser.add_argument("--pairs", nargs="*", choices=PAIRS, default=list(PAIRS[:1]))
    parser.add_argument("--arms", nargs="*", choices=list(PLANS), default=list(ARMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(SEEDS)))
    parser.add_argument(
        "--runs",
        type=Path,
        default=RESULTS.parent / "runs" / "trained_mechanisms",
        help="folder of models",
    )
    return parser


def publish(folder: Path, model: dict[str, Any], run: Run) -> None:
    """Puts the row of a model into the table, where the table does not have it."""
    weights = file_checksum(run.folder / "model.safetensors")[:12]
    if (folder / "table.csv").exists():
        known = read_table(folder, "table")
        same = known[[*MODEL, "weights_checksum"]] == pd.Series(
            model | {"weights_checksum": weights}
        )
        if same.all(axis=1).any():
            return
    put_rows(folder, "table", model, pd.DataFrame([measured(run)]).round(DIGITS))


def measured(run: Run) -> dict[str, Any]:
    """How the model translates, its keys per row of the encoder, and how fast it was trained."""
    speeds = [line["target_tokens_per_second"] for line in run.metrics()]
    return described(run) | {
        "keys_per_row": keys_per_row(run),
        "target_tokens_per_second": float(pd.Series(speeds).median()),
    }


@torch.inference_mode()
def keys_per_row(run: Run, sentences: int = 200) -> float:
    """Keys of the encoder whose weight is not 0, mean over the rows and heads of the first test sentences."""
    evaluator = load_evaluator(run, sentences=sentences)
    keys, rows = 0.0, 0
    for batch in evaluator.batches:
        inputs = {name: batch.inputs[name] for name in ("input_ids", "attention_mask")}
        weights = evaluator.model.get_encoder()(**inputs, output_attentions=True).attentions
        real = evaluator.real(batch, "encoder")
        counts = torch.stack([(layer != 0).sum(-1) for layer in weights]).double().mean((0, 2))
        keys += float((counts * real).sum())
        rows += int(real.sum())
    return keys / rows


def differences(table: pd.DataFrame, arm: str, reference: str) -> list[float]:
    """Loss of one arm minus that of another, for each pair of languages and seed that has both."""
    losses = table.pivot(index=["pair", "seed"], columns="arm", values="loss")
    if not {arm, reference} <= set(losses):
        return []
    return (losses[arm] - losses[reference]).dropna().tolist()


def tested(table: pd.DataFrame) -> pd.DataFrame:
    """The contrasts that were fixed beforehand; one that no model has yet is left out."""
    found = {f"{arm} against {of}": differences(table, arm, of) for arm, of in CONTRASTS}
    return contrasts({name: each for name, each in found.items() if each})


def estimated(table: pd.DataFrame) -> pd.DataFrame:
    """Loss of every arm minus that of full attention, with t intervals over models and no test."""
    found = {arm: differences(table, arm, FULL) for arm in dict.fromkeys(table["arm"])}
    rows = contrasts({arm: each for arm, each in found.items() if each and arm != FULL})
    return rows.drop(columns="p_value").rename(columns={"contrast": "arm"})


def write_result(folder: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table = read_table(folder, "table")
    models = over_models(table, ["arm"], MEASURES).sort_values("loss")
    write_table(folder / "contrasts.csv", tested(table).round(DIGITS))
    write_table(folder / "against_full.csv", estimated(table).round(DIGITS))
    write_table(folder / "over_models.csv", models.round(DIGITS))
    write_figure(draw_arms(table, models), folder, "arms")
    known = read_facts(folder)["commands"] if (folder / "facts.json").exists() else []
    write_facts(
        folder, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        commands=[*(one for one in known if one != command), command],
    )  # fmt: skip
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table")
    return render(
        __file__, read_facts(folder),
        table=table, whole=table[table["arm"] == FULL], pairs=sorted(set(table["pair"])),
        first=tested(table[table["seed"] == 0]).to_dict("records"),
        seeds=table.groupby("arm").size().min(), larger=of_larger(folder.with_name(OUT_LONG.name)),
        elsewhere=table[table["torch"] != table["torch"].mode()[0]].to_dict("records"),
        long=folder.name == OUT_LONG.name,
        training=LONG if folder.name == OUT_LONG.name else SHORT,
        contrasts=read_table(folder, "contrasts").to_dict("records"),
        arms=shown(read_table(folder, "over_models"), read_table(folder, "against_full")),
        missing=[arm for arm in PLANS if arm not in set(table["arm"])],
    )  # fmt: skip


def of_larger(folder: Path) -> dict[str, Any]:
    """Of the larger models, where there are some: how many of each mechanism, and what two lose."""
    if not (folder / "over_models.csv").exists():
        return {}
    models = read_table(folder, "over_models")["models"].min()
    against = read_table(folder, "against_full").set_index("arm")["difference"]
    return {"models": models, "gaussian": against[GAUSSIAN], "none": against["none"]}


def shown(models: pd.DataFrame, against: pd.DataFrame) -> pd.DataFrame:
    """A row an arm, the least loss first."""
    own = against.set_index("arm").to_dict("index")
    return pd.DataFrame(
        [
            {
                "encoder": row["arm"],
                "setting": " or ".join(dict.fromkeys(PLANS[row["arm"]].values())),
                "models": row["models"],
                "loss": f"{row['loss']:.3f}",
                "against full": _interval(own.get(row["arm"])),
                "BLEU": f"{row['bleu']:.1f}",
                "chrF": f"{row['chrf']:.1f}",
                "length ratio": f"{row['length_ratio']:.2f}",
                "keys per row": f"{row['keys_per_row']:.2f}",
            }
            for row in models.to_dict("records")
        ]
    )


def _interval(row: Any) -> str:
    if row is None:
        return ""
    value, low, high = (f"{row[f'difference{end}']:+.3f}" for end in ("", "_low", "_high"))
    return value if pd.isna(row["difference_low"]) else f"{value} [{low}, {high}]"


if __name__ == "__main__":
    main()
