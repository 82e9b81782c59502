"""The tables in the README of heads_of_minilm, and what was published of the same relations."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from attnlab.labels import BORDERLINE, CONFIRMED, UNKNOWN
from experiments.heads_of_minilm.phrases import function_phrase

LEVEL = 0.05
MEASURES = {
    "positional_rate": "arg-max rate at the best offset",
    "positional_rate_of_words": "the same, special tokens left out",
    "syntactic_gain": "gain of the best relation",
    "unknown": "no label significant against controls (share of heads)",
    "entropy_share": "mean entropy / ln n",
    "mass_on_special": "mean mass on [CLS] and [SEP]",
    "mean_absolute_offset": "mean distance looked at (tokens)",
}
FORWARD, BACK = "dependent>head", "head>dependent"
# Best head and offset baseline in per cent, and the relation's name in the paper.
PUBLISHED = [
    ("Clark, BERT", "det", FORWARD, 94.3, 51.7, "det"),
    ("Clark, BERT", "obj", FORWARD, 86.8, 40.0, "dobj"),
    ("Clark, BERT", "case", BACK, 76.3, 34.6, "pobj"),
    ("Clark, BERT", "nsubj", FORWARD, 58.5, 45.5, "nsubj"),
    ("Clark, BERT", "amod", FORWARD, 75.6, 68.3, "amod"),
    ("Clark, BERT", "all", FORWARD, 34.5, 26.3, "all"),
    ("Voita, EN-RU", "nsubj", BACK, 45, 35, "nsubj v>s"),
    ("Voita, EN-RU", "nsubj", FORWARD, 52, 35, "nsubj s>v"),
    ("Voita, EN-RU", "obj", BACK, 78, 41, "dobj v>o"),
    ("Voita, EN-RU", "obj", FORWARD, 73, 41, "dobj o>v"),
    ("Voita, EN-RU", "amod", BACK, 74, 72, "amod n>a"),
    ("Voita, EN-RU", "amod", FORWARD, 82, 72, "amod a>n"),
    ("Voita, EN-RU", "advmod", BACK, 48, 46, "advmod v>a"),
    ("Voita, EN-RU", "advmod", FORWARD, 52, 46, "advmod a>v"),
]


def label_table(controls: pd.DataFrame) -> pd.DataFrame:
    """Every label that is confirmed or borderline with its figure, but for `broad`, told in a sentence."""
    near = controls["status"].isin([CONFIRMED, BORDERLINE])
    rows = controls[near & (controls["label"] != "broad")]
    rows = rows.sort_values(["layer", "head", "label"])
    return pd.DataFrame(
        {
            "head": [f"{row.layer}.{row.head}" for row in rows.itertuples()],
            "label": rows["label"],
            "of": rows["detail"],
            "figure": _with_interval(rows, "value"),
            "status": rows["status"],
            "stability": rows["stability"].map("{:.2f}".format),
            "threshold": rows["threshold"].map("{:.3f}".format),
            "untrained": rows["untrained_value"].map("{:.3f}".format),
            "shuffled words": rows["shuffled_value"].map("{:.3f}".format),
            "rows or arcs": rows["denominator"],
            "significant against controls": rows["significance"],
        }
    )


def strongest_table(labels: pd.DataFrame) -> pd.DataFrame:
    """The strongest function of every head that carries no label that is significant."""
    unknown = labels[labels["significant_labels"] == UNKNOWN].sort_values(["layer", "head"])
    # `broad` has no detail.
    unknown = unknown.fillna({"detail": ""})
    rows = [
        {
            "head": f"{row.layer}.{row.head}",
            "strongest function": function_phrase(row),
            "stability": f"{row.stability:.2f}",
            "strength": f"{row.strength:.2f}",
        }
        for row in unknown.itertuples()
    ]
    return pd.DataFrame(rows)


def relation_table(relations: pd.DataFrame) -> pd.DataFrame:
    """The best head of every relation, the largest gain over the baseline first."""
    rows = relations.sort_values("gain", ascending=False)
    return pd.DataFrame(
        {
            "relation": rows["relation"] + " " + rows["direction"],
            "head": rows["best_head"].str.removeprefix("encoder."),
            "accuracy": _per_cent(rows, "accuracy"),
            "offset baseline": [
                f"{100 * row['baseline']:.1f} ({row['baseline_offset']:+d})"
                for row in rows.to_dict("records")
            ],
            "chance": (100 * rows["chance"]).map("{:.1f}".format),
            "shuffled words": (100 * rows["shuffled_accuracy"]).map("{:.1f}".format),
            "untrained, best": (100 * rows["untrained_best"]).map("{:.1f}".format),
            "special": (100 * rows["mass_on_special"]).map("{:.0f}".format),
            "arcs": rows["links"],
            "stability": rows["stability"].map("{:.2f}".format),
            "significant against controls": rows["significance"],
        }
    )


def published_table(relations: pd.DataFrame) -> pd.DataFrame:
    """Our best heads beside the published ones of the same relation and direction."""
    ours = relations.set_index(["relation", "direction"]).to_dict("index")
    rows = []
    for paper, relation, direction, accuracy, baseline, name in PUBLISHED:
        if (relation, direction) in ours:
            mine = ours[relation, direction]
            rows.append(
                {
                    "paper": paper,
                    "its relation": name,
                    "its best head / baseline": f"{accuracy} / {baseline}",
                    "its gain": f"{accuracy - baseline:.1f}",
                    "here": f"{relation} {direction}",
                    "best head / baseline here": f"{100 * mine['accuracy']:.1f} "
                    f"[{100 * mine['accuracy_low']:.1f}, {100 * mine['accuracy_high']:.1f}] "
                    f"/ {100 * mine['baseline']:.1f}",
                    "gain here": f"{100 * mine['gain']:.1f}",
                    "arcs": int(mine["links"]),
                }
            )
    return pd.DataFrame(rows)


def band_table(bands: pd.DataFrame) -> pd.DataFrame:
    """Labels that are significant against controls, by band of layers."""
    cells = bands.assign(
        cell=[
            f"{row['heads_with_it']} ({100 * row['low']:.0f}-{100 * row['high']:.0f} %)"
            for row in bands.to_dict("records")
        ],
        band=[
            f"{row.layers_of_12} of 12: {row.layers_of_6} here, {row.heads} heads"
            for row in bands.itertuples()
        ],
    )
    wide = cells.pivot_table(
        index="band", columns="label", values="cell", aggfunc="first", sort=False
    )
    return wide.reset_index()


def trend_table(trends: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """Means by layer, and whether they rise or fall with it."""
    means = layers.pivot_table(index="measure", columns="layer", values="mean", sort=False)
    table = pd.DataFrame({"measure": [MEASURES[str(name)] for name in means.index]})
    for layer in means.columns:
        table[f"layer {layer}"] = means[layer].map("{:.3f}".format).to_numpy()
    rows = trends.set_index("measure").loc[means.index]
    table["rank correlation"] = rows["spearman"].map("{:+.2f}".format).to_numpy()
    for name, heading in (
        ("p_heads", "p, heads"),
        ("p_layers", "p, layers"),
        ("p_layers_holm", "p, layers, Holm"),
    ):
        table[heading] = rows[name].map(p_value).to_numpy()
    return table


def claim_table(claims: pd.DataFrame) -> pd.DataFrame:
    """What the figures say of each part of the claim."""
    rows = [
        {
            "claim": f"{row.claim} (here {row.layers_of_6})",
            "measure": MEASURES[str(row.measure)],
            "mean there": f"{row.mean:.3f}",
            "mean elsewhere": f"{row.others:.3f}",
            "p, heads": p_value(row.p_heads),
            "p, layers (least)": f"{p_value(row.p_layers)} ({row.least_p:.3f})",
            "figures": verdict_on(row),
        }
        for row in _rows(claims)
    ]
    return pd.DataFrame(rows)


def _rows(table: pd.DataFrame) -> Iterable[Any]:
    """The rows of a table; the stubs of pandas allow any value there but take none."""
    return table.itertuples()


def verdict_on(row: Any) -> str:
    """Whether a contrast goes the way that the claim says, and with which units that is shown."""
    if row.p_heads >= LEVEL:
        return "do not show it"
    way = "go with it" if row.mean > row.others else "go against it"
    return way if row.p_layers < LEVEL else f"{way} by heads; six layers cannot show it"


def p_value(value: float) -> str:
    """To three digits."""
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def _with_interval(rows: pd.DataFrame, name: str) -> list[str]:
    return [
        f"{value:.3f} [{low:.3f}, {high:.3f}]"
        for value, low, high in zip(
            rows[name], rows[f"{name}_low"], rows[f"{name}_high"], strict=True
        )
    ]


def _per_cent(rows: pd.DataFrame, name: str) -> list[str]:
    return [
        f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        for value, low, high in zip(
            rows[name], rows[f"{name}_low"], rows[f"{name}_high"], strict=True
        )
    ]
