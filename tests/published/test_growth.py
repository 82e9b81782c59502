"""How time and memory grow: exponents, and what is measured of children."""

import subprocess
import sys

import pandas as pd
import pytest

from experiments.growth import run as experiment


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4.0, 6.0, 14.0], 1.0),
        ([1.0, 3.0, 35.0], 2.0),
        ([1.0, 0.99, 1.01], 0.0),
        ([5.0, 5.1, 20.4], 1.0),
        ([5.0, 4.0, 64.0], 2.0),
        ([2.0, 8.0, 4.0], -0.5),
        ([1.0, 0.0, 4.0], float("inf")),
    ],
)
def test_exponents_are_of_the_steps_and_of_the_last_values_where_the_first_step_is_small(
    values: list[float], expected: float
) -> None:
    assert experiment.exponent(values) == expected


def test_growth_above_the_most_is_not_reached() -> None:
    rows = []
    for case in experiment.cases():
        size = case["sentences"] * case["tokens"] * case["heads"]
        jumps = case["question"] == "align" and case["sentences"] == 1600
        rows.append(case | {"cpu_seconds": 0.0 if jumps else float(size), "mib": 1.0})
    found = experiment.exponents(pd.DataFrame(rows)).set_index(["question", "grows"])["reached"]
    assert found["align", "sentences"] == "no"
    assert set(found.drop(("align", "sentences"))) == {"yes"}


def test_memory_of_children_counts() -> None:
    before = experiment.anonymous_bytes()
    code = "held = b'x' * 2**26; print(len(held), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert experiment.anonymous_bytes() - before >= 2**26
        child.communicate("\n")
