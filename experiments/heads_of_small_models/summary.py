"""What the tables of heads_of_small_models say over all models, in a few figures."""

from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import binomtest

from experiments.shared.readme import read_table

SITES = ("encoder", "decoder", "cross")

Models = dict[str, Path]


def sites_in_short(models: Models) -> list[dict[str, Any]]:
    """Of each site: how many heads carry each label, and how many change loss and BLEU when zeroed."""
    labels, heads = _of_all(models, "labels"), _of_all(models, "importance")
    rows = []
    for site in SITES:
        standing = labels[labels["site"] == site]["standing"].str.split("; ").explode()
        own = heads[heads["site"] == site]
        rows.append(
            {
                "site": site,
                "heads": len(own),
                "standing": standing.value_counts().to_dict(),
                "loss_changed": own["zero_loss_significant"].astype(bool).sum(),
                "median_loss_change": own["zero_loss_change_nats"].median(),
                "bleu_changed": own["zero_bleu_significant"].astype(bool).sum(),
            }
        )
    return rows


def pruning_in_short(models: Models) -> dict[str, Any]:
    """Share of heads that gates leave at each site, and BLEU of pruned models above random ones."""
    curves = _of_all(models, "pruning")
    test = curves[curves["split"] == "test"]
    pruned = test[test["kind"] == "pruned"]
    some = pruned[(pruned["heads_left"] < pruned["heads"]) & (pruned["heads_left"] > 0)]
    shares = {}
    for site in SITES:
        whole = test[test["kind"] == "unpruned"].set_index("model")[f"{site}_left"]
        shares[site] = (some[f"{site}_left"] / some["model"].map(whole)).mean()
    both = pruned.merge(test[test["kind"] == "random"], on=["model", "penalty"])
    gain = both["bleu_x"] - both["bleu_y"]
    better = int((gain > 0).sum())
    return {
        "shares": shares,
        "mean_gain": gain.mean(),
        "median_gain": gain.median(),
        "pairs": len(gain),
        "better": better,
        "p": binomtest(better, len(gain)).pvalue,
    }


def _of_all(models: Models, name: str) -> pd.DataFrame:
    tables = [read_table(folder, name).assign(model=model) for model, folder in models.items()]
    return pd.concat(tables, ignore_index=True)
