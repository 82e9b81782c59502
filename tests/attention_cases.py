"""The mechanisms under test: every kind with options that reach all its parts, ready to be called."""

import torch
from oracles.ragged import drawn_ids
from torch import Tensor

from attnlab.attention.calibration import load_frequencies
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.mechanisms.sigma_static import SigmaStaticAttention
from attnlab.attention.multihead import PerHead
from attnlab.attention.registry import MECHANISMS, make, parse

SPECS = [
    "full",
    "band(window=2)",
    "band(window=(5, 1))",
    "band(window=200)",
    "longformer(window=(3, 2), dilation=2, global_tokens=[0, 5])",
    "longformer(window=1, global_tokens=[0, -1])",
    "longformer(window=70, global_tokens=[])",
    "bigbird(block=3, random=2, global_blocks=2)",
    "bigbird(block=4, random=0, global_blocks=3)",
    "bigbird(block=5, random=1, global_blocks=0)",
    "sigma(window=(2, 1), num_pos=3, columns='salience', extra=2)",
    "sigma(window=1, num_pos=2, columns='frequency', extra=2, entries='offsets')",
    "sigma(window=0, num_pos=2, columns='first')",
    "sigma(window=70, num_pos=4, columns='random', extra=1)",
    "linear(feature='elu')",
    "linear(feature='taylor')",
    "linear(feature='favor', features=11)",
    "linformer(k=4, max_length=131)",
    "linformer(k=3, max_length=131, share='kv')",
    "scatterbrain(window=(2, 3), features=7)",
    *(
        f"fixed(pattern='{p}')"
        for p in ("self", "previous", "next", "left", "right", "start", "end")
    ),
    "topk(k=3)",
    "keys(offsets=(-3, 0, 2), first=1, last=2)",
    "keys(offsets=(-4, -1))",
    "keys(first=2)",
    "keys(offsets=(-2,), tokens=(3, 7), reach=2)",
    "keys(tokens=(1, 5))",
    "graph(edges=((0, 0), (1, 0), (1, 3), (2, 2), (3, 1), (5, 2), (5, 5), (7, 40)))",
    "static(offsets=(-3, -1, 0, 4), weights=(0.5, 0.25, 1, 2))",
    "static(offsets=(-2, -5), weights=(0.5, 0.25))",
    "gaussian(offset=-1)",
    "gaussian(offset=3, sigma=2.5)",
    "synthesizer(max_length=131)",
    "synthesizer(max_length=131, trained=False)",
    "sigma_static(window=(2, 1), max_length=131, num_pos=2, extra=3)",
    "sigma_static(window=0, max_length=131, num_pos=0, extra=1)",
    "none",
    "perhead",
]
VOCABULARY = 9


def build(spec: str, **setup: object) -> Mechanism:
    """The mechanism, in eval mode and float64, with tables learned where it has any."""
    if spec == "perhead":
        parts = [make("band(window=2)", **setup), make("topk(k=2)", **setup)]
        return PerHead([([1], parts[0]), ([0], parts[1])]).eval()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        mechanism = make(spec, heads=2, vocabulary=VOCABULARY, **setup).double().eval()
    if isinstance(mechanism, SigmaAttention):
        generator = torch.Generator().manual_seed(1)
        mechanism.load_tables(
            torch.randn(2, VOCABULARY, generator=generator), torch.tensor([[-4, 7], [3, -3]])
        )
    if isinstance(mechanism, SigmaStaticAttention):
        load_frequencies(mechanism, torch.tensor([5, 3, 8, 1, 9, 2, 7, 4, 6]))
        with torch.no_grad():
            mechanism.band.normal_(generator=torch.Generator().manual_seed(1))
    return mechanism


def can(spec: str, trait: str) -> bool:
    """Whether the mechanism declares the trait, and these options allow it."""
    if spec == "perhead":
        return True
    ahead = ("-1]", "next", "right", "'start", "end", "last", ", 4)")
    if trait == "causal" and any(part in spec for part in ahead):
        return False
    return bool(getattr(MECHANISMS[parse(spec).name].traits, trait))


CAUSAL = [spec for spec in SPECS if can(spec, "causal")]
ARRANGED = [(spec, False) for spec in SPECS] + [(spec, True) for spec in CAUSAL]
CROSS = [spec for spec in SPECS if can(spec, "cross")]
FAST = [
    spec for spec in SPECS if spec != "perhead" and getattr(build(spec), "slots", lambda: None)()
]


def forms_of(spec: str) -> tuple[str, ...]:
    """The forms that run on a CPU."""
    return ("dense", "fast") if spec in FAST else ("auto",)


def gradients(
    mechanism: Mechanism,
    inputs: list[Tensor],
    visible: Tensor,
    ids: Tensor,
    rows: Tensor | None = None,
    **context: object,
) -> tuple[Tensor, list[Tensor]]:
    """The output and the gradients of its weighted sum over `rows`, `[batch, query]`, or all."""
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    out = mechanism(*leaves, visible, token_ids=ids, **context)
    weights = torch.arange(out.numel(), dtype=out.dtype).view(out.shape).cos()
    weights = weights if rows is None else weights * rows[:, None, :, None]
    found = torch.autograd.grad(out, leaves, weights, allow_unused=True)
    return out, [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, found, strict=True)
    ]


def ids_of(keys: int) -> Tensor:
    """Ids of the keys of the three sentences of `ragged`."""
    return drawn_ids(keys, VOCABULARY)
