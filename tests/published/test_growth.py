"""How time and memory grow: exponents, and what is measured of children."""

import subprocess
import sys

import pandas as pd
import pytest

from experiments.growth import run as experiment


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0, 6.0, 10.0], 1.0),
        ([1.0, 3.0, 35.0], 2.0),
        ([1.0, 0.99, 1.01], 0.0),
        ([5.0, 4.9, 500.0], float("nan")),
        ([5.0, 6.0, 6.0], float("nan")),
    ],
)
def test_exponents_of_what_does_not_grow_throughout_are_not_measured(
    values: list[float], expected: float
) -> None:
    assert experiment.exponent(values) == pytest.approx(expected, nan_ok=True)


def test_growth_that_is_not_measured_reaches_nothing() -> None:
    rows = []
    for case in experiment.cases():
        size = case["sentences"] * case["tokens"] * case["heads"]
        jumps = case["question"] == "align" and case["sentences"] == 1600
        rows.append(case | {"cpu_seconds": 0.0 if jumps else float(size), "mib": 1.0})
    found = experiment.exponents(pd.DataFrame(rows)).set_index(["question", "grows"])["reached"]
    assert found["align", "sentences"] == "not measured"
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
