"""What capture costs at long inputs on a GPU: the peak of its memory, and time.

    python experiments/capture_length_gpu/run.py

writes benchmarks/capture_length_gpu/ and needs a CUDA device.
"""

import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlab.core import write_table
from experiments.capture_length.run import (
    EAGER_COPIES,
    LENGTHS,
    ROWS,
    SEED,
    SHAPE,
    WAYS,
    build_model,
    draw_text,
    mean_entropy,
)
from experiments.capture_speed.run import TYPES
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)
from experiments.shared.speed import word_tokenizer

OUT = BENCHMARKS / "capture_length_gpu"
ROUNDS = 5
# Measured once: they take long and nothing is compared with their time.
ONCE = ("every_row", "eager")


def main() -> None:
    """Measures and writes the folder."""
    if not torch.cuda.is_available():
        sys.exit("No CUDA device is here; this measures one.")
    write_table(OUT / "table.csv", pd.DataFrame(list(measure(torch.device("cuda")))))
    write_facts(
        OUT, __file__, "torch", "transformers",
        device=torch.cuda.get_device_name(), memory=torch.cuda.get_device_properties(0).total_memory,
    )  # fmt: skip
    write_readme(OUT, readme(OUT))


def measure(device: torch.device) -> Iterator[dict[str, Any]]:
    """One row a call."""
    tokenizer = word_tokenizer(TYPES)
    model = build_model(len(tokenizer)).to(device)
    for tokens in LENGTHS:
        text = draw_text(tokens)
        for way in (way for way in WAYS if fits(way, tokens, device)):
            # The first call of a length finds kernels and takes memory that stays.
            WAYS[way](model, tokenizer, text if way not in ONCE else draw_text(64))
            for number in range(ROUNDS if way not in ONCE else 1):
                measured = measure_call(way, model, tokenizer, text, device)
                row = {"round": number, "tokens": tokens, "way": way} | measured
                yield row
                print(row, flush=True)


def measure_call(
    way: str, model: Any, tokenizer: Any, text: str, device: torch.device
) -> dict[str, float]:
    """Seconds of one call, and how many bytes it held beside what was held before, at most."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    found = WAYS[way](model, tokenizer, text)
    torch.cuda.synchronize(device)
    measured = {
        "seconds": time.perf_counter() - start,
        "peak_bytes": torch.cuda.max_memory_allocated(device) - before,
    }
    if way in {"rows", "every_row"}:
        measured["entropy_nats"] = mean_entropy(found)
    return measured


def fits(way: str, tokens: int, device: torch.device) -> bool:
    """Whether the weights of all layers have room on the device."""
    if way == "every_row":
        return tokens <= 4_096
    if way != "eager":
        return True
    wanted = 4 * EAGER_COPIES * SHAPE["num_attention_heads"] * tokens**2
    return 1.1 * wanted < torch.cuda.get_device_properties(device).total_memory


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    medians = table.groupby(["tokens", "way"])[["seconds", "peak_bytes"]].median()
    wide = medians.unstack("way")
    rows = pd.DataFrame({f"{way}_seconds": wide["seconds"][way] for way in WAYS}).join(
        pd.DataFrame({f"{way}_bytes": wide["peak_bytes"][way] for way in WAYS})
    )
    for way in ("weights", "rows"):
        rows[f"{way}_memory_ratio"] = rows["eager_bytes"] / rows[f"{way}_bytes"]
        rows[f"{way}_time_ratio"] = rows[f"{way}_seconds"] / rows["bare_seconds"]
    rows["bare_memory_ratio"] = rows["eager_bytes"] / rows["bare_bytes"]
    return render(
        __file__, read_facts(folder), summary=rows.reset_index().to_dict("records"), shape=SHAPE,
        rows=ROWS, rounds=ROUNDS, seed=SEED,
    )  # fmt: skip


if __name__ == "__main__":
    main()
