"""What the tables of heads_of_small_models say over all models, in a few figures."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.shared.readme import read_table

SITES = ("encoder", "decoder", "cross")

Models = dict[str, Path]


def measured_parts(folder: Path) -> dict[str, dict[str, Any]]:
    """The parts that were measured: checksum of the weights, processor minutes, notes."""
    file = folder / "parts.json"
    if not file.exists():
        return {}
    parts: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return parts


def models_with(folder: Path, *parts: str) -> Models:
    """The folders of the models of which all these parts were measured."""
    return {
        file.parent.name: file.parent
        for file in sorted(folder.glob("*/parts.json"))
        if set(parts) <= set(measured_parts(file.parent))
    }


def sites_in_short(labelled: Models, weighed: Models) -> list[dict[str, Any]]:
    """Of each site: how many heads carry each label, and how many change loss and BLEU when zeroed."""
    labels, heads = _of_all(labelled, "labels"), _of_all(weighed, "importance")
    rows = []
    for site in SITES:
        row: dict[str, Any] = {"site": site}
        if len(labels):
            own = labels[labels["site"] == site]
            carried = own["significant_labels"].str.split("; ").explode()
            row |= {"labelled": len(own), "significant": carried.value_counts().to_dict()}
        if len(heads):
            own = heads[heads["site"] == site]
            row |= {
                "heads": len(own),
                "loss_changed": own["loss_change_significant"].astype(bool).sum(),
                "bleu_changed": own["bleu_change_significant"].astype(bool).sum(),
            }
        rows.append(row)
    return rows


def spearman_interval(correlation: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a rank correlation: atanh(r) +- 1.96 sqrt((1 + r^2 / 2) / (n - 3)).

    Source: Bonett and Wright 2000, for n pairs that are independent.

    >>> tuple(round(end, 2) for end in spearman_interval(0.8, 24))
    (0.54, 0.92)
    """
    if abs(correlation) >= 1:
        return correlation, correlation
    half = 1.96 * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    centre = math.atanh(correlation)
    return math.tanh(centre - half), math.tanh(centre + half)


def _of_all(models: Models, name: str) -> pd.DataFrame:
    tables = [read_table(folder, name).assign(model=model) for model, folder in models.items()]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
