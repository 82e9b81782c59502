"""How near tokens are in the graphs of sparse attention: edges, path lengths and spectral gaps.

    python experiments/attention_graphs/run.py

writes results/attention_graphs/: a row a graph and number of tokens, a figure, README.md. An edge joins two
tokens of which one sees the other; all graphs of one number of tokens have about as many.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.sparse.linalg import eigsh

from attnlab.core import write_table
from attnlab.figures import PAGE, blank, colour, panel, pattern, save_figure, style
from experiments.shared.readme import (
    RESULTS,
    read_facts,
    read_table,
    render,
    row_of,
    write_facts,
    write_readme,
)

OUT = RESULTS / "attention_graphs"
TOKENS = (64, 128, 256, 512, 1024, 2048)
SEEDS = range(5)
BIGBIRD, WINDOW_GLOBAL = "window, random and global", "window and global"
WINDOW_RANDOM, WINDOW, RANDOM = "window and random", "window", "random"
# Each with 6 edges a token, of which 2 to global tokens and 3 at random where it has such.
MECHANISMS = {
    BIGBIRD: "bigbird(block=1, random=3, global_blocks=2, seed={seed})",
    WINDOW_GLOBAL: "longformer(window=4, global_tokens=[0, -1])",
    WINDOW_RANDOM: "bigbird(block=1, random=5, global_blocks=0, seed={seed})",
    WINDOW: "band(window=6)",
}


def main() -> None:
    """Measures all graphs and writes table, figure and README."""
    rows = [measured(name, tokens, seed) for name in GRAPHS for tokens in TOKENS for seed in SEEDS]
    means = pd.DataFrame(rows).groupby(["graph", "tokens"], sort=False).mean().reset_index()
    write_table(OUT / "table.csv", means.drop(columns="seed"))
    save_figure(drawn(means), OUT / "graphs.svg")
    write_facts(OUT, __file__, "numpy", "scipy", seeds=len(SEEDS))
    write_readme(OUT, readme(OUT))


def of_mechanism(specification: str, tokens: int, seed: int) -> csr_array:
    """The graph of a mechanism: tokens of which one sees the other."""
    seen = pattern(specification.format(seed=seed), tokens).numpy() > 0
    joined = seen | seen.T
    np.fill_diagonal(joined, val=False)
    return csr_array(joined.astype(float))


def at_random(tokens: int, seed: int) -> csr_array:
    """As many edges as the window has, drawn among all pairs."""
    number = of_mechanism(MECHANISMS[WINDOW], tokens, seed).nnz // 2
    rows, columns = np.triu_indices(tokens, 1)
    drawn = np.random.default_rng(seed).choice(len(rows), number, replace=False)
    half = csr_array((np.ones(number), (rows[drawn], columns[drawn])), (tokens, tokens))
    return half + half.T


GRAPHS: dict[str, Callable[[int, int], csr_array]] = {
    name: lambda tokens, seed, one=specification: of_mechanism(one, tokens, seed)
    for name, specification in MECHANISMS.items()
} | {RANDOM: at_random}


def measured(name: str, tokens: int, seed: int) -> dict[str, object]:
    """One graph: its edges, mean and longest shortest path within its largest part, spectral gap.

    The gap is 1 minus the second largest eigenvalue of D^(-1/2) A D^(-1/2): how fast a random walk over the
    edges forgets where it began.
    """
    graph = GRAPHS[name](tokens, seed)
    edges = graph.nnz // 2
    _, part = connected_components(graph)
    inside = part == np.bincount(part).argmax()
    graph = graph[inside][:, inside]
    paths = shortest_path(graph, unweighted=True)
    pairs = paths[np.triu_indices(len(paths), 1)]
    scale = diags_array(1 / np.sqrt(graph.sum(axis=1)))
    # Near 1 by shift and invert: in a window the largest eigenvalues lie close together.
    (second, _) = np.sort(eigsh(scale @ graph @ scale, k=2, sigma=1 + 1e-6)[0])
    return {
        "graph": name, "tokens": tokens, "seed": seed, "edges": edges, "edges_a_token": edges / tokens,
        "connected": float(inside.mean()), "path_length": pairs.mean(), "longest_path": pairs.max(),
        "spectral_gap": 1 - second,
    }  # fmt: skip


def drawn(table: pd.DataFrame) -> Figure:
    """Mean shortest path and spectral gap against the number of tokens, a line a graph."""
    with style():
        figure = blank(PAGE, 2.7)
        for number, (column, label) in enumerate(
            (("path_length", "mean shortest path"), ("spectral_gap", "spectral gap"))
        ):
            axes = panel(figure, 0.55 + number * PAGE / 2, 0.15, PAGE / 2 - 0.75, 1.75)
            for index, (name, rows) in enumerate(table.groupby("graph", sort=False)):
                axes.loglog(
                    rows["tokens"], rows[column], "o-", markersize=3, color=colour(index),
                    linewidth=3 - index / 2, label=str(name),
                )  # fmt: skip
            axes.set(xlabel="tokens", ylabel=label)
            axes.set_xticks(TOKENS, [str(tokens) for tokens in TOKENS])
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.spines[["top", "right"]].set_visible(False)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="lower center",
            ncols=5,
            frameon=False,
            fontsize=7,
        )
    return figure


def readme(folder: Path) -> str:
    """The README of the result, from its table."""
    table = read_table(folder, "table")
    most = max(TOKENS)
    at_most = table[table["tokens"] == most].drop(columns=["tokens", "connected"])
    growth = table.pivot_table(index="graph", columns="tokens", values="path_length", sort=False)
    return render(
        __file__, read_facts(folder), most=most, at_most=at_most, growth=growth.reset_index(),
        rows={name: row_of(table, graph=name, tokens=most) for name in GRAPHS},
        bigbird=BIGBIRD, window=WINDOW, random=RANDOM, both=WINDOW_RANDOM, stars=WINDOW_GLOBAL,
        least_connected=table["connected"].min(), edges=table["edges_a_token"],
    )  # fmt: skip


if __name__ == "__main__":
    main()
