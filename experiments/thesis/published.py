"""The thesis's published tables beside exact fits, the zero matrix and its own search run again."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from attnlab.core import write_table
from attnlab.matrices import Values, fit_sigma, l1_distance, uniform_matrix, zero_matrix
from attnlab.matrices.random_search import random_search
from attnlab.reading import load_matrices
from experiments.shared.published_search import seconds_per_head
from experiments.shared.readme import read_table

SEEDS = range(5)
BOUNDS = (0.05, 0.1, 0.5)
# Combinations of coefficients on which the plain form is timed, of 1,331.
SAMPLE = 6
REPEATS = 20
WITH_ERROR: tuple[Values, ...] = ("free", "stochastic")
SEARCHED = ["search_again", "search_again_lowest", "search_again_highest"]
# Numbers in the thesis of the tables that it prints; the other two are in its notebook alone.
PRINTED = {(3, 2): "table 16", (10, 1): "table 17"}
MEANS = [
    "published", "search_again", "zero_matrix", "uniform_matrix", "exact_free", "exact_stochastic",
    "exact_binary", "exact_free_equal_budget", "exact_stochastic_equal_budget",
    *(f"exact_free_error_{b}" for b in BOUNDS),
    *(f"exact_stochastic_error_{b}" for b in BOUNDS),
]  # fmt: skip


def write_published(data: Path, out: Path, *, keep_search: bool) -> None:
    """Compares, times and writes `published.csv` and `timing.csv`; `data` holds the thesis's files."""
    H = load_matrices(data / "heads.npz")
    rows = pd.read_csv(data / "thesis_tables.csv")
    known = read_table(out, "published") if keep_search else None
    tables, timings = [], []
    for window, num_pos in rows[["w", "num_pos"]].drop_duplicates().to_numpy().tolist():
        print(f"w={window} num_pos={num_pos}", flush=True)
        options = {"window": window, "num_pos": num_pos}
        searches = search_again(H, **options) if known is None else of_table(known, **options)
        searches = searches[SEARCHED].reset_index(drop=True)
        tables.append(compare(H, of_table(rows, **options), searches, **options))
        timings.append(measure_times(H, **options))
    write_table(out / "published.csv", pd.concat(tables, ignore_index=True))
    write_table(out / "timing.csv", pd.DataFrame(timings))


def of_table(table: pd.DataFrame, window: int, num_pos: int) -> pd.DataFrame:
    """The rows of one published table."""
    return table[(table["w"] == window) & (table["num_pos"] == num_pos)]


def search_again(H: torch.Tensor, window: int, num_pos: int) -> pd.DataFrame:
    """The thesis's search with each seed: mean, lowest and highest distance of each head."""
    found = torch.stack(
        [
            random_search(
                H.float(),
                window=window,
                num_pos=num_pos,
                generator=torch.Generator().manual_seed(seed),
            ).l1
            for seed in SEEDS
        ]
    )
    every = (found.mean(0), found.min(0).values, found.max(0).values)
    return pd.DataFrame(dict(zip(SEARCHED, (one.tolist() for one in every), strict=True)))


def compare(
    H: torch.Tensor, path_label: pd.DataFrame, searches: pd.DataFrame, window: int, num_pos: int
) -> pd.DataFrame:
    """One row a head: published distance, the search again, zero, and exact fits without and with E."""
    n = H.shape[-1]
    fit = partial(fit_sigma, H, window=window, num_pos=num_pos)
    columns = {
        "head": path_label["head"].tolist(),
        "w": window,
        "num_pos": num_pos,
        "published": path_label["min_distance"].tolist(),
        **searches.to_dict("list"),
        "zero_matrix": l1_distance(H, zero_matrix(H)).tolist(),
        "uniform_matrix": l1_distance(H, uniform_matrix(H)).tolist(),
    }
    for values in ("free", "stochastic", "binary"):
        columns[f"exact_{values}"] = fit(values=values).l1.tolist()
    for values in WITH_ERROR:
        columns[f"exact_{values}_equal_budget"] = fit(values=values, equal_budget=True).l1.tolist()
        for bound in BOUNDS:
            with_error = fit(values=values, error_nnz=n, error_bound=bound)
            columns[f"exact_{values}_error_{bound}"] = with_error.l1.tolist()
            columns[f"proven_{values}_error_{bound}"] = with_error.exact.tolist()
    table = pd.DataFrame(columns)
    table["published_relative"] = table["published"] / H.sum((-2, -1)).numpy()
    return table


def measure_times(H: torch.Tensor, window: int, num_pos: int) -> dict[str, float]:
    """Seconds per head: the plain search (from a sample), the batched search, the exact union with E."""
    head = H[0].numpy()
    plain = seconds_per_head(head, window, num_pos, SAMPLE, np.random.default_rng(SEEDS[0]))
    start = time.process_time()
    random_search(H[:1].float(), window=window, num_pos=num_pos, generator=torch.Generator())
    batched = time.process_time() - start
    exact = []
    for _ in range(REPEATS):
        start = time.process_time()
        fit_sigma(H, window=window, num_pos=num_pos, error_nnz=H.shape[-1], error_bound=0.5)
        exact.append((time.process_time() - start) / len(H))
    return {
        "w": window,
        "num_pos": num_pos,
        "plain_search_seconds_per_head": plain,
        "batched_search_seconds_per_head": batched,
        "exact_seconds_per_head": min(exact),
        "plain_over_exact": plain / min(exact),
    }


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Mean distances of each published table, one column a table."""
    grouped = table.groupby(["w", "num_pos"], sort=False)[MEANS].mean().T
    pairs: list[Any] = grouped.columns.tolist()
    grouped.columns = [
        f"w={w}, num_pos={num_pos} ({PRINTED.get((w, num_pos), 'notebook')})"
        for w, num_pos in pairs
    ]
    return grouped.reset_index(names="mean l1 over 8 heads")
