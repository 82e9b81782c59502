"""Does the window that attention needs depend on the language, and how many rare words matter?

    python experiments/windows_by_language/run.py multi30k ../shared/data
    python experiments/windows_by_language/run.py bible ../shared/data

trains the models that the folder of runs does not hold yet, and writes results/windows_multi30k/ and
results/windows_bible/. A model whose weights stand in the result already is not read again; delete the folder
of the result to read all. With `--targets 2` each language is translated into its first two targets alone.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.ablation import contrasts, over_models
from attnlab.core import file_checksum, path_label, quiet, write_table
from attnlab.figures import save_figure
from attnlab.models import WEIGHTS, Run, score, translate
from experiments.shared.readme import (
    RESULTS,
    estimate,
    known_models,
    put_rows,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.runs import trained_with
from experiments.windows_by_language.contrasts import (
    DRAWS,
    LANGUAGE,
    between_sources,
    contrast,
    differences,
    grid_of,
    least_p,
    permutation_p,
)
from experiments.windows_by_language.figure import draw_windows
from experiments.windows_by_language.gold import gold_curves
from experiments.windows_by_language.models import (
    COLLECTIONS,
    FERTILITY,
    fertility,
    model_of,
    words_of,
)
from experiments.windows_by_language.reading import (
    ALL,
    CONDITIONS,
    KEYS,
    LEVELS,
    ONLY_WORDS,
    SHUFFLED,
    TOKENS,
    TRAINED,
    UNTRAINED,
    WORDS,
    measured,
)

MODEL, VIEW = ["source", "target"], ["condition", "unit", "keys"]
SENTENCES, DIGITS = 400, 4
MEASURES = ["w90", "mean_offset", "num_pos", "window_keys", "best_keys", "rare_keys"]


def main() -> None:
    """Measures each model that was not measured yet, and writes tables, figure and README."""
    chosen = _parser().parse_args()
    texts = COLLECTIONS[chosen.collection]
    out = RESULTS / f"windows_{chosen.collection}"
    for source, target in texts.pairs()[: chosen.targets and chosen.targets * len(texts.languages)]:
        if (source, target) in known_models(out, "models", MODEL):
            continue
        with quiet():
            run = model_of(chosen.collection, source, target, chosen.data, chosen.runs)
            publish(out, {"source": source, "target": target}, run, chosen.sentences)
        print(source, target, flush=True)
    gold = gold_curves(chosen.data / "pud", texts.languages)
    write_table(out / "gold.csv", gold.round(DIGITS))
    words = shlex.join(path_label(word) for word in sys.argv[1:])
    write_result(out, chosen.collection, f"python experiments/windows_by_language/run.py {words}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    german = [name for name, texts in COLLECTIONS.items() if LANGUAGE in texts.languages]
    parser.add_argument("collection", choices=german, help="which sentences")
    parser.add_argument("data", type=Path, help="folder of multi30k, bible and pud")
    parser.add_argument("--targets", type=int, help="number of targets of each source; default all")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="number of test sentences")
    parser.add_argument(
        "--runs", type=Path, default=RESULTS.parent / "runs" / "windows", help="folder of models"
    )
    return parser


def publish(folder: Path, key: Mapping[str, str], run: Run, sentences: int) -> None:
    """Puts the rows of a model into the tables."""
    rows = run.corpus().test.select(range(sentences))
    heads, curves = measured(run, rows["source"][:])
    weights = file_checksum(run.folder / WEIGHTS)[:12]
    described = pd.DataFrame([_described(run, rows) | {"weights_checksum": weights}])
    put_rows(folder, "heads", key, heads.round(DIGITS))
    put_rows(folder, "curves", key, curves.round(DIGITS))
    # Last, since a model whose row is here is not read again.
    put_rows(folder, "models", key, described.round(DIGITS))


def _described(run: Run, rows: Any) -> dict[str, Any]:
    texts = translate(
        run.translator, run.tokenizers, rows["source"][:], beams=1, max_tokens=run.most_tokens
    )
    kept = min(run.metrics(), key=lambda line: line["validation_loss"])
    corpus = run.corpus()
    sizes = [words_of(rows["source"][:]).total(), len(rows)]
    trained = run.record["corpus"]
    return {
        "training_pairs": trained["pairs"]["train"] - trained["dropped_over_max_tokens"]["train"],
        "vocabulary": len(run.tokenizers.source),
        "fertility": fertility(run.tokenizers.source, words_of(corpus.train["source"][:])),
        "words_per_sentence": sizes[0] / sizes[1],
        "epochs": run.metrics()[-1]["epoch"],
        "validation_loss": kept["validation_loss"],
        "test_sentences": len(rows),
        "bleu": score(texts, rows["target"][:]).bleu,
        "training_minutes": run.metrics()[-1]["training_seconds"] / 60,
        "torch": trained_with(run),
    }


def models_of(heads: pd.DataFrame) -> pd.DataFrame:
    """Means over the heads of each model, by condition, unit and keys."""
    return heads.groupby([*MODEL, *VIEW], as_index=False)[MEASURES].mean()


def view_of(
    models: pd.DataFrame, condition: str = TRAINED, unit: str = WORDS, keys: str = ONLY_WORDS
) -> pd.DataFrame:
    """The rows of one view."""
    return models[(models[VIEW] == [condition, unit, keys]).all(axis=1)]


def tested(models: pd.DataFrame) -> pd.DataFrame:
    """The contrast that was fixed beforehand, and whether sources differ at all, by permutation."""
    grid = grid_of(view_of(models))
    return pd.DataFrame(
        [
            {
                "test": name,
                "statistic": float(statistic(grid)),
                "p_value": permutation_p(grid, statistic),
            }
            for name, statistic in (("contrast", contrast), ("sources", between_sources))
        ]
    )


def estimated(models: pd.DataFrame) -> pd.DataFrame:
    """German minus the mean of the others in every view and measure, with t intervals over targets."""
    rows = []
    for condition in CONDITIONS:
        for unit in LEVELS:
            for keys in KEYS:
                own = view_of(models, condition, unit, keys)
                found = {name: differences(grid_of(own, name)) for name in MEASURES}
                table = contrasts(
                    {name: each[pd.notna(each)].tolist() for name, each in found.items()}
                )
                view = {"condition": condition, "unit": unit, "keys": keys}
                rows.append(table.drop(columns="p_value").assign(**view))
    table = pd.concat(rows, ignore_index=True).rename(
        columns={"contrast": "measure", "models": "targets"}
    )
    return table[[*VIEW, *(name for name in table if name not in VIEW)]]


def share_of_sentence(models: pd.DataFrame, described: pd.DataFrame) -> dict[str, Any]:
    """German minus the mean of the others, in w90 as a share of the words of a sentence."""
    whole = view_of(models).merge(described, on=MODEL)
    shares = whole.assign(share=whole["w90"] / whole["words_per_sentence"])
    found = differences(grid_of(shares, "share"))
    (row,) = contrasts({"share": found[pd.notna(found)].tolist()}).to_dict("records")
    return {str(name): value for name, value in row.items()}


def write_result(folder: Path, collection: str, command: str) -> None:
    """The tables over models, the figure, the facts and the README of the rows in a folder."""
    models, curves = models_of(read_table(folder, "heads")), read_table(folder, "curves")
    write_table(folder / "by_model.csv", models.round(DIGITS))
    write_table(folder / "tests.csv", tested(models))
    write_table(folder / "contrasts.csv", estimated(models).round(DIGITS))
    write_table(
        folder / "by_language.csv", over_models(models, ["source", *VIEW], MEASURES).round(DIGITS)
    )
    drawn = curves[(curves["unit"] == WORDS) & (curves["keys"] == ONLY_WORDS)]
    mean = drawn.groupby(["source", "condition", "window"], as_index=False)[["captured"]].mean()
    own = models[(models["unit"] == WORDS) & (models["keys"] == ONLY_WORDS)]
    save_figure(draw_windows(mean, read_table(folder, "gold"), own), folder / "windows.svg")
    write_facts(
        folder, __file__, "torch", "transformers", "tokenizers", "sacrebleu",
        collection=collection, command=command, threads=torch.get_num_threads(),
    )  # fmt: skip
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    models, described, gold = (read_table(folder, name) for name in ("by_model", "models", "gold"))
    languages = read_table(folder, "by_language")
    rows = {
        tuple(row[name] for name in (*VIEW, "measure")): row
        for row in read_table(folder, "contrasts").to_dict("records")
    }
    tests = read_table(folder, "tests").set_index("test")
    there = set(described[MODEL].itertuples(index=False, name=None))
    facts = read_facts(folder)
    pairs = COLLECTIONS[facts["collection"]].pairs()
    share = share_of_sentence(models, described)
    missing = [f"{source}-{target}" for source, target in pairs if (source, target) not in there]
    return render(
        __file__, facts, bible=facts["collection"] == "bible",
        row=lambda *key: rows[key], share=share,
        length_alone=not (share["difference_low"] > 0 or share["difference_high"] < 0), estimate=estimate,
        tests=tests, missing=missing, models=described,
        languages=_shown(languages, gold), estimates=_estimates(rows),
        heads=int(read_table(folder, "heads")["head"].nunique()),
        whole=view_of(models), twins=view_of(models, UNTRAINED), by_source=_words_per_sentence(described),
        of_words=_share_of_words(view_of(models), described),
        fertility=FERTILITY, expected=len(pairs), permutations=DRAWS, least=least_p(grid_of(view_of(models))),
        gold=gold.drop_duplicates("language").set_index("language"),
        described=described[
            [
                *MODEL, "vocabulary", "fertility", "words_per_sentence", "epochs", "validation_loss",
                "bleu", "torch",
            ]
        ],
    )  # fmt: skip


def _words_per_sentence(described: pd.DataFrame) -> str:
    means = described.groupby("source")["words_per_sentence"].mean()
    return ", ".join(f"{language} {mean:.1f}" for language, mean in means.items())


def _share_of_words(models: pd.DataFrame, described: pd.DataFrame) -> str:
    words = described.groupby("source")["words_per_sentence"].mean()
    shares = models.groupby("source")["w90"].mean() / words
    return ", ".join(f"{language} {share:.2f}" for language, share in shares.items())


def _shown(languages: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """A row a source language: trained heads in words and tokens, controls, gold arcs."""
    rows = []
    arcs = gold.drop_duplicates("language").set_index("language")
    for language in languages["source"].unique():
        own = languages[languages["source"] == language]
        views = {tuple(row[name] for name in VIEW): row for row in own.to_dict("records")}
        trained = views[TRAINED, WORDS, ONLY_WORDS]
        rows.append(
            {
                "source": language,
                "models": trained["models"],
                "w90, words": estimate(trained, "w90", ".2f"),
                "w90, tokens": estimate(views[TRAINED, TOKENS, ONLY_WORDS], "w90", ".2f"),
                "w90, all keys": estimate(views[TRAINED, WORDS, ALL], "w90", ".2f"),
                "mean offset": estimate(trained, "mean_offset", ".2f"),
                "columns": estimate(trained, "num_pos", ".2f"),
                "w90, untrained": estimate(views[UNTRAINED, WORDS, ONLY_WORDS], "w90", ".2f"),
                "w90, shuffled": estimate(views[SHUFFLED, WORDS, ONLY_WORDS], "w90", ".2f"),
                "w90, gold arcs": arcs["w90"].get(language, ""),
            }
        )
    return pd.DataFrame(rows)


def _estimates(rows: Mapping[tuple[str, ...], Any]) -> pd.DataFrame:
    """German minus the others, a row a measure, in the views that are told."""
    views = {
        "trained, words": (TRAINED, WORDS, ONLY_WORDS),
        "trained, tokens": (TRAINED, TOKENS, ONLY_WORDS),
        "trained, words, all keys": (TRAINED, WORDS, ALL),
        "untrained, words": (UNTRAINED, WORDS, ONLY_WORDS),
        "shuffled words, words": (SHUFFLED, WORDS, ONLY_WORDS),
    }
    return pd.DataFrame(
        [
            {"measure": measure}
            | {
                name: estimate(rows[*view, measure], "difference", "+.2f")
                for name, view in views.items()
            }
            for measure in MEASURES
        ]
    )


if __name__ == "__main__":
    main()
