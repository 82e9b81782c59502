"""Window and columns that encoder heads need, by language and kind of text.

    python experiments/windows_by_text/run.py ../shared/data

trains the models of conversation and of proceedings that the folder of runs does not hold yet, reads those of
captions and of verses from results/windows_multi30k and results/windows_bible, and writes
results/windows_by_text/. A model whose rows are there is not read again.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.ablation import over_models
from attnlab.core import path_label, quiet, write_table
from attnlab.figures import save_figure
from experiments.shared.readme import (
    RESULTS,
    estimate,
    known_models,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.windows_by_language.models import COLLECTIONS, model_of
from experiments.windows_by_language.reading import ONLY_WORDS, TRAINED, UNTRAINED, WORDS
from experiments.windows_by_language.run import SENTENCES, publish
from experiments.windows_by_text.figure import draw_shares

OUT = RESULTS / "windows_by_text"
# By collection, shortest sentences first.
KINDS = {
    "tatoeba": "conversation", "multi30k": "captions", "europarl": "proceedings", "bible": "verses",
}  # fmt: skip
READ_HERE = ("tatoeba", "europarl")
ENGLISH, ITALIAN, EVERY = "en", "it", "all"
MODEL, DIGITS = ["text", "source", "target"], 4
MEASURES = [
    "words", "share", "share_untrained", "beyond", "columns", "saved", "saved_rare", "saved_untrained",
]  # fmt: skip


def main() -> None:
    """Measures each model that was not measured yet, and writes tables, figure and README."""
    chosen = _parser().parse_args()
    for name, source, target in asked():
        if (name, source, target) in known_models(OUT, "models", MODEL):
            continue
        with quiet():
            run = model_of(name, source, target, chosen.data, chosen.runs)
            key = {"text": name, "source": source, "target": target}
            publish(OUT, key, run, chosen.sentences)
        print(name, source, target, flush=True)
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(OUT, f"python experiments/windows_by_text/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of tatoeba and europarl")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="number of test sentences")
    parser.add_argument(
        "--runs", type=Path, default=RESULTS.parent / "runs" / "windows", help="folder of models"
    )
    return parser


def asked() -> list[tuple[str, str, str]]:
    """English with each other language of the collections, both ways.

    The language that both have comes first, and English before it, which all kinds of text have as a source.
    """
    pairs = [(name, *pair) for name in READ_HERE for pair in COLLECTIONS[name].pairs()]
    return sorted(
        (one for one in pairs if ENGLISH in one),
        key=lambda one: (ITALIAN not in one, one[1] != ENGLISH),
    )


def by_model(out: Path) -> pd.DataFrame:
    """A row a model of any kind of text: what its heads need, in shares of sentences and of keys."""
    heads, models = (
        pd.concat(
            [read_table(out, name)]
            + [
                read_table(out.with_name(f"windows_{text}"), name).assign(text=text)
                for text in KINDS
                if text not in READ_HERE
            ],
            ignore_index=True,
        )
        for name in ("heads", "models")
    )
    of_words = heads[(heads["unit"] == WORDS) & (heads["keys"] == ONLY_WORDS)]
    means = of_words.groupby(["condition", *MODEL])[
        ["w90", "num_pos", "window_keys", "best_keys", "rare_keys"]
    ].mean()
    described = models.set_index(MODEL)
    trained, untrained = means.loc[TRAINED], means.loc[UNTRAINED]
    words = described["words_per_sentence"]
    table = pd.DataFrame(
        {
            "words": words,
            "bleu": described["bleu"],
            "share": trained["w90"] / words,
            "share_untrained": untrained["w90"] / words,
            "beyond": (trained["w90"] - untrained["w90"]) / words,
            "columns": trained["num_pos"],
            "saved": 1 - trained["best_keys"] / trained["window_keys"],
            "saved_rare": 1 - trained["rare_keys"] / trained["window_keys"],
            "saved_untrained": 1 - untrained["best_keys"] / untrained["window_keys"],
        }
    ).reset_index()
    order = list(KINDS)
    return table.sort_values(
        MODEL, key=lambda own: own.map(order.index) if own.name == "text" else own
    ).reset_index(drop=True)


def by_text(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the models of each kind of text, of all sources and of each."""
    every = over_models(table.assign(source=EVERY), ["text", "source"], MEASURES)
    return pd.concat([every, over_models(table, ["text", "source"], MEASURES)], ignore_index=True)


def write_result(out: Path, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    table = by_model(out)
    write_table(out / "by_model.csv", table.round(DIGITS))
    write_table(out / "by_text.csv", by_text(table).round(DIGITS))
    save_figure(draw_shares(table, KINDS), out / "shares.svg")
    write_facts(
        out, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        command=command, threads=torch.get_num_threads(),
    )  # fmt: skip
    write_readme(out, readme(out))


def readme(out: Path) -> str:
    """The README of the result, from its tables and facts."""
    table, means = read_table(out, "by_model"), read_table(out, "by_text")
    models = read_table(out, "models")
    there = set(models[MODEL].itertuples(index=False, name=None))
    read, english = set(table["text"]), set(table.loc[table["source"] == ENGLISH, "text"])
    return render(
        __file__, read_facts(out), kinds=KINDS,
        measured=[KINDS[text] for text in KINDS if text in read],
        unmeasured=[KINDS[text] for text in KINDS if text not in read],
        sources=[KINDS[text] for text in KINDS if text in english],
        every={row["text"]: row for row in rows_of(means, EVERY)},
        english={row["text"]: row for row in rows_of(means, ENGLISH)},
        shown=shown(means), estimate=estimate, models=table,
        read_here=models[["text", "source", "target", "training_pairs", "validation_loss", "bleu"]],
        missing=[" ".join(one) for one in asked() if one not in there],
    )  # fmt: skip


def rows_of(means: pd.DataFrame, source: str) -> list[dict[Any, Any]]:
    """The rows of one source language."""
    return means[means["source"] == source].to_dict("records")


def shown(means: pd.DataFrame) -> pd.DataFrame:
    """A row a kind of text and source language, as it is read."""
    return pd.DataFrame(
        [
            {
                "text": KINDS[row["text"]],
                "source": row["source"],
                "models": row["models"],
                "words": f"{row['words']:.1f}",
                "w90 / words": estimate(row, "share", ".2f"),
                "untrained": estimate(row, "share_untrained", ".2f"),
                "difference": estimate(row, "beyond", "+.2f"),
                "columns": estimate(row, "columns", ".1f"),
                "keys saved, %": f"{100 * row['saved']:.1f}",
                "by rare words, %": f"{100 * row['saved_rare']:.1f}",
                "untrained, %": f"{100 * row['saved_untrained']:.1f}",
            }
            for row in means.to_dict("records")
        ]
    )


if __name__ == "__main__":
    main()
