"""What the heads of small translation models do, and how important they are: labels, importance, pruning.

    python experiments/heads_of_small_models/run.py ../shared/data
    python experiments/heads_of_small_models/run.py ../shared/data --only tatoeba --part importance

writes results/heads_of_small_models/: a folder of tables for each model, then the README over all of
them. Models that are not in runs/ yet are trained first (experiments/settings/NAME.toml). A model
takes 10 to 60 minutes of one thread. A part that was measured on the same weights is not measured
again: delete MODEL/parts.json, or its entry there, to have it measured anew. Different models can be
measured side by side with --only.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.core import file_checksum, quiet, write_json
from attnlab.figures import save_figure
from attnlab.labels import LINKS, best_heads
from attnlab.models import Run
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.importance.importance import importance
from attnlab.questions.prune.pruning import prune
from experiments.heads_of_small_models.figure import draw_curves
from experiments.heads_of_small_models.readme import readme
from experiments.heads_of_small_models.summary import measured_parts, models_with
from experiments.real_text.run import trained_run
from experiments.shared.labels import with_all_keys
from experiments.shared.readme import RESULTS, write_facts, write_readme
from experiments.shared.rounded import write_rounded

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
    """Measures the wanted parts of the wanted models, and writes the README over all that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the corpora and treebanks")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs")
    parser.add_argument("--only", choices=list(MODELS), action="append")
    parser.add_argument("--part", choices=list(PARTS), action="append")
    chosen = parser.parse_args()
    for name in chosen.only or MODELS:
        with quiet():
            run = trained_run(name, chosen.data / MODELS[name], chosen.runs / name)
            for part in chosen.part or PARTS:
                done = measure(part, run, chosen.data / TREEBANK, OUT / name)
                print(f"{name} {part}: {'done' if done else 'was there'}", flush=True)
    write_summary()


def write_summary() -> None:
    """The figure and the README, from the tables that are there."""
    curves = {
        name: pd.read_csv(folder / "pruning.csv")
        for name, folder in models_with(OUT, "pruning").items()
    }
    if curves:
        save_figure(draw_curves(curves), OUT / "pruning.svg")
    write_facts(OUT, __file__, "torch", "transformers", "sacrebleu", models=list(MODELS))
    write_readme(OUT, readme(OUT))


def measure(part: str, run: Run, treebank: Path, out: Path) -> bool:
    """Writes the tables of one part, unless they are there from the same weights; whether it did."""
    weights = file_checksum(run.folder / "model.safetensors")
    known = measured_parts(out)
    if known.get(part, {}).get("weights") == weights:
        return False
    begin = time.process_time()
    notes = PARTS[part](run, treebank, out)
    minutes = round((time.process_time() - begin) / 60, 1)
    # Tables of other weights do not belong to this model any more.
    known = {name: about for name, about in known.items() if about["weights"] == weights}
    known[part] = {"weights": weights, "processor_minutes": minutes, "notes": notes}
    write_json(out / "about.json", about_model(run))
    write_json(out / "parts.json", known)
    return True


def about_model(run: Run) -> dict[str, Any]:
    """What the model is, and with what it was measured."""
    model, corpus = run.settings.model, run.record["corpus"]
    return {
        "pair": run.settings.corpus.pair,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "heads": model.heads,
        "dim": model.dim,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "epochs": run.settings.optimizer.epochs,
        "training_seed": run.settings.optimizer.seed,
        "checksum": corpus["checksum"],
        "labelled_sentences": LABELLED,
        "weighed_sentences": WEIGHED,
        "pruning_steps": STEPS,
        "seed": SEED,
    }


def measure_importance(run: Run, treebank: Path, out: Path) -> list[str]:
    """Importance of every head, and loss and BLEU as heads are removed one after another."""
    del treebank
    found = importance(
        run.folder, sentences=WEIGHED, replacements=("zero", "mean", "uniform"), seed=SEED
    )
    write_rounded(out / "importance.csv", found.importance)
    write_rounded(out / "replaced.csv", found.replaced)
    write_rounded(out / "removal.csv", found.cumulative)
    write_rounded(out / "agreement_of_measures.csv", found.rank_agreement)
    return list(map(str, found.notes))


def measure_pruning(run: Run, treebank: Path, out: Path) -> list[str]:
    """The pruning curve and the gates."""
    del treebank
    pruned = prune(run.folder, PENALTIES, steps=STEPS, seed=SEED)
    write_rounded(out / "pruning.csv", pruned.curve)
    write_rounded(out / "gates.csv", pruned.gates)
    return list(map(str, pruned.notes))


def measure_labels(run: Run, treebank: Path, out: Path) -> list[str]:
    """Labels on the corpus's own test sentences, and on sentences with gold trees."""
    label_on_own_text(run, out)
    label_on_treebank(run, treebank, out)
    return []


def label_on_own_text(run: Run, out: Path) -> None:
    """Labels of all heads on the corpus's own test sentences."""
    own = analyze(run.folder, labels=True, sentences=LABELLED, keep_matrices=0, fit_sentences=0)
    labelling = with_all_keys(own)
    write_rounded(out / "labels.csv", labelling.labels)
    write_rounded(out / "controls.csv", labelling.controls)
    write_rounded(out / "heads.csv", own.heads)


def label_on_treebank(run: Run, treebank: Path, out: Path) -> None:
    """Labels of the encoder's heads on sentences with gold trees, and the best head of each relation."""
    found = analyze(
        run.folder, treebank=treebank, sentences=LABELLED, keep_matrices=0, fit_sentences=0
    )
    labelling = with_all_keys(found)
    write_rounded(out / "labels_treebank.csv", labelling.labels)
    write_rounded(out / "controls_treebank.csv", labelling.controls)
    best = best_heads(labelling.relations)
    write_rounded(out / "relations_treebank.csv", best[best["counted"] >= LINKS.needed])


PARTS: dict[str, Callable[[Run, Path, Path], list[str]]] = {
    "importance": measure_importance,
    "pruning": measure_pruning,
    "labels": measure_labels,
}


if __name__ == "__main__":
    main()
