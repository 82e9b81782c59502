"""Train on a real corpus with committed settings, score the test part, and write what came out.

    python experiments/real_text/run.py multi30k ../shared/data/multi30k
    python experiments/real_text/run.py tatoeba ../shared/data/tatoeba

writes results/real_text_NAME/. Settings: experiments/settings/NAME.toml. A run that is already in
runs/NAME with the same settings is scored, not trained again.
"""

import argparse
import json
import os
import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console

from attnlab.core import path_label, quiet, word_label, write_json, write_table
from attnlab.figures import draw_heads, draw_training, save_figure
from attnlab.models import (
    IGNORED_LABEL,
    Collator,
    LengthGroupedBatches,
    Run,
    TokenPairs,
    corpus_of,
    encode_corpus,
    load,
    score_run,
    settings_from,
    train,
)
from attnlab.questions.analyze.analysis import analyze
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.rounded import write_rounded

ROOT = RESULTS.parent
SETTINGS = ROOT / "experiments" / "settings"
BEAMS = (1, 5)
SHOWN = 8
SENTENCES, KEPT = 300, 4
# By so much the loss of a checkpoint may differ from the one that was logged for it, in nats.
ROUNDING = 2e-3
COLUMNS = [
    "epoch", "training_loss", "validation_loss", "validation_bleu", "validation_chrf",
    "training_seconds", "target_tokens_per_second",
]  # fmt: skip


def main() -> None:
    """Trains or loads, scores with each number of beams, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(path.stem for path in SETTINGS.glob("*.toml")))
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    chosen = parser.parse_args()
    out = RESULTS / f"real_text_{chosen.name}"
    with quiet():
        run = trained_run(chosen.name, chosen.corpus, chosen.runs / chosen.name)
        scored = [score_run(run, split="test", beams=beams) for beams in BEAMS]
    scores = pd.DataFrame([row for row, _ in scored])
    metrics = pd.DataFrame(run.metrics())
    write_table(out / "table.csv", scores)
    write_table(out / "metrics.csv", metrics)
    # A run may have been trained by another experiment: this command makes it and its result again.
    command = f"experiments/real_text/run.py {chosen.name} {path_label(chosen.corpus)}"
    write_json(out / "settings.json", run.record | {"command": command})
    save_figure(draw_training(metrics), out / "figure.svg")
    with quiet():
        describe_heads(run, out)
    write_facts(
        out, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        name=chosen.name, parameters=sum(weight.numel() for weight in run.model.parameters()),
        wall_minutes=round(wall_minutes(run), 1), cores=os.cpu_count(),
        threads=torch.get_num_threads(), validation_loss=round(validation_loss(run), 3),
        translations=translations(run, scored[-1][1]),
    )  # fmt: skip
    write_readme(out, readme(out))
    print(scores.to_string(index=False))


def trained_run(name: str, corpus: Path, folder: Path) -> Run:
    """The run of these settings: loaded where it is there, trained where it is not."""
    values = tomllib.loads((SETTINGS / f"{name}.toml").read_text(encoding="utf-8"))
    values["corpus"]["name"] = str(corpus)
    settings = settings_from(values)
    if folder.exists():
        run = load(folder)
        # The same corpus may be named by another path.
        named = replace(run.settings, corpus=replace(run.settings.corpus, name=str(corpus)))
        same = named == settings and corpus_of(named).checksum == run.record["corpus"]["checksum"]
        if not same:
            sys.exit(f"{folder} was trained with other settings; move it away first.")
        return run
    train(
        folder,
        settings,
        command=shlex.join(map(word_label, sys.argv)),
        console=Console(stderr=True),
    )
    return load(folder)


def wall_minutes(run: Run) -> float:
    """From the first file of the run to its model, evaluations counted, in minutes."""
    begin, end = (
        (run.folder / name).stat().st_mtime for name in ("settings.json", "model.safetensors")
    )
    return (end - begin) / 60


def validation_loss(run: Run) -> float:
    """Mean over all real target tokens of the validation part, in nats, of the kept model."""
    encoded = encode_corpus(run.corpus(), run.tokenizers, max_tokens=run.settings.corpus.max_tokens)
    pairs = TokenPairs(encoded.validation)
    batches = LengthGroupedBatches(
        pairs.source_lengths, pairs.target_lengths, batch_tokens=2048, shuffle=False
    )
    total = 0.0
    for batch in batches:
        inputs = Collator()([pairs[index] for index in batch])
        with torch.inference_mode():
            loss = float(run.model(**inputs).loss)
        total += loss * int((inputs["labels"] != IGNORED_LABEL).sum())
    return total / int(pairs.target_lengths.sum())


def describe_heads(run: Run, out: Path) -> None:
    """The heads' statistics on test sentences, and the heat maps of one of them."""
    analysis = analyze(
        run.folder, labels=False, sentences=SENTENCES, keep_matrices=KEPT, fit_sentences=0
    )
    write_rounded(out / "heads.csv", analysis.heads)
    drawn = {
        site: (number, weights)
        for (number, site, layer), weights in analysis.matrices.matrices.items()
        if layer == 0
    }
    for site, (number, weights) in drawn.items():
        queries, keys = analysis.matrices.tokens[number, site]
        names = [f"{site}.0.{head}" for head in range(len(weights))]
        title = f"{site}, layer 0, test sentence {number}"
        figure = draw_heads(weights, queries, keys, title=title, names=names)
        figure.set_facecolor("white")
        save_figure(figure, out / f"heads_{site}.svg")


def translations(run: Run, texts: list[str]) -> list[dict[str, str]]:
    """The first test sentences, their references, and what the model made of them."""
    rows = run.corpus().test
    return [
        {"source": rows["source"][row], "reference": rows["target"][row], "beam 5": texts[row]}
        for row in range(SHOWN)
    ]


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    facts, metrics = read_facts(folder), read_table(folder, "metrics")
    record = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    settings, corpus = record["settings"], record["corpus"]
    logged_loss = metrics.nlargest(1, "validation_bleu")["validation_loss"].iloc[0]
    return render(
        __file__, facts, scores=read_table(folder, "table"), metrics=metrics[COLUMNS].round(3),
        training_minutes=metrics["training_seconds"].iloc[-1] / 60,
        logged_loss=logged_loss, by_sentences=abs(logged_loss - facts["validation_loss"]) > ROUNDING,
        model=settings["model"], corpus=settings["corpus"], seed=settings["optimizer"]["seed"],
        pairs=corpus["pairs"], dropped=json.dumps(corpus["dropped_over_max_tokens"]),
        checksum=corpus["checksum"], sentences=SENTENCES, shown=pd.DataFrame(facts["translations"]),
    )  # fmt: skip


if __name__ == "__main__":
    main()
