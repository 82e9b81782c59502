"""The mechanisms that a head may get."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnlab.attention.mechanisms.band import Band
from attnlab.attention.mechanisms.full import Full
from attnlab.attention.mechanisms.keys import Keys
from attnlab.attention.mechanisms.none import Nothing
from attnlab.attention.mechanisms.static import Static
from attnlab.attention.specification import Specification
from attnlab.budget.bounds import WIDEST
from attnlab.studies.planning.statistics import REACHES, LayerSums

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)
COLUMN_TOKENS = (1, 2, 4, 8, 16)
COLUMN_OFFSETS = (0, 1, 2, 3, 5, 8, 12)
BLOCK_TOKENS = (4, 16, 64)
DIGITS = 4
LEVELS = {"none": "static", "static": "static", "full": "calibrated"}
BASELINES = ("band", "longformer", "bigbird")


@dataclass(frozen=True)
class Candidate:
    """A mechanism that a head may get, and which family it was made as."""

    family: str
    specification: Specification

    @property
    def level(self) -> str:
        """`calibrated`, support from other sentences, or `static`, weights from them too."""
        return LEVELS.get(self.family, "calibrated")


def candidates(sums: LayerSums, head: int, budget: int, families: Sequence[str]) -> list[Candidate]:
    """Everything that a head may get, each specification once.

    Args:
        sums: what the head's layer did on calibration sentences.
        head: its index.
        budget: the largest budget of the search.
        families: those that are allowed.
    """
    sizes = [size for size in SIZES if size <= WIDEST * budget] or [1]
    made = {
        "none": lambda: iter([Nothing()]),
        "full": lambda: iter([Full()]),
        "band": lambda: (Band(sums.best_window(head, size)) for size in sizes),
        "offsets": lambda: _offsets(sums, head, sizes),
        "ends": lambda: _ends(sums, head, sizes),
        "tokens": lambda: _tokens(sums, head, max(sizes)),
        "blocks": lambda: _blocks(sums, head),
        "static": lambda: _static(sums, head, sizes),
    }
    found: dict[Specification, Candidate] = {}
    for family in families:
        for specification in made[family]():
            found.setdefault(specification, Candidate(family, specification))
    return list(found.values())


def _offsets(sums: LayerSums, head: int, sizes: Sequence[int]) -> Iterator[Specification]:
    ranked = sums.offsets_by_mass((0, 0), head)
    for size in _within(sizes, len(ranked)):
        chosen = tuple(sorted(ranked[:size]))
        if not _is_window(chosen):
            yield Keys(offsets=chosen)


def _ends(sums: LayerSums, head: int, sizes: Sequence[int]) -> Iterator[Specification]:
    for end in sums.ends[1:]:
        ranked = sums.offsets_by_mass(end, head)
        for size in (0, *_within(sizes, len(ranked))):
            yield Keys(offsets=tuple(sorted(ranked[:size])), first=end[0], last=end[1])


def _tokens(sums: LayerSums, head: int, most: int) -> Iterator[Specification]:
    types, near = sums.tokens_by_weight(head, None), sums.offsets_by_mass((0, 0), head)
    for count in _within(COLUMN_TOKENS, len(types)):
        for size in (0, *_within([one for one in COLUMN_OFFSETS if 0 < one <= most], len(near))):
            yield Keys(offsets=tuple(sorted(near[:size])), tokens=tuple(types[:count]))


def _blocks(sums: LayerSums, head: int) -> Iterator[Specification]:
    for reach in REACHES:
        types = sums.tokens_by_weight(head, reach)
        for count in _within(BLOCK_TOKENS, len(types)):
            yield Keys(offsets=(0,), tokens=tuple(types[:count]), reach=reach)


def _static(sums: LayerSums, head: int, sizes: Sequence[int]) -> Iterator[Specification]:
    ranked = sums.offsets_by_mass((0, 0), head)
    for size in _within(sizes, len(ranked)):
        chosen = sorted(ranked[:size])
        weights = sums.static_weights(head, chosen)
        yield Static(tuple(chosen), tuple(float(f"{one:.{DIGITS}g}") for one in weights))


def _within(sizes: Sequence[int], most: int) -> list[int]:
    return [size for size in sizes if size <= most]


def _is_window(offsets: tuple[int, ...]) -> bool:
    """Whether the offsets are all from the first to the last, 0 among them: a band."""
    return 0 in offsets and offsets[-1] - offsets[0] == len(offsets) - 1
