"""Training throughput beside the thesis's padded loop, in one run.

    python experiments/training_speed/run.py

writes benchmarks/training_speed/. The padded loop is written from its description: every sentence is
padded to 350 tokens, 8 sentences a batch, float32, Adam, the loss over all positions with padding
ignored. Both train the same model on the same sentences; rounds alternate.
"""

import argparse
import time
from pathlib import Path

import datasets
import pandas as pd
import torch
from torch.nn.functional import cross_entropy

from attnlab.core import seeded, write_table
from attnlab.models import (
    PAD,
    OptimizerSettings,
    TokenPairs,
    TranslationConfig,
    TranslationModel,
)
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.steps import step_ends

OUT = BENCHMARKS / "training_speed"
VOCABULARY, TOKENS, DIM, HEADS = 8000, 25, 128, 8
PADDED_TO, PADDED_BATCH = 350, 8
PAIRS, PADDED_STEPS, WARM_UP, ROUNDS = 8000, 6, 2, 3
BATCH_TOKENS = 4096


def main() -> None:
    """Alternates the two loops and writes speeds and their ratio."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, VOCABULARY, (2, PAIRS, TOKENS), generator=generator)
    rows = []
    for number in range(ROUNDS):
        for loop, measure in {"attnlab": attnlab_speed, "padded to 350": padded_speed}.items():
            speed = measure(ids)
            rows.append({"round": number, "loop": loop, "target_tokens_per_second": speed})
            print(rows[-1])
    table = pd.DataFrame(rows)
    write_table(OUT / "table.csv", table)
    write_facts(OUT, __file__, "torch", "transformers", threads=torch.get_num_threads())
    write_readme(OUT, readme(OUT))


def new_model() -> TranslationModel:
    """The model that both loops train."""
    with seeded(0):
        return TranslationModel(TranslationConfig(VOCABULARY, dim=DIM, heads=HEADS))


def attnlab_speed(ids: torch.Tensor) -> float:
    """Real target tokens a second of attnlab's Trainer, in batches as large corpora get."""
    columns = {"input_ids": ids[0].tolist(), "labels": ids[1].tolist()}
    pairs = TokenPairs(datasets.Dataset.from_dict(columns))
    # Of itself a training of so few pairs takes small batches, for the sake of more steps.
    settings = OptimizerSettings(epochs=1, batch_tokens=BATCH_TOKENS)
    ends = [end.clock for end in step_ends(new_model(), pairs, settings, TOKENS)]
    steps = len(ends) - 1 - WARM_UP
    return PAIRS * TOKENS / len(ends) * steps / (ends[-1] - ends[WARM_UP])


def padded_speed(ids: torch.Tensor) -> float:
    """Real target tokens a second of the padded loop."""
    model = new_model().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    ends = []
    for step in range(PADDED_STEPS + WARM_UP + 1):
        part = ids[:, step * PADDED_BATCH : (step + 1) * PADDED_BATCH]
        source, target = torch.nn.functional.pad(part, (0, PADDED_TO - TOKENS), value=PAD)
        visible = source != PAD
        memory = model.encoder(source).last_hidden_state
        shifted = torch.cat([torch.full_like(target[:, :1], 2), target[:, :-1]], dim=1)
        hidden, *_ = model.decoder(shifted, memory, shifted != PAD, visible)
        logits = model.output(hidden)
        loss = cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
    return PADDED_BATCH * TOKENS * PADDED_STEPS / (ends[-1] - ends[WARM_UP])


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    speeds = table.pivot_table(index="round", columns="loop", values="target_tokens_per_second")
    return render(
        __file__, read_facts(folder),
        medians=table.groupby("loop")["target_tokens_per_second"].median().reset_index(),
        ratios=speeds["attnlab"] / speeds["padded to 350"],
        heads=HEADS, dim=DIM, vocabulary=VOCABULARY, tokens=TOKENS, rounds=ROUNDS,
        left_out=WARM_UP + 1, padded_to=PADDED_TO, batch_tokens=BATCH_TOKENS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
