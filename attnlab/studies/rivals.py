"""The mechanisms that are compared at a budget of visible keys a row, made ready for one layer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.attention.calibration import AttentionRecord, fit_tables
from attnlab.attention.mechanism import Mechanism, offsets
from attnlab.attention.perhead import PerHead
from attnlab.attention.registry import make
from attnlab.attention.sigma import SigmaAttention
from attnlab.studies.observing import Observed

COLUMNS = 2
ONE_KEY_PATTERNS = ("self", "previous", "next")
LEAST_BUDGET = 5
LARGEST_SIZE = 128

Apply = Callable[[Observed], Tensor]


@dataclass(frozen=True)
class Rival:
    """One way of standing in for full attention.

    Attributes:
        name: its name in tables.
        written: its specification, or what it is in words.
        level: `oracle` (chosen from the very matrices it is measured on), `calibrated` (from
            training sentences) or `static` (from positions and chance).
        support: whether it sees some pairs and leaves the others out.
        apply: its implied matrices `[batch, head, token, token]`.
        multiply_adds: work of one head on a sentence of mean length; None: no form that saves work.
    """

    name: str
    written: str
    level: str
    support: bool
    apply: Apply
    multiply_adds: int | None


def window_of(keys: int) -> tuple[int, int]:
    """The window of that many keys; of an even number the left side has one more.

    >>> window_of(5), window_of(4)
    ((2, 2), (2, 1))
    """
    return keys // 2, (keys - 1) // 2


def rivals(
    budget: int,
    calibration: Sequence[Observed],
    counts: Tensor,
    *,
    tokens: int,
) -> list[Rival]:
    """Every mechanism at `budget` visible keys a row, calibrated for one layer.

    Args:
        budget: keys a row, 5 and up: BigBird's blocks need as many.
        calibration: what the layer did on training sentences.
        counts: how often each token id occurs in training text.
        tokens: mean length of a sentence, for the work.
    """
    heads, dim = calibration[0].query.shape[1], calibration[0].query.shape[-1]
    narrow = window_of(budget - COLUMNS)
    band = make(f"band(window={window_of(budget)})")
    work = band.cost(tokens, tokens, dim).multiply_adds
    texts = {
        "band": f"band(window={window_of(budget)})",
        "longformer": f"longformer(window={window_of(budget - 1)})",
        "bigbird": f"bigbird(block=1, global_blocks=2, random={budget - 5})",
        "sigma first": f"sigma(window={narrow}, num_pos={COLUMNS}, columns='first')",
        "sigma random": f"sigma(window={narrow}, num_pos={COLUMNS}, columns='random')",
        "linear elu": "linear(feature='elu')",
        "linear taylor": "linear(feature='taylor')",
        "linear favor": _nearest("linear(feature='favor', features={})", work, tokens, dim),
        "linformer (not trained)": _nearest("linformer(k={})", work, tokens, dim),
        "sigma frequency": f"sigma(window={narrow}, num_pos={COLUMNS}, columns='frequency')",
        "sigma salience": f"sigma(window={narrow}, num_pos={COLUMNS})",
        "sigma offsets": f"sigma(window={narrow}, num_pos=0, extra={COLUMNS}, entries='offsets')",
        "top-k": f"topk(k={budget})",
    }
    found = []
    for name, text in texts.items():
        mechanism = _made(text, heads, counts)
        if isinstance(mechanism, SigmaAttention):
            _calibrate(mechanism, calibration, counts)
        learned = name in {"sigma frequency", "sigma salience", "sigma offsets"}
        level = "calibrated" if learned else "oracle" if name == "top-k" else "static"
        cost = mechanism.cost(tokens, tokens, dim).multiply_adds
        support = mechanism.traits.support
        found.append(Rival(name, text, level, support, _implied(mechanism), cost))
    fixed = _best_fixed(calibration)
    words = f"fixed: the best of {', '.join(ONE_KEY_PATTERNS)} for each head"
    fixed_work = fixed.cost(tokens, tokens, dim).multiply_adds
    found.append(Rival("fixed", words, "calibrated", True, _implied(fixed), fixed_work))
    words = f"window {narrow} and the {COLUMNS} columns that hold most of the rest"
    found.append(Rival("sigma oracle", words, "oracle", True, _oracle_columns(narrow), None))
    return found


def _made(text: str, heads: int, counts: Tensor) -> Mechanism:
    # Linformer draws its projections from torch's generator: the caller's is left as it is.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make(text, heads=heads, vocabulary=len(counts)).double().eval()


def _nearest(text: str, work: int, tokens: int, dim: int) -> str:
    """The text with the size whose work is nearest to `work`."""

    def distance(size: int) -> int:
        mechanism = _made(text.format(size), 1, torch.ones(1))
        return abs(mechanism.cost(tokens, tokens, dim).multiply_adds - work)

    return text.format(min(range(1, LARGEST_SIZE), key=distance))


def _implied(mechanism: Mechanism) -> Apply:
    def apply(seen: Observed) -> Tensor:
        return mechanism.implied_matrix(
            seen.query, seen.key, seen.visible, token_ids=seen.token_ids
        )

    return apply


def _calibrate(mechanism: SigmaAttention, calibration: Sequence[Observed], counts: Tensor) -> None:
    spec = mechanism.spec
    if spec.columns == "frequency":
        mechanism.load_tables(-counts.double().expand(calibration[0].query.shape[1], -1))
    elif mechanism.uses_tokens or mechanism.uses_offsets:
        records = [AttentionRecord(s.weights, s.token_ids, s.visible) for s in calibration]
        tables = fit_tables(
            records, vocabulary=len(counts), window=mechanism.window, extra=spec.extra
        )
        mechanism.load_tables(tables.salience.double(), tables.offsets)


def _best_fixed(calibration: Sequence[Observed]) -> Mechanism:
    """For each head the one-key pattern that holds most of its attention on training sentences."""
    masses = []
    for pattern in ONE_KEY_PATTERNS:
        apply = _implied(make(f"fixed(pattern='{pattern}')"))
        masses.append(sum((s.weights * apply(s)).sum((0, 2, 3)) for s in calibration))
    best = torch.stack([torch.as_tensor(mass) for mass in masses]).argmax(0).tolist()
    groups = [
        ([head for head, found in enumerate(best) if found == place], pattern)
        for place, pattern in enumerate(ONE_KEY_PATTERNS)
    ]
    made = [(heads, make(f"fixed(pattern='{name}')")) for heads, name in groups if heads]
    return PerHead(made)


def _oracle_columns(window: tuple[int, int]) -> Apply:
    """Full attention kept in the band and in the sentence's best columns, rows summing to 1 again."""

    def apply(seen: Observed) -> Tensor:
        weights = seen.weights
        tokens = weights.shape[-1]
        offset = offsets(tokens, tokens, device=weights.device)
        inside = (offset >= -window[0]) & (offset <= window[1])
        outside_mass = weights.masked_fill(inside, 0.0).sum(-2)
        columns = outside_mass.topk(min(COLUMNS, tokens), dim=-1).indices
        chosen = torch.zeros_like(outside_mass, dtype=torch.bool).scatter(-1, columns, True)
        kept = weights * (inside | chosen[..., None, :])
        return kept / kept.sum(-1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)

    return apply
