"""An alignment drawn: which heads align best, their links in sentences; and its rows on a terminal."""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from attnlab.alignment import ENGINE_ROW, MARIAN_LAYER, Row
from attnlab.core import Estimate, counted
from attnlab.figures import PAGE
from attnlab.labels import AER
from attnlab.questions.align.pair_figure import draw_pair
from attnlab.questions.align.question import (
    AER_CHANGE,
    CALIBRATION,
    CHOICE_NAMES,
    CHOSEN,
    DIAGONAL,
    GENERATED_AER,
    GENERATED_CHANGE,
    GENERATION,
    HEADS,
    PRECISION,
    RECALL,
    SCORES,
    STEPS,
    SYSTEMS,
)
from attnlab.questions.align.score_figures import draw_calibration, draw_scores, measured
from attnlab.questions.align.time_view import is_of_times, shortened, times_contents, times_terminal
from attnlab.results import Contents, DrawnFigure, Result, ShownTable, TerminalTable, rows_shown

# What a result is about that the page shows.
_FACTS = (
    "Pairs", "Heads chosen on", "Heads from", "Model of the other direction", "Its heads", "Links",
)  # fmt: skip
# Defaults that are so near to the chosen heads leave little to gain.
NEAR = 0.02
# Of the heads a terminal shows the first ones.
_BEST = 10
_MOST_NAMED = 8
# What is said of systems beside the chosen heads, by their kind.
_COMPARED = {
    "baseline": "Without a choice",
    "control": "Where there is nothing to find",
    "bound": "Chosen alike, but on these very pairs",
}
_READ = {"input": "read one step later", "output": "read at the step that predicts the word"}
_WITHOUT_GOLD = HEADS["score_without_gold"]
_CHOSEN = HEADS["chosen"].heading
_PROPERTIES = tuple(HEADS[name] for name in ("confidence", "coverage", "monotonicity", "agreement"))
_ALIKE = HEADS["alike"]
# Beginning of the address that shows the links of one head.
_ADDRESS = "#head="
# Bytes of the page for links of single heads, and what a link and a kind of links of a head take.
_MOST_BYTES, _LINK_BYTES, _KIND_BYTES = 2_500_000, 50, 260
_ENDS = tuple(
    end for one in SCORES if one is not AER for end in (one.low, one.high)
)  # of figures that stand beside AER


def contents(result: Result) -> Contents:
    """What the page of an alignment shows."""
    if is_of_times(result.systems):
        return times_contents(result)
    details = result.details
    facts = {"Model": str(result.about["Model"])} if "Model" in result.about else {}
    facts |= {name: str(result.about[name]) for name in _FACTS if name in result.about}
    facts["Heads"] = (
        f"{_listed(details['chosen'])}, {_READ[details['row']]} ({details['row']} row), of "
        f"{details['layers']} x {details['heads_per_layer']}"
    )
    shown = (
        ShownTable(SYSTEMS.file, "Ways to align", _ENDS),
        ShownTable(HEADS.file, "Every head alone", _ENDS),
        ShownTable(STEPS.file, "Heads that are added one after another"),
        ShownTable(CALIBRATION.file, "How many pairs with gold links it takes"),
        ShownTable(GENERATION.file, "While the model writes, and under teacher forcing"),
    )
    return Contents(
        [
            answer_of(result),
            *_of_both(result),
            *_for_engines(result),
            *_comparisons(result),
            *_when_generated(result),
        ],
        list(_figures(result)),
        facts | _configuration(details["configuration"], details["row"]),
        shown,
    )


def terminal(result: Result) -> Iterator[TerminalTable]:
    """Ways to align; the best heads alone, of the row of the choice; and AER by calibration pairs."""
    if is_of_times(result.systems):
        yield from times_terminal(result)
        return
    tables = list(_tables_of_links(result))
    yield from tables[:-1]
    headings = {heading for table in tables for heading in table.headings}
    yield replace(tables[-1], legend=_legend(result.systems, headings))


def _legend(systems: pd.DataFrame, headings: Collection[str]) -> str | None:
    """What the columns of figures mean, where there are such."""
    said = []
    if _known(systems, AER):
        said = [
            (
                f"{AER.column.narrow}: alignment error rate with its 95 % interval, 0 where the links are "
                "the gold links and 1 where none is"
            ),
            f"{PRECISION.column.narrow}: share of the links that are possible gold links",
            f"{RECALL.column.narrow}: share of the sure gold links that are found",
        ]
        if _known(systems, AER_CHANGE):
            said.append(
                f"{AER_CHANGE.column.narrow}: {AER.column.narrow} minus that of the chosen heads"
            )
    if _WITHOUT_GOLD.heading in headings:
        four = ", ".join(one.heading for one in _PROPERTIES)
        said.append(
            f"{_WITHOUT_GOLD.heading}: geometric mean of {four}, which gold links are not needed for"
        )
    if _ALIKE.heading in headings:
        said.append(f"{_ALIKE.heading}: share of words written alike on both sides that are linked")
    if _CHOSEN in headings:
        said.append(f"{_CHOSEN}: heads that are chosen together, which need not be the best alone")
    return f"{'; '.join(said)}." if said else None


def _tables_of_links(result: Result) -> Iterator[TerminalTable]:
    yield _systems_shown(result)
    heads = _best_heads(result)
    if not heads.empty:
        yield _heads_shown(heads, len(_of_row(result)))
    curve = _curve(result)
    if len(curve) > 1:
        yield TerminalTable(
            (
                CALIBRATION["pairs"].narrow,
                AER.column.narrow,
                "over draws",
                CALIBRATION["heads"].narrow,
            ),
            tuple(
                (
                    str(int(row["pairs"])),
                    CALIBRATION["aer"].shown(row["aer"]),
                    # All pairs can be drawn in one way alone.
                    f"[{AER.column.shown(row['aer_low'])}, {AER.column.shown(row['aer_high'])}]"
                    if row["draws"] > 1
                    else "all pairs",
                    CALIBRATION["heads"].shown(row["heads"]),
                )
                for row in curve.to_dict("records")
            ),
            (
                CALIBRATION["pairs"].narrow,
                AER.column.narrow,
                "over draws",
                CALIBRATION["heads"].narrow,
            ),
            title="\nHeads chosen on fewer pairs",
        )


def _answers(result: Result) -> list[str]:
    """What came out, in sentences, but for what stands beside it."""
    return [answer_of(result), *_of_both(result), *_for_engines(result), *_when_generated(result)]


def _systems_shown(result: Result) -> TerminalTable:
    systems = result.systems
    estimates: list[Estimate] = [one for one in (AER, PRECISION, RECALL) if _known(systems, one)]
    columns = [one.column.narrow for one in estimates]
    change = [AER_CHANGE] if _known(systems, AER_CHANGE) else []
    columns += [one.column.narrow for one in change]
    name, heads = SYSTEMS["system"].narrow, SYSTEMS["heads"].narrow
    rows = tuple(
        (
            str(row["system"]),
            shortened(str(row["heads"])) if pd.notna(row["heads"]) else "",
            *(one.shown(row) if one is AER else one.column.shown(row[one.name]) for one in estimates),
            *(one.column.shown(row[one.name], signed=True) for one in change),
        )
        for row in systems.to_dict("records")
    )  # fmt: skip
    return TerminalTable(
        (name, heads, *columns), rows, tuple(columns),
        caption=" ".join(_answers(result)), gap=1, prose=(name,),
    )  # fmt: skip


def _heads_shown(heads: pd.DataFrame, total: int) -> TerminalTable:
    gold = measured(heads)
    named = heads.assign(
        head=heads["layer"].astype(str) + "." + heads["head"].astype(str),
        chosen=["yes" if one else "" for one in heads["chosen"]],
    )
    if gold:
        named[AER.name] = [AER.shown(row) for row in heads.to_dict("records")]
    wanted = [
        HEADS["head"],
        *([AER.column, PRECISION.column, RECALL.column] if gold else _PROPERTIES),
        _WITHOUT_GOLD,
        _ALIKE,
        HEADS["chosen"],
    ]
    by = "AER on these pairs" if gold else "words written alike"
    row = heads["row"].iloc[0]
    title = f"\nHeads alone, {_READ[row]} ({row} row): the best {len(heads)} of {total} by {by}"
    columns = [column for column in wanted if column.name in named]
    return rows_shown(named, columns, title=title, gap=1)


def _of_row(result: Result) -> pd.DataFrame:
    """The heads, by the row of the choice."""
    heads: pd.DataFrame = result.heads
    return heads[heads["row"] == result.details["row"]]


def _curve(result: Result) -> pd.DataFrame:
    """AER by the number of calibration pairs; no row where it is not known."""
    curve: pd.DataFrame = result.tables.get(CALIBRATION.name, pd.DataFrame({"aer": []}))
    return curve[curve["aer"].notna()]


def _best_heads(result: Result) -> pd.DataFrame:
    """The first heads by AER, or without gold links by words written alike; none without both."""
    heads = _of_row(result)
    if measured(heads):
        ordered = heads.sort_values(AER.name, kind="stable")
    elif _ALIKE.name in heads:
        ordered = heads.sort_values(
            [_ALIKE.name, _WITHOUT_GOLD.name], ascending=False, kind="stable"
        )
    else:
        return heads.head(0)
    return ordered.head(_BEST)


def _figures(result: Result) -> Iterator[DrawnFigure]:
    details, heads = result.details, result.heads
    gold, pairs = bool(details["gold"]), details["pairs"]
    names = "the chosen heads" if len(details["chosen"]) > 1 else "the chosen head"
    names = names if details["links_of"] == CHOSEN else details["links_of"]
    if measured(heads) or _WITHOUT_GOLD.name in heads:
        what = AER.column.heading if measured(heads) else _WITHOUT_GOLD.heading
        below = f" Below: links of {names} in pairs." if pairs else ""
        click = " A head of the panel with the ring leads to its own links." if pairs else ""
        figure = draw_scores(
            heads, [tuple(one) for one in details["chosen"]], details["row"],
            link=_ADDRESS if pairs else "",
        )  # fmt: skip
        yield DrawnFigure(
            "heads", figure, f"{_capital(what)} of every head alone, by layer.{below}{click}"
        )
    room = _MOST_BYTES
    for number, pair in enumerate(pairs, start=1):
        alone = [name for name in pair["links"] if name != "chosen"]
        room -= _size(pair, gold=gold)
        figure = draw_pair(pair, gold=gold, heads=alone if room > 0 else ())
        text = f"Pair {number}: source above, translation below."
        yield DrawnFigure(f"pair_{number}", figure, text)
    curve = _curve(result)
    if len(curve) > 1:
        text = (
            "AER of the heads that are chosen on so many pairs with gold links, mean over draws of these "
            "pairs and the 95 % of draws between; lines: what engines take by default, and the bound."
        )
        figure = draw_calibration(curve, result.systems, width=PAGE)
        yield DrawnFigure(CALIBRATION.name, figure, text)


def _size(pair: Mapping[str, Any], *, gold: bool) -> int:
    """About how many bytes the links of all heads of a pair take in the page."""
    missed = len(pair["possible"]) if gold else 0
    kinds = 5 if gold else 1
    return sum(
        kinds * _KIND_BYTES + (len(links) + missed) * _LINK_BYTES
        for name, links in pair["links"].items()
        if name != "chosen"
    )


def _configuration(given: Mapping[str, Any], row: Row) -> dict[str, str]:
    """What other programs take of the heads, as lines to copy; none where no head is better than others."""
    if given["generation_config"] is None:
        return {}
    lines = {"generation_config.json (of Whisper)": json.dumps(given["generation_config"])[1:-1]}
    nothing = (
        f"nothing: translation models are read on the {ENGINE_ROW} row"
        if row != ENGINE_ROW
        else "nothing: the heads are of several layers"
    )
    parts, marian = given["ctranslate2"], given["marian"]
    lines["CTranslate2"] = nothing
    if parts is not None:
        fields = ((name, value) for name, value in parts.items() if name != "heads")
        line = ", ".join(f"{name} = {json.dumps(value)}" for name, value in fields)
        del lines["CTranslate2"]
        lines[f"CTranslate2, {_named(sorted(parts['heads']))}"] = line
    if marian is not None:
        lines[f"Marian, {_named(marian['heads'])}"] = f"{MARIAN_LAYER}: {marian[MARIAN_LAYER]}"
    return lines


def _for_engines(result: Result) -> Iterator[str]:
    """How well the heads align that engines can be told of, where links are scored."""
    rows = {row["system"]: row for row in result.systems.to_dict("records")}
    given, systems = result.details["configuration"], result.systems
    parts = []
    for program, choice in (("CTranslate2", "one-layer"), ("Marian", "first-head")):
        heads = (given[program.lower()] or {"heads": []})["heads"]
        own = result.details["chosen"] == heads and result.details["row"] == ENGINE_ROW
        row = rows.get(CHOSEN if own else CHOICE_NAMES[choice])
        if heads and row is not None and _known(systems, AER):
            score = f", AER {AER.shown(row)}" if pd.notna(row[AER.name]) else ""
            takes = "average" if len(heads) > 1 else "take"
            parts.append(f"{program} can {takes} {_named(sorted(heads))}{score}")
    if parts:
        yield f"Engines read the step that predicts the word ({ENGINE_ROW} row): {'; '.join(parts)}."


def _of_both(result: Result) -> Iterator[str]:
    """How good the links of both directions are, where these are written."""
    systems, name = result.systems, result.details["links_of"]
    if name == CHOSEN or not _known(systems, AER):
        return
    row, own = systems.set_index("system").loc[name], _chosen_row(systems)[AER.name]
    if pd.isna(row[AER.name]):
        return
    away = row[AER.name] - own
    side = (
        "as good as"
        if round(away, 3) == 0
        else f"{_points(away)} {'above' if away > 0 else 'below'}"
    )
    yield (
        f"The links that are written are of {name.removeprefix(f'{CHOSEN} of ')}: AER "
        f"{AER.shown(dict(row))}, {side} those of the {CHOSEN} alone."
    )


def _known(table: pd.DataFrame, estimate: Estimate) -> bool:
    return estimate.name in table and bool(table[estimate.name].notna().any())


def _named(heads: list[list[int]]) -> str:
    """The word for heads with their names."""
    return f"{'heads' if len(heads) > 1 else 'head'} {_listed(heads)}"


def _listed(heads: list[list[int]]) -> str:
    """The names of heads, the first ones where there are many."""
    names = [f"{layer}.{head}" for layer, head in heads]
    more = len(names) - _MOST_NAMED
    if more > 1:
        return f"{', '.join(names[:_MOST_NAMED])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _chosen_row(systems: pd.DataFrame) -> dict[Any, Any]:
    return dict(systems[systems["system"] == CHOSEN].iloc[0])


def _points(difference: float) -> str:
    """A difference of AER in points of 0.01, without its sign."""
    return f"{100 * abs(difference):.1f} points"


def answer_of(result: Result) -> str:
    """Which heads align best, how well, and how far from what engines take by default, in sentences."""
    systems, said = result.systems, [_compared(result)]
    if _known(systems, AER_CHANGE):
        diagonal = systems[(systems["system"] == DIAGONAL) & (systems[AER_CHANGE.high] < 0)]
        one = len(result.details["chosen"]) == 1
        said += [
            f"The {DIAGONAL}, which reads no attention, aligns better than the chosen "
            f"{'head' if one else 'heads'}{_interval(row)}."
            for row in diagonal.to_dict("records")
        ]
    return " ".join(said)


def _compared(result: Result) -> str:
    """The first sentence of the answer."""
    details, systems = result.details, result.systems
    one, chosen = len(details["chosen"]) == 1, _chosen_row(systems)
    heads = f"{_named(details['chosen'])}, {_READ[details['row']]},"
    if not _known(systems, AER):
        return _without_gold(result, heads, chosen)
    score = f"AER {AER.shown(chosen)} on {counted(int(chosen['pairs']), 'pair')}"
    defaults = systems[(systems["kind"] == "default") & systems[AER.name].notna()]
    if defaults.empty or pd.isna(chosen[AER.name]):
        return f"{_capital(heads)} {'has' if one else 'have'} {score}."
    default = dict(defaults.loc[defaults[AER.name].idxmin()])
    gap = default[AER.name] - chosen[AER.name]
    many = len(defaults) > 1
    name = f"{default['system']}, AER {AER.shown(default)}"
    taken = f"{'the best of ' if many else ''}what engines take by default ({name})"
    if abs(gap) <= NEAR:
        side = "above" if gap > 0 else "below"
        near = "as good as" if round(gap, 3) == 0 else f"{_points(gap)} {side}"
        sure = all(abs(end) <= NEAR for end in AER_CHANGE.ends(default))
        most = f"{round(100 * NEAR)} points"
        said = (
            f"that is within {most}, so there is little to gain"
            if sure
            else f"whether the two differ by more than {most} these pairs do not tell"
        )
        return (
            f"{_capital(taken)} is {near} the chosen {heads} which {'has' if one else 'have'} "
            f"{score}{_interval(default)}: {said}."
        )
    if gap < 0:
        return (
            f"{_capital(taken)} aligns better than the chosen {heads} which {'has' if one else 'have'} "
            f"{score}, {_points(gap)} above it{_interval(default)}."
        )
    low, _ = AER_CHANGE.ends(default)
    doubt = "" if low > 0 else _interval(default, ", which holds 0")
    choices = systems.loc[systems["kind"] == "choice", AER.name]
    # Heads may have been chosen by another rule than the one that serves best here.
    best = f"{'aligns' if one else 'align'} best:" if chosen[AER.name] <= choices.min() else ""
    return (
        f"{_capital(heads)} {best or ('has' if one else 'have')} {score}, {_points(gap)} below "
        f"{taken}{doubt}."
    )


def _interval(row: Mapping[Any, Any], more: str = "") -> str:
    """That of the difference between brackets, or that so few pairs give none."""
    low, high = AER_CHANGE.ends(row)
    if math.isnan(low):
        return " (too few pairs to tell from chance)"
    return f" (95 % interval of the difference [{100 * low:+.1f}, {100 * high:+.1f}]{more})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _without_gold(result: Result, heads: str, chosen: Mapping[Any, Any]) -> str:
    one = len(result.details["chosen"]) == 1
    pairs = counted(int(chosen["pairs"]), "pair")
    if "Heads from" in result.about:
        how = f"{'gives' if one else 'give'} {counted(int(chosen['links']), 'link')} in {pairs}"
    else:
        was = "was" if one else "were"
        by = result.details.get("chosen_by")
        how = f"{was} chosen{f' by {by}' if by else ''} on {pairs}"
    return f"{_capital(heads)} {how}; without gold links nothing says how good these links are."


def _comparisons(result: Result) -> list[str]:
    """What aligns without a choice, what is found by chance, and how much a better choice could gain."""
    systems = result.systems
    if not _known(systems, AER):
        return []
    known, said = systems[systems[AER.name].notna()], []
    own = _chosen_row(systems)[AER.name]
    for kind, begins in _COMPARED.items():
        rows = known[known["kind"] == kind].sort_values(AER.name, kind="stable").to_dict("records")
        if not rows:
            continue
        parts = [f"{row['system']} {AER.shown(row)}" for row in rows]
        away = rows[0][AER.name] - own
        if kind != "control":
            parts[0] += f", {_points(away)} {'above' if away >= 0 else 'below'} the {CHOSEN}"
        said.append(f"{begins}: AER of {'; '.join(parts)}.")
    return said


def _when_generated(result: Result) -> Iterator[str]:
    """What the chosen heads say of words that the model writes itself, beside teacher forcing."""
    for row in result.tables.get(GENERATION.name, pd.DataFrame()).to_dict("records"):
        low, high = (
            GENERATED_CHANGE.column.shown(end, signed=True) for end in GENERATED_CHANGE.ends(row)
        )
        interval = f" (difference [{low}, {high}])" if low else ""
        words = counted(int(row["words"]), "word")
        free, forced = (one.column.shown(row[one.name]) for one in (GENERATED_AER, AER))
        yield (
            f"Where the model writes the translation itself, links of the {words} that it shares with the "
            f"reference ({row['word_share']:.0%}) have AER {free}, against {forced} under teacher "
            f"forcing{interval}."
        )
