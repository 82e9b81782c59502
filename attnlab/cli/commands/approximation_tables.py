"""What `attnlab approximate` prints; whole on a terminal of 80 characters."""

from typing import TYPE_CHECKING

from attnlab.cli.output import new_table, print_table
from attnlab.core.installed import plugins
from attnlab.core.texts import shown as readable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from attnlab.studies.approximation.approximation import Approximation

# A longer table scrolls away; --format csv and --out have every row.
_ROWS_SHOWN = 24
_HEADINGS = {"mean_by_offset": "by offset", "column": "col"}
_NON_ZEROS = (
    "non-zeros: entries of the approximation other than 0, mean over matrices; entries of a member where "
    "the matrix itself is exactly 0, as dropout leaves them, are not counted."
)
_BITS = (
    "Cross-entropy of a row under the best member within 5 offsets, with noise, and the bits that name "
    "the member; each matrix is coded alone. margin: bits per row to the next family."
)


def print_approximation(
    console: "Console", found: "Approximation", sizes: set[tuple[int, ...]]
) -> None:
    """Distances, description lengths and chosen members of the first matrices, and means over all."""
    from attnlab.labels.label_columns import NO_STRUCTURE, NO_STRUCTURE_MEANS
    from attnlab.matrices.candidates import NO_FAMILY

    size = " x ".join(map(str, *sizes)) if len(sizes) == 1 else f"{len(sizes)} sizes"
    names = found.table["matrix"].unique().tolist()
    shown = names[:_ROWS_SHOWN]
    print_table(_distances(found.table, shown, f"l1 distance, {len(names)} matrices of {size}"))
    console.print(_at_equal_budget())
    console.print(_NON_ZEROS)
    print_table(_lengths(found, shown))
    console.print(_BITS)
    if (found.table["structure"] == NO_FAMILY).any():
        console.print(f"{NO_STRUCTURE}: {NO_STRUCTURE_MEANS}.")
    print_table(_members(found, shown))
    if len(names) > _ROWS_SHOWN:
        console.print(f"{len(names) - _ROWS_SHOWN} more matrices; --out DIR writes them all.")


def _at_equal_budget() -> str:
    from attnlab.reporting.columns import ADDITIVE, BAND

    return (
        "zero: no weights at all; uniform: equal weights; by offset: the mean of each diagonal. One budget "
        f"for all: so many entries per row, and those of E beside them; {ADDITIVE}. top: the largest "
        f"entries, as many as the largest fit may use; nothing of that size is nearer. {BAND}: bits per "
        "row decide."
    )


def _distances(table: "pd.DataFrame", names: list[str], title: str) -> "Table":
    from attnlab.studies.approximation.columns import APPROXIMATIONS

    # The svd is no member of a budget of entries; it stands in approximation.csv.
    table = table[table["family"] != "svd"]
    l1, relative, nnz = (APPROXIMATIONS[name] for name in ("l1", "relative", "nnz"))
    by_family = table.pivot_table(index="matrix", columns="family", values=l1.name, sort=False)
    families = [_HEADINGS.get(name, name).replace("_", " ") for name in by_family.columns]
    shown = new_table("matrix", *families, numbers=families, title=title, gap=1)
    for name in names:
        shown.add_row(readable(name), *map(l1.shown, by_family.loc[name]))
    means = table.groupby("family", sort=False)
    shown.add_section()
    shown.add_row(f"mean {l1.narrow}", *map(l1.shown, means[l1.name].mean()))
    shown.add_row(relative.narrow, *map(relative.shown, means[relative.name].mean()))
    for name in plugins("attnlab.distances"):
        # A distance from elsewhere declares no column.
        shown.add_row(name.replace("_", " "), *map(relative.shown, means[name].mean()))
    shown.add_row(nnz.narrow, *map(nnz.shown, means[nnz.name].mean()))
    return shown


def _family(name: str) -> str:
    from attnlab.labels.label_columns import NO_STRUCTURE
    from attnlab.matrices.candidates import NO_FAMILY

    return NO_STRUCTURE if name == NO_FAMILY else name.replace("_", " ")


def _lengths(found: "Approximation", names: list[str]) -> "Table":
    """Bits per row of every family that is coded, whether it was fitted or not."""
    from attnlab.studies.approximation.columns import APPROXIMATIONS

    structure, margin, other, bits = (
        APPROXIMATIONS[name]
        for name in (
            "structure",
            "structure_margin_bits_per_row",
            "structure_runner_up",
            "bits_per_row",
        )
    )
    by_family = found.bits.set_index("matrix")
    numbers = [margin.narrow, *map(_family, by_family.columns)]
    shown = new_table(
        "matrix",
        structure.narrow,
        other.narrow,
        *numbers,
        numbers=numbers,
        title=f"\ndescription length, {bits.narrow}",
        gap=1,
    )
    first = found.table.drop_duplicates("matrix").set_index("matrix").to_dict("index")
    for name in names:
        chosen = first[name]
        shown.add_row(
            readable(name),
            _family(str(chosen[structure.name])),
            _family(str(chosen[other.name])),
            margin.shown(chosen[margin.name]),
            *map(bits.shown, by_family.loc[name]),
        )
    return shown


def _members(found: "Approximation", names: list[str]) -> "Table":
    families = [name.replace("_", " ") for name in found.members]
    members = new_table("matrix", *families, prose=families, title="\nchosen members")
    for index, name in enumerate(names):
        members.add_row(readable(name), *(phrases[index] for phrases in found.members.values()))
    return members
