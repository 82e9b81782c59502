"""Whether the encoder of a translation model needs queries and keys, or positions alone do as well.

    python experiments/queries_and_keys/run.py ../shared/data --pairs en-de --arms full gaussian
    python experiments/queries_and_keys/run.py ../shared/data --pairs en-de en-fr en-cs de-en --layers 1 3

trains the models that the folder of runs does not hold yet, all seeds of an arm before the next arm, and
writes results/queries_and_keys/: a row a model in table.csv, and in sentences/ a row a test sentence of
each model, so that no later question needs the model again. The arms and the contrast of `models.py` were
fixed before a model was measured. Several processes can train other `--arms` or `--seeds` with `--no-page`;
a call without it writes the page of all rows that are there.
"""

import argparse
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock

from attnlab.ablation import contrasts
from attnlab.alignment import fit_statistical_aligner, words_of
from attnlab.core import counted, file_checksum, path_label, quiet, write_table
from attnlab.evaluation import load_evaluator
from attnlab.figures import save_figure
from attnlab.models import Run, length_ratio, score_run, short_pairs
from experiments.queries_and_keys.models import (
    ARMS,
    BIAS,
    CONTRAST,
    DEEP_ARMS,
    LAYERS,
    PAIRS,
    Trained,
    model_of,
)
from experiments.shared.readme import (
    RESULTS,
    commands_and_machines,
    estimate,
    known_models,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_with
from experiments.trained_mechanisms.figure import draw_arms
from experiments.trained_mechanisms.models import FULL

OUT = RESULTS / "queries_and_keys"
MODEL = ["pair", "layers", "arm", "seed"]
DIGITS, SEEDS, BEAMS = 4, 3, 5
MEASURES = ("loss", "bleu")
PARTS = 3


def main() -> None:
    """Trains what is not there, measures it, and writes tables, figure and README."""
    chosen = _parser().parse_args()
    for pair, layers, arm, seed in product(
        chosen.pairs, chosen.layers, chosen.arms, range(chosen.seeds)
    ):
        if layers > 1 and arm not in DEEP_ARMS:
            continue
        model = Trained(pair, layers, arm, seed)
        with quiet():
            publish(OUT, model, model_of(model, data=chosen.data, runs=chosen.runs))
        print(*vars(model).values(), flush=True)
    if chosen.page:
        words = shlex.join(path_label(word) for word in sys.argv[1:])
        write_result(OUT, f"python experiments/queries_and_keys/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of multi30k")
    parser.add_argument("--pairs", nargs="*", choices=PAIRS, default=list(PAIRS[:1]))
    parser.add_argument("--layers", nargs="*", type=int, choices=LAYERS, default=[1])
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of models of each arm")
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--runs", type=Path, default=RESULTS.parent / "runs" / "queries_and_keys",
        help="folder of models",
    )  # fmt: skip
    return parser


def publish(folder: Path, model: Trained, run: Run) -> None:
    """Writes the rows of a model and of its test sentences, where the tables do not have them."""
    if tuple(vars(model).values()) in known_models(folder, "table", MODEL):
        return
    sentences, row = measured(run)
    name = "-".join(str(value) for value in vars(model).values()).replace(" ", "_")
    write_table(folder / "sentences" / f"{name}.csv", sentences)
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes may train other arms of the study.
    with FileLock(folder / ".running"):
        put_rows(folder, "table", vars(model), pd.DataFrame([row]).round(DIGITS))
        if not (folder / "sentences" / f"{model.pair}.csv").exists():
            write_table(folder / "sentences" / f"{model.pair}.csv", sentence_facts(run))


def measured(run: Run) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A row a test sentence, and the row of the model.

    Of a sentence: the sum of its losses in nats and the number of its tokens; of its translation the
    words, the n-grams of 1 to 4 words that the reference has too (from which BLEU of any part of the text
    follows), and chrF.
    """
    from sacrebleu.metrics import BLEU, CHRF

    scores, texts = score_run(run, split="test", beams=BEAMS)
    test = short_pairs(run, run.corpus().test)
    references = list(test["target"])
    evaluator = load_evaluator(run, sentences=list(zip(test["source"], references, strict=True)))
    if evaluator.references != references:
        msg = "losses and translations are of other sentences"
        raise RuntimeError(msg)
    bleu, chrf = BLEU(effective_order=True), CHRF()
    counts = [
        bleu.sentence_score(text, [gold]) for text, gold in zip(texts, references, strict=True)
    ]
    columns = {
        "loss_nats": evaluator.losses().numpy().round(DIGITS),
        "tokens": evaluator.tokens.int().numpy(),
        "words": [count.sys_len for count in counts],
        "reference_words": [count.ref_len for count in counts],
        **{f"matches_{n + 1}": [count.counts[n] for count in counts] for n in range(4)},
        "chrf": [
            round(chrf.sentence_score(text, [gold]).score, 1)
            for text, gold in zip(texts, references, strict=True)
        ],
    }
    sentences, lines = pd.DataFrame(columns), run.metrics()
    return sentences, {
        "loss": sentences["loss_nats"].sum() / sentences["tokens"].sum(),
        "bleu": scores["bleu"],
        "chrf": scores["chrf"],
        "length_ratio": length_ratio(texts, references),
        "test_sentences": len(sentences),
        "epochs": lines[-1]["epoch"],
        "training_minutes": lines[-1]["training_seconds"] / 60,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "text_checksum": run.record["corpus"]["checksum"][:12],
        "weights_checksum": file_checksum(run.folder / "model.safetensors")[:12],
        "torch": trained_with(run),
    }


def sentence_facts(run: Run) -> pd.DataFrame:
    """Of every test sentence its source words, and how many pairs of its word links there are and cross.

    Links are those of the statistical aligner, fitted on training and test text, both directions combined.
    """
    rows = run.corpus()
    test = short_pairs(run, rows.test)
    pairs = [
        (words_of(source), words_of(target))
        for part in (test, rows.train)
        for source, target in zip(part["source"][:], part["target"][:], strict=True)
    ]
    aligner = fit_statistical_aligner(pairs)
    found = [crossing(links) for links in aligner.align(pairs[: len(test)])]
    return pd.DataFrame(
        {
            "source_words": [len(source) for source, _ in pairs[: len(test)]],
            "link_pairs": [pairs_of_links for pairs_of_links, _ in found],
            "crossing": [crossed for _, crossed in found],
        }
    )


def crossing(links: Any) -> tuple[int, int]:
    """How many pairs of links have different words on both sides, and how many of them cross.

    >>> crossing([(0, 0), (1, 2), (2, 1)])
    (3, 1)
    """
    ends = np.array(sorted(links), dtype=int).reshape(-1, 2)
    turns = [np.sign(side[:, None] - side[None]) for side in ends.T]
    products = np.triu(turns[0] * turns[1])
    return int((products != 0).sum()), int((products < 0).sum())


def differences(
    table: pd.DataFrame, arm: str, reference: str, measure: str = "loss"
) -> list[float]:
    """A measure of one arm minus that of another, for each pair, size and seed that has both."""
    values = table.pivot(index=["pair", "layers", "seed"], columns="arm", values=measure)
    if not {arm, reference} <= set(values):
        return []
    return (values[arm] - values[reference]).dropna().tolist()


def tested(table: pd.DataFrame) -> pd.DataFrame:
    """The contrast that was fixed beforehand, by loss and by BLEU; p-values corrected over the two."""
    by_measure = {measure: differences(table, *CONTRAST, measure) for measure in MEASURES}
    return contrasts({measure: each for measure, each in by_measure.items() if each})


def against(table: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Loss and BLEU of every arm minus those of a reference, with t intervals over models and no test."""
    tables = []
    for measure in MEASURES:
        each = {arm: differences(table, arm, reference, measure) for arm in ARMS}
        rows = contrasts({arm: one for arm, one in each.items() if one and arm != reference})
        tables.append(rows.drop(columns="p_value").assign(measure=measure))
    return pd.concat(tables).rename(columns={"contrast": "arm"}).assign(reference=reference)


def by_part(folder: Path, table: pd.DataFrame) -> pd.DataFrame:
    """The loss of the contrast's arms in thirds of the sentences by length and by crossing links."""
    rows = []
    for key, models in table.groupby(["pair", "layers", "seed"]):
        pair, layers, seed = map(str, key)
        if not set(CONTRAST) <= set(models["arm"]):
            continue
        facts = read_table(folder / "sentences", pair)
        share = facts["crossing"] / facts["link_pairs"].clip(lower=1)
        kept = [
            read_table(folder / "sentences", f"{pair}-{layers}-{arm}-{seed}".replace(" ", "_"))
            for arm in CONTRAST
        ]
        for by, values in (("source words", facts["source_words"]), ("crossing links", share)):
            thirds = pd.qcut(values.rank(method="first"), PARTS, labels=False)
            for part in range(PARTS):
                own = [one[thirds == part] for one in kept]
                losses = [one["loss_nats"].sum() / one["tokens"].sum() for one in own]
                rows.append(
                    {"by": by, "third": part + 1, "difference": losses[0] - losses[1]}
                    | {"least": values[thirds == part].min(), "most": values[thirds == part].max()}
                )
    found = pd.DataFrame(rows, columns=["by", "third", "difference", "least", "most"])
    tables = []
    for kind, rows_of in found.groupby("by", sort=False):
        each = {str(third): own["difference"].tolist() for third, own in rows_of.groupby("third")}
        ends = rows_of.groupby("third").agg(least=("least", "min"), most=("most", "max"))
        tables.append(
            contrasts(each)
            .drop(columns="p_value")
            .rename(columns={"contrast": "third"})
            .assign(by=kind, least=ends["least"].to_numpy(), most=ends["most"].to_numpy())
        )
    return pd.concat(tables) if tables else found


def write_result(folder: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table = read_table(folder, "table")
    write_table(folder / "contrasts.csv", tested(table).round(DIGITS))
    over = pd.concat([against(table, reference) for reference in (FULL, BIAS)])
    write_table(folder / "against.csv", over.round(DIGITS))
    write_table(folder / "thirds.csv", by_part(folder, table).round(DIGITS))
    shallow = table[table["layers"] == 1]
    means = shallow.groupby("arm", as_index=False)[[*MEASURES]].mean()
    for measure in MEASURES:
        means[[f"{measure}_low", f"{measure}_high"]] = np.nan
    save_figure(draw_arms(shallow, means), folder / "arms.svg")
    write_facts(
        folder, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        **commands_and_machines(folder, command),
    )  # fmt: skip
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table")
    over = read_table(folder, "against")
    shown = (
        table.groupby(["pair", "layers", "arm"], as_index=False)
        .agg(models=("seed", "size"), **{name: (name, "mean") for name in (*MEASURES, "chrf")})
        .sort_values(["pair", "layers", "loss"])
        .round(3)
    )
    forms = {"loss": "+.3f", "bleu": "+.1f"}
    rows = [
        {
            "arm": row["arm"],
            "against": row["reference"],
            "measure": row["measure"],
            "models": row["models"],
            "difference": estimate(row, "difference", forms[str(row["measure"])]),
        }
        for row in over.to_dict("records")
    ]
    # Of one pair of models there is no interval.
    thirds = read_table(folder, "thirds").dropna()
    trained = table.groupby(["pair", "layers", "arm"]).size()
    missing = []
    for pair, layers in product(PAIRS, LAYERS):
        arms = ARMS if layers == 1 else DEEP_ARMS
        left = {arm: SEEDS - trained.get((pair, layers, arm), 0) for arm in arms}
        if sum(left.values()) == SEEDS * len(arms):
            told = f"all {SEEDS * len(arms)} models"
        else:
            told = ", ".join(f"{count} of {arm}" for arm, count in left.items() if count)
        if told:
            missing.append(f"{pair}, {counted(layers, 'layer')}: {told}")
    return render(
        __file__, read_facts(folder), table=table, shown=shown, over=pd.DataFrame(rows),
        contrasts=read_table(folder, "contrasts").to_dict("records"),
        forms=forms, thirds=thirds, missing=missing, contrast=CONTRAST, beams=BEAMS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
