"""Heads that say when words were spoken, drawn; and their rows on a terminal."""

import json
from collections.abc import Iterator

import pandas as pd

from attnlab.core import counted
from attnlab.questions.align.question import (
    CHOSEN,
    HEADS,
    START_CHANGE,
    START_ERROR,
    SYSTEMS,
    WORDS,
)
from attnlab.questions.align.score_figures import draw_scores
from attnlab.results import Contents, DrawnFigure, Result, ShownTable, TerminalTable, rows_shown

# Of the heads a terminal shows the first ones.
_BEST = 10
_READERS = {
    "input": "read as transformers does (input row)",
    "output": "read as OpenAI's Whisper and CTranslate2 do (output row)",
}


def times_contents(result: Result) -> Contents:
    """What the page of heads that say when words were spoken shows."""
    details = result.details
    names = ("Model", "Audio", "Heads chosen on", "Heads from")
    facts = {name: str(result.about[name]) for name in names if name in result.about}
    facts["Heads"] = (
        f"{_named(result)}, {_READERS[details['row']]}, of {details['layers']} x {details['heads_per_layer']}"
    )
    line = json.dumps(details["configuration"]["generation_config"])[1:-1]
    # CTranslate2's converter takes the line of transformers, and reads other rows than transformers does.
    facts["generation_config.json"] = line
    if details["row"] == "output":
        facts["CTranslate2, config.json"] = line
    figure = draw_scores(
        result.heads,
        [tuple(one) for one in details["chosen"]],
        details["row"],
        score=START_ERROR.column,
    )
    text = "Mean absolute error of starts of words of every head alone, in seconds, by layer."
    shown = (
        ShownTable(SYSTEMS.file, "Ways to find when words begin"),
        ShownTable(HEADS.file, "Every head alone"),
        ShownTable(WORDS.file, "Words of the audio that is scored"),
    )
    return Contents([times_answer(result)], [DrawnFigure("heads", figure, text)], facts, shown)


def times_terminal(result: Result) -> Iterator[TerminalTable]:
    """Ways to find when words begin, and the best heads alone."""
    systems = result.systems.copy()
    systems["heads"] = [shortened(one) for one in systems["heads"].fillna("")]
    columns = [SYSTEMS["system"], SYSTEMS["heads"], START_ERROR.column]
    if START_CHANGE.name in systems and systems[START_CHANGE.name].notna().any():
        columns.append(START_CHANGE.column)
    yield rows_shown(systems, columns, title=times_answer(result), gap=1)
    heads = result.heads.sort_values(START_ERROR.name, kind="stable").head(_BEST)
    named = heads.assign(
        head=heads["layer"].astype(str) + "." + heads["head"].astype(str),
        chosen=["yes" if one else "" for one in heads["chosen"]],
    )
    title = f"\nHeads alone: the best {len(heads)} of {len(result.heads)}"
    columns = [HEADS["head"], START_ERROR.column, HEADS["chosen"]]
    yield rows_shown(named, columns, title=title, gap=1)


def times_answer(result: Result) -> str:
    """Which heads say when words begin, and how well, beside what is taken by default, as a sentence."""
    systems, count = result.systems, len(result.details["chosen"])
    chosen = dict(systems[systems["system"] == CHOSEN].iloc[0])
    said = (
        f"{'Head' if count == 1 else 'Heads'} {_named(result)} find starts of words to "
        f"{START_ERROR.shown(chosen)} s in {counted(int(chosen['words']), 'word')}"
    )
    if count == 1:
        said = said.replace(" find ", " finds ")
    defaults = systems[systems["kind"] == "default"]
    if defaults.empty:
        return f"{said}."
    default = defaults.loc[defaults[START_ERROR.name].idxmin()]
    return f"{said}; {default['system']}: {START_ERROR.shown(dict(default))} s."


def _named(result: Result) -> str:
    return ", ".join(f"{layer}.{head}" for layer, head in result.details["chosen"])


def shortened(heads: str) -> str:
    """The names of two heads, and how many they are where there are more."""
    names = heads.split(", ")
    return heads if len(names) <= 2 else counted(len(names), "head")


def is_of_times(systems: pd.DataFrame) -> bool:
    """Whether a table of systems is of audio."""
    return START_ERROR.name in systems
