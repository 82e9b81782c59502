"""An inspection drawn: how far words move by layer; and its tables on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnlab.core import Table, counted, shown
from attnlab.figures import COLUMN, INK, WIDE, blank, check_table, colour, style
from attnlab.questions.inspect.question import MOVES, SHAPES, TOKENS
from attnlab.reading import HEADS
from attnlab.results import Contents, DrawnFigure, Result, TerminalTable, rows_shown

# Of the columns of heads, those that fit on a line of 80 characters.
_HEADS_SHOWN = {
    "site", "layer", "head", "normalised_entropy", "confidence", "mean_offset", "mass_at_offset_-1",
    "mass_at_offset_0", "mass_at_offset_1", "mass_on_special",
}  # fmt: skip
_HEADS_EXPLAINED = (
    "normalised_entropy",
    "confidence",
    "mean_offset",
    "mass_at_offset_-1",
    "mass_on_special",
)
# So many words have a name beside their line; more would hide each other.
_MOST_NAMED = 10
# Inches.
_HIGHEST = 3.4


def contents(result: Result) -> Contents:
    """What the page of an inspection shows."""
    moved = result.moves
    caption = (
        "Cosine between the vectors of a word in two contexts, by layer; dashed: the mean cosine between "
        "different words (anisotropy), above which a word has something of its own."
    )
    figures = [] if moved.empty else [DrawnFigure("moves", draw_moves(moved, width=WIDE), caption)]
    facts = {
        "Model": str(result.about["Model"]),
        "Words": " and ".join(str(len(words)) for words in result.details["words"]),
    }
    return Contents(figures, facts)


def terminal(result: Result) -> Iterator[TerminalTable]:
    """All tables, of the heads those columns that fit beside each other."""
    yield _rows("Tokens", result.tokens, TOKENS, ("special", "mask"))
    yield _rows("\nShapes", result.shapes, SHAPES)
    if len(result.moves):
        yield _rows("\nWords in two contexts", result.moves, MOVES, ("anisotropy", "adjusted"))
    heads = result.heads[[name for name in HEADS if name in _HEADS_SHOWN]]
    yield _rows("\nHeads, by layer", heads, HEADS, _HEADS_EXPLAINED)


def _rows(
    title: str, frame: pd.DataFrame, declared: Table, explained: Sequence[str] = ()
) -> TerminalTable:
    """The rows, and below them what some headings mean."""
    columns = [column for column in declared.columns if column.name in frame]
    meanings = [column.explained for column in columns if column.name in explained]
    shown_rows = rows_shown(frame, columns, title=title, gap=1)
    return replace(shown_rows, caption="\n".join(meanings) or None)


def answers(result: Result) -> list[str]:
    """How many tokens the words are, and which word moves most, as sentences."""
    tokens = result.tokens[result.tokens["mask"] == 1]
    words = sum(map(len, result.details["words"]))
    special = int(tokens["special"].sum())
    are = "is" if words == 1 else "are"
    counts = f"{counted(words, 'word')} {are} {counted(len(tokens) - special, 'token')}"
    sentences = [f"{counts}, beside {counted(special, 'special token')}."]
    moved = result.moves
    if not moved.empty:
        last = moved[moved["hidden_state"] == moved["hidden_state"].max()]
        cosines = last.groupby("word", sort=False)["cosine"].min().sort_values()
        digits = MOVES["cosine"]
        others = digits.shown(last["anisotropy"].iloc[0])
        baseline = f", where different words have {others} on average" if others else ""
        most = " most" if len(cosines) > 1 else ""
        sentences.append(
            f"Of {counted(len(cosines), 'word')} in two contexts, '{shown(str(cosines.index[0]))}' moves"
            f"{most} by the last layer: cosine {digits.shown(cosines.iloc[0])}{baseline}."
        )
    return sentences


def draw_moves(moves: pd.DataFrame, *, width: float = COLUMN) -> Figure:
    """A line per pair of contexts of a word: the cosine of its vectors by layer, over the anisotropy.

    Args:
        moves: one row per word in two contexts and layer, such as `inspect(...).moves` or `moves.csv`.
        width: of the figure in inches; a column of a paper by default.

    Raises:
        InputError: it is no such table, or has no row.
    """
    check_table(moves, list(MOVES), "inspect(...).moves or moves.csv")
    forms = list(dict.fromkeys(moves["word"]))
    with style():
        figure = blank(width, min(0.75 * width, _HIGHEST))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        sns.lineplot(
            moves.assign(pair=moves["first"].astype(str) + moves["second"].astype(str)), x="hidden_state",
            y="cosine", hue="word", units="pair", estimator=None, marker="o", legend=False, ax=axes,
            palette=[colour(index) for index in range(len(forms))],
        )  # fmt: skip
        ends = moves[moves["word"].isin(forms[:_MOST_NAMED])].drop_duplicates(
            ["word", "first", "second"], keep="last"
        )
        for word, layer, cosine in ends[["word", "hidden_state", "cosine"]].itertuples(
            index=False, name=None
        ):
            axes.annotate(
                shown(str(word)), (layer, cosine), xytext=(4, 0), textcoords="offset points", fontsize=7,
                va="center", color=INK,
            )  # fmt: skip
        common = moves.drop_duplicates("hidden_state")
        axes.plot(
            common["hidden_state"], common["anisotropy"], color=INK, linestyle="--", linewidth=0.9
        )
        axes.set_xlabel("hidden state")
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        sns.despine(figure)
    return figure
