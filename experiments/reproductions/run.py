"""What papers say beside our figures, on one page that is made from the tables of results.

    python experiments/reproductions/run.py

writes docs/reproductions.md. What papers say is in papers.csv beside this script.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from attnlab.core import write_text
from experiments.reproductions.measured import MEASURES, Interval, Measured, written
from experiments.shared.readme import RESULTS, read_table, render

PAGE = RESULTS.parent / "docs" / "reproductions.md"
SAME, OTHER = "same direction", "other direction"
NOT_SHOWN, NOT_COMPARABLE = "not shown", "not comparable"
FAILURES_FIRST = (OTHER, NOT_SHOWN, NOT_COMPARABLE, SAME)
Row = dict[str, Any]


def main() -> None:
    """Writes the page."""
    write_text(PAGE, page(rows_of(RESULTS)))


def page(rows: list[Row]) -> str:
    """The page of these rows."""
    counts = Counter(row["verdict"] for row in rows)
    return render(
        __file__, {"versions": {}, "date": ""}, rows=rows, counts=counts,
        same=SAME, other=OTHER, not_shown=NOT_SHOWN, not_comparable=NOT_COMPARABLE,
    )  # fmt: skip


def rows_of(results: Path) -> list[Row]:
    """What papers say, each with our figure from a folder of results and the verdict, failures first."""
    claims = read_table(Path(__file__).parent, "papers").fillna("").to_dict("records")
    rows = [_row(claim, MEASURES[claim["key"]](results)) for claim in claims]
    return sorted(rows, key=lambda row: FAILURES_FIRST.index(row["verdict"]))


def _row(claim: dict[Any, Any], ours: Measured) -> Row:
    judged = verdict(_as_printed(ours), str(claim["side"]), float(claim["line"]))
    incomparable = ours.incomparable or claim["incomparable"]
    return {
        **claim,
        "ours": ours,
        "figure": f"{written(ours.figure, ours.form)} {ours.unit}",
        "verdict": NOT_COMPARABLE if incomparable else judged,
        "settings": f"{incomparable}; {claim['differs']}" if incomparable else claim["differs"],
    }


def _as_printed(ours: Measured) -> Interval:
    value, low, high = (float(format(end, ours.form)) for end in ours.figure)
    return value, low, high


def verdict(figure: Interval, side: str, line: float) -> str:
    """Whether the whole interval lies on the side of the line where a paper's claim has it.

    Args:
        figure: ours, with the ends of its interval.
        side: "above" or "below" the line.
        line: in the unit of the figure.
    """
    _, low, high = figure
    above, below = low > line, high < line
    if not (above or below):
        return NOT_SHOWN
    return SAME if above == (side == "above") else OTHER


if __name__ == "__main__":
    main()
