"""How often tests of a mean reject a true hypothesis at 5 %, of few and skewed values.

    python experiments/error_rates/run.py

writes results/error_rates/: a row a rule, number of sentences, distribution and weighting. Weighted values
are changes of a loss per token, sums over sentences divided by their tokens.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from attnlab.ablation import SIGNIFICANCE_LEVEL
from attnlab.core import mean_p_value, skewness_of, write_table
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    write_facts,
    write_readme,
)

OUT = RESULTS / "error_rates"
SEED, REPLICATIONS, AT_ONCE, DRAWS = 0, 20_000, 1000, 499
SENTENCES = (10, 20, 50)
# Of the normal with an effect: of the mean of so many sentences, in its standard errors.
EFFECT = 2.4
Values = Float[np.ndarray, "replication sentence"]
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Values]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "t, 3 degrees": lambda random, shape: random.standard_t(3, shape),
    "exponential": lambda random, shape: random.exponential(size=shape) - 1,
    "lognormal": lambda random, shape: random.lognormal(size=shape) - np.exp(0.5),
    "effect": lambda random, shape: random.standard_normal(shape) + EFFECT / np.sqrt(shape[1]),
}
LENGTH = 24


class Weighting(NamedTuple):
    """How sentences of unlike lengths change.

    Attributes:
        power: of the number of tokens, which the change of a sentence's loss grows with.
        shape: of the gamma distribution of lengths, whose coefficient of variation is its power -1/2.
    """

    power: float
    shape: float


# None: sentences have no lengths.
WEIGHTINGS: dict[str, Weighting | None] = {
    "equal": None,
    "tokens apart": Weighting(0.5, 4),
    "tokens alike": Weighting(1.0, 4),
    "tokens alike, lengths apart": Weighting(1.0, 2),
}
USED = "Student and Hall"


def main() -> None:
    """Simulates and writes table and README."""
    rows = [
        row
        for weighting in WEIGHTINGS
        for sentences in SENTENCES
        for name in DISTRIBUTIONS
        for row in rates(name, sentences, weighting)
    ]
    write_table(OUT / "table.csv", pd.DataFrame(rows))
    write_facts(OUT, __file__, "numpy", "scipy", seed=SEED)
    write_readme(OUT, readme(OUT))


def rates(name: str, sentences: int, weighting: str) -> Iterator[dict[str, object]]:
    """A row a rule: the share of replications with a p-value below 5 %."""
    at = list(DISTRIBUTIONS).index(name), sentences, list(WEIGHTINGS).index(weighting)
    random = np.random.default_rng((SEED, *at))
    parts = [_rejected(name, sentences, weighting, random) for _ in range(REPLICATIONS // AT_ONCE)]
    for rule in parts[0]:
        rate = float(np.mean([part[rule] for part in parts]))
        yield {
            "weighting": weighting, "sentences": sentences, "distribution": name, "rule": rule,
            "rejected": rate,
        }  # fmt: skip


def _rejected(
    name: str, sentences: int, weighting: str, random: np.random.Generator
) -> dict[str, float]:
    shape = AT_ONCE, sentences
    how = WEIGHTINGS[weighting]
    tokens = np.ones(shape)
    if how is not None:
        tokens = np.maximum(random.gamma(how.shape, LENGTH / how.shape, shape).round(), 3)
    changes = DISTRIBUTIONS[name](random, shape) * (1 if how is None else tokens**how.power)
    found = p_values(changes, tokens, random)
    return {rule: float((p < SIGNIFICANCE_LEVEL).mean()) for rule, p in found.items()}


def p_values(
    changes: Values, tokens: Values, random: np.random.Generator
) -> dict[str, Float[np.ndarray, " replication"]]:
    """By rule the p-value of no change of the loss per token, of each replication."""
    number = changes.shape[1]
    mean = changes.sum(1) / tokens.sum(1)
    without = (changes.sum(1, keepdims=True) - changes) / (tokens.sum(1, keepdims=True) - tokens)
    values = (number - 1) * (without.mean(1, keepdims=True) - without)
    second, third = ((values**power).mean(1) for power in (2, 3))
    error, skewness = np.sqrt(second / (number - 1)), skewness_of(second, third)
    t = mean / error
    student, hall = _two_sided(t, number), _two_sided(_hall(t, skewness, number), number)
    johnson = t + skewness / np.sqrt(number) * (1 / 6 + t**2 / 3)
    times = random.multinomial(number, np.full(number, 1 / number), size=DRAWS).astype(float).T
    drawn = (changes @ times) / (tokens @ times)
    spread = (changes**2) @ times - 2 * drawn * ((changes * tokens) @ times)
    spread = np.sqrt(np.maximum(spread + drawn**2 * (tokens**2 @ times), 0)) / (tokens @ times)
    spread *= np.sqrt(number / (number - 1))
    studentised = (drawn - mean[:, None]) / np.maximum(spread, 1e-12)
    of_all = np.sqrt(((changes - mean[:, None] * tokens) ** 2).sum(1) * number / (number - 1))
    own = mean / (of_all / tokens.sum(1))
    above, below = (
        (compare(studentised, own[:, None]).sum(1) + 1) / (DRAWS + 1)
        for compare in (np.greater_equal, np.less_equal)
    )
    bootstrap = np.minimum(2 * np.minimum(above, below), 1)
    far = abs(drawn - drawn.mean(1, keepdims=True)) >= abs(mean)[:, None]
    percentile = (far.sum(1) + 1) / (DRAWS + 1)
    percentile = _two_sided(stats.norm.isf(percentile / 2) * np.sqrt((number - 1) / number), number)
    signs = random.choice([-1.0, 1.0], size=(number, DRAWS))
    flipped = (abs(changes @ signs) >= abs(changes.sum(1))[:, None] - 1e-9).sum(1)
    return {
        "Student's t": student,
        "Johnson's t": _two_sided(johnson, number),
        "Hall's t": hall,
        "percentile bootstrap": percentile,
        "BCa bootstrap": _bca(mean, drawn, skewness / 6 / np.sqrt(number)),
        "studentised bootstrap": bootstrap,
        "flipped signs": (flipped + 1) / (DRAWS + 1),
        "Student and studentised bootstrap": np.maximum(student, bootstrap),
        USED: mean_p_value(mean, error, skewness, np.array(number)),
    }


def _two_sided(
    t: Float[np.ndarray, " replication"], number: int
) -> Float[np.ndarray, " replication"]:
    return 2 * stats.t.sf(abs(t), number - 1)


def _hall(
    t: Float[np.ndarray, " replication"], skewness: Float[np.ndarray, " replication"], number: int
) -> Float[np.ndarray, " replication"]:
    k = skewness / 3 / np.sqrt(number)
    return t + k * t**2 + k**2 * t**3 / 3 + k / 2


def _bca(
    mean: Float[np.ndarray, " replication"],
    drawn: Float[np.ndarray, "replication draw"],
    acceleration: Float[np.ndarray, " replication"],
) -> Float[np.ndarray, " replication"]:
    """0 where the 95 % interval of Efron (1987) is on one side of 0, and 1 elsewhere."""
    shift, of_zero = (
        stats.norm.ppf(((drawn < at[:, None]).sum(1) + 0.5) / (drawn.shape[1] + 1))
        for at in (mean, np.zeros_like(mean))
    )
    ends = []
    for sign in (-1, 1):
        moved = shift + sign * stats.norm.ppf(1 - SIGNIFICANCE_LEVEL / 2)
        ends.append(shift + moved / (1 - acceleration * moved))
    return np.where((of_zero < ends[0]) | (of_zero > ends[1]), 0.0, 1.0)


def readme(folder: Path) -> str:
    """The README of the result, from its table."""
    table = read_table(folder, "table")
    table["rejected"] *= 100
    held = table.query("rule == @USED and sentences >= 20").set_index("distribution")
    most = held.drop(["lognormal", "effect"]).groupby("weighting", sort=False)["rejected"].max()
    table["rejected"] = table["rejected"].map("{:.1f}".format)
    wide = table.pivot_table(
        index=["weighting", "sentences", "rule"], columns="distribution", values="rejected",
        aggfunc="first", sort=False,
    )  # fmt: skip
    return render(
        __file__, read_facts(folder), used=USED, replications=REPLICATIONS, draws=DRAWS, effect=EFFECT,
        length=LENGTH, tables={name: wide.loc[name].reset_index() for name in WEIGHTINGS}, most=most,
    )  # fmt: skip


if __name__ == "__main__":
    main()
