"""The trained models of captions that studies of heads read: one command line, one model after the other."""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import InputError, path_label, quiet
from attnlab.models import Run, load
from experiments.models import catalogue
from experiments.shared.readme import (
    RESULTS,
    commands_and_machines,
    known_models,
    read_table,
    write_facts,
)
from experiments.windows_by_language import models as windows

# Columns that tell the models of a result apart.
MODEL = ["corpus", "seed"]
LAYERS = 1
# Models of the study of windows by language: all pairs of four languages, of one seed, with vectors of 128.
SMALL = {
    f"multi30k-{source}-{target}-d128": f"multi30k-{source}-{target}"
    for source, target in permutations(("en", "de", "fr", "cs"), 2)
}
# Of three layers, of the same vectors; results of theirs stand beside those of one layer.
DEEP_LAYERS = 3
DEEP = {
    f"multi30k-{source}-{target}-d128-{DEEP_LAYERS}-layers": (source, target)
    for source, target in (("en", "fr"), ("en", "de"), ("de", "en"), ("fr", "en"))
}
# Of six layers and vectors of 256, as the shared models of captions of one layer.
DEEPEST_LAYERS = 6
CAPTIONS = tuple(name for name in catalogue.CORPORA if name.startswith("multi30k"))
NAMES = {LAYERS: (*CAPTIONS, *SMALL), DEEP_LAYERS: tuple(DEEP), DEEPEST_LAYERS: CAPTIONS}
# Models of one layer of other kinds of text than captions.
OTHER_TEXTS = tuple(name for name in catalogue.CORPORA if name not in NAMES[LAYERS])


def parser_of_models(description: str | None, *, sentences: int) -> argparse.ArgumentParser:
    """The options of a study of these models."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", type=Path, help="folder of the corpora")
    parser.add_argument("--layers", type=int, choices=list(NAMES), default=LAYERS)
    names = [*(name for own in NAMES.values() for name in own), *OTHER_TEXTS]
    parser.add_argument("--only", nargs="*", choices=names, help="default: all of as many layers")
    parser.add_argument("--seeds", type=int, default=3, help="of models that have several")
    parser.add_argument("--sentences", type=int, default=sentences, help="number of test sentences")
    runs = RESULTS.parent / "runs"
    parser.add_argument("--runs", type=Path, default=runs / "models")
    parser.add_argument("--small-runs", type=Path, default=runs / "windows")
    return parser


def folder_of(result: Path, chosen: argparse.Namespace) -> Path:
    """Where the result of models of as many layers as are asked for stands."""
    if chosen.layers == LAYERS:
        return result
    return result.with_name(f"{result.name}_{chosen.layers}_layers")


def models_of(
    chosen: argparse.Namespace, out: Path, among: Sequence[str] | None = None
) -> Iterator[tuple[dict[str, Any], Run]]:
    """The models that are asked for and have no rows in the table of a result yet.

    Args:
        chosen: what `parser_of_models` read.
        out: folder of the result.
        among: names of the models that the result may have; None: of captions, of as many layers.

    Raises:
        InputError: a model that the result cannot have.
    """
    known = known_models(out, "table", MODEL)
    allowed = NAMES[chosen.layers] if among is None else among
    names = allowed if chosen.only is None else chosen.only
    for name in names:
        if name not in allowed:
            msg = f"{name} is no model of this result; choose from: {', '.join(allowed)}."
            raise InputError(msg)
    for name in names:
        for seed in range(1 if name in SMALL or name in DEEP else chosen.seeds):
            if (name, seed) in known:
                continue
            with quiet():
                run = _model(name, seed, chosen)
            yield {"corpus": name, "seed": seed}, run


def _model(name: str, seed: int, chosen: argparse.Namespace) -> Run:
    if name in SMALL:
        return small_model(name, chosen.small_runs)
    if name in DEEP:
        return windows.model_of(
            "multi30k", *DEEP[name], chosen.data, chosen.small_runs, layers=DEEP_LAYERS
        )
    return catalogue.model_of(name, chosen.layers, seed, chosen.data, chosen.runs)


def small_model(name: str, runs: Path) -> Run:
    """The only model of that name in the folder of runs of the study of windows by language.

    Raises:
        InputError: there is none.
    """
    # Runs of more layers stand beside it, with their number in the name.
    only = re.compile(rf"{SMALL[name]}-[0-9a-f]+")
    there = (path.parent for path in runs.glob(f"{SMALL[name]}-*/model.safetensors"))
    found = [path for path in there if only.fullmatch(path.name)]
    if len(found) != 1:
        msg = f"{runs} holds {len(found)} models {SMALL[name]}; experiments/windows_by_language trains it."
        raise InputError(msg)
    return load(found[0])


def one_layer_rows(folder: Path, name: str) -> pd.DataFrame | None:
    """Rows of a table of models of one layer, of the languages that the models of this result have.

    They stand in the result beside it. None where this is that result, or there is none.
    """
    beside = folder.with_name(re.sub(r"_\d+_layers$", "", folder.name))
    if beside == folder or not (beside / f"{name}.csv").exists():
        return None
    own = read_table(folder, name)["corpus"].str.removesuffix(f"-{DEEP_LAYERS}-layers")
    rows = read_table(beside, name)
    return rows[rows["corpus"].isin(own)]


def by_depth(folder: Path, figures: Callable[[Path], dict[str, str]]) -> pd.DataFrame | None:
    """Figures of a result of models of one layer and of those of more layers beside it, a column a depth.

    Args:
        folder: of the result.
        figures: of a folder, each as it is shown.

    Returns:
        None where no result of more layers stands beside it.
    """
    deeper = sorted(folder.parent.glob(f"{folder.name}_*_layers"))
    if not deeper:
        return None
    names = [path.name.removeprefix(f"{folder.name}_").replace("_", " ") for path in deeper]
    columns = {"1 layer": figures(folder)} | dict(zip(names, map(figures, deeper), strict=True))
    return pd.DataFrame(columns).fillna("").rename_axis("figure").reset_index()


def trained_otherwise(layers: int) -> str:
    """What else than their number of layers tells models from those of one layer, as a sentence."""
    if layers == DEEPEST_LAYERS:
        rates = [catalogue.learning_rate(number) for number in (LAYERS, layers)]
        return (
            f"The models of one layer are normalised behind each part and trained at a learning rate of "
            f"{rates[0]:g}, those of {layers} layers before each part, at {rates[1]:g}: a difference need "
            "not be one of depth."
        )
    shallow = {**windows.OPTIMIZER, **windows.COLLECTIONS["multi30k"].optimizer}
    deep = shallow | windows.DEEP_OPTIMIZER
    return (
        f"The models of one layer are normalised behind each part and trained for {shallow['epochs']} epochs "
        f"at a learning rate of {shallow['learning_rate']:g}, those of {layers} layers before each part, for "
        f"{deep['epochs']} epochs at {deep['learning_rate']:g}: a difference need not be one of depth."
    )


def layers_in(heads: pd.DataFrame) -> int:
    """The number of layers of the models whose heads have a row each."""
    return int(heads["layer"].max()) + 1


def names_of(corpora: "pd.Series[str]") -> str:
    """The models of a result, a row each, those of several seeds once."""
    seeds = corpora.value_counts(sort=False).sort_index()
    return ", ".join(f"{name}" + f" ({count} seeds)" * (count > 1) for name, count in seeds.items())


def put_facts(folder: Path, script: str) -> None:
    """The facts of a result with this command beside those that it was made with before."""
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    command = f"python experiments/{Path(script).parent.name}/run.py {words}"
    write_facts(
        folder, script, "torch", "transformers", "sacrebleu",
        **commands_and_machines(folder, command),
    )  # fmt: skip


def models_named(rows: pd.DataFrame | None) -> str:
    """The models of which a table has rows; empty where there is no table."""
    return "" if rows is None else names_of(rows.drop_duplicates(MODEL)["corpus"])


def are_seeds_of_languages(rows: pd.DataFrame) -> bool:
    """Whether the models are several seeds of each of three corpora or more.

    Seeds of one language agree more than languages do, so that means of languages are units too.
    """
    seeds = rows.drop_duplicates(MODEL)["corpus"].value_counts()
    return len(seeds) > 2 and bool((seeds > 1).all())


def bleu_range(values: "pd.Series[float]") -> str:
    """The range of BLEU of some models."""
    low, high = f"{values.min():.1f}", f"{values.max():.1f}"
    return f"BLEU {low}" if low == high else f"BLEU {low} to {high}"
