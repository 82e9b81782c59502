"""What the README of heads_of_small_models is filled with, from the tables and facts of its folder."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.labels import BORDERLINE, CONFIRMED, LINKS, UNKNOWN
from experiments.heads_of_small_models.summary import (
    SITES,
    Models,
    measured_parts,
    models_with,
    sites_in_short,
    spearman_interval,
)
from experiments.shared.readme import estimate, read_facts, read_table, render

HEAD = ["site", "layer", "head"]
SHOWN = 4


def readme(folder: Path) -> str:
    """The README over all models, from their tables and facts; parts that no model has are left out."""
    models = models_with(folder)
    labelled, weighed = models_with(folder, "labels"), models_with(folder, "importance")
    about = {name: _about(own) for name, own in models.items()}
    facts = read_facts(folder)
    return render(
        __file__, facts, about=about, first=next(iter(about.values())),
        parts={name: measured_parts(own) for name, own in models.items()},
        absent=[name for name in facts["models"] if name not in models],
        labelled=labelled, weighed=weighed, pruned=models_with(folder, "pruning"),
        sites=sites_in_short(labelled, weighed), models=models_table(models, about),
        labels_of_corpus=label_counts(labelled, ""),
        labels_of_treebank=label_counts(labelled, "_treebank"),
        relations=relations(labelled), shown=SHOWN, needed=LINKS.needed,
        importance=importance(weighed), measures=measures(weighed),
        importance_by_label=importance_by_label(models_with(folder, "labels", "importance")),
        pruning=pruning(models_with(folder, "pruning")), unlabelled=UNKNOWN,
    )  # fmt: skip


def _about(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "about.json").read_text(encoding="utf-8"))


def test_bleu(folder: Path) -> str:
    """BLEU of the run as it was trained, where it was pruned."""
    if "pruning" not in measured_parts(folder):
        return "-"
    curve = read_table(folder, "pruning")
    unpruned = curve[(curve["kind"] == "unpruned") & (curve["split"] == "test")]
    return f"{unpruned['bleu'].iloc[0]:.1f}"


def models_table(models: Models, about: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Size and quality of each model, and which of its parts were measured."""
    rows = []
    for name, folder in models.items():
        one = about[name]
        rows.append(
            {
                "model": name,
                "pair": one["pair"],
                "layers": f"{one['encoder_layers']} + {one['decoder_layers']}",
                "heads of a layer": one["heads"],
                "size": one["dim"],
                "parameters": f"{one['parameters']:,}",
                "epochs": one["epochs"],
                "seed of the training": one["training_seed"],
                "test BLEU": test_bleu(folder),
                "measured": ", ".join(sorted(measured_parts(folder))),
            }
        )
    return pd.DataFrame(rows)


def label_counts(models: Models, ending: str) -> pd.DataFrame:
    """For how many heads of each site each label is confirmed, borderline, and significant."""
    rows = []
    for name, folder in models.items():
        controls, labels = (
            read_table(folder, f"controls{ending}"),
            read_table(folder, f"labels{ending}"),
        )
        for site in SITES:
            own = controls[controls["site"] == site]
            if own.empty:
                continue
            row: dict[str, Any] = {"model": name, "site": site}
            row["heads"] = int((labels["site"] == site).sum())
            for label, table in own.groupby("label", sort=False):
                near = [
                    int((table["status"] == status).sum()) for status in (CONFIRMED, BORDERLINE)
                ]
                row[str(label)] = f"{near[0]}, {near[1]}, {int(table['significant'].sum())}"
            of_site = labels[labels["site"] == site]
            unknown = [int((of_site[c] == UNKNOWN).sum()) for c in ("labels", "significant_labels")]
            row["none"] = f"{unknown[0]}, -, {unknown[1]}"
            rows.append(row)
    return pd.DataFrame(rows).fillna("-")


def relations(models: Models) -> pd.DataFrame:
    """The relations whose best head gains most over the offset baseline where it was chosen."""
    rows = []
    for name, folder in models.items():
        best = read_table(folder, "relations_treebank")
        gain = (best["choosing_accuracy"] - best["choosing_baseline"]).astype(float)
        best = best.assign(gain=gain)
        rows += [
            {
                "model": name,
                "relation": f"{row['relation']} {row['direction']}",
                "head": f"{row['site']}.{row['layer']}.{row['head']}",
                "accuracy": estimate(row, "accuracy", ".2f"),
                "offset alone": f"{row['baseline']:.2f}",
                "shuffled words": f"{row['shuffled_accuracy']:.2f}",
                "untrained": f"{row['untrained_accuracy']:.2f}",
                "arcs": int(row["links"]),
                "stability": f"{row['stability']:.2f}",
                "significant against controls": row["significance"],
            }
            for row in best.nlargest(SHOWN, "gain").to_dict("records")
        ]
    return pd.DataFrame(rows)


def importance(models: Models) -> pd.DataFrame:
    """How many heads of each site change loss and BLEU, and the one whose loss changes most."""
    rows = []
    for name, folder in models.items():
        heads = read_table(folder, "importance")
        for site in SITES:
            own = heads[heads["site"] == site]
            top = own.nlargest(1, "loss_change").iloc[0]
            changed = own["loss_change_significant"].astype(bool)
            bleu = own[own["bleu_change_significant"].astype(bool)]["bleu_change"]
            rows.append(
                {
                    "model": name,
                    "site": site,
                    "heads": len(own),
                    "loss up": int((changed & (own["loss_change"] > 0)).sum()),
                    "loss down": int((changed & (own["loss_change"] < 0)).sum()),
                    "BLEU down": int((bleu < 0).sum()),
                    "BLEU up": int((bleu > 0).sum()),
                    "largest loss change": f"{site}.{top['layer']}.{top['head']}",
                    "loss change (nats)": estimate(top, "loss_change", "+.3f"),
                    "BLEU change": estimate(top, "bleu_change", "+.1f"),
                }
            )
    return pd.DataFrame(rows)


def measures(models: Models) -> pd.DataFrame:
    """The rank agreement of each model's measures of importance, with intervals."""
    rows = []
    for name, folder in models.items():
        for row in read_table(folder, "agreement_of_measures").to_dict("records"):
            low, high = spearman_interval(row["spearman"], row["head_count"])
            rows.append(
                {
                    "model": name,
                    "measure": row["measure"],
                    "other": row["other"],
                    "Spearman": f"{row['spearman']:.2f} [{low:.2f}, {high:.2f}]",
                    "heads": row["head_count"],
                }
            )
    return pd.DataFrame(rows)


def importance_by_label(models: Models) -> pd.DataFrame:
    """Mean loss change of the heads of each label, its range, and how many they are."""
    rows = []
    for name, folder in models.items():
        heads = read_table(folder, "importance").merge(
            read_table(folder, "labels")[[*HEAD, "significant_labels"]], on=HEAD
        )
        each = heads.assign(label=heads["significant_labels"].str.split("; ")).explode("label")
        for label, table in each.groupby("label"):
            change = table["loss_change"]
            rows.append(
                {
                    "model": name,
                    "label": "none" if label == UNKNOWN else label,
                    "heads": len(table),
                    "mean loss change (nats)": f"{change.mean():+.3f}",
                    "lowest to highest": f"{change.min():+.3f} to {change.max():+.3f}",
                }
            )
    return pd.DataFrame(rows)


def pruning(models: Models) -> pd.DataFrame:
    """Test rows of every curve."""
    rows = []
    for name, folder in models.items():
        curve = read_table(folder, "pruning")
        rows += [
            {
                "model": name,
                "kind": row["kind"],
                "penalty": f"{row['penalty']:g}" if pd.notna(row["penalty"]) else "",
                "heads left": f"{row['heads_left']} of {row['head_count']}",
                "encoder/decoder/cross": "/".join(str(row[f"{s}_left"]) for s in SITES),
                "BLEU": f"{row['bleu']:.1f}",
                "change": estimate(row, "bleu_change", "+.1f"),
            }
            for row in curve[curve["split"] == "test"].to_dict("records")
        ]
    return pd.DataFrame(rows)
