"""What the heads of next-token language models do, and how well such models predict beside counts.

    python experiments/language_model/run.py ../shared/data

writes results/language_model/: models of one and of three layers on the English side of the bible,
beside a unigram and a bigram model of the same tokens. Models that are not in runs/language_model/
yet are trained first.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import attnlab
from attnlab.ablation import loss_difference
from attnlab.core import quiet, write_table
from attnlab.evaluation import Evaluator, load_evaluator
from attnlab.figures import draw_heads, write_figure
from attnlab.labels import LINKS, SINK, best_heads
from attnlab.models import GenerationSettings, Run, generate, settings_from
from attnlab.questions.analyze.analysis import analyze
from attnlab.results.notes import describe_notes
from experiments.language_model.baselines import CountModel
from experiments.shared.labels import with_all_keys
from experiments.shared.readme import (
    RESULTS,
    estimate,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_run
from experiments.shared.sinks import sink_counts, sink_threshold, sinks_today

OUT = RESULTS / "language_model"
MODELS = {"one_layer": 1, "three_layers": 3}
CORPUS = {"pair": "en-it", "limit": 5000, "max_tokens": 64}
MODEL = {"task": "language-model", "dim": 128, "heads": 8, "feed_forward": 512, "dropout": 0.1}
OPTIMIZER = {
    "epochs": 6, "batch_tokens": 1024, "learning_rate": 2e-3, "warmup": 100, "schedule": "cosine",
    "validation_sentences": 300,
}  # fmt: skip
VOCABULARY = 3000
SENTENCES, LABELLED, TREES, KEPT = 1000, 200, 200, 2
PROMPT = "In the beginning"
SEED = 0


def main() -> None:
    """Trains the models that are not there, measures them and the counts, and writes the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the corpora and treebanks")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "language_model")
    chosen = parser.parse_args()
    begin = time.process_time()
    with quiet():
        runs = {
            name: trained(chosen.runs / name, layers, chosen.data / "bible")
            for name, layers in MODELS.items()
        }
        predictions = predicted(runs)
        notes, samples = [], []
        for name, run in runs.items():
            notes += describe_heads(run, name, chosen.data / "pud" / "en.conllu.gz")
            texts = generate(run, PROMPT, GenerationSettings(samples=2, max_tokens=30, seed=SEED))
            samples += [{"model": name, "text": text} for text in texts]
    write_table(OUT / "table.csv", predictions)
    write_table(OUT / "samples.csv", pd.DataFrame(samples))
    first = next(iter(runs.values()))
    write_facts(
        OUT, __file__, "torch", "transformers", "tokenizers",
        parameters={name: parameters_of(run) for name, run in runs.items()},
        checksum=first.record["corpus"]["checksum"], texts=first.record["corpus"]["pairs"],
        training_minutes={
            name: round(run.metrics()[-1]["training_seconds"] / 60, 1) for name, run in runs.items()
        },
        labelled=LABELLED, trees=TREES, prompt=PROMPT, seed=SEED, notes=list(dict.fromkeys(notes)),
        processor_minutes=round((time.process_time() - begin) / 60, 1),
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def trained(folder: Path, layers: int, corpus: Path) -> Run:
    """The run in the folder, trained where it is not there."""
    settings = settings_from(
        {
            "corpus": CORPUS | {"name": str(corpus)},
            "tokenizer": {"vocabulary": VOCABULARY},
            "model": MODEL | {"decoder_layers": layers},
            "optimizer": OPTIMIZER | {"seed": SEED},
        }
    )
    return trained_run(folder, settings)


def parameters_of(run: Run) -> int:
    """How many numbers the model has learned."""
    return sum(weight.numel() for weight in run.model.parameters())


def predicted(runs: dict[str, Run]) -> pd.DataFrame:
    """Loss and perplexity on the test texts, a row per model, with the change against the bigram model."""
    evaluators = {
        name: load_evaluator(run.folder, sentences=SENTENCES) for name, run in runs.items()
    }
    first, run = next(iter(evaluators.values())), next(iter(runs.values()))
    counted = count_losses(run, first)
    losses = counted | {name: one.losses() for name, one in evaluators.items()}
    tokens, rows = first.tokens, []
    for name, own in losses.items():
        found = loss_difference(losses["bigram"], own, tokens, seed=SEED)
        rows.append(
            {
                "model": name,
                "loss_nats": found.after,
                "perplexity": float(np.exp(found.after)),
                "change_against_bigram": found.change,
                "change_low": found.low,
                "change_high": found.high,
                "tokens": int(tokens.sum()),
                "sentences": len(tokens),
            }
        )
    return pd.DataFrame(rows)


def count_losses(run: Run, evaluator: Evaluator) -> dict[str, torch.Tensor]:
    """The losses of the count models on the texts of the evaluator, weighed on validation texts."""
    corpus, tokenizer = run.corpus(), run.tokenizers.source
    counts = CountModel(tokenizer(corpus.train["source"][:])["input_ids"], len(tokenizer))
    weight = counts.best_weight(tokenizer(corpus.validation["source"][:300])["input_ids"])
    texts = [one.source for one in evaluator.sentences.usable]
    return {
        "unigram": torch.from_numpy(counts.losses(texts, 0.0)),
        "bigram": torch.from_numpy(counts.losses(texts, weight)),
    }


def describe_heads(run: Run, name: str, treebank: Path) -> list[str]:
    """Tables and figures of the heads of one model; what is to be known of them."""
    own = analyze(run.folder, labels=True, sentences=LABELLED, keep_matrices=KEPT, fit_sentences=20)
    folder = OUT / name
    write_table(folder / "summary.csv", own.summary)
    write_table(folder / "labels.csv", with_all_keys(own).labels)
    write_table(folder / "controls.csv", with_all_keys(own).controls)
    write_figure(attnlab.plot.heads(own.summary, "structure"), folder, "heads")
    last = max(layer for _, _, layer in own.matrices.matrices)
    number = min(number for number, _, _ in own.matrices.matrices)
    for layer in {0, last}:
        weights = own.matrices.matrices[number, "decoder", layer]
        queries, keys = own.matrices.tokens[number, "decoder"]
        names = [f"decoder.{layer}.{head}" for head in range(len(weights))]
        title = f"layer {layer}, test text {number}"
        figure = draw_heads(weights, queries, keys, title=title, names=names)
        figure.set_facecolor("white")
        write_figure(figure, folder, f"matrices_{layer}")
    trees = analyze(
        run.folder,
        treebank=treebank,
        labels=True,
        sentences=TREES,
        keep_matrices=0,
        fit_sentences=0,
    )
    labelling = with_all_keys(trees)
    write_table(folder / "labels_treebank.csv", labelling.labels)
    best = best_heads(labelling.relations)
    write_table(folder / "relations_treebank.csv", best[best["counted"] >= LINKS.needed])
    return describe_notes([*own.notes, *trees.notes])


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    facts, table = read_facts(folder), read_table(folder, "table")
    by_model = table.set_index("model")
    heads: dict[str, dict[str, Any]] = {}
    for name in MODELS:
        summary = pd.read_csv(folder / name / "summary.csv", keep_default_na=False)
        trees = pd.read_csv(folder / name / "labels_treebank.csv", keep_default_na=False)
        controls = read_table(folder / name, "controls")
        heads[name] = {
            "count": len(summary),
            "functions": counted(summary["function"]),
            "structures": counted(summary["structure"]),
            "trees": counted(trees["significant_labels"]),
            "ties": int((summary["structure_tie"].astype(str) == "True").sum()),
            "sinks": sink_counts(controls),
            "sinks_today": sinks_today(controls),
            "highest": controls.groupby("label")["value_high"].max(),
            "most_needed": most_needed(summary),
            "layers": sorted({0, int(summary["layer"].max())}),
        }
    threshold = sink_threshold(read_table(folder / next(iter(MODELS)), "controls"))
    return render(
        __file__, facts, table=table, by_model=by_model, heads=heads, corpus=CORPUS, model=MODEL,
        optimizer=OPTIMIZER, vocabulary=VOCABULARY, samples=read_table(folder, "samples"),
        sink_threshold=threshold, sink_threshold_today=SINK.threshold, older=threshold != SINK.threshold,
    )  # fmt: skip


def most_needed(summary: pd.DataFrame) -> pd.DataFrame:
    """The heads with the largest change of loss when zeroed, with intervals."""
    name = "ablation_loss_change"
    figures = [name, f"{name}_low", f"{name}_high"]
    top = summary.astype(dict.fromkeys(figures, float)).nlargest(3, name)
    change = [estimate(row, name, "+.3f") for row in top.to_dict("records")]
    return top[["site", "layer", "head", "function", "structure"]].assign(loss_change=change)


def counted(values: "pd.Series[str]") -> str:
    """How often each value occurs, in words; where no head has a label, that.

    >>> counted(pd.Series(["sink", "band", "sink"])), counted(pd.Series(["unknown"]))
    ('2 sink, 1 band', 'none')
    """
    counts = values.value_counts()
    if set(counts.index) == {"unknown"}:
        return "none"
    return ", ".join(f"{count} {name}" for name, count in counts.items())


if __name__ == "__main__":
    main()
