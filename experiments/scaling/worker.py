"""One measurement of experiments/scaling/run.py in a process of its own: prints seconds or bytes as JSON.

python experiments/scaling/worker.py '{"task": "time", "spec": "band(window=64)", "tokens": [512]}'
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BigBirdConfig, LongformerConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from attnlab.attention import Context, MaskedSoftmax, Mechanism, make
from attnlab.matrices.supports import offsets

# One thread and its processor time: on a shared machine the clock on the wall measures the neighbours.
THREADS = 1
HEADS, HEAD_DIM = 8, 64
SEED = 0
# Repetitions stop after this many seconds, but not before the third.
PATIENCE = 1.5
# No attention at all: what reading the inputs and writing an output of their size costs.
SUM_OF_INPUTS = "query + key + value"

Run = Callable[[], Tensor]


def main() -> None:
    """Does what the argument asks for."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEED)
    asked = json.loads(sys.argv[1])
    tasks: dict[str, Callable[..., object]] = {
        "time": times,
        "memory": memory,
        "pair": pair,
        "short": short,
    }
    task = tasks[asked.pop("task")]
    print(json.dumps(task(**asked)))


def times(spec: str, tokens: list[int], causal: bool) -> list[dict[str, float]]:
    """Seconds of a mechanism, forward and forward + backward, by length."""
    mechanism = built(spec, causal)
    rows = []
    for length in tokens:
        inputs = drawn(length)
        forward, both = seconds([partial(mechanism, *inputs)])[0]
        rows.append({"tokens": length, "seconds_forward": forward, "seconds_both": both})
    return rows


def memory(spec: str, tokens: list[int], causal: bool) -> list[dict[str, int]]:
    """Bytes that forward + backward need at their peak, above what inputs and libraries hold.

    To be run with MALLOC_MMAP_THRESHOLD_ set low, so that what is freed is given back.
    """
    mechanism = built(spec, causal)
    rows = []
    for length in [64, 640, *tokens]:  # at the first two the libraries settle
        mechanism(*drawn(length)).sum().backward()  # block tables of this length are drawn
        inputs = drawn(length)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
        before = resident("VmRSS")
        mechanism(*inputs).sum().backward()
        rows.append({"tokens": length, "peak_bytes": resident("VmHWM") - before})
    return rows[2:]


def pair(name: str) -> dict[str, float]:
    """How many times as long the other takes: forward, and forward + backward."""
    ours, other = {
        "band_dense": band_and_dense,
        "longformer": band_and_longformer,
        "bigbird": bigbird_and_transformers,
    }[name]()
    mine, theirs = seconds([ours, other])
    return {"forward": theirs[0] / mine[0], "both": theirs[1] / mine[1]}


def short(spec: str, tokens: list[int], causal: bool) -> list[dict[str, float]]:
    """Seconds over those of the dense form: every pair formed, then mixed."""
    mechanism = make(spec, causal=causal, heads=HEADS)
    rows = []
    for length in tokens:
        inputs = drawn(length)
        mine, dense = seconds(
            [
                partial(mechanism, *inputs),
                partial(simulated, mechanism, inputs),
            ]
        )
        rows.append({"tokens": length, "forward": mine[0] / dense[0], "both": mine[1] / dense[1]})
    return rows


def simulated(mechanism: Mechanism, inputs: tuple[Tensor, ...]) -> Tensor:
    """The dense form: the pattern on torch's fused attention, or the implied matrix times values."""
    query, key, value = inputs
    if isinstance(mechanism, MaskedSoftmax):
        return mechanism.dense(query, key, value, Context())
    return mechanism.implied_matrix(query, key) @ value


def band_and_dense() -> tuple[Run, Run]:
    """Our band and torch's fused attention with the band as a mask of pairs, at 4096 tokens."""
    (query, key, value), band = drawn(4096), make("band(window=64)")
    mask = offsets(4096, 4096).abs() <= 64
    dense = partial(F.scaled_dot_product_attention, query, key, value, attn_mask=mask)
    return partial(band, query, key, value), dense


def band_and_longformer() -> tuple[Run, Run]:
    """Our band and transformers' Longformer without global tokens, each with its projections."""
    tokens, dim = 4096, HEADS * HEAD_DIM
    config = LongformerConfig(
        hidden_size=dim,
        num_attention_heads=HEADS,
        attention_window=[128],
        attention_probs_dropout_prob=0.0,
    )
    theirs, hidden = LongformerSelfAttention(config, 0), torch.randn(1, tokens, dim)
    none = torch.zeros(1, tokens)
    ours = projected(theirs, hidden, make("band(window=64)"))
    return ours, lambda: theirs(hidden, none, none.bool(), none.bool(), is_global_attn=False)[0]


def bigbird_and_transformers() -> tuple[Run, Run]:
    """Our BigBird and transformers' block-sparse one in training mode, each with its projections."""
    tokens, dim = 4096, HEADS * HEAD_DIM
    config = BigBirdConfig(
        hidden_size=dim,
        num_attention_heads=HEADS,
        block_size=64,
        num_random_blocks=3,
        attention_probs_dropout_prob=0.0,
    )
    theirs, hidden = (
        BigBirdBlockSparseAttention(config, seed=0).train(),
        torch.randn(1, tokens, dim),
    )
    theirs.max_seqlen = tokens
    blocked, *masks = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, tokens), 64)
    ours = projected(theirs, hidden, make("bigbird(block=64, random=3)"))
    return ours, lambda: theirs(hidden, *masks, blocked, blocked)[0]


def projected(theirs: nn.Module, hidden: Tensor, mechanism: Mechanism) -> Run:
    """Our mechanism between the same projections."""
    layers = [theirs.get_submodule(name) for name in ("query", "key", "value")]

    def run() -> Tensor:
        query, key, value = (
            layer(hidden).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for layer in layers
        )
        return mechanism(query, key, value).transpose(1, 2).flatten(2)

    return run


def built(spec: str, causal: bool) -> Callable[..., Tensor]:
    """The mechanism for the heads that are measured, or the bare sum of what it would read."""
    if spec == SUM_OF_INPUTS:
        return lambda query, key, value: query + key + value
    return make(spec, causal=causal, heads=HEADS)


def drawn(tokens: int) -> tuple[Tensor, ...]:
    """Queries, keys and values of one sentence that ask for gradients."""
    shape = (1, HEADS, tokens, HEAD_DIM)
    return tuple(torch.randn(shape, requires_grad=True) for _ in range(3))


def seconds(runs: list[Run]) -> list[tuple[float, float]]:
    """Forward, and forward + backward, of each run: the shortest of several, taken in turns."""

    def forward(run: Run) -> None:
        with torch.no_grad():
            run()

    def both(run: Run) -> None:
        run().sum().backward()

    best = {}
    for what in (forward, both):
        taken: list[list[float]] = [[] for _ in runs]
        for run in runs:
            what(run)
        started = time.process_time()
        while len(taken[0]) < 3 or (
            time.process_time() - started < PATIENCE * len(runs) and len(taken[0]) < 50
        ):
            for run, mine in zip(runs, taken, strict=True):
                start = time.process_time()
                what(run)
                mine.append(time.process_time() - start)
        best[what] = [min(mine) for mine in taken]
    return list(zip(best[forward], best[both], strict=True))


def resident(field: str) -> int:
    """Bytes of this process's memory that Linux reports under `field`."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
