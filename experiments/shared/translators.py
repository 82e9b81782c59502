"""The trained models of captions that studies of heads read: one command line, one model after the other."""

import argparse
import shlex
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import InputError, path_label, quiet
from attnlab.models import Run, load
from experiments.models import catalogue
from experiments.shared.readme import RESULTS, known_models, read_facts, write_facts

# Columns that tell the models of a result apart.
MODEL = ["corpus", "seed"]
LAYERS = 1
# Models of the study of windows by language: all pairs of four languages, of one seed, with vectors of 128.
SMALL = {
    f"multi30k-{source}-{target}-d128": f"multi30k-{source}-{target}"
    for source, target in permutations(("en", "de", "fr", "cs"), 2)
}
NAMES = (*(name for name in catalogue.CORPORA if name.startswith("multi30k")), *SMALL)


def parser_of_models(description: str | None, *, sentences: int) -> argparse.ArgumentParser:
    """The options of a study of these models."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", type=Path, help="folder of the corpora")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--seeds", type=int, default=3, help="of models that have several")
    parser.add_argument("--sentences", type=int, default=sentences, help="number of test sentences")
    runs = RESULTS.parent / "runs"
    parser.add_argument("--runs", type=Path, default=runs / "models")
    parser.add_argument("--small-runs", type=Path, default=runs / "windows")
    return parser


def models_of(chosen: argparse.Namespace, out: Path) -> Iterator[tuple[dict[str, Any], Run]]:
    """The models that are asked for and have no rows in the table of a result yet."""
    known = known_models(out, "table", MODEL)
    for name in chosen.only:
        for seed in range(1 if name in SMALL else chosen.seeds):
            if (name, seed) in known:
                continue
            with quiet():
                run = (
                    small_model(name, chosen.small_runs)
                    if name in SMALL
                    else catalogue.model_of(name, LAYERS, seed, chosen.data, chosen.runs)
                )
            yield {"corpus": name, "seed": seed}, run


def small_model(name: str, runs: Path) -> Run:
    """The only model of that name in the folder of runs of the study of windows by language.

    Raises:
        InputError: there is none.
    """
    found = [path.parent for path in runs.glob(f"{SMALL[name]}-*/model.safetensors")]
    if len(found) != 1:
        msg = f"{runs} holds {len(found)} models {SMALL[name]}; experiments/windows_by_language trains it."
        raise InputError(msg)
    return load(found[0])


def names_of(corpora: "pd.Series[str]") -> str:
    """The models of a result, a row each, those of several seeds once."""
    seeds = corpora.value_counts(sort=False).sort_index()
    return ", ".join(f"{name}" + f" ({count} seeds)" * (count > 1) for name, count in seeds.items())


def put_facts(folder: Path, script: str) -> None:
    """The facts of a result with this command beside those that it was made with before."""
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    command = f"python experiments/{Path(script).parent.name}/run.py {words}"
    known = read_facts(folder)["commands"] if (folder / "facts.json").exists() else []
    write_facts(
        folder, script, "torch", "transformers", "sacrebleu",
        commands=[*(one for one in known if one != command), command],
    )  # fmt: skip


def bleu_range(values: "pd.Series[float]") -> str:
    """The range of BLEU of some models."""
    low, high = f"{values.min():.1f}", f"{values.max():.1f}"
    return f"BLEU {low}" if low == high else f"BLEU {low} to {high}"
