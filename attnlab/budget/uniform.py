"""The settings of a mechanism that all heads of a site may get, up to a number of keys per row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from attnlab.attention.calibration import LARGEST_OFFSET
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.mechanisms.band import Band
from attnlab.attention.mechanisms.bigbird import BigBird
from attnlab.attention.mechanisms.linear import Linear
from attnlab.attention.mechanisms.linformer import Linformer
from attnlab.attention.mechanisms.longformer import Longformer
from attnlab.attention.mechanisms.sigma import Sigma
from attnlab.attention.mechanisms.topk import TopK
from attnlab.attention.multihead import NO_SCORES
from attnlab.attention.registry import mechanisms
from attnlab.attention.specification import Specification
from attnlab.budget.bounds import LEAST_BUDGET, WIDEST

SIGMA_COLUMNS = (1, 2, 4, 8)
# Tokens that Linformer has projections for, unless sentences are longer.
LONGEST = 512


class SearchSpace(NamedTuple):
    """What the settings of a mechanism depend on.

    Attributes:
        most: keys of a row in the middle of a sentence, at most.
        causal: whether a row sees no key behind it.
        longest: most tokens of a sentence.
    """

    most: int
    causal: bool
    longest: int


Settings = Callable[[SearchSpace], Iterator[Specification]]


@dataclass(frozen=True)
class Uniform:
    """A mechanism with its settings.

    Attributes:
        kind: its class.
        settings: its specifications.
        level: `calibrated`, or `oracle` where it chooses from the matrices that it replaces.
    """

    kind: type[Mechanism]
    settings: Settings
    level: str = "calibrated"


def uniform_mechanisms() -> dict[str, Uniform]:
    """The mechanisms by their names in tables; those of other distributions by `Mechanism.at_budget`."""
    known = mechanisms()
    found = {
        name: Uniform(known[name], settings)
        for name, settings in (("band", _band), ("longformer", _longformer), ("bigbird", _bigbird))
    }
    for columns in Sigma.choices["columns"]:
        found[f"sigma {columns}"] = Uniform(known["sigma"], partial(_sigma, columns))
    found["sigma offsets"] = Uniform(known["sigma"], _sigma_offsets)
    found["linear"] = Uniform(known["linear"], _linear)
    found["linformer (not trained)"] = Uniform(known["linformer"], _linformer)
    found["top-k"] = Uniform(known["topk"], _topk, "oracle")
    for name, kind in known.items():
        if any(kind.at_budget(LEAST_BUDGET, causal=one) is not None for one in (False, True)):
            found[name] = Uniform(kind, partial(_of_plugin, kind))
    return found


def refusals(site: str, *, additive: bool = False) -> dict[str, str]:
    """The mechanisms that a site, or additive attention there, does not allow, by name, and why."""
    found = {
        name: _refusal(one.kind, site, additive=additive)
        for name, one in uniform_mechanisms().items()
    }
    return {name: reason for name, reason in found.items() if reason is not None}


def _refusal(kind: type[Mechanism], site: str, *, additive: bool) -> str | None:
    """Why a mechanism cannot be at a site, by its traits; None where it can."""
    if additive and not kind.traits.takes_scores:
        return NO_SCORES
    if site == "decoder" and not kind.traits.causal:
        return kind.refusals.get("causal", "it has no causal form")
    if site == "cross" and not kind.traits.cross:
        return kind.refusals.get("cross", "it is not applicable to two sentences")
    return None


def uniform(
    name: str, site: str, budget: int, *, longest: int = LONGEST, additive: bool = False
) -> Sequence[Specification]:
    """The settings of a mechanism that all heads of a site may get; none where it has no form there.

    Args:
        name: one of `uniform_mechanisms`.
        site: encoder, decoder or cross.
        budget: keys per row.
        longest: most tokens of a sentence.
        additive: whether the site's scores are no products of queries and keys.
    """
    found = uniform_mechanisms()[name]
    if _refusal(found.kind, site, additive=additive) is not None:
        return []
    made = found.settings(SearchSpace(WIDEST * budget, site == "decoder", max(longest, LONGEST)))
    return list(dict.fromkeys(made))


def _band(room: SearchSpace) -> Iterator[Specification]:
    for window in _windows(room.most, causal=room.causal):
        yield Band(window)


def _longformer(room: SearchSpace) -> Iterator[Specification]:
    for window in _windows(room.most, causal=room.causal):
        for ends in [(0,)] if room.causal else [(0,), (0, -1)]:
            yield Longformer(window, 1, ends)


def _bigbird(room: SearchSpace) -> Iterator[Specification]:
    for block in (1, 2):
        for ends in (1, 2):
            for drawn in (0, *_sizes(room.most // block - 4)):
                yield BigBird(block, drawn, ends)


def _sigma(columns: str, room: SearchSpace) -> Iterator[Specification]:
    for count in SIGMA_COLUMNS:
        for window in _three_windows(room.most - count, causal=room.causal):
            yield Sigma(window, count, columns)


def _sigma_offsets(room: SearchSpace) -> Iterator[Specification]:
    for count in SIGMA_COLUMNS:
        for window in _three_windows(room.most - count, causal=room.causal):
            yield Sigma(window, 0, extra=count, entries="offsets")


def _linear(room: SearchSpace) -> Iterator[Specification]:
    yield Linear("elu")
    yield Linear("taylor")
    for size in _sizes(room.most):
        yield Linear("favor", size)


def _linformer(room: SearchSpace) -> Iterator[Specification]:
    for size in _sizes(room.most):
        yield Linformer(size, room.longest)


def _topk(room: SearchSpace) -> Iterator[Specification]:
    for size in _sizes(room.most):
        yield TopK(size)


def _of_plugin(kind: type[Mechanism], room: SearchSpace) -> Iterator[Specification]:
    sizes = [size for size in _sizes(room.most) if size >= LEAST_BUDGET]
    written = (kind.at_budget(size, causal=room.causal) for size in sizes)
    return (one for one in written if one is not None)


def _sizes(most: int) -> list[int]:
    """Every size up to 16, then fewer."""
    return [size for size in (*range(1, 16), *range(16, 2 * LARGEST_OFFSET, 4)) if size <= most]


def _windows(most: int, *, causal: bool) -> list[tuple[int, int]]:
    """Windows of these sizes: every split of the small ones, of others about five."""
    return [
        (size - 1 - right, right)
        for size in _sizes(most)
        for right in ((0,) if causal else range(0, size, max(1, size // 4)))
    ]


def _three_windows(most: int, *, causal: bool) -> list[tuple[int, int]]:
    """Windows of these sizes: to the left, to both sides, to the right."""
    return [
        (size - 1 - right, right)
        for size in _sizes(most)
        for right in dict.fromkeys((0,) if causal else (0, (size - 1) // 2, size - 1))
    ]
