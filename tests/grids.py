"""Grids of cases of which `make test` runs a part: every value of the longest axis, the others in turn.

Tests of one grid begin at different places, so that between them they meet most pairs of values.
"""

from collections.abc import Iterable
from itertools import groupby

import pytest


def slow(*cases: object) -> list[object]:
    """Cases of a parametrisation that `make test` leaves to `make test-all`."""
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]


def first(cases: Iterable[object], *, but: Iterable[object]) -> list[object]:
    """Cases of a parametrisation, those of `but` for `make test-all`."""
    rest = set(but)
    cases = list(cases)
    return [*(case for case in cases if case not in rest), *slow(*(c for c in cases if c in rest))]


def mark_rest_of_grids(items: Iterable[pytest.Item]) -> None:
    """Marks those cases of tests marked `grid` as slow that `make test` leaves to `make test-all`."""
    marked = (
        item for item in items if item.get_closest_marker("grid") and hasattr(item, "callspec")
    )
    for name, cases in groupby(marked, key=lambda item: item.nodeid.partition("[")[0]):
        for item in rest_of_grid(name, list(cases)):
            item.add_marker(pytest.mark.slow)


def rest_of_grid(name: str, cases: list[pytest.Item]) -> list[pytest.Item]:
    """The cases that are left out: all but `keep` of each value of the parameter with most values."""
    keep = cases[0].get_closest_marker("grid").kwargs.get("keep", 1)
    values = [{key: repr(value) for key, value in case.callspec.params.items()} for case in cases]
    longest = max(values[0], key=lambda key: len({value[key] for value in values}))
    of_value: dict[str, list[pytest.Item]] = {}
    for case, value in zip(cases, values, strict=True):
        of_value.setdefault(value[longest], []).append(case)
    kept = set()
    for number, group in enumerate(of_value.values(), start=sum(name.encode())):
        steps = range(0, len(group), max(1, len(group) // keep))
        kept |= {group[(number + step) % len(group)].nodeid for step in steps[:keep]}
    return [case for case in cases if case.nodeid not in kept]
