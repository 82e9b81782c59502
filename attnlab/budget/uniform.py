"""The settings of a mechanism that all heads of a site may get, up to a number of keys per row."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from attnlab.attention import (
    LARGEST_OFFSET,
    NO_SCORES,
    RULES_IN_WORDS,
    Band,
    BigBird,
    Linear,
    Linformer,
    Longformer,
    Mechanism,
    ScoreRule,
    Sigma,
    Specification,
    TopK,
    rule_against,
)
from attnlab.attention.registry import mechanisms
from attnlab.budget.budget_columns import LEAST_BUDGET, WIDEST

SIGMA_COLUMNS = (1, 2, 4, 8)
# The best pattern of one key for each head; it has no setting.
FIXED = "fixed"
# Tokens that Linformer has projections for, unless sentences are longer.
LONGEST = 512


class SearchSpace(NamedTuple):
    """Sizes that the settings of a mechanism depend on.

    Attributes:
        most: keys of a row in the middle of a sentence, at most.
        causal: whether a row sees no key behind it.
        longest: most tokens of a sentence.
    """

    most: int
    causal: bool
    longest: int

    def sizes(self, block: int = 1, least: int = 0) -> list[int]:
        """Every number of blocks up to 16, then fewer, beside so many others."""
        sizes = (*range(1, 16), *range(16, 2 * LARGEST_OFFSET, 4))
        return [size for size in sizes if size <= self.most // block - least]

    def windows(self) -> list[tuple[int, int]]:
        """Windows of these sizes: every split of the small ones, of others about five."""
        return [
            (size - 1 - right, right)
            for size in self.sizes()
            for right in ((0,) if self.causal else range(0, size, max(1, size // 4)))
        ]

    def narrower(self, columns: int) -> list[tuple[int, int]]:
        """Windows that leave so many columns: to the left, to both sides, to the right."""
        return [
            (size - 1 - right, right)
            for size in self.sizes(least=columns)
            for right in dict.fromkeys((0,) if self.causal else (0, (size - 1) // 2, size - 1))
        ]


@dataclass(frozen=True)
class Uniform:
    """A mechanism with its settings.

    Attributes:
        kind: its class.
        settings: its specifications.
        level: `calibrated`, or `oracle` where it chooses from the matrices that it replaces.
    """

    kind: type[Mechanism]
    settings: Callable[[SearchSpace], Iterable[Specification]]
    level: str = "calibrated"


def uniform_mechanisms() -> dict[str, Uniform]:
    """The mechanisms by their names in tables; those that are not listed here by `Mechanism.at_budget`."""
    kinds = mechanisms()
    uniforms = {
        "band": Uniform(kinds["band"], lambda space: map(Band, space.windows())),
        "longformer": Uniform(kinds["longformer"], _longformer),
        "bigbird": Uniform(kinds["bigbird"], _bigbird),
        **{
            f"sigma {columns}": Uniform(kinds["sigma"], partial(_sigma, columns))
            for columns in Sigma.choices["columns"]
        },
        "sigma offsets": Uniform(kinds["sigma"], _sigma_offsets),
        "linear": Uniform(kinds["linear"], _linear),
        "linformer (not trained)": Uniform(
            kinds["linformer"], lambda space: (Linformer(k, space.longest) for k in space.sizes())
        ),
        "top-k": Uniform(kinds["topk"], lambda space: map(TopK, space.sizes()), "oracle"),
    }
    for name, kind in sized_mechanisms().items():
        uniforms[name] = Uniform(kind, partial(_sized, kind))
    return uniforms


def sized_mechanisms() -> dict[str, type[Mechanism]]:
    """The mechanisms that say their setting for a number of keys themselves, by name."""
    return {
        name: kind
        for name, kind in mechanisms().items()
        if any(kind.at_budget(LEAST_BUDGET, causal=causal) is not None for causal in (False, True))
    }


def refusals(site: str, rules: Collection[ScoreRule] = ()) -> dict[str, str]:
    """The mechanisms that a site, or what a model does to the scores there, does not allow, and why."""
    kinds = {name: entry.kind for name, entry in uniform_mechanisms().items()}
    kinds[FIXED] = mechanisms()[FIXED]
    reasons = {name: _refusal(kind, site, rules) for name, kind in kinds.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _refusal(kind: type[Mechanism], site: str, rules: Collection[ScoreRule]) -> str | None:
    """Why a mechanism cannot be at a site, by its traits; None where it can."""
    if site == "decoder" and not kind.traits.causal:
        return kind.refusals.get("causal", "it has no causal form")
    if site == "cross" and not kind.traits.cross:
        return kind.refusals.get("cross", "it is not applicable to two sentences")
    against = rule_against(kind, rules)
    if against is None:
        return None
    if against == "bias":
        return NO_SCORES
    rule = RULES_IN_WORDS[against]
    return f"the model {rule} in layers there, and it has no scores of single keys for that"


def uniform(
    name: str,
    site: str,
    budget: int,
    *,
    longest: int = LONGEST,
    rules: Collection[ScoreRule] = (),
) -> Sequence[Specification]:
    """The settings of a mechanism that all heads of a site may get; none where it has no form there.

    Args:
        name: one of `uniform_mechanisms`.
        site: encoder, decoder or cross.
        budget: keys per row.
        longest: most tokens of a sentence.
        rules: what the model does to the scores of the site.
    """
    entry = uniform_mechanisms()[name]
    if _refusal(entry.kind, site, rules) is not None:
        return []
    made = entry.settings(SearchSpace(WIDEST * budget, site == "decoder", max(longest, LONGEST)))
    return list(dict.fromkeys(made))


def _longformer(space: SearchSpace) -> Iterable[Specification]:
    ends = [(0,)] if space.causal else [(0,), (0, -1)]
    return (Longformer(window, 1, end) for window in space.windows() for end in ends)


def _bigbird(space: SearchSpace) -> Iterable[Specification]:
    return (
        BigBird(block, drawn, ends)
        for block in (1, 2)
        for ends in (1, 2)
        for drawn in (0, *space.sizes(block, 4))
    )


def _sigma(columns: str, space: SearchSpace) -> Iterable[Specification]:
    return (
        Sigma(window, count, columns) for count in SIGMA_COLUMNS for window in space.narrower(count)
    )


def _sigma_offsets(space: SearchSpace) -> Iterable[Specification]:
    return (
        Sigma(window, 0, extra=count, entries="offsets")
        for count in SIGMA_COLUMNS
        for window in space.narrower(count)
    )


def _linear(space: SearchSpace) -> Iterable[Specification]:
    return Linear("elu"), Linear("taylor"), *(Linear("favor", size) for size in space.sizes())


def _sized(kind: type[Mechanism], space: SearchSpace) -> Iterable[Specification]:
    sizes = (size for size in space.sizes() if size >= LEAST_BUDGET)
    settings = (kind.at_budget(size, causal=space.causal) for size in sizes)
    return (setting for setting in settings if setting is not None)
