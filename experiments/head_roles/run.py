"""What the heads of translation models do: how many of each site carry each label, over models.

    python experiments/head_roles/run.py ../shared/data --only multi30k-en-fr multi30k-en-fr-d128

writes results/head_roles/, a row a model, text and head. Labels are those of `attnlab analyze` on test
captions, and of encoder heads on sentences with gold trees where there are some of the source language.
Nothing is tested: counts are estimates. Models whose rows are there are not read again.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.ablation import over_models
from attnlab.core import quiet, write_table
from attnlab.evaluation import load_evaluator
from attnlab.figures import save_figure
from attnlab.models import Run, score
from attnlab.questions.analyze.analysis import analyze
from experiments.head_roles.figure import draw_roles
from experiments.shared.labels import with_all_keys
from experiments.shared.readme import (
    RESULTS,
    estimate,
    put_rows,
    read_facts,
    read_table,
    render,
    write_readme,
)
from experiments.shared.translators import (
    DEEP,
    MODEL,
    SMALL,
    are_seeds_of_languages,
    bleu_range,
    by_depth,
    folder_of,
    layers_in,
    models_named,
    models_of,
    names_of,
    one_layer_rows,
    parser_of_models,
    put_facts,
    trained_otherwise,
)

OUT = RESULTS / "head_roles"
SENTENCES, DIGITS = 400, 6
CAPTIONS, TREES = TEXTS = "captions", "sentences with trees"
SITES = ("encoder", "decoder", "cross")
NONE = "no label"
LABELS = "labels"
# Of a head, from the table of its labels.
COLUMNS = [
    "text", "site", "layer", "head", LABELS, "function", "value", "threshold", "loss_change",
]  # fmt: skip
# By text, site and label, over models.
GROUP = ["text", "site", "label"]


def main() -> None:
    """Labels the heads of each model that is asked for, and writes tables, figure and README."""
    chosen = parser_of_models(__doc__, sentences=SENTENCES).parse_args()
    out = folder_of(OUT, chosen)
    for model, run in models_of(chosen, out):
        with quiet():
            heads, whole = measured(run, treebank_of(run, chosen.data), chosen.sentences)
        put_rows(out, "models", model, pd.DataFrame([whole]).round(DIGITS))
        put_rows(out, "table", model, heads.round(DIGITS))
        print(model, whole, flush=True)
    put_facts(out, __file__)
    write_result(out)


def treebank_of(run: Run, data: Path) -> Path | None:
    """Gold trees of the language that the encoder of a run reads; None where there are none."""
    path = data / "pud" / f"{run.settings.corpus.pair.split('-')[0]}.conllu.gz"
    return path if path.exists() else None


def measured(
    run: Run, treebank: Path | None, sentences: int = SENTENCES
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Labels of every head of a model, those of encoder heads on both texts; how well it translates."""
    options: dict[str, Any] = {"sentences": sentences, "keep_matrices": 0, "fit_sentences": 0}
    tables = {
        CAPTIONS: with_all_keys(analyze(run, labels=True, ablation=True, **options)).tables[
            "labels"
        ]
    }
    if treebank is not None:
        trees = analyze(run, treebank=treebank, sites=("encoder",), **options)
        tables[TREES] = with_all_keys(trees).tables["labels"]
    rows = [table.assign(text=text) for text, table in tables.items()]
    heads = pd.concat(rows, ignore_index=True).rename(
        columns={LABELS: "all", "significant_labels": LABELS}
    )
    test = load_evaluator(run, sentences=sentences)
    whole = {"sentences": len(test), "bleu": score(test.translations(), test.references).bleu}
    return heads.reindex(columns=COLUMNS).replace({LABELS: {"unknown": NONE}}), whole


def carried(table: pd.DataFrame) -> pd.DataFrame:
    """A row a model, text, site and label: `share` of the site's heads that carry it, and `loss_change`.

    The change is what the loss rises by without one such head, on average, where there is one. A head may
    carry several labels.
    """
    own = table.assign(label=table[LABELS].str.split("; ")).explode("label")
    keys = [*MODEL, "text", "site"]
    count = table.groupby(keys)["head"].size()
    found = own.groupby([*keys, "label"])["loss_change"].agg(["size", "mean"])
    # A label that a model's heads lack at a site has the share 0 there.
    wanted = [
        (*model, label)
        for (text, site), group in own.groupby(["text", "site"])
        for model in count.index
        if model[-2:] == (text, site)
        for label in sorted(set(group["label"]))
    ]
    found = found.reindex(pd.MultiIndex.from_tuples(wanted, names=[*keys, "label"])).reset_index()
    of = count.reindex(pd.MultiIndex.from_frame(found[keys])).to_numpy()
    found["share"] = found["size"].fillna(0) / of
    return found.rename(columns={"mean": "loss_change"})[[*MODEL, *GROUP, "share", "loss_change"]]


def estimated(table: pd.DataFrame) -> pd.DataFrame:
    """Over models: the share of heads that carry a label, of how many models one does, and its cost."""
    each = carried(table)
    shares = over_models(each, GROUP, ["share"], shares=["share"])
    some = each[each["share"] > 0]
    with_one = some.groupby(GROUP, as_index=False).size().rename(columns={"size": "models_with"})
    costs = over_models(some, GROUP, ["loss_change"]).drop(columns="models")
    found = shares.merge(with_one, on=GROUP).merge(costs, on=GROUP)
    order = {name: place for place, name in enumerate((*TEXTS, *SITES))}
    keys = found["text"].map(order) * 10 + found["site"].map(order) - found["share"]
    return found.loc[keys.sort_values(kind="stable").index].reset_index(drop=True)


def write_result(folder: Path) -> None:
    """The table over models, the figure, the facts and the README of the rows in a folder."""
    found = estimated(read_table(folder, "table")).round(DIGITS)
    write_table(folder / "over_models.csv", found)
    save_figure(draw_roles(found[found["text"] == CAPTIONS], SITES), folder / "roles.svg")
    write_readme(folder, readme(folder))


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    models, found = read_table(folder, "models"), read_table(folder, "over_models")
    table = read_table(folder, "table")
    first = {site: _most(found, site) for site in SITES}
    trees = table[table["text"] == TREES]
    shallow = one_layer_rows(folder, "models")
    return render(
        __file__, read_facts(folder), trained_otherwise=trained_otherwise,
        depths=by_depth(folder, shares_by_label),
        shallow_bleu="" if shallow is None else bleu_range(shallow["bleu"]),
        layers=layers_in(table), by_layer=by_layer(table),
        models=models, names=names_of(models["corpus"]), bleu=bleu_range(models["bleu"]),
        sentences=int(models["sentences"].max()), first=first, estimate=estimate,
        nearness=nearness(table), no_encoder_label=[row["label"] for row in first["encoder"]] == [NONE],
        nearest=shares_of_threshold(table)["encoder"].max(),
        widths=by_width(table), shallow_names=models_named(shallow),
        languages=by_language(table) if are_seeds_of_languages(table) else None,
        captions=_shown(found, CAPTIONS, one_layer_rows(folder, "table")), trees=_shown(found, TREES),
        with_trees=len(trees[MODEL].drop_duplicates()), tree_heads=len(trees),
        syntactic=int(trees[LABELS].str.contains("syntactic").sum()),
    )  # fmt: skip


def shares_by_label(folder: Path) -> dict[str, str]:
    """The share of the heads of a site with each label on captions, as it is shown."""
    found = read_table(folder, "over_models")
    own = found[found["text"] == CAPTIONS].to_dict("records")
    return {"models": str(own[0]["models"])} | {
        f"{row['site']}, {row['label']}": estimate(row, "share", ".2f") for row in own
    }


def by_width(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Of models with vectors of 128 and of 256 numbers: how many encoder heads on captions are sinks."""
    own = table[(table["text"] == CAPTIONS) & (table["site"] == "encoder")]
    width = own["corpus"].isin([*SMALL, *DEEP]).map({True: "128", False: "256"})
    return {
        str(name): {
            "models": len(rows[MODEL].drop_duplicates()), "heads": len(rows),
            "sinks": int(rows[LABELS].str.contains("sink").sum()),
        }
        for name, rows in own.groupby(width)
    }  # fmt: skip


def shares_of_threshold(table: pd.DataFrame) -> "dict[str, pd.Series[float]]":
    """By site, the figure of each head's closest label on captions as a share of its threshold."""
    own = table[table["text"] == CAPTIONS]
    by_site = (own["value"] / own["threshold"]).groupby(own["site"])
    return {str(site): shares for site, shares in by_site}


def nearness(table: pd.DataFrame) -> pd.DataFrame:
    """Quantiles over heads of the shares of the threshold, a row a site."""
    quantiles = {
        "10 %": 0.1,
        "25 %": 0.25,
        "median": 0.5,
        "75 %": 0.75,
        "90 %": 0.9,
        "largest": 1.0,
    }
    shares = shares_of_threshold(table)
    rows = [
        {"site": site}
        | {name: f"{shares[site].quantile(share):.2f}" for name, share in quantiles.items()}
        for site in SITES
    ]
    return pd.DataFrame(rows)


def by_layer(table: pd.DataFrame) -> pd.DataFrame:
    """Site and label on captions, and the share of the heads of each layer, mean over models."""
    own = table[table["text"] == CAPTIONS]
    own = own.assign(label=own[LABELS].str.split("; ")).explode("label")
    own = own.assign(layer="layer " + own["layer"].astype(str))
    heads = own.drop_duplicates([*MODEL, "site", "layer", "head"]).groupby(["site", "layer"]).size()
    counts = own.groupby(["site", "label", "layer"]).size()
    shares = counts.div(heads).unstack("layer", fill_value=0)
    order = {name: place for place, name in enumerate(SITES)}
    ordered = shares.sort_index(level="site", key=lambda names: names.map(order), kind="stable")
    return ordered.map("{:.2f}".format).reset_index().rename_axis(columns=None)


def by_language(table: pd.DataFrame) -> pd.DataFrame:
    """Share of the heads with each label on captions by corpus: the mean of its seeds and their range."""
    each = carried(table)
    shares = each[each["text"] == CAPTIONS].groupby(["site", "label", "corpus"], sort=False)[
        "share"
    ]
    found = shares.agg(["mean", "min", "max"])
    cells = [f"{mean:.2f} ({low:.2f} to {high:.2f})" for mean, low, high in found.to_numpy()]
    shown = pd.Series(cells, index=found.index).unstack("corpus")
    order = {name: place for place, name in enumerate(SITES)}
    ordered = shown.sort_index(level="site", key=lambda names: names.map(order), kind="stable")
    return ordered.reset_index().rename_axis(columns=None)


def _most(found: pd.DataFrame, site: str) -> list[dict[str, Any]]:
    """The labels of a site on captions, the most frequent first, those of no head last."""
    own = found[(found["text"] == CAPTIONS) & (found["site"] == site)]
    ordered = own.assign(last=own["label"] == NONE).sort_values(
        ["last", "share"], ascending=[True, False]
    )
    return [{str(name): value for name, value in row.items()} for row in ordered.to_dict("records")]


def _shown(found: pd.DataFrame, text: str, shallow: pd.DataFrame | None = None) -> pd.DataFrame:
    """The labels of a text; with rows of models of one layer, the shares of those too."""
    beside = {}
    if shallow is not None:
        keyed = estimated(shallow).set_index(GROUP).to_dict("index")
        beside = {key: estimate(row, "share", ".2f") for key, row in keyed.items()}
    return pd.DataFrame(
        [
            {
                "site": row["site"],
                "label": row["label"],
                "share of heads": estimate(row, "share", ".2f"),
                **(
                    {"with one layer": beside.get((text, row["site"], row["label"]), "0.00")}
                    if beside
                    else {}
                ),
                "models with such a head": f"{row['models_with']:.0f} of {row['models']}",
            }
            # Trees come without translations, and so without a loss.
            | (
                {"loss without one": estimate(row, "loss_change", "+.3f")}
                if text == CAPTIONS
                else {}
            )
            for row in found[found["text"] == text].to_dict("records")
        ]
    )


if __name__ == "__main__":
    main()
