"""When in training do heads take on what they do, and when does the model begin to translate or to predict?

    python experiments/heads_over_training/run.py --runs ../runs/heads_over_training
    python experiments/heads_over_training/run.py --language-model ../shared/data

trains the models of the demo, or language models of two layers on English verses, that the folder of runs
does not hold yet, with their weights kept at 20 steps, reads each, and writes results/heads_over_training/ or
results/heads_over_training_language_model/. A model that stands in the result is not read again. The rule of
what has formed, and the contrasts of `curves.py`, were fixed before the models of a result were read; its
README says what was looked at by then.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from attnlab.core import path_label, quiet, write_table
from attnlab.evaluation import load_evaluator
from attnlab.figures import save_figure
from attnlab.models import score
from experiments.alignment.models import demo_settings
from experiments.heads_over_training.counts import bigram_loss
from experiments.heads_over_training.curves import (
    BLEU,
    COUNTED,
    FORMED,
    LANGUAGE,
    LOSS,
    STUDIES,
    TRANSLATION,
    Study,
    contrasts_of,
    halves,
    over_seeds,
    strongest,
)
from experiments.heads_over_training.figure import LANGUAGE_ROWS, TRANSLATION_ROWS, draw_training
from experiments.heads_over_training.models import (
    LANGUAGE_MODEL,
    language_model_settings,
    model_of,
    set_step,
)
from experiments.heads_over_training.readings import (
    COLUMNS,
    RANDOM_TOKENS,
    loss_of,
    on_random_tokens,
    on_trees,
    strengths,
)
from experiments.shared.readme import (
    RESULTS,
    known_models,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

SEEDS, SENTENCES, DIGITS = 5, 200, 4
# Percent of a training below which a tenth is told.
EARLY = 2


def main() -> None:
    """Reads each model that was not read yet, and writes tables, figure and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--language-model", type=Path, metavar="DATA", dest="data",
        help="language models on verses; the folder of the corpora and treebanks",
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(SEEDS)))
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="test sentences")
    parser.add_argument(
        "--runs", type=Path, default=RESULTS.parent / "runs" / "heads_over_training",
        help="folder of models",
    )  # fmt: skip
    chosen = parser.parse_args()
    study = LANGUAGE if chosen.data else TRANSLATION
    for seed in chosen.seeds:
        with quiet():
            publish(study, seed, chosen.runs, chosen.sentences, chosen.data)
        print("seed", seed, flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(RESULTS / study.folder, f"python experiments/heads_over_training/run.py {words}")


def publish(study: Study, seed: int, runs: Path, sentences: int, data: Path | None) -> None:
    """Puts the rows of a model into the tables, where they are not there; `data` of a language model."""
    folder = RESULTS / study.folder
    if (seed,) in known_models(folder, "quality", ["seed"]):
        return
    settings = language_model_settings(seed, data) if data else demo_settings(seed)
    run = model_of(runs / f"{study.models}-seed-{seed}", settings)
    evaluator = load_evaluator(run, sentences=sentences)
    fixed = {COUNTED: bigram_loss(run, evaluator)} if data else {}
    heads, quality = [strengths(run, sentences)], []
    if data:
        heads.append(on_trees(run, sentences, data))
    for step in run.kept_steps:
        set_step(run, step)
        if data:
            heads.append(on_random_tokens(run).assign(step=step))
        made = {} if data else {BLEU: score(evaluator.translations(), evaluator.references).bleu}
        quality.append({"step": step, LOSS: loss_of(evaluator)} | made | fixed)
        print("seed", seed, "step", step, flush=True)
    put_rows(folder, "heads", {"seed": seed}, pd.concat(heads)[COLUMNS].round(DIGITS))
    put_rows(folder, "quality", {"seed": seed}, pd.DataFrame(quality).round(DIGITS))


def write_result(folder: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    heads, quality, study = (
        read_table(folder, "heads"), read_table(folder, "quality"), STUDIES[folder.name],
    )  # fmt: skip
    table = halves(heads, quality, study)
    write_table(folder / "halves.csv", table.round(DIGITS))
    write_table(folder / "over_seeds.csv", over_seeds(table).round(DIGITS))
    write_table(folder / "contrasts.csv", contrasts_of(table, study).round(DIGITS))
    rows = LANGUAGE_ROWS if study == LANGUAGE else TRANSLATION_ROWS
    save_figure(draw_training(strongest(heads, study), quality, rows), folder / "training.svg")
    write_facts(folder, __file__, "torch", "transformers", "sacrebleu", command=command)
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    over, quality = read_table(folder, "over_seeds"), read_table(folder, "quality")
    study = STUDIES[folder.name]
    last = quality[quality["step"] == quality.groupby("seed")["step"].transform("max")]
    rows = {(row["site"], row["label"]): row for row in over.to_dict("records")}
    return render(
        __file__, read_facts(folder),
        contrasts={row["contrast"]: row for row in read_table(folder, "contrasts").to_dict("records")},
        tested=int(read_table(folder, "contrasts")["p_value"].notna().sum()),
        named=list(study.contrasts), rows=rows, last=last, over=shown(over, len(last)),
        steps=quality.loc[quality["seed"] == quality["seed"].min(), "step"].tolist(),
        formed=FORMED, sentences=SENTENCES, random_tokens=RANDOM_TOKENS, even=even_weight(),
        language=LANGUAGE_MODEL if study == LANGUAGE else None,
        formed_in=formed_in(over, len(last)), ends=strongest_at_end(read_table(folder, "heads")),
    )  # fmt: skip


def even_weight() -> float:
    """Mean weight on one key where each row of the second copy of the random tokens weighs all keys alike."""
    return fmean(1 / (row + 1) for row in range(RANDOM_TOKENS, 2 * RANDOM_TOKENS))


def formed_in(over: pd.DataFrame, models: int) -> dict[str, str]:
    """By label of the decoder, in how many models it formed and when, in words, and how strong it ended."""
    words = {}
    for row in over[over["site"] == "decoder"].to_dict("records"):
        count = f"in {row['formed']:.0f} of {models}" if row["formed"] else f"in none of {models}"
        first = f", first halfway at {percent(row)}" if row["formed"] else ""
        words[row["label"]] = f"{count}{first} ({row['end']:.2f} at the end)"
    return words


def strongest_at_end(heads: pd.DataFrame) -> pd.DataFrame:
    """By label, the strongest head of each model after the last step, with what it prefers and how much."""
    last = heads[heads["step"] == heads.groupby("seed")["step"].transform("max")]
    best = last.loc[last.groupby(["label", "seed"])["strength"].idxmax()]
    best = best[best["strength"] > 0]
    details = best["detail"].fillna("").astype(str)
    cells = [
        " ".join([f"{layer}.{head}", detail, f"{value:.2f}"]).replace("  ", " ")
        for layer, head, detail, value in zip(
            best["layer"], best["head"], details, best["value"], strict=True
        )
    ]
    wide = best.assign(cell=cells).pivot(index="label", columns="seed", values="cell").fillna("-")
    return wide.rename(columns=lambda seed: f"seed {seed}").reset_index()


def shown(over: pd.DataFrame, models: int) -> pd.DataFrame:
    """A row a site and label: where it begins and ends, in how many models it forms, and when."""
    rows: list[Mapping[str, Any]] = [
        {
            "site": row["site"],
            "label or measure": row["label"],
            "untrained": f"{row['untrained']:.2f}",
            "largest": f"{row['most']:.2f}",
            "at the end": f"{row['end']:.2f}",
            "formed in": f"{row['formed']:.0f} of {models}",
            "halfway at": "-" if pd.isna(row["share"]) else percent(row),
        }
        for row in over.to_dict("records")
        if row["most"] > 0
    ]
    return pd.DataFrame(rows)


def percent(row: Mapping[Any, Any]) -> str:
    """A share of the training, with its interval where there is one; early ones to a tenth."""
    digits = 0 if row["share"] >= EARLY else 1
    if pd.isna(row["share_low"]):
        return f"{row['share']:.{digits}f} %"
    return f"{row['share']:.{digits}f} % [{row['share_low']:.{digits}f}, {row['share_high']:.{digits}f}]"


if __name__ == "__main__":
    main()
