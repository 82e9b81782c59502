"""What the tables of experiments/heads_of_small_models.py say over all models, in a few lines."""

from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

SITES = ("encoder", "decoder", "cross")


def in_short(models: dict[str, Path]) -> str:
    """What the tables say over all models, in a few lines."""
    labels = pd.concat([pd.read_csv(folder / "labels.csv") for folder in models.values()])
    heads = pd.concat([pd.read_csv(folder / "importance.csv") for folder in models.values()])
    curves = pd.concat([pd.read_csv(f / "pruning.csv").assign(model=n) for n, f in models.items()])
    lines = [
        f"* Labels that stand, on the corpora's own sentences: {_standing(labels)}.",
        *_worth_in_short(heads),
        *_pruning_in_short(curves[curves["split"] == "test"]),
    ]
    return "\n".join(lines)


def _standing(labels: pd.DataFrame) -> str:
    counts = []
    for site in SITES:
        own = labels[labels["site"] == site]
        each = own["standing"].str.split("; ").explode().value_counts()
        named = [f"{count} {label}" for label, count in each.items()]
        counts.append(f"{site} ({len(own)} heads) {', '.join(named)}")
    return "; ".join(counts)


def _worth_in_short(heads: pd.DataFrame) -> list[str]:
    lines = []
    for site in SITES:
        own = heads[heads["site"] == site]
        changed = own["zero_loss_significant"].astype(bool).sum()
        bleu = own["zero_bleu_significant"].astype(bool).sum()
        lines.append(
            f"* {site}: zeroing one head changes the loss of {changed} of {len(own)} heads beyond chance, "
            f"by {own['zero_loss_change_nats'].median():+.3f} nats a token in the median, and BLEU of {bleu}."
        )
    return lines


def _pruning_in_short(test: pd.DataFrame) -> list[str]:
    lines = []
    pruned = test[test["kind"] == "pruned"]
    some = pruned[(pruned["heads_left"] < pruned["heads"]) & (pruned["heads_left"] > 0)]
    for site in SITES:
        whole = test[test["kind"] == "unpruned"].set_index("model")[f"{site}_left"]
        share = (some[f"{site}_left"] / some["model"].map(whole)).mean()
        lines.append(f"{site} {share:.0%}")
    both = pruned.merge(test[test["kind"] == "random"], on=["model", "penalty"])
    gain = both["bleu_x"] - both["bleu_y"]
    better = int((gain > 0).sum())
    chance = binomtest(better, len(gain)).pvalue
    beside = (
        f"{gain.mean():+.1f} BLEU on average, {gain.median():+.1f} in the median, over {len(gain)} "
        f"pairs of models; better in {better} (two-sided sign test: p = {chance:.2f}, "
        "too small since pairs of one model are not independent)"
    )
    return [
        f"* Where gates close some heads, the share of heads left is: {', '.join(lines)}.",
        f"* Learned gates beside as many random heads of the same sites: {beside}.",
    ]
