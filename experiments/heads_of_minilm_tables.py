"""The tables in the README of heads_of_minilm, and what was published of the same relations."""

from dataclasses import dataclass

import pandas as pd
from readme_parts import markdown

from attnlab.functions.verdict import BORDERLINE, HOLDS, UNKNOWN
from attnlab.reporting.function_phrases import function_phrase
from attnlab.reporting.label_section import count_labels
from attnlab.studies.analysis.analysis import Analysis

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


@dataclass(frozen=True)
class Findings:
    """All tables of the experiment."""

    analysis: Analysis
    heads: pd.DataFrame
    relations: pd.DataFrame
    layers: pd.DataFrame
    trends: pd.DataFrame
    bands: pd.DataFrame
    claims: pd.DataFrame


def label_table(labels: pd.DataFrame, controls: pd.DataFrame) -> str:
    """Every label that holds or is borderline with its figure, but for `broad`, told in a sentence."""
    near = controls["status"].isin([HOLDS, BORDERLINE])
    rows = controls[near & (controls["label"] != "broad")]
    rows = rows.sort_values(["layer", "head", "label"])
    shown = pd.DataFrame(
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
            "stands": rows["stands_status"],
        }
    )
    standing = labels.assign(labels=labels["standing"])
    return (
        f"Labels that hold: {count_labels(labels)}. Labels that stand: {count_labels(standing)}. "
        f"Borderline: {_borderline(controls)}. A head may carry several.\n\n{markdown(shown)}"
    )


def strongest_table(labels: pd.DataFrame) -> str:
    """The strongest function of every head that carries no label that stands."""
    unknown = labels[labels["standing"] == UNKNOWN].sort_values(["layer", "head"])
    rows = [
        {
            "head": f"{row.layer}.{row.head}",
            "strongest function": function_phrase(row),
            "stability": f"{row.stability:.2f}",
            "of the way": f"{row.strength:.2f}",
        }
        for row in unknown.itertuples()
    ]
    return markdown(pd.DataFrame(rows))


def _borderline(controls: pd.DataFrame) -> str:
    counts = controls[controls["status"] == BORDERLINE]["label"].value_counts()
    return ", ".join(f"{count} {label}" for label, count in counts.items()) or "none"


def relation_table(relations: pd.DataFrame) -> str:
    """The best head of every relation, the largest gain over the baseline first."""
    rows = relations.sort_values("gain", ascending=False)
    return markdown(
        pd.DataFrame(
            {
                "relation": rows["relation"] + " " + rows["direction"],
                "head": rows["best_head"].str.removeprefix("encoder."),
                "accuracy": _per_cent(rows, "accuracy"),
                "offset baseline": [
                    f"{100 * row.baseline:.1f} ({row.baseline_offset:+d})"
                    for row in rows.itertuples()
                ],
                "chance": (100 * rows["chance"]).map("{:.1f}".format),
                "shuffled words": (100 * rows["shuffled_accuracy"]).map("{:.1f}".format),
                "untrained, best": (100 * rows["untrained_best"]).map("{:.1f}".format),
                "special": (100 * rows["mass_on_special"]).map("{:.0f}".format),
                "arcs": rows["links"],
                "stability": rows["stability"].map("{:.2f}".format),
                "stands": rows["stands_status"],
            }
        )
    )


def published_table(relations: pd.DataFrame) -> str:
    """Our best heads beside the published ones of the same relation and direction."""
    ours = relations.set_index(["relation", "direction"])
    rows = []
    for paper, relation, direction, accuracy, baseline, name in PUBLISHED:
        if (relation, direction) in ours.index:
            mine = ours.loc[(relation, direction)]
            rows.append(
                {
                    "paper": paper,
                    "its relation": name,
                    "its best head / baseline": f"{accuracy} / {baseline}",
                    "its gain": f"{accuracy - baseline:.1f}",
                    "here": f"{relation} {direction}",
                    "best head / baseline here": f"{100 * mine['accuracy']:.1f} "
                    f"[{100 * mine['low']:.1f}, {100 * mine['high']:.1f}] / {100 * mine['baseline']:.1f}",
                    "gain here": f"{100 * mine['gain']:.1f}",
                    "arcs": int(mine["links"]),
                }
            )
    return markdown(pd.DataFrame(rows))


def band_table(bands: pd.DataFrame) -> str:
    """Labels that stand, by band of layers."""
    cells = bands.assign(
        cell=[
            f"{row.heads_with_it} ({100 * row.low:.0f}-{100 * row.high:.0f} %)"
            for row in bands.itertuples()
        ],
        band=[
            f"{row.layers_of_12} of 12: {row.layers_of_6} here, {row.heads} heads"
            for row in bands.itertuples()
        ],
    )
    wide = cells.pivot_table(
        index="band", columns="label", values="cell", aggfunc="first", sort=False
    )
    return markdown(wide.reset_index())


def trend_table(trends: pd.DataFrame, layers: pd.DataFrame, titles: dict[str, str]) -> str:
    """Means by layer, and whether they rise or fall with it."""
    means = layers.pivot_table(index="measure", columns="layer", values="mean", sort=False)
    table = pd.DataFrame({"measure": [titles[name] for name in means.index]})
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
    return markdown(table)


def p_value(value: float) -> str:
    """To three digits."""
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def _with_interval(rows: pd.DataFrame, name: str) -> list[str]:
    return [
        f"{value:.3f} [{low:.3f}, {high:.3f}]"
        for value, low, high in zip(rows[name], rows["low"], rows["high"], strict=True)
    ]


def _per_cent(rows: pd.DataFrame, name: str) -> list[str]:
    return [
        f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        for value, low, high in zip(rows[name], rows["low"], rows["high"], strict=True)
    ]
