"""The size of a model drawn: work between tokens beside the rest, against the number of tokens."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from attnlab.core import counted
from attnlab.figures import INK, PAGE, WIDE, blank, check_table, colour, panel, style
from attnlab.questions.size.question import GROWTH
from attnlab.questions.size.sizing import BETWEEN
from attnlab.results import Contents, DrawnFigure, Result


def contents(result: Result) -> Contents:
    """What the page of sizes shows."""
    caption = (
        "Multiply-adds of a pass over a text, both axes logarithmic: attention between its tokens by each "
        "mechanism, and everything else in the model."
    )
    return Contents([DrawnFigure("growth", draw_growth(result.growth, width=WIDE), caption)])


def answers(result: Result) -> list[str]:
    """The number of parameters, and from where on attention between tokens is most of the work."""
    tokens, crossings = result.details["tokens"], result.details["crossings"]
    share = result.size.set_index("part").loc[BETWEEN, "work_share"]
    starts = [
        f"{name} at no length" if start is None else f"{name} from {start:,} tokens on"
        for name, start in crossings.items()
    ]
    answer = (
        f"{result.details['parameters']:,} parameters; at {counted(tokens, 'token')} attention "
        f"between tokens is {share:.0%} of the work, and more than half by {', '.join(starts)}."
    )
    return [answer]


def draw_growth(table: pd.DataFrame, *, width: float = PAGE) -> Figure:
    """Multiply-adds by tokens, a line per mechanism and one for the rest of the model.

    Args:
        table: a row per mechanism and length, such as `size(...).growth`.
        width: of the figure in inches; both columns of a paper by default.

    Raises:
        InputError: it is no table, a column is missing, or there are no rows.
    """
    check_table(table, list(GROWTH), "the growth of attnlab.size")
    with style():
        figure = blank(width, 2.9)
        axes = panel(figure, 0.6, 0.12, width - 0.8, 2.2)
        names = list(dict.fromkeys(table["mechanism"]))
        rest = table[table["mechanism"] == names[0]]
        axes.loglog(
            rest["text_length"], rest["elsewhere"], color=INK, linestyle="--",
            label="rest of the model",
        )  # fmt: skip
        for index, name in enumerate(names):
            curve = table[table["mechanism"] == name]
            axes.loglog(
                curve["text_length"], curve["between_tokens"], "o-", markersize=3, label=str(name),
                color=colour(index),
            )  # fmt: skip
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.yaxis.set_major_formatter(EngFormatter())
        axes.set_xlabel("tokens")
        axes.set_ylabel("multiply-adds")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
