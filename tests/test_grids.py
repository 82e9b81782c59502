"""Of a grid every value of each axis runs in `make test`, and nothing is left out of `make test-all`."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from grids import mark_rest_of_grids


class Case:
    def __init__(self, test: str, keep: dict[str, int] | None, params: dict[str, Any]) -> None:
        self.nodeid = f"{test}[{params}]"
        self.callspec = SimpleNamespace(params=params)
        self.keep, self.marks = keep, list[str]()

    def get_closest_marker(self, name: str) -> Any:
        return None if self.keep is None else SimpleNamespace(kwargs=self.keep)

    def add_marker(self, marker: Any) -> None:
        self.marks.append(marker.name)


def grid(test: str, keep: dict[str, int] | None) -> list[Case]:
    axes = product("abcdefg", (1, 2, 65), (True, False))
    return [Case(test, keep, {"spec": s, "tokens": t, "causal": c}) for s, t, c in axes]


@pytest.mark.parametrize("keep", [1, 2, 6])
def test_every_value_of_the_longest_axis_runs_and_others_in_turn(keep: int) -> None:
    cases = grid("test_rule", {"keep": keep})
    mark_rest_of_grids(cases)
    kept = [case.callspec.params for case in cases if not case.marks]
    assert len(kept) == 7 * keep
    for name, values in (
        ("spec", set("abcdefg")),
        ("tokens", {1, 2, 65}),
        ("causal", {True, False}),
    ):
        assert {params[name] for params in kept} == values


def test_tests_begin_at_different_places_and_others_run_whole() -> None:
    grids = [grid(f"test_{name}", {}) for name in range(8)]
    mark_rest_of_grids([case for cases in grids for case in cases])
    kept = {
        tuple(case.callspec.params.values()) for cases in grids for case in cases if not case.marks
    }
    assert len(kept) > 7 * 3
    plain = grid("test_plain", None)
    mark_rest_of_grids(plain)
    assert not any(case.marks for case in plain)
