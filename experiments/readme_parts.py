"""What the README of every result says alike: tables in Markdown, and where numbers come from."""

from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version

import pandas as pd


def markdown(table: pd.DataFrame) -> str:
    """A frame as a Markdown table, numbers to four digits."""
    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|---" * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        cells = [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def provenance(*packages: str) -> str:
    """Date and versions as one sentence."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnlab", *packages))
    return f"Made on {datetime.now(tz=UTC).date()} with Python {python_version()}, {versions}."
