"""Whether the label by description length finds the family that was planted.

    python experiments/synthetic_recovery/run.py

writes results/synthetic_recovery/.
"""

from pathlib import Path

import pandas as pd
import torch

from attnlab.core import write_table
from attnlab.matrices import CODED, draw_corpus, label_heads
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = RESULTS / "synthetic_recovery"
SEED = 0
HEADS = 100
SENTENCES = (1, 5, 20)
NOISE = (0.1, 0.3, 0.5)
SHORTEST, LONGEST = 14, 24
WINDOW = 5
NUM_POS = 2
# The share of planted heads that has to be found.
ENOUGH = 0.95


def main() -> None:
    """Plants, labels, counts, and writes the table."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    rows = [
        recover(family, sentences, noise, generator)
        for sentences in SENTENCES
        for noise in NOISE
        for family in CODED
    ]
    table = pd.DataFrame(rows)
    write_table(OUT / "table.csv", table)
    write_facts(OUT, __file__, "torch")
    write_readme(OUT, readme(OUT))


def recover(
    family: str, sentences: int, noise: float, generator: torch.Generator
) -> dict[str, float | str]:
    """How many of the planted heads get their own family, and which others they get."""
    lengths = torch.randint(SHORTEST, LONGEST + 1, (HEADS, sentences), generator=generator)
    # All heads have one tensor size.
    lengths[:, 0] = LONGEST
    H = torch.stack(
        [
            draw_corpus(
                family, own, noise=noise, window=WINDOW, num_pos=NUM_POS, generator=generator
            )
            for own in lengths
        ]
    )
    sizes = lengths[..., None].expand(-1, -1, 2)
    labels = label_heads(H, window=WINDOW, num_pos=NUM_POS, sizes=sizes)
    counts = labels.chosen.bincount(minlength=len(CODED)).tolist()
    planted = CODED.index(family)
    return {
        "sentences": sentences,
        "noise": noise,
        "family": family,
        "recovered": counts[planted] / HEADS,
        **{f"labelled_{name}": count for name, count in zip(CODED, counts, strict=True)},
        "margin_bits_per_row": float(labels.margin.mean()),
        "eta_found": float(labels.eta[:, planted].mean()),
    }


def readme(folder: Path) -> str:
    """The README: recovery by family, noise and size of the corpus."""
    table = read_table(folder, "table")
    pivot = table.pivot_table(
        index=["sentences", "noise"], columns="family", values="recovered", sort=False
    )
    structured = table[table["family"] != "diffuse"]
    return render(
        __file__, read_facts(folder), table=table, recovered=pivot.reset_index(),
        below=table[table["recovered"] < ENOUGH].to_dict("records"),
        eta=(structured["eta_found"] - structured["noise"]).abs().max(),
        heads=HEADS, window=WINDOW, num_pos=NUM_POS, shortest=SHORTEST, longest=LONGEST, seed=SEED,
    )  # fmt: skip


if __name__ == "__main__":
    main()
