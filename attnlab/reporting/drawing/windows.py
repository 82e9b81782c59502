"""Distance by window: a row per head and a column per width, with equal weights beside them."""

import pandas as pd
from matplotlib.figure import Figure

from attnlab.core.columns import HEAD_KEYS
from attnlab.core.errors import InputError
from attnlab.reporting.drawing.given import check_table
from attnlab.reporting.drawing.grid import Grid, draw_grids
from attnlab.reporting.drawing.palette import COLUMN

UNIFORM = "uniform"
_WANTED = (*HEAD_KEYS, "approximation", "window", "relative", "queries", "keys")


def distance_by_window(fits: pd.DataFrame) -> pd.DataFrame:
    """Mean relative distance from the band of each width: a row per head, then `uniform` of each site.

    The distance of equal weights from a band of width w is the share of them that lies farther than w
    from the diagonal: `1 - band / (queries keys)`, and row by row where no key ahead is visible.

    Args:
        fits: one row per head, sentence and approximation, see `Analysis.fits`.

    Raises:
        InputError: there is no band in it.
    """
    bands = fits[(fits["approximation"] == "band") & fits["window"].notna()]
    if bands.empty:
        msg = "The table has no bands; make it with sentences to fit matrices to."
        raise InputError(msg)
    heads = bands.assign(name=bands["layer"].astype(str) + "." + bands["head"].astype(str))
    order = heads.drop_duplicates(["site", "name"])
    means = heads.pivot_table(index=["site", "name"], columns="window", values="relative")
    means = means.reindex(pd.MultiIndex.from_frame(order[["site", "name"]]))
    tables = []
    for site in order["site"].unique():
        own = bands[bands["site"] == site]
        one = own[(own["layer"] == own["layer"].iloc[0]) & (own["head"] == own["head"].iloc[0])]
        beyond = one.apply(_uniform_beyond, axis="columns", causal=site == "decoder")
        uniform = beyond.groupby(one["window"]).mean().to_frame((site, UNIFORM)).T
        tables += [means.loc[[site]], uniform]
    return pd.concat(tables).rename_axis(index=["site", "name"])


def _uniform_beyond(row: "pd.Series", *, causal: bool) -> float:
    """The share of equal weights farther than the window from the diagonal of one matrix."""
    window, queries, keys = int(row["window"]), int(row["queries"]), int(row["keys"])
    within = 0.0
    for query in range(queries):
        last = min(query, keys - 1) if causal else keys - 1
        near = min(query + window, last) - max(query - window, 0) + 1
        within += max(near, 0) / (last + 1)
    return 1 - within / queries


def draw_windows(fits: pd.DataFrame, *, width: float = COLUMN) -> Figure:
    """Relative distance from the best band of each width: a row per head, `uniform` beneath each site.

    A head whose row is much lighter than that of equal weights at the same width keeps near the diagonal.

    Args:
        fits: one row per head, sentence and approximation, such as `Analysis.fits` or `fits.csv`.
        width: of the figure in inches; sites stand side by side where there is room.

    Raises:
        InputError: it is no table of fits, or there is no band in it.
    """
    check_table(fits, _WANTED, "Analysis.fits or fits.csv")
    table = distance_by_window(fits).rename(columns=int)
    sites = {str(site): own.droplevel("site") for site, own in table.groupby("site", sort=False)}
    return draw_grids(sites, _GRID, width=width)


_GRID = Grid(
    title="Distance from the best band of each width",
    across="window w (tokens on either side)",
    scale="mean relative l1 distance",
    reference=UNIFORM,
)
