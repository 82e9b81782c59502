"""What the chosen heads are compared with, and what was hoped for before models were read."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from attnlab.questions.align.question import (
    CHOICE_NAMES,
    CHOSEN,
    ORACLE,
    REVERSE,
    SYMMETRIZATIONS,
    Choice,
    both_named,
)

FIRST_HEAD = "first head of the last layer"
STATISTICAL = "statistical aligner, both directions (grow-diag-final-and)"
# Calibration pairs at which the chosen set is compared with the bound.
FEW_PAIRS = 100


class Wanted(NamedTuple):
    """Where a difference of AER should lie, both ends included."""

    least: float = float("-inf")
    most: float = float("inf")


OF_BOUND = f"set of {FEW_PAIRS} pairs - bound"
# All but `OF_BOUND` are AER of another way to align minus AER of the chosen heads, on the same pairs.
WANTED: Mapping[str, Wanted] = {
    OF_BOUND: Wanted(most=0.01),
    "nearest default of engines": Wanted(least=0.1),
    FIRST_HEAD: Wanted(least=0.1),
    "heads chosen without gold links": Wanted(most=0.03),
    "statistical aligner": Wanted(least=0),
}


def contrasts(systems: pd.DataFrame, calibration: pd.DataFrame) -> pd.DataFrame:
    """A row a contrast: the difference of AER, its interval, and whether it lies where it should.

    Intervals are over sentence pairs; that of `OF_BOUND` holds the middle 95 % of
    draws of calibration pairs. What was not measured has no row.

    Args:
        systems: the table `systems` of `attnlab align` for one model.
        calibration: its table `calibration`.
    """
    return pd.DataFrame([*_of_bound(systems, calibration), *_of_others(systems)])


def _of_bound(systems: pd.DataFrame, calibration: pd.DataFrame) -> Iterator[dict[str, Any]]:
    bound = systems.set_index("system").loc[ORACLE, "aer"]
    for drawn in calibration[calibration["pairs"] == FEW_PAIRS].to_dict("records"):
        ends = [drawn[name] - bound for name in ("aer", "aer_low", "aer_high")]
        yield _row(OF_BOUND, ORACLE, ends)


def _of_others(systems: pd.DataFrame) -> Iterator[dict[str, Any]]:
    rows = {row["system"]: row for row in systems.to_dict("records")}
    defaults = [row for row in rows.values() if row["system_kind"] == "default"]
    others = {
        "nearest default of engines": min(defaults, key=lambda row: row["aer"])["system"],
        FIRST_HEAD: FIRST_HEAD,
        CHOICE_NAMES["unsupervised"]: CHOICE_NAMES["unsupervised"],
        "statistical aligner": STATISTICAL,
    }
    for name, other in others.items():
        if other in rows:
            columns = ("aer_change", "aer_change_low", "aer_change_high")
            yield _row(name, other, [rows[other][column] for column in columns])


def of_engines(systems: Mapping[Choice, pd.DataFrame]) -> pd.DataFrame:
    """What engines can be told of, a row each: AER, and by how much the default of both is above it.

    Args:
        systems: by what was chosen, the table `systems` of `attnlab align`.
    """
    rows = []
    for choice, table in systems.items():
        by_name = table.set_index("system")
        chosen, first = by_name.loc[CHOSEN], by_name.loc[FIRST_HEAD]
        rows.append(
            {
                "choice": CHOICE_NAMES[choice],
                **{name: chosen[name] for name in ("heads", "pairs", "aer", "aer_low", "aer_high")},
                **{
                    f"first_head{end}": first[f"aer_change{end}"]
                    for end in ("", "_low", "_high", "_p")
                },
            }
        )
    return pd.DataFrame(rows)


def of_alike(systems: pd.DataFrame) -> pd.DataFrame:
    """One row: the head chosen by words written alike, and by how much the best single one is better.

    Args:
        systems: the table `systems` of `attnlab align` without a statistical aligner, choosing unsupervised.
    """
    by_name = systems.set_index("system")
    chosen, single = by_name.loc[CHOSEN], by_name.loc[CHOICE_NAMES["single"]]
    names = ("row", "heads", "pairs", "aer", "aer_low", "aer_high")
    ends = {"": "", "_low": "_high", "_high": "_low"}
    worse = {f"worse{end}": -single[f"aer_change{other}"] for end, other in ends.items()}
    return pd.DataFrame([{name: chosen[name] for name in names} | worse])


def of_weights(systems: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a kind of weights and choice: AER of the chosen heads, and of the best single one.

    Args:
        systems: the table `systems` of `attnlab align`, by what it read.
    """
    rows = []
    for weights, table in systems.items():
        by_name = table.drop_duplicates("system").set_index("system")
        for name in (CHOSEN, CHOICE_NAMES["single"]):
            # The best single head is not told apart where the chosen set is just that head.
            row = by_name.loc[name if name in by_name.index else CHOSEN]
            ends = {end: row[end] for end in ("heads", "aer", "aer_low", "aer_high")}
            rows.append({"weights": weights, "system": name, **ends})
    return pd.DataFrame(rows)


def of_directions(systems: pd.DataFrame) -> pd.DataFrame:
    """The rows of `systems` of the chosen heads, of those of the other direction, and of both."""
    both = [both_named(how) for how in SYMMETRIZATIONS]
    return systems[systems["system"].isin([CHOSEN, REVERSE, *both])]


def _row(name: str, system: str, ends: list[float]) -> dict[str, Any]:
    difference, low, high = ends
    wanted = WANTED[name]
    return {
        "contrast": name,
        "system": system,
        "difference": difference,
        "difference_low": low,
        "difference_high": high,
        "reached": wanted.least <= difference <= wanted.most,
    }
