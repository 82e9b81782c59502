"""The README of a result: the template beside a script, filled from the tables and facts of its folder.

`facts.json` holds what no table holds: the experiment, the date, versions, seconds, the machine, and which
rows another machine made.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from attnlab.core import versions, write_json, write_table, write_text

RESULTS, BENCHMARKS = (
    Path(__file__).resolve().parents[2] / name for name in ("results", "benchmarks")
)
Facts = Mapping[str, Any]
# Rows that another machine made than the one that wrote the README: which, the device, and its versions.
ELSEWHERE = "elsewhere"


def write_facts(folder: Path, script: str, *packages: str, **facts: Any) -> None:
    """Writes `facts.json`: which script ran when with which versions, and facts of its own."""
    made = {
        "experiment": Path(script).parent.name,
        "date": str(datetime.now(tz=UTC).date()),
        "versions": versions(packages),
    }
    write_json(folder / "facts.json", made | facts)


def read_facts(folder: Path) -> dict[str, Any]:
    """What `write_facts` wrote."""
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts


def commands_and_machines(folder: Path, command: str) -> dict[str, Any]:
    """Facts that stay when a result grows: the commands, this one last, and other machines."""
    known = read_facts(folder) if (folder / "facts.json").exists() else {}
    before = (one for one in known.get("commands", ()) if one != command)
    kept = {name: known[name] for name in (ELSEWHERE,) if name in known}
    return {"commands": [*before, command], **kept}


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """A table of the folder, every number as it was written."""
    return pd.read_csv(folder / f"{name}.csv", float_precision="round_trip")


def row_of(table: pd.DataFrame, **values: Any) -> dict[str, Any]:
    """The only row of a table with these values."""
    (row,) = table[(table[list(values)] == pd.Series(values)).all(axis=1)].to_dict("records")
    return {str(name): value for name, value in row.items()}


def put_rows(folder: Path, name: str, model: Facts, rows: pd.DataFrame) -> None:
    """Puts the rows of one model into a table of the folder, in place of those that it had.

    Args:
        folder: of the result.
        name: of the table.
        model: the columns that tell the model apart, with their values; they stand first.
        rows: of the model.
    """
    keys = list(model)
    table = rows.assign(**model)[[*keys, *rows.columns]]
    if (folder / f"{name}.csv").exists():
        known = read_table(folder, name)
        others = known[(known[keys] != pd.Series(model)[keys]).any(axis=1)]
        table = pd.concat([others, table], ignore_index=True)
    write_table(folder / f"{name}.csv", table.sort_values(keys, kind="stable"))


def write_readme(folder: Path, text: str) -> None:
    """Writes the README of a folder."""
    write_text(folder / "README.md", text)


def render(script: str, facts: Facts, **values: Any) -> str:
    """The template beside `script`, filled; a name that is in no value is an error.

    Filters: `markdown` for tables, `form` for numbers (`{{ share | form(".2f") }}`). What several templates
    say alike is in `macros.jinja`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(script).parent, Path(__file__).parent]),
        autoescape=False,  # noqa: S701 - Markdown, no page
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"markdown": markdown, "form": format}
    template = environment.get_template("README.md.jinja")
    return template.render(facts=facts, provenance=provenance(facts), **values)


def markdown(table: pd.DataFrame) -> str:
    """A frame as a Markdown table, numbers to four digits."""
    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|---" * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        cells = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def provenance(facts: Facts) -> str:
    """Date and versions as one sentence, and one for rows of each other machine."""
    made = f"Made on {facts['date']} with {_versions(facts)}."
    return " ".join([made, *map(_elsewhere, facts.get(ELSEWHERE, ()))])


def _elsewhere(one: Facts) -> str:
    return f"Rows of {one['rows']} come from one {one['device']}, with {_versions(one)}."


def _versions(facts: Facts) -> str:
    return ", ".join(f"{name} {number}" for name, number in facts["versions"].items())


def known_models(folder: Path, name: str, columns: Sequence[str]) -> set[tuple[Any, ...]]:
    """The models of which a table of a result has rows, by these columns; none where there is no table."""
    if not (folder / f"{name}.csv").exists():
        return set()
    return set(read_table(folder, name)[[*columns]].itertuples(index=False, name=None))


def estimate(row: "Mapping[Any, Any] | pd.Series[Any]", name: str, form: str) -> str:
    """A figure with its interval, where it has one."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{value:{form}}" + (f" [{low:{form}}, {high:{form}}]" if np.isfinite(low) else "")
