"""BLEU of a recurrent model with attention beside a transformer of as many parameters, by sentence length.

    python experiments/recurrent_baseline/run.py ../shared/data/tatoeba

writes results/recurrent_baseline/. Models go to runs/recurrent_baseline/; those that are trained there are
read, and a training that was cut short goes on.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from attnlab.ablation import bleu_difference
from attnlab.core import quiet, write_table
from attnlab.figures import save_figure
from attnlab.models import Run, RunSettings, score_run, settings_from
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_run

OUT = RESULTS / "recurrent_baseline"
TRANSFORMER = "transformer"
MODELS: dict[str, dict[str, Any]] = {
    TRANSFORMER: {"dim": 128, "feed_forward": 512, "heads": 8},
    "additive": {"kind": "recurrent", "dim": 144, "score": "additive"},
    "dot": {"kind": "recurrent", "dim": 144, "score": "dot"},
    "additive, GRU": {"kind": "recurrent", "cell": "gru", "dim": 154, "score": "additive"},
    "additive, Elman": {"kind": "recurrent", "cell": "elman", "dim": 182, "score": "additive"},
}
CORPUS = {"pair": "en-it", "limit": 12_000, "max_tokens": 64}
OPTIMIZER = {
    "epochs": 20, "batch_tokens": 1024, "learning_rate": 2e-3, "warmup": 400, "schedule": "cosine",
    "validation_sentences": 200,
}  # fmt: skip
VOCABULARY = 3000
# Words of the source: from, to; about a hundred test sentences have most.
EVERY = (1, 99)
BINS = ((1, 4), (5, 6), (7, 8), (9, EVERY[1]))
SEED = 0
CHANGE = ("change_against_transformer", "change_low", "change_high")


def main() -> None:
    """Trains the models that are not there, scores them by length, and writes the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the folder of the corpus")
    parser.add_argument("--runs", type=Path, default=RESULTS.parent / "runs" / "recurrent_baseline")
    chosen = parser.parse_args()
    begin = time.process_time()
    with quiet():
        runs = {
            name: trained_run(chosen.runs / name, settings_of(model, chosen.corpus))
            for name, model in MODELS.items()
        }
        written = {name: score_run(run, beams=1)[1] for name, run in runs.items()}
    table = by_length(runs[TRANSFORMER], written)
    write_table(OUT / "table.csv", table)
    save_figure(draw(table), OUT / "figure.svg")
    write_facts(
        OUT, __file__, "torch", "transformers", "sacrebleu",
        parameters={
            name: sum(weight.numel() for weight in run.model.parameters())
            for name, run in runs.items()
        },
        test_sentences=int(table["sentences"].iloc[0]),
        training_minutes={
            name: round(run.metrics()[-1]["training_seconds"] / 60, 1) for name, run in runs.items()
        },
        pairs=runs[TRANSFORMER].record["corpus"]["pairs"],
        checksum=runs[TRANSFORMER].record["corpus"]["checksum"],
        seed=SEED,
        processor_minutes=round((time.process_time() - begin) / 60, 1),
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def settings_of(model: dict[str, Any], corpus: Path) -> RunSettings:
    """How a model is trained."""
    return settings_from(
        {
            "corpus": CORPUS | {"name": str(corpus)},
            "tokenizer": {"vocabulary": VOCABULARY},
            "model": model | {"dropout": 0.2},
            "optimizer": OPTIMIZER | {"seed": SEED},
        }
    )


def by_length(run: Run, written: dict[str, list[str]]) -> pd.DataFrame:
    """BLEU of each model on all test sentences and on those of each length, with intervals.

    Args:
        run: whose test sentences they are; all models have the same tokenizer.
        written: the translations by model, as `score_run` gives them.
    """
    rows, limit = run.corpus().test, run.settings.corpus.max_tokens
    lengths = [
        [len(ids) for ids in run.tokenizers.source(rows[side][:])["input_ids"]]
        for side in ("source", "target")
    ]
    # Those that `score_run` translates.
    kept = [n for n, pair in enumerate(zip(*lengths, strict=True)) if max(pair) <= limit]
    words = np.array([len(rows["source"][n].split()) for n in kept])
    references = [rows["target"][n] for n in kept]
    found = []
    for first, last in (EVERY, *BINS):
        own = np.flatnonzero((words >= first) & (words <= last)).tolist()
        if not own:
            continue
        gold = [references[n] for n in own]
        base = [written[TRANSFORMER][n] for n in own]
        for name, texts in written.items():
            chosen = [texts[n] for n in own]
            low, high = interval(chosen, gold)
            change = bleu_difference(base, chosen, gold)
            found.append(
                {
                    "words": named(first, last),
                    "model": name,
                    "bleu": change.after,
                    "bleu_low": low,
                    "bleu_high": high,
                    "change_against_transformer": change.change,
                    "change_low": change.low,
                    "change_high": change.high,
                    "sentences": len(own),
                }
            )
    return pd.DataFrame(found)


def named(first: int, last: int) -> str:
    """What tables call sentences of so many words."""
    if (first, last) == EVERY:
        return "all"
    return f"{first} and more" if last == EVERY[1] else f"{first} to {last}"


def interval(texts: list[str], references: list[str]) -> tuple[float, float]:
    """The 95 % interval of corpus BLEU over sentences.

    The references themselves have a BLEU of 100, whichever sentence is left out, so the interval of the
    difference is that of BLEU less 100.
    """
    found = bleu_difference(references, texts, references)
    return 100 + found.low, 100 + found.high


def draw(table: pd.DataFrame) -> Figure:
    """BLEU by length, a line per model, with intervals."""
    figure = Figure(figsize=(5.5, 3.2), layout="constrained")
    axes = figure.subplots()
    binned = table[table["words"] != "all"]
    at = {words: index for index, words in enumerate(dict.fromkeys(binned["words"]))}
    for shift, (name, own) in enumerate(binned.groupby("model", sort=False)):
        across = [at[words] + 0.08 * (shift - 1) for words in own["words"]]
        spread = [own["bleu"] - own["bleu_low"], own["bleu_high"] - own["bleu"]]
        axes.errorbar(across, own["bleu"], yerr=np.abs(spread), marker="o", capsize=2, label=name)
    axes.set_xticks(list(at.values()), list(at))
    axes.set(xlabel="words of the source", ylabel="BLEU (greedy)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def said(change: float, low: float, high: float) -> str:
    """A change of BLEU in words, with its interval."""
    word = "higher" if low > 0 else "lower" if high < 0 else "not told apart"
    if np.isnan(low):
        return f"{word} ({change:+.1f}, too few sentences for an interval)"
    return f"{word} ({change:+.1f} [{low:+.1f}, {high:+.1f}])"


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    table = read_table(folder, "table")
    models = [name for name in MODELS if name in set(table["model"])]
    wide = table.pivot_table(index="words", columns="model", values="bleu", sort=False)
    rows = {words: own.set_index("model") for words, own in table.groupby("words", sort=False)}
    shortest, longest = named(*BINS[0]), named(*BINS[-1])
    return render(
        __file__, read_facts(folder), table=table, wide=wide[models].reset_index(),
        models=models, missing=[name for name in MODELS if name not in models],
        shortest=shortest, longest=longest, rows=rows,
        against={
            words: {
                name: said(*(float(rows[words][column][name]) for column in CHANGE))
                for name in models if name != TRANSFORMER
            }
            for words in ("all", longest)
        },
        corpus=CORPUS, optimizer=OPTIMIZER, vocabulary=VOCABULARY,
    )  # fmt: skip


if __name__ == "__main__":
    main()
