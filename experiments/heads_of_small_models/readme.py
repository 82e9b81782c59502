"""What the README of heads_of_small_models is filled with, from the tables and facts of its folder."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.functions.agreement import agreement_table
from attnlab.functions.thresholds import LINKS
from attnlab.functions.verdict import BORDERLINE, HOLDS
from experiments.heads_of_small_models.summary import (
    SITES,
    Models,
    pruning_in_short,
    sites_in_short,
)
from experiments.shared.readme import read_facts, read_table, render

HEAD = ["site", "layer", "head"]
UNKNOWN = "unknown"
SHOWN = 4


def readme(folder: Path) -> str:
    """The README over all models, from their tables and facts."""
    models = {path.parent.name: path.parent for path in sorted(folder.glob("*/about.json"))}
    about = {name: _about(own) for name, own in models.items()}
    return render(
        __file__, read_facts(folder), about=about, first=next(iter(about.values())),
        sites=sites_in_short(models), pruned=pruning_in_short(models),
        models=models_table(models, about),
        labels_of_corpus=label_counts(models, ""), labels_of_treebank=label_counts(models, "_treebank"),
        relations=relations(models), shown=SHOWN, needed=LINKS.needed, kappas=kappas(models),
        importance=importance(models), measures=measures(models),
        importance_by_label=importance_by_label(models), pruning=pruning(models),
    )  # fmt: skip


def _about(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "about.json").read_text(encoding="utf-8"))


def models_table(models: Models, about: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Size and quality of each model."""
    rows = []
    for name, folder in models.items():
        one, curve = about[name], read_table(folder, "pruning")
        unpruned = curve[(curve["kind"] == "unpruned") & (curve["split"] == "test")].iloc[0]
        rows.append(
            {
                "model": name,
                "pair": one["pair"],
                "layers": f"{one['encoder_layers']} + {one['decoder_layers']}",
                "heads in all": int(unpruned["heads"]),
                "size": one["dim"],
                "parameters": f"{one['parameters']:,}",
                "epochs": one["epochs"],
                "test BLEU": f"{unpruned['bleu']:.1f}",
            }
        )
    return pd.DataFrame(rows)


def label_counts(models: Models, ending: str) -> pd.DataFrame:
    """For how many heads of each site each label holds, is borderline, and stands."""
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
                near = [int((table["status"] == status).sum()) for status in (HOLDS, BORDERLINE)]
                row[str(label)] = f"{near[0]}, {near[1]}, {int(table['stands'].sum())}"
            of_site = labels[labels["site"] == site]
            unknown = [int((of_site[c] == UNKNOWN).sum()) for c in ("labels", "standing")]
            row[UNKNOWN] = f"{unknown[0]}, -, {unknown[1]}"
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
                "accuracy": f"{row['accuracy']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
                "offset alone": f"{row['baseline']:.2f}",
                "shuffled words": f"{row['shuffled_accuracy']:.2f}",
                "untrained": f"{row['untrained_accuracy']:.2f}",
                "arcs": int(row["links"]),
                "stability": f"{row['stability']:.2f}",
                "stands": row["stands_status"],
            }
            for row in best.nlargest(SHOWN, "gain").to_dict("records")
        ]
    return pd.DataFrame(rows)


def kappas(models: Models) -> pd.DataFrame:
    """Kappa of each model, all sites together."""
    rows = []
    for name, folder in models.items():
        row = agreement_table(read_table(folder, "labels")).iloc[0]
        rows.append(
            {
                "model": name,
                "heads": int(row["heads"]),
                "tied": int(row["tied_heads"]),
                "with a label": int(row["labelled_heads"]),
                "agree": f"{row['observed_fraction']:.2f}",
                "by chance": f"{row['expected_fraction']:.2f}",
                "kappa": f"{row['kappa']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
            }
        )
    return pd.DataFrame(rows)


def importance(models: Models) -> pd.DataFrame:
    """How many heads of each site matter, and the one that matters most."""
    rows = []
    for name, folder in models.items():
        heads = read_table(folder, "importance")
        for site in SITES:
            own = heads[heads["site"] == site]
            top = own.nlargest(1, "zero_loss_change_nats").iloc[0]
            changed = own["zero_loss_significant"].astype(bool)
            bleu = own[own["zero_bleu_significant"].astype(bool)]["zero_bleu_change"]
            rows.append(
                {
                    "model": name,
                    "site": site,
                    "heads": len(own),
                    "loss up": int((changed & (own["zero_loss_change_nats"] > 0)).sum()),
                    "loss down": int((changed & (own["zero_loss_change_nats"] < 0)).sum()),
                    "BLEU down": int((bleu < 0).sum()),
                    "BLEU up": int((bleu > 0).sum()),
                    "most needed": f"{site}.{top['layer']}.{top['head']}",
                    "its loss change": f"{top['zero_loss_change_nats']:+.3f}",
                    "its BLEU change": f"{top['zero_bleu_change']:+.1f}",
                }
            )
    return pd.DataFrame(rows)


def measures(models: Models) -> pd.DataFrame:
    """The rank agreement of each model's measures of importance."""
    tables = [
        read_table(folder, "agreement_of_measures").assign(model=name)
        for name, folder in models.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[["model", *(name for name in table if name != "model")]].round(2)


def importance_by_label(models: Models) -> pd.DataFrame:
    """Mean loss change of the heads of each label, and how many they are."""
    rows = []
    for name, folder in models.items():
        heads = read_table(folder, "importance").merge(
            read_table(folder, "labels")[[*HEAD, "standing"]], on=HEAD
        )
        each = heads.assign(label=heads["standing"].str.split("; ")).explode("label")
        row: dict[str, Any] = {"model": name}
        for label, table in each.groupby("label"):
            row[str(label)] = f"{table['zero_loss_change_nats'].mean():+.3f} ({len(table)})"
        rows.append(row)
    table = pd.DataFrame(rows).fillna("-")
    return table[[name for name in table if name != UNKNOWN] + [UNKNOWN]]


def pruning(models: Models) -> pd.DataFrame:
    """Test rows of every curve."""
    rows = []
    for name, folder in models.items():
        curve = read_table(folder, "pruning")
        for row in curve[curve["split"] == "test"].to_dict("records"):
            interval = f"[{row['bleu_change_low']:+.1f}, {row['bleu_change_high']:+.1f}]"
            rows.append(
                {
                    "model": name,
                    "kind": row["kind"],
                    "penalty": f"{row['penalty']:g}" if pd.notna(row["penalty"]) else "",
                    "heads left": f"{row['heads_left']} of {row['heads']}",
                    "encoder/decoder/cross": "/".join(str(row[f"{s}_left"]) for s in SITES),
                    "BLEU": f"{row['bleu']:.1f}",
                    "change": f"{row['bleu_change']:+.1f} {interval}",
                }
            )
    return pd.DataFrame(rows)
