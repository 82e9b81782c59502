"""What the heads of small translation models do, and how important they are: labels, importance, pruning.

    python experiments/heads_of_small_models/run.py ../shared/data
    python experiments/heads_of_small_models/run.py ../shared/data --only tatoeba

writes results/heads_of_small_models/: a folder of tables for each model, then the README over all of
them. Models that are not in runs/ yet are trained first (experiments/settings/NAME.toml). A model
takes 10 to 60 minutes of one thread; with --only, several can be measured side by side.
"""

import argparse
import time
from pathlib import Path

import pandas as pd

from attnlab.files import write_json, write_table
from attnlab.functions.labels.syntactic import best_heads
from attnlab.functions.thresholds import LINKS
from attnlab.reporting.canvas import write_figure
from attnlab.reporting.notes import describe_notes
from attnlab.studies.analysis.analysis import analyze
from attnlab.studies.importance.importance import importance
from attnlab.studies.pruning.pruning import prune
from attnlab.translation.quiet import quiet
from attnlab.translation.runs.run import Run
from experiments.heads_of_small_models.figure import draw_curves
from experiments.heads_of_small_models.readme import readme
from experiments.real_text.run import trained_run
from experiments.shared.labels import labelling_of
from experiments.shared.readme import RESULTS, write_facts, write_readme

OUT = RESULTS / "heads_of_small_models"
MODELS = {
    "multi30k": "multi30k",
    "multi30k_3_layers": "multi30k",
    "tatoeba": "tatoeba",
    "tatoeba_3_layers": "tatoeba",
}
TREEBANK = Path("pud") / "en.conllu.gz"
LABELLED = 1000
WEIGHED = 500
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3)
STEPS = 300
SEED = 0


def main() -> None:
    """Measures the wanted models one after another, and writes the README over all that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the corpora and treebanks")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs")
    parser.add_argument("--only", choices=list(MODELS), action="append")
    chosen = parser.parse_args()
    for name in chosen.only or MODELS:
        with quiet():
            run = trained_run(name, chosen.data / MODELS[name], chosen.runs / name)
            measure(run, chosen.data / TREEBANK, OUT / name)
        print(f"{name}: done", flush=True)
    there = {name: OUT / name for name in MODELS if (OUT / name / "about.json").exists()}
    curves = {name: pd.read_csv(folder / "pruning.csv") for name, folder in there.items()}
    write_figure(draw_curves(curves), OUT, "pruning")
    write_facts(OUT, __file__, "torch", "transformers", "sacrebleu")
    write_readme(OUT, readme(OUT))


def measure(run: Run, treebank: Path, out: Path) -> None:
    """All tables of one model."""
    begin = time.process_time()
    label_on_own_text(run, out)
    label_on_treebank(run, treebank, out)
    heads = importance(
        run.folder, sentences=WEIGHED, replacements=("zero", "mean", "uniform"), seed=SEED
    )
    write_table(out / "importance.csv", heads.heads)
    write_table(out / "removal.csv", heads.cumulative)
    write_table(out / "agreement_of_measures.csv", heads.agreement)
    pruned = prune(run.folder, PENALTIES, steps=STEPS, seed=SEED)
    write_table(out / "pruning.csv", pruned.curve)
    write_table(out / "gates.csv", pruned.gates)
    model, corpus = run.settings.model, run.record["corpus"]
    about = {
        "pair": run.settings.corpus.pair,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "heads": model.heads,
        "dim": model.dim,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "epochs": run.settings.optimizer.epochs,
        "checksum": corpus["checksum"],
        "labelled_sentences": LABELLED,
        "weighed_sentences": WEIGHED,
        "pruning_steps": STEPS,
        "seed": SEED,
        "processor_minutes": round((time.process_time() - begin) / 60, 1),
        "warnings": describe_notes([*heads.notes, *pruned.notes]),
    }
    write_json(out / "about.json", about)


def label_on_own_text(run: Run, out: Path) -> None:
    """Labels of all heads on the corpus's own test sentences."""
    own = analyze(run.folder, labels=True, sentences=LABELLED, keep_matrices=0, fit_sentences=0)
    labelling = labelling_of(own)
    write_table(out / "labels.csv", labelling.labels)
    write_table(out / "controls.csv", labelling.controls)
    write_table(out / "heads.csv", own.heads)


def label_on_treebank(run: Run, treebank: Path, out: Path) -> None:
    """Labels of the encoder's heads on sentences with gold trees, and the best head of each relation."""
    found = analyze(
        run.folder, treebank=treebank, sentences=LABELLED, keep_matrices=0, fit_sentences=0
    )
    labelling = labelling_of(found)
    write_table(out / "labels_treebank.csv", labelling.labels)
    write_table(out / "controls_treebank.csv", labelling.controls)
    best = best_heads(labelling.relations)
    write_table(out / "relations_treebank.csv", best[best["counted"] >= LINKS.needed])


if __name__ == "__main__":
    main()
