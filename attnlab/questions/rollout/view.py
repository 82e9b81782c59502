"""A rollout drawn: a heat map of shares after some layers; and on a terminal a row per position."""

from collections.abc import Iterator

import pandas as pd
import torch

from attnlab.core import shown
from attnlab.figures import draw_heads
from attnlab.questions.rollout.question import ROLLOUT
from attnlab.results import Contents, DrawnFigure, Result, TerminalTable

# More tokens on a side would leave no room for their names, and more layers none for the maps.
_MOST_TOKENS, _MOST_LAYERS = 80, 4
# So many tokens of a side fit on a line.
_PRINTED = 4


def contents(result: Result) -> Contents:
    """What the page of a rollout shows."""
    keys, queries = result.details["keys"], result.details["queries"]
    figures = []
    if max(len(keys), len(queries)) <= _MOST_TOKENS:
        layers = len(result.shares)
        drawn = torch.linspace(0, layers - 1, min(layers, _MOST_LAYERS)).round().long()
        figure = draw_heads(
            result.shares[drawn].float(),
            queries,
            [token for _, token in keys],
            title="Attention rollout",
            names=[f"after layer {number}" for number in drawn.tolist()],
            legend="share; each row adds up to 1",
        )
        caption = (
            "How much of each token of the input is in each position, after some of the layers."
        )
        if len({side for side, _ in keys}) > 1:
            caption += " Columns are the tokens of the source, then those of the target."
        figures.append(DrawnFigure("rollout", figure, caption))
    return Contents(figures)


def answers(result: Result) -> list[str]:
    """Which token of the source has the largest share."""
    source = [token for side, token in result.details["keys"] if side == "source"]
    mean, key = result.shares[-1, :, : len(source)].mean(0).max(0)
    answer = (
        f"Of the source '{shown(source[int(key)])}' has the largest mean share over all positions, "
        f"{ROLLOUT['share'].shown(float(mean))}."
    )
    return [answer]


def terminal(result: Result) -> Iterator[TerminalTable]:
    """A row per position, with a column for the tokens of each side."""
    sides = list(dict.fromkeys(side for side, _ in result.details["keys"]))
    headings = [f"largest shares of the {side}" for side in sides]
    rows = []
    for query, group in result.rollout.groupby("query", sort=False):
        name = f"{query} {shown(str(group['query_token'].iloc[0]))}"
        rows.append((name, *(_largest(group[group["key_side"] == side]) for side in sides)))
    named = int(result.rollout.groupby("query").size().max())
    yield TerminalTable(
        ("position", *headings), tuple(rows), prose=tuple(headings),
        legend=f"Named are those of the {named} largest shares of a position, of both sides together, "
        f"at most {_PRINTED} of a side." if len(sides) > 1 else None,
    )  # fmt: skip


def _largest(rows: pd.DataFrame) -> str:
    first = rows.head(_PRINTED)
    return ", ".join(
        f"{shown(str(token))} {ROLLOUT['share'].shown(share)}"
        for token, share in zip(first["key_token"], first["share"], strict=True)
    )
