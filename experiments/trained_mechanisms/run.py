"""What a translation model loses when another mechanism stands in it from the first step of training on.

    python experiments/trained_mechanisms/run.py ../shared/data --seeds 0 1 2
    python experiments/trained_mechanisms/run.py ../shared/data --long --seeds 0 1 2
    python experiments/trained_mechanisms/run.py ../shared/data --decoder --seeds 0 1 2

trains the models that the folder of runs does not hold yet, all seeds of an arm before the next arm, and
writes results/trained_mechanisms/, where the mechanism stands in the encoder; trained_mechanisms_long/ of
larger models that are trained for longer; or trained_mechanisms_decoder/, where it stands in the decoder or
in cross-attention. A row is a model. A model whose weights are in the table already is not measured again.
The arms and the contrasts of `models.py` were fixed before a model was trained. Several processes can train
other `--arms` or `--seeds` at a time; one more call with all of them then completes the tables. The thesis's
P + E, trained as long as the arms that are published (40 quiet minutes a model on two cores):

    python experiments/trained_mechanisms/run.py ../shared/data --long --seeds 0 --arms "sigma, E trained"
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from attnlab.ablation import contrasts, over_models
from attnlab.core import file_checksum, path_label, quiet, write_table
from attnlab.evaluation import load_evaluator
from attnlab.figures import save_figure
from attnlab.models import Run
from experiments.models.run import described
from experiments.shared.readme import (
    RESULTS,
    estimate,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.trained_mechanisms.figure import draw_arms
from experiments.trained_mechanisms.models import (
    CROSS,
    DECODER,
    DECODER_GAUSSIAN,
    ENCODER,
    EVERYWHERE,
    FULL,
    GAUSSIAN,
    LARGER,
    LEARNED,
    NO_DECODER,
    PAIRS,
    WINDOWS,
    Study,
    model_of,
)

MODEL = ["pair", "arm", "seed"]
DIGITS, SEEDS = 4, 3
MEASURES = ["loss", "bleu", "chrf", "length_ratio"]
SPEED = "target_tokens_per_second"
STUDIES = {study.folder: study for study in (ENCODER, LARGER, DECODER)}


def main() -> None:
    """Trains what is not there, measures it, and writes tables, figure and README."""
    parser = _parser()
    chosen = parser.parse_args()
    study = STUDIES[chosen.study]
    if unknown := set(chosen.arms or ()) - set(study.plans):
        parser.error(f"no arm {min(unknown)!r} here; choose from: {', '.join(study.plans)}")
    out, arms = RESULTS / study.folder, chosen.arms or list(study.arms)
    for pair, arm, seed in product(chosen.pairs, arms, chosen.seeds):
        with quiet():
            run = model_of(study, pair, arm, seed, data=chosen.data, runs=chosen.runs)
            publish(out, {"pair": pair, "arm": arm, "seed": seed}, run)
        print(pair, arm, seed, flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(out, f"python experiments/trained_mechanisms/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of multi30k")
    which = parser.add_mutually_exclusive_group()
    for option, study, words in (
        ("--long", LARGER, "256 dimensions, 14 epochs"),
        ("--decoder", DECODER, "other attention in the decoder or in cross-attention"),
    ):
        which.add_argument(
            option, dest="study", action="store_const", const=study.folder, help=words
        )
    parser.set_defaults(study=ENCODER.folder)
    parser.add_argument("--pairs", nargs="*", choices=PAIRS, default=list(PAIRS[:1]))
    parser.add_argument(
        "--arms", nargs="*", help="arms of models.py (default: those not on request)"
    )
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
    row = measured(run, STUDIES[folder.name].keys)
    put_rows(folder, "table", model, pd.DataFrame([row]).round(DIGITS))


def measured(run: Run, keys: Mapping[str, str]) -> dict[str, Any]:
    """How the model translates, its keys per row by column and site, and how fast it was trained."""
    speeds = [line[SPEED] for line in run.metrics()]
    counted = {column: keys_per_row(run, site) for column, site in keys.items()}
    return described(run) | counted | {SPEED: float(pd.Series(speeds).median())}


@torch.inference_mode()
def keys_per_row(run: Run, site: str, sentences: int = 200) -> float:
    """Keys of a site whose weight is not 0, mean over the rows and heads of the first test sentences."""
    evaluator = load_evaluator(run, sentences=sentences)
    keys, rows = 0.0, 0
    for batch in evaluator.batches:
        weights = evaluator.model(**batch.inputs, output_attentions=True)[f"{site}_attentions"]
        real = evaluator.real(batch, site)
        counts = torch.stack([(layer != 0).sum(-1) for layer in weights]).double().mean((0, 2))
        keys += float((counts * real).sum())
        rows += int(real.sum())
    return keys / rows


def differences(
    table: pd.DataFrame, arm: str, reference: str, measure: str = "loss"
) -> list[float]:
    """A measure of one arm minus that of another, for each pair of languages and seed that has both."""
    values = table.pivot(index=["pair", "seed"], columns="arm", values=measure)
    if not {arm, reference} <= set(values):
        return []
    return (values[arm] - values[reference]).dropna().tolist()


def tested(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The contrasts that were fixed beforehand; one that no model has yet is left out."""
    return contrasted(table, study, "loss")


def contrasted(table: pd.DataFrame, study: Study, measure: str) -> pd.DataFrame:
    """A measure in the contrasts that were fixed beforehand."""
    found = {
        f"{arm} against {of}": differences(table, arm, of, measure) for arm, of in study.contrasts
    }
    return contrasts({name: each for name, each in found.items() if each})


def estimated(table: pd.DataFrame, measure: str = "loss") -> pd.DataFrame:
    """A measure of every arm minus that of full attention, with t intervals over models and no test."""
    found = {arm: differences(table, arm, FULL, measure) for arm in dict.fromkeys(table["arm"])}
    rows = contrasts({arm: each for arm, each in found.items() if each and arm != FULL})
    return rows.drop(columns="p_value").rename(columns={"contrast": "arm"})


def write_result(folder: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table, study = read_table(folder, "table"), STUDIES[folder.name]
    models = over_models(table, ["arm"], [*MEASURES, *study.keys, SPEED]).sort_values("loss")
    write_table(folder / "contrasts.csv", tested(table, study).round(DIGITS))
    write_table(folder / "against_full.csv", estimated(table).round(DIGITS))
    write_table(folder / "over_models.csv", models.round(DIGITS))
    save_figure(draw_arms(table, models), folder / "arms.svg")
    known = read_facts(folder)["commands"] if (folder / "facts.json").exists() else []
    write_facts(
        folder, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        commands=[*(one for one in known if one != command), command],
    )  # fmt: skip
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, study = read_table(folder, "table"), STUDIES[folder.name]
    counts = table.groupby("arm", sort=False).size()
    against = formatted(read_table(folder, "against_full"), "+.3f")
    bleu = formatted(estimated(table, "bleu"), "+.1f")
    rows = read_table(folder, "contrasts")
    return render(
        __file__, read_facts(folder),
        table=table, whole=table[table["arm"] == FULL], pairs=sorted(set(table["pair"])),
        first=tested(table[table["seed"] == 0], study).to_dict("records"),
        seeds=counts.min(), planned=SEEDS, few=counts[counts < SEEDS].to_dict(),
        larger=of_larger(folder.with_name(LARGER.folder)),
        elsewhere=table[table["torch"] != table["torch"].mode()[0]].to_dict("records"),
        long=study == LARGER, decoder=study == DECODER, training=study.training,
        contrasts=rows.assign(perplexity=100 * np.expm1(rows["difference"])).to_dict("records"),
        bleu_of=formatted(contrasted(table, study, "bleu"), "+.1f", "contrast"), estimate=estimate,
        arms=shown(study, read_table(folder, "over_models"), against, bleu),
        bleu=bleu, regained={one: regained(table, one) for one in ("loss", "bleu")},
        published=[*WINDOWS, DECODER_GAUSSIAN, CROSS, LEARNED], against=against,
        without=NO_DECODER, everywhere=EVERYWHERE,
        missing=[arm for arm in study.plans if arm not in set(table["arm"])],
    )  # fmt: skip


def of_larger(folder: Path) -> dict[str, Any]:
    """Of the larger models, where there are some: how many of two mechanisms, and what these lose."""
    if not (folder / "over_models.csv").exists():
        return {}
    models = read_table(folder, "over_models").set_index("arm")["models"][[GAUSSIAN, "none"]].min()
    against = read_table(folder, "against_full").set_index("arm")["difference"]
    return {"models": models, "gaussian": against[GAUSSIAN], "none": against["none"]}


def regained(table: pd.DataFrame, measure: str) -> float:
    """The share of what Gaussian cross-attention costs that one learned head takes back."""
    back, lost = (
        np.mean(differences(table, arm, CROSS, measure) or [np.nan]) for arm in (LEARNED, FULL)
    )
    return float(back / lost)


def formatted(rows: pd.DataFrame, form: str, key: str = "arm") -> dict[str, str]:
    """By arm or contrast, its difference with the interval."""
    return {row[key]: estimate(row, "difference", form) for row in rows.to_dict("records")}


def shown(
    study: Study, models: pd.DataFrame, against: Mapping[str, str], bleu: Mapping[str, str]
) -> pd.DataFrame:
    """A row an arm, the least loss first."""
    rows = []
    for row in models.to_dict("records"):
        arm = row["arm"]
        shown = {
            "arm" if study == DECODER else "encoder": arm,
            "setting": " or ".join(dict.fromkeys(study.plans[arm].values())),
            "models": row["models"],
            "loss": f"{row['loss']:.3f}",
            "against full": against.get(arm, ""),
            "BLEU": f"{row['bleu']:.1f}",
            "BLEU against full": bleu.get(arm, ""),
        }
        shown |= {"chrF": f"{row['chrf']:.1f}", "length ratio": f"{row['length_ratio']:.2f}"}
        shown |= {column.replace("_", " "): f"{row[column]:.2f}" for column in study.keys}
        rows.append(shown)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
