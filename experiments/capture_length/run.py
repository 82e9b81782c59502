"""What capture costs at long inputs: memory and time beside fused attention and beside eager weights.

    OMP_NUM_THREADS=1 python experiments/capture_length/run.py

writes benchmarks/capture_length/. Every measurement is a process of its own.
Linux only: peaks are read from /proc.
"""

import argparse
import ctypes
import gc
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attnlab import capture
from attnlab.core import write_table
from attnlab.reading import MatrixKeeper, prepare, selection_of
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

SEED = 0
LENGTHS = (512, 1_024, 2_048, 4_096, 8_192, 16_384)
ROUNDS = 2
ROWS = 64
SHAPE = {
    "hidden_size": 512,
    "intermediate_size": 1_408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": max(LENGTHS),
}
# At this length memory is compared.
COMPARED = 8_192
TARGET_MEMORY, TARGET_TIME = 50, 1.5
# Of eager attention: weights of all layers, and what a layer makes of its own on the way.
EAGER_COPIES = SHAPE["num_hidden_layers"] + 3
# Measured once: they take long and nothing is compared with their time; every row not at the last length.
ONCE = ("every_row", "eager")
MOST_TOKENS_WHOLE = 8_192


def build_model(types: int) -> LlamaForCausalLM:
    """A decoder with random weights in the shape of a small Llama."""
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        return LlamaForCausalLM(LlamaConfig(vocab_size=types, **SHAPE)).eval()


def draw_text(tokens: int) -> str:
    """Random words; with the special tokens so many tokens."""
    generator = torch.Generator().manual_seed(SEED)
    numbers = torch.randint(TYPES, (tokens - 2,), generator=generator).tolist()
    return " ".join(f"w{number}" for number in numbers)


def run_forward(model: Any, tokenizer: Any, text: str, attention: str) -> Any:
    """The model's states, and with eager attention the weights of all layers."""
    model.set_attn_implementation(attention)
    ids = tokenizer(text, return_tensors="pt")["input_ids"].to(model.device)
    with torch.inference_mode():
        return model.base_model(
            input_ids=ids, use_cache=False, output_attentions=attention == "eager"
        )


def run_capture(model: Any, tokenizer: Any, text: str, rows: int | None) -> Any:
    """Statistics of every head over drawn rows, or over every row."""
    return capture((model, tokenizer), [text], rows=rows, seed=SEED)


def run_weights(model: Any, tokenizer: Any, text: str) -> Any:
    """The matrices of drawn rows alone, without statistics."""
    keeper = MatrixKeeper(1, 2**40)
    selection = selection_of(None, None, ROWS, SEED)
    reading = prepare((model, tokenizer), [text], whole=False, selection=selection)
    reading.feed([keeper])
    return keeper.kept()


def seconds_of_products(tokens: int) -> float:
    """The multiply-adds alone of the weights of drawn rows: queries times keys, in all layers."""
    heads = SHAPE["num_attention_heads"]
    dim = SHAPE["hidden_size"] // heads
    query, key = torch.ones(heads, min(ROWS, tokens), dim), torch.ones(heads, tokens, dim)
    start = time.process_time()
    for _ in range(SHAPE["num_hidden_layers"]):
        torch.bmm(query, key.mT)
    return time.process_time() - start


WAYS: dict[str, Callable[[Any, Any, str], Any]] = {
    "bare": lambda model, tokenizer, text: run_forward(model, tokenizer, text, "sdpa"),
    "weights": run_weights,
    "rows": lambda model, tokenizer, text: run_capture(model, tokenizer, text, ROWS),
    "every_row": lambda model, tokenizer, text: run_capture(model, tokenizer, text, None),
    "eager": lambda model, tokenizer, text: run_forward(model, tokenizer, text, "eager"),
}


def measure_here(way: str, tokens: int) -> dict[str, float]:
    """Seconds of one call, and by how many bytes the process grew during it at most."""
    tokenizer = word_tokenizer(TYPES)
    model = build_model(len(tokenizer))
    text = draw_text(tokens)
    # The first call of everything is slow, and takes memory that stays.
    WAYS[way](model, tokenizer, draw_text(64))
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status_bytes("VmRSS")
    start = time.process_time(), time.perf_counter()
    found = WAYS[way](model, tokenizer, text)
    measured = {
        "cpu_seconds": time.process_time() - start[0],
        "seconds": time.perf_counter() - start[1],
        "peak_bytes": status_bytes("VmHWM") - before,
    }
    if way in {"weights", "rows"}:
        measured["products_seconds"] = seconds_of_products(tokens)
    if way in {"rows", "every_row"}:
        measured["entropy_nats"] = mean_entropy(found)
    return measured


def mean_entropy(found: Any) -> float:
    """Mean over heads of what a capture says of the entropy of their rows."""
    return float(found.statistics.heads()["entropy_nats"].mean())


def status_bytes(name: str) -> int:
    """A size that Linux tells of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) * 1024


def measure(lengths: list[int]) -> pd.DataFrame:
    """One row a process."""
    rows = []
    for round_number in range(ROUNDS):
        for tokens in lengths:
            for way in WAYS:
                if way in ONCE and (round_number or not fits(way, tokens)):
                    continue
                command = [sys.executable, __file__, "--one", way, str(tokens)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                measured = json.loads(done.stdout.splitlines()[-1])
                rows.append({"round": round_number, "tokens": tokens, "way": way, **measured})
                print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def fits(way: str, tokens: int) -> bool:
    """Whether so many tokens take a reasonable time, and leave memory for others."""
    if way == "every_row":
        return tokens <= MOST_TOKENS_WHOLE
    wanted = 4 * EAGER_COPIES * SHAPE["num_attention_heads"] * tokens**2
    return 1.2 * wanted < psutil.virtual_memory().available


def main() -> None:
    """Measures and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "capture_length")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure_here(options.one[0], int(options.one[1]))))
        return
    write_table(options.out / "table.csv", measure(options.lengths))
    write_facts(
        options.out, __file__, "torch", "transformers",
        threads=torch.get_num_threads(), machine=platform.machine(),
    )  # fmt: skip
    write_readme(options.out, readme(options.out))


def summary_of(table: pd.DataFrame) -> pd.DataFrame:
    """One row a length: medians over rounds, and the ratios that are compared with targets.

    `WAY_time_ratio` is processor time over that of the bare pass and the products alone, round by round;
    `WAY_memory_ratio` the growth with eager weights over that of the way.
    """
    wide = table.pivot_table(index=["tokens", "round"], columns="way", values="cpu_seconds")
    products = table.pivot_table(
        index=["tokens", "round"], columns="way", values="products_seconds"
    )
    medians = (
        table.groupby(["tokens", "way"])[["cpu_seconds", "peak_bytes"]].median().unstack("way")
    )
    peaks, seconds = medians["peak_bytes"], medians["cpu_seconds"]
    rows = pd.DataFrame({f"{way}_seconds": seconds[way] for way in WAYS})
    rows = rows.join(pd.DataFrame({f"{way}_bytes": peaks[way] for way in WAYS}))
    for way in ("weights", "rows"):
        ratio = wide[way] / (wide["bare"] + products[way])
        rows[f"{way}_time_ratio"] = ratio.groupby("tokens").median()
        rows[f"{way}_memory_ratio"] = peaks["eager"] / peaks[way]
    return rows.reset_index()


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    summary = summary_of(read_table(folder, "table"))
    reached = {
        way: [
            row["tokens"]
            for row in summary.to_dict("records")
            if row[f"{way}_time_ratio"] <= TARGET_TIME
        ]
        for way in ("weights", "rows")
    }
    eager = summary.dropna(subset=["eager_bytes"])
    return render(
        __file__, read_facts(folder), summary=summary.to_dict("records"), rows=ROWS, rounds=ROUNDS, seed=SEED,
        shape=SHAPE, target_memory=TARGET_MEMORY, target_time=TARGET_TIME,
        longest_eager=int(eager["tokens"].iloc[-1]), compared=COMPARED,
        reached=reached,
        at_compared=summary[summary["tokens"] == COMPARED].to_dict("records"),
    )  # fmt: skip


if __name__ == "__main__":
    main()
