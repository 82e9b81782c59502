"""Mean weight by offset, a row per head."""

import pandas as pd
from matplotlib.figure import Figure

from attnlab.core.columns import HEAD_KEYS
from attnlab.core.errors import InputError
from attnlab.core.texts import briefly
from attnlab.reading.statistics_columns import CONTENT_OFFSET_PREFIX, OFFSET_PREFIX, OFFSETS
from attnlab.reading.weights import ALL, CONTENT, View
from attnlab.reporting.canvas import WEIGHTS
from attnlab.reporting.drawing.given import check_table
from attnlab.reporting.drawing.grid import Grid, draw_grids
from attnlab.reporting.drawing.palette import COLUMN

_PREFIXES = {ALL: OFFSET_PREFIX, CONTENT: CONTENT_OFFSET_PREFIX}
_TITLES = {ALL: "Mean weight by offset", CONTENT: "Mean share of the content tokens by offset"}


def draw_offsets(heads: pd.DataFrame, keys: View = ALL, *, width: float = COLUMN) -> Figure:
    """Mean weight at offsets -5..5 (key - query position): a row per head, a panel per site.

    Args:
        heads: one row per head, such as `Analysis.heads` or `heads.csv`.
        keys: `all`, or `content`: shares of the weight on content tokens.
        width: of the figure in inches; sites stand side by side where there is room.

    Raises:
        InputError: it is no table of heads, a column is missing, or there is no such view.
    """
    if keys not in _PREFIXES:
        msg = f"keys must be one of {', '.join(_PREFIXES)}, not {briefly(keys)}."
        raise InputError(msg)
    prefix = _PREFIXES[keys]
    wanted = [*HEAD_KEYS, *(f"{prefix}{offset}" for offset in OFFSETS)]
    check_table(heads, wanted, "Analysis.heads or heads.csv")
    sites = heads.groupby("site", sort=False)
    grid = Grid(
        title=_TITLES[keys],
        across="offset: key - query position (tokens)",
        scale="mean weight (square root scale)",
        ticks=(0.0, 0.05, 0.25, 0.5, 1.0),
        norm=WEIGHTS,
    )
    tables = {str(site): _by_offset(table, prefix) for site, table in sites}
    return draw_grids(tables, grid, width=width)


def _by_offset(heads: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """Mean weight, a row per head and a column per offset; missing where no row may look."""
    columns = [name for name in map(str, heads) if name.startswith(prefix)]
    offsets = [int(name.removeprefix(prefix)) for name in columns]
    table = heads[columns].set_axis([f"{o:+d}" if o else "0" for o in offsets], axis="columns")
    names = [f"{row.layer}.{row.head}" for row in heads.itertuples()]
    return table.set_axis(names, axis="index")
