"""The translation models that the studies share, with their scores on the test parts.

    python experiments/models/run.py ../shared/data --only multi30k-en-fr multi30k-en-cs --layers 1 --seeds 3
    python experiments/models/run.py ../shared/data

trains what runs/models does not hold yet, which the second takes days for on two cores, and writes
results/models/. Rows of models that are not asked for stay.
"""

import argparse
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.core import file_checksum, path_label, quiet
from attnlab.evaluation import load_evaluator
from attnlab.models import Run, choice, score_run
from experiments.models.catalogue import CORPORA, LAYERS, model_of
from experiments.shared.readme import (
    RESULTS,
    commands_and_machines,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_with

OUT = RESULTS / "models"
MODEL = ["corpus", "layers", "seed"]
DIGITS = 4
# What a model needs to be worth replacing attention in: a student's first model of captions reaches it.
STRONG = 35


def main() -> None:
    """Trains what is not there, scores it, and writes table and README."""
    chosen = _parser().parse_args()
    for corpus, layers, seed in product(chosen.only, chosen.layers, range(chosen.seeds)):
        with quiet():
            run = model_of(corpus, layers, seed, chosen.data, chosen.runs)
            row = described(run)
        model = {"corpus": corpus, "layers": layers, "seed": seed}
        put_rows(OUT, "table", model, pd.DataFrame([row]).round(DIGITS))
        print(model | row, flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(OUT, f"python experiments/models/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of multi30k, tatoeba, europarl and bible")
    parser.add_argument("--only", nargs="*", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--layers", type=int, nargs="*", default=list(LAYERS))
    parser.add_argument("--seeds", type=int, default=3, help="number of models of each size")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "models")
    return parser


def described(run: Run) -> dict[str, Any]:
    """How a model was trained, how well it translates, and how to know its files again."""
    lines, corpus = run.metrics(), run.record["corpus"]
    kept = max(lines, key=lambda line: choice(line["validation_bleu"], line["validation_loss"]))
    scores, texts = score_run(run, split="test", beams=1)
    rows = run.corpus().test
    evaluator = load_evaluator(run, sentences=len(rows))
    words = sum(len(text.split()) for text in texts)
    return {
        "training_pairs": corpus["pairs"]["train"] - corpus["dropped_over_max_tokens"]["train"],
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "epochs": lines[-1]["epoch"],
        "kept_epoch": kept["epoch"],
        "training_minutes": lines[-1]["training_seconds"] / 60,
        "test_sentences": scores["sentences"],
        "bleu": scores["bleu"],
        "chrf": scores["chrf"],
        "length_ratio": words / sum(len(text.split()) for text in evaluator.references),
        "loss": float(evaluator.losses().sum() / evaluator.tokens.sum()),
        "text_checksum": corpus["checksum"][:12],
        "weights_checksum": file_checksum(run.folder / "model.safetensors")[:12],
        "torch": trained_with(run),
    }


def write_result(folder: Path, command: str) -> None:
    """The facts and the README of the table in a folder."""
    write_facts(
        folder, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        threads=torch.get_num_threads(), **commands_and_machines(folder, command),
    )  # fmt: skip
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    trained = {tuple(key) for key in table[MODEL].itertuples(index=False, name=None)}
    missing = [
        f"{corpus}, {layers} layers"
        for corpus, layers in product(CORPORA, LAYERS)
        if not any((corpus, layers, seed) in trained for seed in range(3))
    ]
    return render(
        __file__,
        read_facts(folder),
        table=table,
        shown=table[
            [
                *MODEL,
                "training_pairs",
                "test_sentences",
                "bleu",
                "chrf",
                "length_ratio",
                "loss",
                "torch",
            ]
        ],
        strong=table[table["bleu"] >= STRONG],
        threshold=STRONG,
        missing=missing,
    )


if __name__ == "__main__":
    main()
