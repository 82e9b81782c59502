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
        ([101.0, 116.0, 356.0], 2.0),
        ([1.0, 3.0, 35.0], 2.0),
        ([1.0, 0.99, 1.01], 0.0),
        ([0.0, 0.0, 0.0], 0.0),
        ([5.0, 4.9, 500.0], float("nan")),
        ([5.0, 6.0, 6.0], float("nan")),
    ],
)
def test_exponents_are_of_the_steps_and_not_measured_where_there_are_none(
    values: list[float], expected: float
) -> None:
    assert experiment.exponent(values) == pytest.approx(expected, nan_ok=True)


def test_growth_above_the_most_is_not_reached() -> None:
    rows = []
    for case in experiment.cases():
        size = case["sentences"] * case["tokens"] * case["heads"]
        jumps = case["question"] == "align" and case["sentences"] == 1600
        # Of a pass over tokens the square is within what is allowed, the cube is not.
        cubic = case["question"] == "train" and case["grows"] == "tokens"
        seconds = 0.0 if jumps else float(size) ** (3 if cubic else 1)
        rows.append(case | {"cpu_seconds": seconds, "mib": 1.0})
    found = experiment.exponents(pd.DataFrame(rows)).set_index(["question", "grows"])["reached"]
    assert found["align", "sentences"] == "not measured"
    assert found["train", "tokens"] == "no"
    assert set(found.drop([("align", "sentences"), ("train", "tokens")])) == {"yes"}


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
