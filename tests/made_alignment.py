"""Made-up results of `align`, with the columns and details that the question declares."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from attnlab.questions.align.question import CHOICE_NAMES, CHOSEN, ORACLE, SCORES, NoGold
from attnlab.results import Result

LAYERS, HEADS = 3, 4
NAMES = [f"{layer}.{head}" for layer, head in product(range(LAYERS), range(HEADS))]
DEFAULTS = {
    "first head of the last layer": ("2.0", 0.52),
    "mean of the last layer": ("2.0, 2.1, 2.2, 2.3", 0.61),
}
OTHERS = [
    ("best single head", "choice", 0.33),
    (CHOICE_NAMES["one-layer"], "choice", 0.45),
    (CHOICE_NAMES["first-head"], "choice", 0.47),
    ("mean of the penultimate layer", "baseline", 0.66),
    ("diagonal", "baseline", 0.63),
    ("statistical aligner", "baseline", 0.29),
    ("untrained twin, chosen alike", "control", 0.83),
    ("chosen heads, sources of other pairs", "control", 0.91),
    (ORACLE, "bound", 0.3),
]


def system(name: str, kind: str, aer: float, heads: str = "", own: float = 0.31) -> dict[str, Any]:
    row: dict[str, Any] = {"system": name, "system_kind": kind, "row": "input" if heads else ""}
    row |= {"heads": heads, "pairs": 250, "links_given": 4321}
    for estimate in SCORES:
        value = aer if estimate.name == "aer" else 1 - aer
        row |= estimate.cells(value, value - 0.02, value + 0.02)
    change = {"aer_change": aer - own, "aer_change_low": aer - own - 0.05}
    change |= {"aer_change_high": aer - own + 0.05, "aer_change_p": 0.01}
    return row | (dict.fromkeys(change, np.nan) if name == CHOSEN else change)


def pair(
    generator: np.random.Generator, sources: int, targets: int, *, gold: bool
) -> dict[str, Any]:
    def some(count: int) -> list[list[int]]:
        drawn = {(int(generator.integers(sources)), int(generator.integers(targets)))
                 for _ in range(count)}  # fmt: skip
        return [list(link) for link in sorted(drawn)]

    sure = some(targets // 2) if gold else []
    possible = sorted([*sure, *(link for link in some(3) if link not in sure)]) if gold else []
    aimed = sure[: len(sure) // 2 + 1] + possible[:1]
    found = {name: some(targets) for name in NAMES}
    found["chosen"] = [list(one) for one in sorted({*map(tuple, aimed), *map(tuple, some(4))})]
    return {
        "source": [f"source{n}"[: 4 + n % 5] + str(n) for n in range(sources)],
        "target": [f"translated{n}"[: 3 + n % 8] + str(n) for n in range(targets)],
        "sure": sure, "possible": possible, "links": found,
    }  # fmt: skip


def alignment(
    *,
    gold: bool = True,
    aer: float = 0.31,
    defaults: dict[str, tuple[str, float]] = DEFAULTS,
    chosen: Sequence[tuple[int, int]] = ((0, 2),),
    row: str = "input",
    sizes: Sequence[tuple[int, int]] = ((7, 9), (12, 10)),
) -> Result:
    """A seeded result; without gold links as `align` gives it then."""
    generator = np.random.default_rng(5)
    names = ", ".join(f"{layer}.{head}" for layer, head in chosen)
    heads = pd.DataFrame(
        [
            (layer, head, one)
            for one, layer, head in product(("output", "input"), range(LAYERS), range(HEADS))
        ],
        columns=["layer", "head", "row"],
    )  # fmt: skip
    properties = (
        "concentration",
        "coverage",
        "monotonicity",
        "agreement",
        "score_without_gold",
        "alike",
    )
    for name in properties:
        heads[name] = generator.random(len(heads))
    heads["chosen_head"] = [
        one == row and (layer, head) in set(chosen)
        for layer, head, one in zip(heads["layer"], heads["head"], heads["row"], strict=True)
    ]
    systems = [system(CHOSEN, "choice", aer, names, aer)]
    tables = {"heads": heads}
    if gold:
        values = generator.uniform(0.3, 0.95, len(heads))
        for estimate in SCORES:
            cells = [estimate.cells(one, one - 0.02, one + 0.02) for one in values]
            heads[[*cells[0]]] = pd.DataFrame(cells, index=heads.index)
        systems += [system(name, "default", one, its, aer) for name, (its, one) in defaults.items()]
        systems += [system(name, kind, one, own=aer) for name, kind, one in OTHERS]
        sizes_of = [10, 25, 50, 100]
        tables["calibration"] = pd.DataFrame(
            {"calibration_pairs": sizes_of, "draws": [20, 20, 20, 1], "mean_aer": [0.4, 0.36, 0.33, 0.31],
             "mean_aer_low": [0.34, 0.32, 0.31, 0.31], "mean_aer_high": [0.5, 0.41, 0.36, 0.31],
             "mean_heads": [1.4, 1.8, 2.1, 2.0]}
        )  # fmt: skip
        tables["steps"] = pd.DataFrame(
            {"row": ["output", "input"], "heads_averaged": [1, 1], "layer": [2, 0], "head": [1, 2],
             "calibration_aer": [0.5, 0.32], "aer": [0.52, 0.31]}
        )  # fmt: skip
        table = pd.DataFrame(systems)
    else:
        table = pd.DataFrame(systems)[
            ["system", "system_kind", "row", "heads", "pairs", "links_given"]
        ]
    details = {
        "chosen_by": "gold links" if gold else "concentration, coverage, monotonicity, agreement",
        "gold": gold, "row": row, "layers": LAYERS, "heads_per_layer": HEADS,
        "chosen": [list(one) for one in chosen],
        "links_of": CHOSEN,
        "pairs": [pair(generator, *one, gold=gold) for one in sizes],
        "configuration": {
            "generation_config": {"alignment_heads": [list(one) for one in chosen]},
            "ctranslate2": {
                "heads": [[2, 1], [2, 3]],
                "alignment_layer": 2, "alignment_heads": 2, "head_order": [1, 3, 0, 2],
            },
            "marian": {"heads": [[1, 0]], "transformer-guided-alignment-layer": 2},
        },
    }  # fmt: skip
    about = {"Model": "3 layers, 4 heads", "Pairs": "250 from pairs.tsv"}
    notes = () if gold else (NoGold(),)
    return Result(
        "align", "Alignment heads of m", {"systems": table, **tables}, about, notes, details
    )
