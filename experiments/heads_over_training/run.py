"""When in training do heads take on what they do, and when does the model begin to translate?

    python experiments/heads_over_training/run.py --runs ../runs/heads_over_training

trains the models of the demo that the folder of runs does not hold yet, with their weights kept at 20 steps,
reads each, and writes results/heads_over_training/. A model that stands in the result is not read again. The
rule of what has formed, and the contrasts below, were fixed before a model was read, but for that of the
accuracy of alignment: three steps of one model had been looked at by then.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnlab.ablation import contrasts, over_models
from attnlab.core import HEAD_COLUMNS, path_label, quiet, write_table
from attnlab.evaluation import Evaluator, load_evaluator
from attnlab.figures import write_figure
from attnlab.labels import BORDERLINE, with_strength
from attnlab.models import Run, score
from attnlab.questions.analyze.analysis import analyze
from experiments.alignment.models import demo_settings
from experiments.heads_over_training.figure import draw_training
from experiments.heads_over_training.models import at_step, model_of, steps_of
from experiments.shared.labels import with_all_keys
from experiments.shared.readme import (
    RESULTS,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = RESULTS / "heads_over_training"
SEEDS, SENTENCES, DIGITS = 5, 200, 4
# Controls are drawn with another seed than the models, whose own first weights are among what is read.
CONTROLS_SEED = 1000
# A label has formed where the strongest head ends so much above the strongest before training.
FORMED = 0.5
# Models of which an interval is told.
FEWEST = 3
# Measures of the model, beside labels; the accuracy of its best head, since strength ends at a threshold.
BLEU, LOSS, ACCURACY = "BLEU", "loss", "alignment accuracy"
# Sites whose heads are taken together.
SITES = {
    "encoder": ["encoder"], "decoder": ["decoder"], "cross": ["cross"],
    "encoder or decoder": ["encoder", "decoder"],
}  # fmt: skip
ALIGNMENT, POSITIONAL = ("cross", "alignment"), ("encoder or decoder", "positional")
# Which of two is halfway first: how many times the steps of the second the first takes, as its logarithm.
CONTRASTS = {
    "alignment heads before BLEU": (ALIGNMENT, ("model", BLEU)),
    "alignment accuracy before BLEU": (("model", ACCURACY), ("model", BLEU)),
    "alignment heads before the loss": (ALIGNMENT, ("model", LOSS)),
    "positional heads before alignment heads": (POSITIONAL, ALIGNMENT),
}
WHAT = ["site", "label"]


def main() -> None:
    """Reads each model that was not read yet, and writes tables, figure and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of models")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="test sentences")
    parser.add_argument(
        "--runs", type=Path, default=RESULTS.parent / "runs" / "heads_over_training",
        help="folder of models",
    )  # fmt: skip
    chosen = parser.parse_args()
    for seed in range(chosen.seeds):
        with quiet():
            publish(OUT, seed, chosen.runs, chosen.sentences)
        print("seed", seed, flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(OUT, f"python experiments/heads_over_training/run.py {words}")


def publish(folder: Path, seed: int, runs: Path, sentences: int) -> None:
    """Puts the rows of a model into the tables, where they are not there."""
    known = read_table(folder, "quality") if (folder / "quality.csv").exists() else None
    if known is not None and (known["seed"] == seed).any():
        return
    run = model_of(runs / f"embedded-seed-{seed}", demo_settings(seed))
    evaluator = load_evaluator(run, sentences=sentences)
    heads, quality = [], []
    for step in steps_of(run.folder):
        found = strengths(at_step(run, step), sentences)
        heads.append(found.assign(step=step))
        quality.append({"step": step} | translation_quality(evaluator))
        print("seed", seed, "step", step, flush=True)
    put_rows(folder, "heads", {"seed": seed}, pd.concat(heads)[["step", *found]].round(DIGITS))
    put_rows(folder, "quality", {"seed": seed}, pd.DataFrame(quality).round(DIGITS))


def strengths(run: Run, sentences: int) -> pd.DataFrame:
    """How near every head comes to every label, on the test sentences and with their words shuffled.

    On shuffled words the first figure of a label counts, on the same scale: what decides labels there is no
    status, since on them any preference for a kind of word exceeds the best offset.
    """
    found = analyze(
        run, labels=True, ablation=False, sentences=sentences, structure_sentences=0,
        fit_sentences=0, keep_matrices=0, seed=run.seed + CONTROLS_SEED,
    )  # fmt: skip
    controls = with_all_keys(found).tables["controls"]
    mixed = controls.assign(
        value=controls["shuffled_value"], significance=BORDERLINE, second_statistic=""
    )
    rows = controls.assign(shuffled_strength=with_strength(mixed)["strength"])
    return rows[[*HEAD_COLUMNS, "label", "strength", "shuffled_strength", "value", "detail"]]


def translation_quality(evaluator: Evaluator) -> dict[str, float]:
    """Loss and BLEU on the same test sentences."""
    loss = float(evaluator.losses().sum() / evaluator.tokens.sum())
    return {LOSS: loss, BLEU: score(evaluator.translations(), evaluator.references).bleu}


def strongest(heads: pd.DataFrame) -> pd.DataFrame:
    """The largest strength of each label at each site (and of shuffled words), by model and step."""
    tables = []
    for site, members in SITES.items():
        own = heads[heads["site"].isin(members)]
        grouped = own.groupby(["seed", "label", "step"], as_index=False, sort=False)
        tables.append(grouped[["strength", "shuffled_strength"]].max().assign(site=site))
    return pd.concat(tables, ignore_index=True).fillna({"strength": 0.0, "shuffled_strength": 0.0})


def with_accuracy(quality: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """Loss and BLEU with the largest alignment accuracy of any head, by model and step."""
    best = heads[heads["label"] == "alignment"].groupby(["seed", "step"])["value"].max()
    return quality.join(best.rename(ACCURACY), on=["seed", "step"])


def halfway(steps: Sequence[float], values: Sequence[float]) -> float:
    """The first step at which half of what changes from the first value to the last is reached.

    Between two steps the values lie on a line. NaN where the two are equal.

    >>> halfway([0, 8, 16], [4.0, 4.0, 2.0])
    12.0
    """
    if values[0] == values[-1]:
        return np.nan
    change = (np.asarray(values) - values[0]) / (values[-1] - values[0])
    after = int((change >= 0.5).argmax())
    part = (0.5 - change[after - 1]) / (change[after] - change[after - 1])
    return float(steps[after - 1] + part * (steps[after] - steps[after - 1]))


def halves(heads: pd.DataFrame, quality: pd.DataFrame) -> pd.DataFrame:
    """Of each model, site and label where the strongest head begins and ends, and when it is halfway.

    `formed` says whether the label did; measures of the model stand under the site `model`, and do where they
    change.
    """
    rows = []
    for key, own in strongest(heads).groupby(["seed", *WHAT], sort=False):
        values = own["strength"].tolist()
        formed = values[-1] - values[0] >= FORMED
        half = halfway(own["step"].tolist(), values) if formed else np.nan
        rows.append((*key, values[0], max(values), values[-1], formed, half))
    for seed, own in with_accuracy(quality, heads).groupby("seed"):
        for measure in (BLEU, LOSS, ACCURACY):
            values = own[measure].tolist()
            half = halfway(own["step"].tolist(), values)
            formed = values[0] != values[-1]
            rows.append((seed, "model", measure, values[0], max(values), values[-1], formed, half))
    columns = ["seed", *WHAT, "untrained", "most", "end", "formed", "half_step"]
    table = pd.DataFrame(rows, columns=columns)
    table["total"] = table["seed"].map(quality.groupby("seed")["step"].max())
    return table


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """By site and label in how many models it formed, and the geometric mean of when, with interval.

    `share` is of the training, in percent; an interval over two models would say nothing.
    """
    counts = table.groupby(WHAT, sort=False)[["untrained", "most", "end"]].mean()
    counts["formed"] = table.groupby(WHAT, sort=False)["formed"].sum()
    formed = table[table["formed"]]
    logs = formed.assign(share=np.log(formed["half_step"] / formed["total"]))
    means = over_models(logs, WHAT, ["share"]).set_index(WHAT).drop(columns="models")
    few = counts["formed"] < FEWEST
    found = counts.join(means.apply(lambda logarithms: 100 * np.exp(logarithms)))
    found.loc[few, ["share_low", "share_high"]] = np.nan
    return found.reset_index()


def contrasts_of(table: pd.DataFrame) -> pd.DataFrame:
    """The contrasts that were fixed beforehand, over the models in which both formed.

    `ratio` is the step of the first over that of the second: below 1 it is earlier.
    """
    steps = table.pivot_table(index="seed", columns=WHAT, values="half_step", dropna=False)
    logs = {
        name: np.log((steps[first] / steps[second]).dropna()).tolist()
        for name, (first, second) in CONTRASTS.items()
    }
    found = contrasts({name: values for name, values in logs.items() if values})
    ends = {f"ratio{end}": np.exp(found[f"difference{end}"]) for end in ("", "_low", "_high")}
    return found.assign(**ends)


def write_result(folder: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    heads, quality = read_table(folder, "heads"), read_table(folder, "quality")
    table = halves(heads, quality)
    write_table(folder / "halves.csv", table.round(DIGITS))
    write_table(folder / "over_seeds.csv", over_seeds(table).round(DIGITS))
    write_table(folder / "contrasts.csv", contrasts_of(table).round(DIGITS))
    write_figure(draw_training(strongest(heads), quality), folder, "training")
    write_facts(folder, __file__, "torch", "transformers", "sacrebleu", command=command)
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    over, quality = read_table(folder, "over_seeds"), read_table(folder, "quality")
    last = quality[quality["step"] == quality.groupby("seed")["step"].transform("max")]
    rows = {(row["site"], row["label"]): row for row in over.to_dict("records")}
    return render(
        __file__, read_facts(folder),
        contrasts={row["contrast"]: row for row in read_table(folder, "contrasts").to_dict("records")},
        tested=int(read_table(folder, "contrasts")["p_value"].notna().sum()),
        named=list(CONTRASTS), rows=rows, last=last, over=shown(over, len(last)),
        steps=quality.loc[quality["seed"] == quality["seed"].min(), "step"].tolist(),
        formed=FORMED, sentences=SENTENCES,
    )  # fmt: skip


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
    """A share of the training, with its interval where there is one."""
    if pd.isna(row["share_low"]):
        return f"{row['share']:.0f} %"
    return f"{row['share']:.0f} % [{row['share_low']:.0f}, {row['share_high']:.0f}]"


if __name__ == "__main__":
    main()
