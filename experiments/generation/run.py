"""What the next token costs behind texts of growing length: sums over keys, or all keys in a cache.

    OMP_NUM_THREADS=1 python experiments/generation/run.py

writes benchmarks/generation/. Every cache is filled with random numbers as if it had read a text.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import torch
from transformers import Cache, DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

from attnlab.attention import cache_bytes, streaming_cache, use
from attnlab.core import write_table
from experiments.shared.readme import (
    BENCHMARKS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = BENCHMARKS / "generation"
SEED = 0
LENGTHS = (8, 512, 4_096, 16_384, 65_536)
ROUNDS, TOKENS = 3, 8
SHAPE = {
    "hidden_size": 512,
    "intermediate_size": 1_408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2 * max(LENGTHS),
    "vocab_size": 1_000,
}
HEAD = (1, SHAPE["num_attention_heads"], SHAPE["hidden_size"] // SHAPE["num_attention_heads"])
BAND = 64
LINEAR, STREAMING = "linear", f"band(window=({BAND - 1}, 0))"


def main() -> None:
    """Measures every kind of cache at every length, in turn, and writes the table."""
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
    rows = [
        {"tokens": length, "cache": name, "round": number, "ms": took, "bytes": size}
        for number in range(ROUNDS)
        for length in LENGTHS
        for name, (took, size) in measured(model, length)
    ]
    table = pd.DataFrame(rows).groupby(["cache", "tokens"], sort=False, as_index=False)
    write_table(OUT / "table.csv", table.agg(ms=("ms", "min"), bytes=("bytes", "first")))
    write_facts(OUT, __file__, "torch", "transformers", threads=torch.get_num_threads())
    write_readme(OUT, readme(OUT))


def measured(model: LlamaForCausalLM, length: int) -> Iterator[tuple[str, tuple[float, int]]]:
    """By kind of cache, milliseconds of a token behind so many, and bytes of the cache before it."""
    kinds: dict[str, tuple[str | None, Callable[[], Cache]]] = {
        "all keys": (None, lambda: all_keys(DynamicCache(), length)),
        "all keys, in place": (
            None,
            lambda: all_keys(StaticCache(model.config, length + TOKENS + 1), length),
        ),
        LINEAR: (LINEAR, lambda: sums(streaming_cache(model), length)),
        STREAMING: (STREAMING, lambda: latest_keys(streaming_cache(model), length)),
    }
    for name, (plan, make) in kinds.items():
        with planned(model, plan):
            cache = make()
            size = cache_bytes(cache)
            yield name, (milliseconds(model, cache, length), size)


@contextmanager
def planned(model: LlamaForCausalLM, plan: str | None) -> Iterator[None]:
    """The model with the plan, or as it is."""
    if plan is None:
        yield
    else:
        with use(model, plan):
            yield


def milliseconds(model: LlamaForCausalLM, cache: Cache, length: int) -> float:
    """The least time of a token: the others measure who shares the machine."""
    taken = []
    with torch.inference_mode():
        for number in range(TOKENS + 1):
            position = torch.tensor([length + number])
            start = time.perf_counter()
            model(
                torch.ones(1, 1, dtype=torch.long), past_key_values=cache, cache_position=position
            )
            taken.append(1_000 * (time.perf_counter() - start))
    return min(taken[1:])


def drawn(tokens: int) -> torch.Tensor:
    """Keys or values of all heads of a layer."""
    batch, heads, dim = HEAD
    return torch.randn(batch, heads, tokens, dim, generator=torch.Generator().manual_seed(SEED))


def all_keys(cache: Cache, length: int) -> Cache:
    """A cache of all keys and values of a text."""
    keys = drawn(length)
    for layer in range(SHAPE["num_hidden_layers"]):
        cache.update(keys, keys, layer)
    return cache


def sums(cache: Cache, length: int) -> Cache:
    """A cache of the sums of a text."""
    keys = drawn(min(length, 1_024)).double()
    for layer in cache.layers:
        layer.lazy_initialization(keys, keys)
        layer.tokens = length
        layer.add(keys.abs().mT @ torch.cat([keys, torch.ones_like(keys[..., :1])], -1))
    return cache


def latest_keys(cache: Cache, length: int) -> Cache:
    """A cache of the latest keys and values of a text."""
    keys = drawn(min(length, BAND - 1))
    for number, layer in enumerate(cache.layers):
        layer.followed = True
        cache.update(keys, keys, number)
        layer.tokens = length
    return cache


def readme(folder: Path) -> str:
    """The README of the result, from its table and facts."""
    table = read_table(folder, "table")
    wide = table.pivot_table(index="tokens", columns="cache", values="ms")
    sizes = table.pivot_table(index="tokens", columns="cache", values="bytes")
    names = list(dict.fromkeys(table["cache"]))
    shown = pd.DataFrame({"tokens before": [f"{tokens:,}" for tokens in wide.index]})
    for name in names:
        shown[f"{name}, ms"] = wide[name].to_numpy()
    for name in names[:1] + names[2:]:
        shown[f"{name}, bytes"] = [f"{size:,.0f}" for size in sizes[name]]
    longest, shortest = wide.index.max(), 512
    return render(
        __file__,
        read_facts(folder),
        table=shown,
        longest=longest,
        ratios={name: wide.loc[longest, name] / wide.loc[longest, LINEAR] for name in names[:2]},
        saved=sizes.loc[longest, names[0]] / sizes.loc[longest, LINEAR],
        growth=wide.loc[longest, LINEAR] / wide.loc[shortest, LINEAR],
        shortest=shortest,
        rounds=ROUNDS,
        tokens=TOKENS,
        shape=SHAPE,
        band=BAND,
        seed=SEED,
    )


if __name__ == "__main__":
    main()
