"""Experiments that run a study of trained models: their command line, the folder of the result, its rows."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import over_models
from attnlab.corpora import DEFAULT_PAIR
from attnlab.studies import MODEL_LOCATIONS, run_study
from experiments.shared.readme import RESULTS

# Columns that tell the models of a result apart.
MODEL = ["layers", "seed"]
PAIRS, LAYERS = 10_000, [1]


@dataclass(frozen=True)
class ModelStudy:
    """The rows of all cells of a study.

    Attributes:
        folder: of the result.
        rows: as the study returns them, each with the settings of its cell.
        facts: on which corpus and with which command they were made.
    """

    folder: Path
    rows: pd.DataFrame
    facts: dict[str, Any]

    @property
    def published(self) -> pd.DataFrame:
        """The rows without where the data was; a row has its own budget.

        Nor are there the tests that older cells hold for every row: a row is an estimate.
        """
        tests = [
            name for name in map(str, self.rows) if name.endswith(("_p_value", "_significant"))
        ]
        unneeded = [*MODEL_LOCATIONS, "budgets", *tests]
        return self.rows.drop(columns=unneeded, errors="ignore")


def options_of_models(
    description: str, *, budgets: Sequence[int], sentences: int
) -> argparse.ArgumentParser:
    """The options that all studies of trained models share, under the names that the studies have.

    Args:
        description: of the experiment.
        budgets: unless others are given.
        sentences: number of test sentences, likewise.
    """
    parser = argparse.ArgumentParser(description=description, parents=[_options_of_machine()])
    parser.add_argument("corpus", help="the folder of the corpus, or embedded")
    parser.add_argument("--pair", default=DEFAULT_PAIR, help="source and target language")
    parser.add_argument(
        "--limit", dest="corpus_limit", type=int, default=PAIRS, help="number of training pairs"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--layers", type=int, nargs="+", default=LAYERS)
    parser.add_argument("--budgets", type=int, nargs="+", default=budgets)
    parser.add_argument("--seeds", type=int, default=1, help="number of models of each size")
    parser.add_argument(
        "--sentences", dest="test_sentences", type=int, default=sentences,
        help="number of test sentences",
    )  # fmt: skip
    return parser


def _options_of_machine() -> argparse.ArgumentParser:
    """What changes nothing about the result."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--runs", default=None, help="folder that keeps trained models")
    parser.add_argument("--jobs", type=int, default=None, help="number of processes")
    return parser


def run_models(
    study: str, parser: argparse.ArgumentParser, words: Sequence[str] | None = None
) -> ModelStudy:
    """Runs the study in the folder of its result; cells that are there are not computed again.

    Args:
        study: its name, which is also that of the experiment.
        parser: whose options are those of the study.
        words: of the command line; None: those of this process.

    Raises:
        RuntimeError: cells are missing.
    """
    chosen = vars(parser.parse_args(words))
    folder = RESULTS / result_name(study, chosen)
    options = {name: value for name, value in chosen.items() if name != "jobs"}
    found = run_study(study, folder=folder / "study", jobs=chosen["jobs"], options=options)
    if found.missing:
        msg = f"{found.missing} cells are missing; see {folder / 'study' / 'failed'}"
        raise RuntimeError(msg)
    _, lasting = _options_of_machine().parse_known_args(words)
    facts = {
        "corpus": Path(chosen["corpus"]).name, "pair": chosen["pair"],
        "pairs": chosen["corpus_limit"], "epochs": chosen["epochs"],
        "checksum": found.table["data_checksum"].iloc[0][:12],
        "seconds": float(found.cells["seconds"].mean()),
        "command": f"python experiments/{study}/run.py {shlex.join(lasting)}",
    }  # fmt: skip
    return ModelStudy(folder, found.table.astype({"budget": "Int64"}), facts)


def over_models_or_sentences(
    rows: pd.DataFrame, keys: Sequence[str], measures: Sequence[str], *, alone: str = "sentences"
) -> pd.DataFrame:
    """Means over the models of each size, with what `over_models` knows of them.

    A single model has the intervals of its own rows; `units` says over what they are.

    Args:
        rows: of all models; intervals of a measure are `MEASURE_low` and `MEASURE_high`, if there are any.
        keys: columns that tell the rows of a model apart, `layers` among them.
        measures: columns of numbers.
        alone: the units of the intervals of a single model.
    """
    found = over_models(rows, keys, measures)
    found["units"] = found["models"].gt(1).map({True: "models", False: alone})
    single = rows.groupby("layers")["seed"].transform("nunique") == 1
    for name in found.columns.intersection(rows.columns):
        if name.endswith(("_low", "_high")) and single.any():
            taken = rows[single].set_index(list(keys))[name]
            known = pd.Series(taken.reindex(pd.MultiIndex.from_frame(found[list(keys)])).to_numpy())
            found[name] = found[name].fillna(known)
    return found


def result_name(study: str, chosen: dict[str, Any]) -> str:
    """The folder of a result: study and corpus, and what else differs from the defaults.

    Models of several sizes stand in one result, so only one size that is not the default is named.
    """
    layers = chosen["layers"]
    return "_".join(
        [
            study,
            Path(chosen["corpus"]).name,
            *([chosen["pair"]] if chosen["pair"] != DEFAULT_PAIR else []),
            *([f"{chosen['corpus_limit']}_pairs"] if chosen["corpus_limit"] != PAIRS else []),
            *([f"{layers[0]}_layers"] if len(layers) == 1 and layers != LAYERS else []),
        ]
    )
