"""A band by FlexAttention beside torch's flash attention over all pairs, on a GPU.

    python experiments/scaling_gpu/run.py

writes benchmarks/scaling_gpu/ and needs a CUDA device. Work and traffic are held against ceilings that are
measured on the same device in the same run: a large matrix product, and a copy.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import Timer

from attnlab.attention import Mechanism, make
from attnlab.core import write_table
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "scaling_gpu"
TOKENS = [4096, 8192, 16384, 32768]
HEADS, HEAD_DIM, WINDOW = 8, 64, 64
TARGET = 10.0
SEED = 0
BYTES = 2
FORWARD, BOTH = "forward", "forward + backward"

Run = Callable[[], Tensor]


def main() -> None:
    """Measures both at every length, and the ceilings of the device."""
    if not torch.cuda.is_available():
        sys.exit("No CUDA device is here; this measures one.")
    device = torch.device("cuda")
    torch.manual_seed(SEED)
    ceilings = measured_ceilings(device, side=8192, copied=2**30)
    band = make(f"band(window={WINDOW})", form="flex")
    rows = []
    for tokens in TOKENS:
        for row in measured(band, tokens, device, ceilings):
            rows.append(row)
            print(row, flush=True)
    write_table(OUT / "table.csv", pd.DataFrame(rows))
    write_facts(OUT, __file__, "torch", device=torch.cuda.get_device_name(), **ceilings)
    write_readme(OUT, readme(OUT))


def measured_ceilings(device: torch.device, *, side: int, copied: int) -> dict[str, float]:
    """Operations a second of a square product in bfloat16, and bytes a second of a copy."""
    left, right = torch.randn(2, side, side, device=device, dtype=torch.bfloat16)
    source = torch.empty(copied, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return {
        "operations_per_second": 2 * side**3 / seconds(lambda: left @ right),
        # Read once and written once.
        "bytes_per_second": 2 * copied / seconds(lambda: target.copy_(source)),
    }


def measured(
    band: Mechanism, tokens: int, device: torch.device, ceilings: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """Forward, and forward + backward: both mechanisms, and the band against its ceilings."""
    shape = (3, 1, HEADS, tokens, HEAD_DIM)
    drawn = torch.randn(shape, device=device, dtype=torch.bfloat16)
    inputs = tuple(tensor.clone().requires_grad_() for tensor in drawn)
    pairs = {"band": tokens * (2 * WINDOW + 1), "flash": tokens**2}
    traffic = 4 * HEADS * tokens * HEAD_DIM * BYTES
    for what in (FORWARD, BOTH):
        row: dict[str, Any] = {"tokens": tokens, "direction": what}
        for name, attend in (("flash", all_pairs), ("band", band)):
            run = partial(passed, attend, inputs, what)
            row[f"{name}_seconds"] = took = seconds(run)
            row[f"{name}_peak_bytes"] = peak(run, device)
            if what == FORWARD:
                work = 4 * HEADS * HEAD_DIM * pairs[name] / took
                row[f"{name}_of_operations"] = work / ceilings["operations_per_second"]
                row[f"{name}_of_bytes"] = traffic / took / ceilings["bytes_per_second"]
        row["times_faster"] = row["flash_seconds"] / row["band_seconds"]
        yield row


def all_pairs(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Full attention by the flash kernel; on a CPU by whichever kernel there is."""
    if query.device.type != "cuda":
        return F.scaled_dot_product_attention(query, key, value)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(query, key, value)


def passed(attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], what: str) -> Tensor:
    """One pass; gradients of the inputs are made and dropped."""
    if what == FORWARD:
        with torch.no_grad():
            return attend(*inputs)
    out = attend(*inputs)
    return torch.autograd.grad(out.sum(), inputs)[0]


def seconds(run: Run) -> float:
    """Median of several calls, waited for; the first ones compile."""
    for _ in range(3):
        run()
    # Another number of threads than before would compile anew.
    timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=1.0).median)


def peak(run: Run, device: torch.device) -> int:
    """Most memory of the device in use during a call, above what was in use before."""
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return torch.cuda.max_memory_allocated() - before


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    forward = table[table["direction"] == FORWARD]
    return render(
        __file__, read_facts(folder), table=table, directions=by_direction(table), forward=FORWARD,
        shortest=TOKENS[0], longest=TOKENS[-1], target=TARGET,
        heads=HEADS, head_dim=HEAD_DIM, window=WINDOW, seed=SEED,
        operations=(forward["band_of_operations"].min(), forward["band_of_operations"].max()),
    )  # fmt: skip


def by_direction(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Of each pass: where the band is slower and faster, and by how much its time and flash's grow.

    `slower` and `faster` are the most and the fewest tokens where it is so; None where there are none.
    """
    found = {}
    for direction, rows in table.groupby("direction", sort=False):
        ordered = rows.sort_values("tokens")
        slow, fast = ordered[ordered["times_faster"] < 1], ordered[ordered["times_faster"] >= 1]
        ends = ordered.iloc[[0, -1]]
        found[str(direction)] = {
            "slower": slow["tokens"].max() if len(slow) else None,
            "faster": fast["tokens"].min() if len(fast) else None,
            "least": ends["times_faster"].iloc[0],
            "most": ends["times_faster"].iloc[1],
            "memory": ends["band_peak_bytes"].iloc[1] / ends["flash_peak_bytes"].iloc[1],
            **{
                name: ends[f"{name}_seconds"].iloc[1] / ends[f"{name}_seconds"].iloc[0]
                for name in ("band", "flash")
            },
        }
    return found


if __name__ == "__main__":
    main()
