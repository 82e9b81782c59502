"""Which cross-attention heads of translation models say what a word translates, beside what engines take.

    python experiments/alignment/run.py ../shared/data --layers 3 1
    python experiments/alignment/run.py ../shared/data --layers 1 3 6 --seeds 3
    python experiments/alignment/run.py ../shared/data --layers --embedded 3
    python experiments/alignment/run.py ../shared/data --texts en-es --layers 3 --embedded 0
    python experiments/alignment/run.py ../shared/data --layers 3 --seeds 3 --embedded 0 --both-directions 2

writes results/alignment/. Texts and models go to runs/alignment/; a model that is there with the same
settings and text is not trained again. Models that were published before and are not asked for stay.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import path_label, quiet
from attnlab.figures import save_figure
from attnlab.models import Run, choice
from attnlab.questions.align.aligning import align
from attnlab.questions.align.question import OF_ENGINES
from attnlab.reading import ATTENTION, CONTRIBUTION
from attnlab.results import Result
from experiments.alignment.contrasts import (
    contrasts,
    of_alike,
    of_directions,
    of_engines,
    of_weights,
)
from experiments.alignment.corpus import TEXTS, Gold, gold_of, write_corpus, write_exchanged
from experiments.alignment.figure import EMBEDDED, draw_systems
from experiments.alignment.models import demo_settings, settings_of
from experiments.alignment.readme import readme
from experiments.shared.readme import (
    RESULTS,
    put_rows,
    read_facts,
    read_table,
    write_facts,
    write_readme,
)
from experiments.shared.runs import kept_run

OUT = RESULTS / "alignment"
TABLES = ("systems", "heads", "steps", "calibration", "generation")
# What columns of `align` are called in the published tables.
PUBLISHED = {
    "calibration_pairs": "pairs", "mean_aer": "aer", "mean_aer_low": "aer_low", "mean_aer_high": "aer_high",
    "mean_heads": "heads", "heads_averaged": "step", "links_given": "links", "concentration": "confidence",
    "chosen_head": "chosen",
}  # fmt: skip
# Those that not every model has.
OPTIONAL = ("generation", "directions")
SEED = 0
# Of numbers in tables: more than any figure that is said, and far below what another draw would change.
DIGITS = 6


def main() -> None:
    """Trains what is not there, aligns with each model, and writes tables, figure and README."""
    parser = _parser()
    chosen = parser.parse_args()
    if any(seed not in range(chosen.seeds) for seed in chosen.both_directions):
        parser.error(f"--both-directions takes seeds from 0 to {chosen.seeds - 1}")
    with quiet():
        for model, run, back in _models(chosen):
            own = None if model["text"] == EMBEDDED else gold_of(model["text"], chosen.data)
            publish(OUT, model, measured(run, own, back))
    # Where runs lie is no matter of what comes out.
    given = [*sys.argv[1:]]
    if "--runs" in given:
        at = given.index("--runs")
        del given[at : at + 2]
    words = [path_label(word) for word in given]
    write_result(OUT, f"python experiments/alignment/run.py {shlex.join(words)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of europarl, bible, tatoeba and xlwa")
    parser.add_argument("--texts", choices=list(TEXTS), nargs="*", default=["en-it"])
    parser.add_argument("--layers", type=int, nargs="*", default=[1, 3, 6])
    parser.add_argument("--seeds", type=int, default=1, help="number of models of each size")
    parser.add_argument(
        "--embedded", type=int, default=1, help="number of models of attnlab demo, with exact links"
    )
    parser.add_argument(
        "--both-directions",
        type=int,
        nargs="*",
        default=[],
        metavar="SEED",
        help="seeds whose models get one of the other direction, so that links of both are made one",
    )
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "alignment")
    return parser


def _models(chosen: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Run, Run | None]]:
    """Every model that is asked for with what tells it apart, and one of the other direction where wanted."""
    for text in chosen.texts:
        file = chosen.runs / f"{text}.tsv"
        if chosen.layers and not file.exists():
            write_corpus(text, chosen.data, gold_of(text, chosen.data).files(), file)
        for layers in chosen.layers:
            for seed in range(chosen.seeds):
                model = {"text": text, "layers": layers, "seed": seed}
                run = kept_run(_name(model), settings_of(file, text, layers, seed), chosen.runs)
                yield (
                    model,
                    run,
                    other_direction(model, chosen.runs) if seed in chosen.both_directions else None,
                )
    for seed in range(chosen.embedded):
        model = {"text": EMBEDDED, "layers": 1, "seed": seed}
        yield model, kept_run(_name(model), demo_settings(seed), chosen.runs), None


def other_direction(model: Mapping[str, Any], runs: Path) -> Run:
    """The model with source and target exchanged, of the same lines, layers and seed."""
    text = "-".join(reversed(model["text"].split("-")))
    file = runs / f"{text}.tsv"
    if not file.exists():
        write_exchanged(runs / f"{model['text']}.tsv", file)
    settings = settings_of(file, text, model["layers"], model["seed"])
    return kept_run(_name({**model, "text": text}), settings, runs)


def _name(model: Mapping[str, Any]) -> str:
    return f"{model['text']}-{model['layers']}-layers-seed-{model['seed']}"


def measured(
    run: Run, gold: Gold | None, back: Run | None = None, sentences: int | None = None
) -> dict[str, pd.DataFrame]:
    """The tables of one model.

    Args:
        run: the model.
        gold: files of links; None: the links of its own test part, every other pair for the choice.
        back: a model of the other direction.
        sentences: number of pairs at most; None: all.
    """
    files = Gold(None, None) if gold is None else gold
    aligned = partial(
        align, run, gold=files.test, calibration=files.calibration, sentences=sentences, seed=SEED
    )
    found = aligned()
    tables = {
        name: found.tables[name].rename(columns=PUBLISHED)
        for name in TABLES
        if name in found.tables
    }
    tables["contrasts"] = contrasts(tables["systems"], tables["calibration"])
    by_choice = {
        choice: aligned(choose=choice, quick=True).tables["systems"] for choice in OF_ENGINES
    }
    tables["engines"] = of_engines(by_choice)
    tables["alike"] = of_alike(aligned(choose="unsupervised", quick=True).tables["systems"])
    tables["weights"] = of_weights(
        {
            ATTENTION: found.tables["systems"],
            CONTRIBUTION: aligned(weights=CONTRIBUTION, quick=True).tables["systems"],
        }
    )
    if back is not None:
        both = aligned(reverse=str(back.folder), quick=True)
        tables["directions"] = of_directions(both.tables["systems"].rename(columns=PUBLISHED))
    tables["models"] = pd.DataFrame([_described(run, found)])
    return tables


def _described(run: Run, found: Result) -> dict[str, Any]:
    """How the model was trained, and how well it translates."""
    lines = run.metrics()
    kept = max(lines, key=lambda line: choice(line["validation_bleu"], line["validation_loss"]))
    settings, corpus = run.settings, run.record["corpus"]
    return {
        "training_pairs": corpus["pairs"]["train"] - corpus["dropped_over_max_tokens"]["train"],
        "epochs": lines[-1]["epoch"],
        "steps": lines[-1]["step"],
        "kept_epoch": kept["epoch"],
        "dim": settings.model.dim,
        "heads_per_layer": settings.model.heads,
        "vocabulary": settings.tokenizer.vocabulary,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "validation_bleu": kept["validation_bleu"],
        "validation_loss": kept["validation_loss"],
        "validation_sentences": kept["validation_sentences"],
        "reported_pairs": found.tables["systems"]["pairs"].iloc[0],
        "calibration_pairs": found.tables["calibration"]["calibration_pairs"].iloc[-1],
        "checksum": corpus["checksum"][:12],
    }


def publish(folder: Path, model: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> None:
    """Puts the rows of one model into the tables of a folder, in place of all that it had."""
    for name, table in tables.items():
        put_rows(folder, name, model, table.round(DIGITS))
    for name in OPTIONAL:
        if name not in tables and (folder / f"{name}.csv").exists():
            put_rows(folder, name, model, read_table(folder, name).drop(columns=[*model])[:0])


def write_result(folder: Path, command: str) -> None:
    """The figure, the facts and the README of the tables in a folder."""
    known = read_facts(folder)["commands"] if (folder / "facts.json").exists() else []
    save_figure(draw_systems(read_table(folder, "systems")), folder / "systems.svg")
    write_facts(
        folder, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        commands=[*(one for one in known if one != command), command],
    )  # fmt: skip
    write_readme(folder, readme(folder))


if __name__ == "__main__":
    main()
