"""What the README of heads_of_minilm is filled with, from the tables and facts of its folder."""

from pathlib import Path
from typing import Any

import pandas as pd

from attnlab.labels import BORDERLINE, CONFIRMED, POSITIONAL, TIE_BITS_PER_ROW
from experiments.heads_of_minilm.by_layer import DRAWS
from experiments.heads_of_minilm.phrases import count_labels
from experiments.heads_of_minilm.tables import (
    band_table,
    claim_table,
    label_table,
    published_table,
    relation_table,
    strongest_table,
    trend_table,
    verdict_on,
)
from experiments.shared.readme import read_facts, read_table, render
from experiments.shared.sinks import sink_counts, sink_threshold


def readme(folder: Path) -> str:
    """The README of the result, from its tables and facts."""
    labels, controls, relations, layers, trends, bands, claims = (
        read_table(folder, name)
        for name in ("labels", "controls", "relations", "layers", "trends", "bands", "claims")
    )
    of_words = relations[~relations["relation"].isin(["punct", "all"])]
    among = labels[labels["positional_rate_of_words"] >= POSITIONAL.threshold]
    rare = controls[controls["label"] == "rare tokens"]
    return render(
        __file__, read_facts(folder), labels=labels, relations=relations, trends=trends,
        of_words=of_words, tie_bits=TIE_BITS_PER_ROW, draws=DRAWS,
        counts=label_counts(labels, controls), sinks=sink_counts(controls),
        sink_threshold=sink_threshold(controls),
        gains=of_words[of_words["significant"]].nlargest(3, "gain").to_dict("records"),
        claims=claims.assign(figures=[verdict_on(row) for row in claims.itertuples()]).to_dict("records"),
        structures=labels["structure"].str.replace("_", " ").value_counts().to_dict(),
        positional_among_words=[f"{row.layer}.{row.head}" for row in among.itertuples()],
        marks=marks(controls), kept_on_shuffled=kept_on_shuffled(controls),
        untrained_broad=((controls["untrained_status"] == CONFIRMED) & (controls["label"] == "broad")).sum(),
        rarest=rare.nlargest(1, "value").iloc[0],
        borderline=controls[controls["status"] == BORDERLINE].to_dict("records"),
        by_layer=standing_by_layer(controls),
        label_table=label_table(controls), strongest_table=strongest_table(labels),
        relation_table=relation_table(relations), published_table=published_table(relations),
        band_table=band_table(bands), claim_table=claim_table(claims),
        trend_table=trend_table(trends, layers),
    )  # fmt: skip


def label_counts(labels: pd.DataFrame, controls: pd.DataFrame) -> dict[str, str]:
    """How many heads carry each label: confirmed, significant against controls, borderline."""
    borderline = controls[controls["status"] == BORDERLINE]["label"].value_counts()
    return {
        "holding": count_labels(labels),
        "standing": count_labels(labels.assign(labels=labels["significant_labels"])),
        "borderline": ", ".join(f"{n} {label}" for label, n in borderline.items()) or "none",
    }


def marks(controls: pd.DataFrame) -> list[dict[Any, Any]]:
    """Heads that are called syntactic for their attention to or from punctuation."""
    syntactic = controls[(controls["status"] == CONFIRMED) & (controls["label"] == "syntactic")]
    return syntactic[syntactic["detail"].str.startswith("punct")].to_dict("records")


def kept_on_shuffled(controls: pd.DataFrame) -> list[dict[Any, Any]]:
    """Of the labels that rest on no relation, how many are confirmed on shuffled words too."""
    by_itself = controls["label"].isin(["positional", "sink", "broad"])
    own = controls[(controls["status"] == CONFIRMED) & by_itself]
    kept = own.assign(kept=own["shuffled_status"] == CONFIRMED).groupby("label", sort=False)["kept"]
    return kept.agg(kept="sum", heads="count").reset_index().to_dict("records")


def standing_by_layer(controls: pd.DataFrame) -> dict[str, list[int]]:
    """How many heads of each layer are positional, syntactic or a sink, against the controls."""
    standing = controls[controls["significant"]]
    layers = sorted(controls["layer"].unique())
    return {
        label: [
            int(((standing["label"] == label) & (standing["layer"] == n)).sum()) for n in layers
        ]
        for label in ("positional", "syntactic", "sink")
    }
