"""The mechanisms that are compared at a budget of visible keys a row, made ready for one layer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from attnlab.attention.calibration import AttentionRecord, SigmaTables, Tally
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.multihead import NO_SCORES, PerHead
from attnlab.attention.registry import make, mechanisms
from attnlab.attention.specification import Specification, Window
from attnlab.budget.bounds import LEAST_BUDGET
from attnlab.matrices.supports import offsets
from attnlab.reading.observing import Observed

SIGMA_COLUMNS = 2
ONE_KEY_PATTERNS = ("self", "previous", "next")
CAUSAL_PATTERNS = ("self", "previous")
# The best pattern of one key for each head; it has no size.
FIXED = "fixed"
LARGEST_SIZE = 128

Apply = Callable[[Observed], Tensor]


@dataclass(frozen=True)
class Candidate:
    """One way of standing in for full attention.

    Attributes:
        name: its name in tables.
        written: its specification, or what it is in words.
        level: `oracle` (chosen from the very matrices it is measured on), `calibrated` (from
            training sentences) or `static` (from positions and chance).
        support: whether it sees some pairs and leaves the others out.
        apply: its implied matrices `[batch, head, query, key]`.
        multiply_adds: work of one head on a sentence of mean length; None: no form that saves work.
        mechanism: what computes it, ready for a layer; None where only its matrix is known.
    """

    name: str
    written: str
    level: str
    support: bool
    apply: Apply
    multiply_adds: int | None
    mechanism: Mechanism | None = None


@dataclass(frozen=True)
class SiteStatistics:
    """A site with what its candidates depend on of the sentences.

    Attributes:
        site: encoder, decoder or cross.
        counts: how often each token type of the keys occurs in training text.
        queries: mean number of queries of a sentence, for the work.
        keys: mean number of keys.
        longest: most keys of a sentence.
        additive: whether scores are no products of queries and keys.
    """

    site: str
    counts: Int[Tensor, " type"]
    queries: int
    keys: int
    longest: int
    additive: bool = False

    @property
    def causal(self) -> bool:
        """Whether no query sees a key behind it."""
        return self.site == "decoder"

    @property
    def cross(self) -> bool:
        """Whether queries and keys are different sentences."""
        return self.site == "cross"


def window_of(keys: int, *, causal: bool = False) -> tuple[int, int]:
    """The window of that many keys; of an even number the left side has one more.

    >>> window_of(5), window_of(4), window_of(4, causal=True)
    ((2, 2), (2, 1), (3, 0))
    """
    return (keys - 1, 0) if causal else (keys // 2, (keys - 1) // 2)


def narrow_window(budget: int, *, causal: bool) -> Window:
    """The window that leaves sigma its columns."""
    return window_of(budget - SIGMA_COLUMNS, causal=causal)


class LayerCalibration:
    """What one layer did on training sentences, as running sums: all that candidates learn from.

    Args:
        statistics: the site.
        windows: of the bands beside which sigma has columns.

    Attributes:
        heads: number of heads.
        dim: size of a query.
    """

    def __init__(self, statistics: SiteStatistics, windows: Iterable[Window]) -> None:
        types, causal = len(statistics.counts), statistics.causal
        self.heads, self.dim = 0, 0
        self._tallies = {window: Tally(types, window) for window in windows}
        names = CAUSAL_PATTERNS if causal else ONE_KEY_PATTERNS
        self._patterns = {
            name: make(f"fixed(pattern='{name}')", causal=causal, cross=statistics.cross)
            for name in names
        }
        self._mass = torch.zeros(len(names), 1, dtype=torch.float64)

    def add(self, layer: Observed) -> None:
        """Counts one batch."""
        self.heads, self.dim = layer.query.shape[1], layer.query.shape[-1]
        record = AttentionRecord(layer.weights, layer.token_ids, layer.visible, layer.real_queries)
        for tally in self._tallies.values():
            tally.add(record)
        masses = [
            (layer.weights * _implied(part)(layer)).sum((0, 2, 3))
            for part in self._patterns.values()
        ]
        self._mass = self._mass + torch.stack(masses).cpu()

    def tables(self, window: Window, extra: int) -> SigmaTables:
        """Salience of tokens, and so many best offsets, outside a band."""
        return self._tallies[window].tables(extra=extra)

    def best_pattern(self) -> Mechanism:
        """For each head the one-key pattern that holds most of its attention."""
        best = self._mass.argmax(0).tolist()
        groups = [
            ([head for head, found in enumerate(best) if found == index], pattern)
            for index, pattern in enumerate(self._patterns.values())
        ]
        return PerHead([(heads, pattern) for heads, pattern in groups if heads])

    def pattern_names(self) -> tuple[str, ...]:
        """The patterns there are to choose from."""
        return tuple(self._patterns)


def candidates(
    size: int,
    statistics: SiteStatistics,
    learned: LayerCalibration,
    sizes_of: Mapping[str, int] | None = None,
) -> list[Candidate]:
    """Every mechanism that the site allows, for one layer.

    Args:
        size: keys of a row in the middle of a long sentence, 4 and up: BigBird's blocks need as many.
        statistics: the site.
        learned: what the layer did on training sentences.
        sizes_of: sizes of some mechanisms, by name, that are theirs instead.
    """
    sizes_of = sizes_of or {}
    allowed = {
        name: _templates(sizes_of.get(name, size), statistics)[name]
        for name, template in _templates(size, statistics).items()
        if _refusal(template.text, statistics) is None
    }
    types, sizes = len(statistics.counts), (statistics.queries, statistics.keys, learned.dim)
    work = (
        made(allowed["band"].text, learned.heads, types, statistics.site).cost(*sizes).multiply_adds
    )
    found = []
    for name, template in allowed.items():
        text = template.text
        if "{}" in text:
            text = _nearest(text, work, sizes, statistics.site)
        mechanism = made(text, learned.heads, types, statistics.site)
        if isinstance(mechanism, SigmaAttention):
            teach(mechanism, statistics.counts, learned)
        found.append(candidate_of((name, text, template.level), mechanism, sizes))
    words = f"fixed: the best of {', '.join(learned.pattern_names())} for each head"
    found.append(candidate_of((FIXED, words, "calibrated"), learned.best_pattern(), sizes))
    narrow = narrow_window(sizes_of.get("sigma oracle", size), causal=statistics.causal)
    words = f"window {narrow} and the {SIGMA_COLUMNS} columns that hold most of the rest"
    if statistics.causal:
        words = (
            f"window {narrow} and in each row the {SIGMA_COLUMNS} keys that hold most of the rest"
        )
    best = _oracle_columns(narrow, by_row=statistics.causal)
    found.append(Candidate("sigma oracle", words, "oracle", True, best, None))
    return found


def left_out(site: str, *, additive: bool = False) -> dict[str, str]:
    """The candidates that a site, or additive attention there, does not allow, by name, and why."""
    statistics = SiteStatistics(site, torch.ones(1, dtype=torch.long), 1, 1, 1, additive)
    refusals = {
        name: _refusal(template.text, statistics)
        for name, template in _templates(LEAST_BUDGET, statistics).items()
    }
    return {name: reason for name, reason in refusals.items() if reason is not None}


@dataclass(frozen=True)
class Template:
    """How a candidate is written; `{}` stands for a size that the work decides. Levels: `Candidate`."""

    text: str
    level: str


def _templates(size: int, statistics: SiteStatistics) -> dict[str, Template]:
    """Specifications by name."""
    narrow = narrow_window(size, causal=statistics.causal)
    # Linformer's longest sentence is in its text only where the usual one is too short.
    longest = f", max_length={statistics.longest}" if statistics.longest > 512 else ""
    sigma = f"sigma(window={narrow}, num_pos={SIGMA_COLUMNS}"
    static = {
        "band": f"band(window={window_of(size, causal=statistics.causal)})",
        "longformer": f"longformer(window={window_of(size - 1, causal=statistics.causal)})",
        "bigbird": f"bigbird(block=1, global_blocks={min(size - 3, 2)}, random={max(size - 5, 0)})",
        "sigma first": f"{sigma}, columns='first')",
        "sigma random": f"{sigma}, columns='random')",
        "linear elu": "linear(feature='elu')",
        "linear taylor": "linear(feature='taylor')",
        "linear favor": "linear(feature='favor', features={})",
        "linformer (not trained)": f"linformer(k={{}}{longest})",
    }
    calibrated = {
        "sigma frequency": f"{sigma}, columns='frequency')",
        "sigma salience": f"{sigma})",
        "sigma offsets": f"sigma(window={narrow}, num_pos=0, extra={SIGMA_COLUMNS}, entries='offsets')",
    }
    return {
        **{name: Template(text, "static") for name, text in static.items()},
        **{name: Template(text, "calibrated") for name, text in calibrated.items()},
        "top-k": Template(f"topk(k={size})", "oracle"),
        **{
            name: Template(str(spec), "static")
            for name, kind in mechanisms().items()
            if (spec := kind.at_budget(size, causal=statistics.causal)) is not None
        },
    }


def _refusal(text: str, statistics: SiteStatistics) -> str | None:
    kind = mechanisms()[text.partition("(")[0]]
    return refusal(kind, statistics.site, additive=statistics.additive)


def refusal(kind: type[Mechanism], site: str, *, additive: bool = False) -> str | None:
    """Why a mechanism cannot stand at a site, by its traits; None where it can."""
    if additive and not kind.traits.takes_scores:
        return NO_SCORES
    if site == "decoder" and not kind.traits.causal:
        return kind.refusals.get("causal", "it has no causal form")
    if site == "cross" and not kind.traits.cross:
        return kind.refusals.get("cross", "it is not applicable to two sentences")
    return None


def made(spec: str | Specification, heads: int, types: int, site: str) -> Mechanism:
    """What a specification names for so many heads of a site and types of tokens, in float64.

    Raises:
        InputError: the site does not allow it.
    """
    # Linformer draws its projections from torch's generator: the caller's is left as it is.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = make(
            spec, causal=site == "decoder", cross=site == "cross", heads=heads, vocabulary=types
        )
    return found.double().eval()


@lru_cache(maxsize=256)
def _nearest(template: str, work: int, sizes: tuple[int, int, int], site: str) -> str:
    """The text with the size whose work is nearest to `work`."""

    def distance(size: int) -> int:
        mechanism = made(template.format(size), 1, 1, site)
        return abs(mechanism.cost(*sizes).multiply_adds - work)

    return template.format(min(range(1, LARGEST_SIZE), key=distance))


def candidate_of(
    named: tuple[str, str, str], mechanism: Mechanism, sizes: tuple[int, int, int]
) -> Candidate:
    """A mechanism with its name, how it is written, its level and its work on a sentence of these sizes."""
    work = mechanism.cost(*sizes).multiply_adds
    return Candidate(*named, mechanism.traits.support, _implied(mechanism), work, mechanism)


def _implied(mechanism: Mechanism) -> Apply:
    def apply(layer: Observed) -> Tensor:
        # A module that is there already is not moved.
        return mechanism.to(layer.query.device).implied_matrix(
            layer.query, layer.key, layer.visible, **layer.told()
        )

    return apply


def teach(
    mechanism: SigmaAttention, counts: Int[Tensor, " type"], learned: LayerCalibration
) -> None:
    """Fills the tables of sigma with how often tokens occur, or with what the layer did."""
    if mechanism.spec.columns == "frequency":
        mechanism.load_tables(-counts.double().expand(learned.heads, -1))
    elif mechanism.uses_tokens or mechanism.uses_offsets:
        tables = learned.tables(mechanism.window, mechanism.spec.extra)
        mechanism.load_tables(tables.salience.double(), tables.offsets)


def _oracle_columns(window: tuple[int, int], *, by_row: bool) -> Apply:
    """Full attention kept in the band and in the best columns, rows summing to 1 again.

    Causal rows choose among the keys up to their own, so each has its own columns there.
    """

    def apply(layer: Observed) -> Tensor:
        weights = layer.weights
        queries, keys = weights.shape[-2:]
        offset = offsets(queries, keys, device=weights.device)
        inside = (offset >= -window[0]) & (offset <= window[1])
        rest = weights.masked_fill(inside, 0.0)
        rest = rest if by_row else rest.sum(-2, keepdim=True)
        columns = rest.topk(min(SIGMA_COLUMNS, keys), dim=-1).indices
        chosen = torch.zeros_like(rest, dtype=torch.bool).scatter(-1, columns, True)
        kept = weights * (inside | chosen)
        return kept / kept.sum(-1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)

    return apply
