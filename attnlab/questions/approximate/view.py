"""An approximation as a page, and on a terminal of 80 characters."""

from collections.abc import Iterator

import pandas as pd

from attnlab.core import rounded, shown
from attnlab.labels import NO_STRUCTURE, NO_STRUCTURE_MEANS
from attnlab.matrices import NO_FAMILY
from attnlab.questions.approximate.approximation import REFERENCES
from attnlab.questions.approximate.question import APPROXIMATION, LIMITS_SHOWN
from attnlab.results import (
    ADDITIVE,
    BAND,
    Contents,
    Result,
    ShownTable,
    TerminalTable,
    family_words,
)

# A longer table scrolls away; --format csv and --out have every row.
_ROWS_SHOWN = 24
_HEADINGS = {"mean_by_offset": "by offset", "column": "col"}
_DISTANCES_SAID = (
    "zero: no weights at all; uniform: equal weights; by offset: the mean of each diagonal. All families may "
    f"use as many entries per row, and the sparse error beside them; {ADDITIVE}. top: the largest "
    f"entries, as many as the largest fit may use; nothing of that size is nearer. {BAND}: bits per "
    "row decide.\n"
    "non-zeros: entries of the approximation other than 0, mean over matrices; an entry where the matrix "
    "itself is exactly 0, as dropout leaves them, is not counted."
)
_BITS_SAID = (
    "Cross-entropy of a row under the family with its best parameters within 5 offsets (a column: of the "
    "first or last two tokens), with noise, and the bits that name these parameters; each matrix is coded "
    "alone. margin: bits per row to the next family."
)


def contents(result: Result) -> Contents:
    """What the page of an approximation shows."""
    table = result.approximation
    facts = {"Matrices": f"{table['matrix'].nunique():,}"}
    tables = (ShownTable(APPROXIMATION.file, APPROXIMATION.heading, ("seconds",)),)
    return Contents(facts=facts, tables=tables)


def answers(result: Result) -> list[str]:
    """Which family needs the fewest bits, and which is nearest, a sentence each."""
    table = result.approximation
    counts = table.drop_duplicates("matrix")["structure"].value_counts()
    named = ", ".join(f"{family_words(str(name))} {n}" for name, n in counts.items() if name)
    none = f" {NO_STRUCTURE}: {NO_STRUCTURE_MEANS}." if NO_FAMILY in counts.index else ""
    lines = (
        [f"The family of the fewest bits per row, by number of matrices: {named}.{none}"]
        if named
        else []
    )
    fitted = table[~table["family"].isin(REFERENCES)]
    means = fitted.groupby("family", sort=False)["relative"].mean().dropna()
    if len(means):
        uniform = table.loc[table["family"] == "uniform", "relative"].mean()
        reference = f"; equal weights {rounded(uniform, 3)}" if pd.notna(uniform) else ""
        listed = ", ".join(
            f"{family_words(str(name))} {rounded(mean, 3)}"
            for name, mean in means.sort_values().items()
        )
        lines.append(f"Mean relative l1 distance, the nearest family first: {listed}{reference}.")
    return lines


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Distances, description lengths and chosen parameters of the first matrices, and means over all."""
    names = result.approximation["matrix"].unique().tolist()
    sizes = [" x ".join(map(str, size)) for size in result.details["sizes"]]
    size = sizes[0] if len(sizes) == 1 else f"{len(sizes)} sizes"
    title = f"l1 distance, {_matrices(len(names))} of {size}"
    parts = "; ".join(
        f"{name.lower()}: {result.about[name]}" for name in LIMITS_SHOWN if name in result.about
    )
    left = len(names) - _ROWS_SHOWN
    more = f"{_matrices(left, 'more ')}; --out DIR writes them all." if left > 0 else None
    yield _distances(result.approximation, names[:_ROWS_SHOWN], f"{title}\n{parts}")
    yield _lengths(result, names[:_ROWS_SHOWN])
    yield _members(result.approximation, names[:_ROWS_SHOWN], more)


def _matrices(count: int, which: str = "") -> str:
    return f"{count} {which}{'matrix' if count == 1 else 'matrices'}"


def _distances(table: pd.DataFrame, names: list[str], title: str) -> TerminalTable:
    # The svd is no member of a budget of entries; it stands in approximation.csv.
    table = table[table["family"] != "svd"]
    l1, relative, nnz = (APPROXIMATION[name] for name in ("l1", "relative", "nnz"))
    by_family = table.pivot_table(index="matrix", columns="family", values=l1.name, sort=False)
    headings = tuple(_HEADINGS.get(name, family_words(name)) for name in by_family.columns)
    # A distance from elsewhere declares no column.
    others = [name for name in map(str, table) if name not in APPROXIMATION]
    measures = [l1.name, relative.name, nnz.name, *others]
    means = table.groupby("family", sort=False)[measures].mean()
    rows = (
        *((shown(name), *map(l1.shown, by_family.loc[name])) for name in names),
        ("",) * (1 + len(headings)),
        (f"mean {l1.narrow}", *map(l1.shown, means[l1.name])),
        (relative.narrow, *map(relative.shown, means[relative.name])),
        *((name.replace("_", " "), *map(relative.shown, means[name])) for name in others),
        (nnz.narrow, *map(nnz.shown, means[nnz.name])),
    )
    return TerminalTable(("matrix", *headings), rows, headings, title, _DISTANCES_SAID, gap=1)


def _lengths(result: Result, names: list[str]) -> TerminalTable:
    """Bits per row of every family that is coded, whether it was fitted or not."""
    structure, margin, other, bits = (
        APPROXIMATION[name]
        for name in (
            "structure", "structure_margin_bits_per_row", "structure_runner_up", "bits_per_row",
        )
    )  # fmt: skip
    by_family = result.bits.pivot_table(
        index="matrix", columns="family", values=bits.name, sort=False, dropna=False
    )
    first = result.approximation.drop_duplicates("matrix").set_index("matrix").to_dict("index")
    numbers = (margin.narrow, *map(family_words, by_family.columns))
    rows = tuple(
        (
            shown(name),
            family_words(str(first[name][structure.name])),
            family_words(str(first[name][other.name])),
            margin.shown(first[name][margin.name]),
            *map(bits.shown, by_family.loc[name]),
        )
        for name in names
    )
    none = (result.approximation["structure"] == NO_FAMILY).any()
    legend = f"{_BITS_SAID}\n{NO_STRUCTURE}: {NO_STRUCTURE_MEANS}." if none else _BITS_SAID
    headings = ("matrix", structure.narrow, other.narrow, *numbers)
    title = f"\ndescription length, {bits.narrow}"
    return TerminalTable(headings, rows, numbers, title, legend, gap=1)


def _members(table: pd.DataFrame, names: list[str], more: str | None) -> TerminalTable:
    fitted = table[~table["family"].isin(REFERENCES)].set_index(["matrix", "family"])["member"]
    families = fitted.index.unique("family")
    rows = tuple((shown(name), *fitted[name][families]) for name in names)
    headings = tuple(map(family_words, families))
    return TerminalTable(
        ("matrix", *headings), rows, title="\nchosen parameters", caption=more, prose=headings
    )
