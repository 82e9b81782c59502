"""An approximation as a folder: its table and its page."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from attnlab.core.columns import rounded
from attnlab.core.errors import Note
from attnlab.core.files import write_table
from attnlab.core.folders import replacing_result
from attnlab.labels.label_columns import NO_STRUCTURE, NO_STRUCTURE_MEANS
from attnlab.matrices.candidates import NO_FAMILY
from attnlab.reporting.naming import family_words
from attnlab.reporting.page.result_page import (
    Contents,
    ShownTable,
    Tables,
    write_result_page,
)
from attnlab.reporting.record import ResultRecord, write_record
from attnlab.reporting.result_folder import APPROXIMATION
from attnlab.studies.approximation.approximation import COMPARED_WITH, Approximation
from attnlab.studies.approximation.columns import APPROXIMATIONS


def write_approximation(
    found: Approximation,
    folder: str | Path,
    *,
    title: str,
    about: Mapping[str, str],
    notes: Iterable[Note] = (),
) -> None:
    """Writes `approximation.csv` and, last, the page.

    Raises:
        AttnlabError: something could not be written.
    """
    with replacing_result(folder, APPROXIMATION.last, APPROXIMATION.older) as aside:
        write_table(aside / APPROXIMATIONS.file, found.table)
        record = ResultRecord(APPROXIMATION.what, title, about, tuple(notes))
        write_record(aside, record, {APPROXIMATIONS.file: found.table})
        write_result_page(aside, approximation_contents)


def approximation_contents(record: ResultRecord, tables: Tables) -> Contents:
    """What the page of an approximation shows."""
    table = tables[APPROXIMATIONS.file]
    facts = {name: str(value) for name, value in record.about.items()}
    facts["Matrices"] = f"{table['matrix'].nunique():,}"
    shown = ShownTable(APPROXIMATIONS.file, "Every matrix and family", ("seconds",))
    return Contents(_answers(table), facts, (), (shown,))


def _answers(table: pd.DataFrame) -> list[str]:
    """Which family needs the fewest bits, and which is nearest, a sentence each."""
    by_matrix = table.drop_duplicates("matrix")
    counts = by_matrix["structure"].value_counts()
    named = ", ".join(f"{family_words(str(name))} {n}" for name, n in counts.items() if name)
    none = f" {NO_STRUCTURE}: {NO_STRUCTURE_MEANS}." if NO_FAMILY in counts.index else ""
    answers = (
        [f"The family of the fewest bits per row, by number of matrices: {named}.{none}"]
        if named
        else []
    )
    fitted = table[~table["family"].isin(COMPARED_WITH)]
    means = fitted.groupby("family", sort=False)["relative"].mean().dropna()
    if len(means):
        uniform = table.loc[table["family"] == "uniform", "relative"].mean()
        beside = f"; equal weights {rounded(uniform, 3)}" if pd.notna(uniform) else ""
        listed = ", ".join(
            f"{family_words(str(name))} {rounded(mean, 3)}"
            for name, mean in means.sort_values().items()
        )
        answers.append(f"Mean relative l1 distance, the nearest family first: {listed}{beside}.")
    return answers
