"""What the viewer of a page is given: sentences, weights as text, and facts of every head."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from attnlab.core import (
    HEAD_COLUMNS,
    Head,
    InputError,
    Site,
    briefly,
    layer_name,
    rounded,
    shown,
)
from attnlab.figures import plain
from attnlab.labels import (
    BORDERLINE,
    CONFIRMED,
    CONTROLS,
    OTHER_MARKS,
    START_MARKS,
)
from attnlab.matrices import FAMILIES
from attnlab.questions.analyze.head_table import SHOWN, head_rows, named_label
from attnlab.questions.analyze.kept_facts import MEASURES, offset_profiles
from attnlab.questions.analyze.question import ABLATION_CHANGE, QUESTION, SUMMARY
from attnlab.questions.analyze.summary import roles_of, structure_of_heads, table_of, views_of
from attnlab.reading import HEADS, OFFSETS, KeptMatrices, View
from attnlab.results import (
    SITE_NAMES,
    VIEW_NAMES,
    CutQueries,
    Result,
    Stored,
    ViewerData,
    block_maxima,
    columns_named,
    encode_weights,
    family_words,
    head_names,
    readable,
    render_page,
    rows_keeping_largest,
)

MOST_SENTENCE_BYTES = 8_000_000
MOST_PAGE_BYTES = 24_000_000
# Small pictures of longer sentences have this many pixels along the longer side.
SMALL = 64
# Of the best sentences of a head.
_MOST_NAMED = 3
_CONTINUED, _CONTINUES, _ENDS = OTHER_MARKS
_STATISTICS = ("normalised_entropy", "confidence", "mean_offset", "mass_on_special")
_LINES = ("role_figure", "control_figure", "shape")
_CONTROLS = ("label", "value", "threshold", "untrained_value", "shuffled_value", "significance")
_NEAR = (CONFIRMED, BORDERLINE)

Facts = dict[str, Any]


def viewer_data(
    result: Result,
    title: str,
    *,
    most_sentence_bytes: int = MOST_SENTENCE_BYTES,
    most_page_bytes: int = MOST_PAGE_BYTES,
) -> ViewerData | None:
    """The sentences of which matrices were kept, with what is known of every head; None without any."""
    kept = result.matrices
    blocks: dict[int, int] = {}
    room, weights, left_out = most_page_bytes, [], []
    for number in kept.sentences:
        block, stored = _encoded(kept, number, most_sentence_bytes)
        size = sum(len(layer.encoded.text) for layer in stored)
        # A page without any matrix would show nothing of what heads do.
        if size > room and blocks:
            left_out.append(number)
            continue
        room -= size
        blocks[number] = block
        weights += stored
    if not blocks:
        return None
    facts = {
        "title": shown(title),
        "sites": SITE_NAMES,
        "heads": head_facts(result, list(blocks)),
        "sentences": [_sentence(result, number, block) for number, block in blocks.items()],
    }
    return ViewerData(
        script_json(facts),
        tuple(weights),
        {number: block for number, block in blocks.items() if block > 1},
        tuple(left_out),
        _largest_kept(kept, blocks),
        tuple(
            CutQueries(number, SITE_NAMES[site], len(kept.tokens[number, site][0]), count)
            for (number, site), count in kept.all_queries.items()
            if number in blocks
        ),
    )


def script_json(value: Any) -> str:
    """JSON of which no text can end its script element, every character to be seen."""
    text = json.dumps(_printable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {name: _printable(item) for name, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list | tuple) else value


def _layers(kept: KeptMatrices, number: int) -> Iterator[tuple[Site, int, Any]]:
    for (sentence, site, layer), matrix in kept.matrices.items():
        if sentence == number:
            yield site, layer, matrix


def _encoded(kept: KeptMatrices, number: int, most_bytes: int) -> tuple[int, list[Stored]]:
    """The layers of a sentence, as maxima of the smallest blocks that fit the limit."""
    block = 1
    while True:
        stored = [
            Stored(
                f"weights.{number}.{layer_name(site, layer)}",
                encode_weights(block_maxima(matrix, block)),
            )
            for site, layer, matrix in _layers(kept, number)
        ]
        if (
            block >= SMALL
            or sum(len(layer_stored.encoded.text) for layer_stored in stored) <= most_bytes
        ):
            return block, [*stored, *_small(kept, number)]
        block *= 2


def _small(kept: KeptMatrices, number: int) -> list[Stored]:
    pictures = []
    for site, layer, matrix in _layers(kept, number):
        block = -(-max(matrix.shape[1:]) // SMALL)
        if block > 1:
            small = encode_weights(block_maxima(matrix, block))
            pictures.append(Stored(f"small.{number}.{layer_name(site, layer)}", small))
    return pictures


def _largest_kept(kept: KeptMatrices, numbers: dict[int, int]) -> tuple[int, int]:
    pairs = [
        rows_keeping_largest(matrix)
        for number, block in numbers.items()
        if block == 1
        for _, _, matrix in _layers(kept, number)
    ]
    return sum(same for same, _ in pairs), sum(rows for _, rows in pairs)


def _sentence(result: Result, number: int, block: int) -> dict[str, Any]:
    kept, sites = result.matrices, {}
    for (sentence, site), (queries, keys) in kept.tokens.items():
        if sentence != number:
            continue
        kinds = kept.kinds.get((number, site), ("w" * len(queries), "w" * len(keys)))
        sites[site] = {
            "queries": [plain(token) for token in queries],
            "keys": [plain(token) for token in keys],
            "queryWords": None,
            "keyWords": None,
            **_merged(queries, keys, kinds),
            "queryKinds": kinds[0],
            "keyKinds": kinds[1],
            "block": block,
            "fits": _outlined(result, number, site),
        }
    return {"number": number, "text": sentence_text(kept, number), "sites": sites}


def _outlined(result: Result, number: int, site: Site) -> dict[str, list[list[dict[str, Any]]]]:
    """By layer the outlines of every head of a sentence, in words; nothing for sentences of many tokens."""
    outlined = {}
    for address, heads in result.details["outlines"].items():
        layer = address.removeprefix(f"{number}.{site}.")
        if layer != address:
            outlined[layer] = [
                [
                    {
                        **fit,
                        "words": FAMILIES[fit["name"]].outlined,
                        "relative": rounded(fit["relative"], 2),
                    }
                    for fit in fits
                ]
                for fits in heads
            ]
    return outlined


def _merged(
    queries: Sequence[str], keys: Sequence[str], kinds: tuple[str, str]
) -> dict[str, dict[str, Any]]:
    """The words of both sides where some word of either is more than one token."""
    sides = {"queryWords": words_of(queries, kinds[0]), "keyWords": words_of(keys, kinds[1])}
    if len(sides["queryWords"].starts) == len(queries) and len(sides["keyWords"].starts) == len(
        keys
    ):
        return {}
    return {
        name: {"starts": side.starts, "names": [plain(word) for word in side.names]}
        for name, side in sides.items()
    }


def sentence_text(kept: KeptMatrices, number: int) -> str:
    """The tokens of a sentence as one line: of each site's keys that were not there before."""
    sides = []
    for (sentence, site), (_, keys) in kept.tokens.items():
        if sentence == number:
            kinds = kept.kinds.get((number, site), ("", "w" * len(keys)))[1]
            words = [key for key, kind in zip(keys, kinds, strict=True) if kind in "wp"]
            text = joined(words or keys)
            if text not in sides:
                sides.append(text)
    return shown(" / ".join(sides))


def joined(tokens: Sequence[str]) -> str:
    """Tokens as running text: marks of word starts are spaces, marks of continued words are taken away.

    >>> joined(["▁the", "▁cat", "s", "."]), joined(["the", "cat", "##s"]), joined(["a", "b"])
    ('the cats.', 'the cats', 'a b')
    """
    marks = [mark for mark in "▁Ġ" if any(token.startswith(mark) for token in tokens)]
    if marks:
        return "".join(tokens).replace(marks[0], " ").strip()
    return " ".join(tokens).replace(" ##", "")


@dataclass(frozen=True)
class Words:
    """Words of a sentence in order, those of one token among them.

    Attributes:
        starts: index of the first token of each.
        names: as they are written, without marks.
    """

    starts: tuple[int, ...]
    names: tuple[str, ...]


def words_of(tokens: Sequence[str], kinds: str) -> Words:
    """The words of a sentence; special tokens and punctuation stand alone.

    Args:
        tokens: as the tokenizer writes them.
        kinds: a letter of `attnlab.reading.keeping.LETTERS` per token.

    >>> words_of(["▁the", "▁cat", "s", ".", "</s>"], "wwwpc")
    Words(starts=(0, 1, 3, 4), names=('the', 'cats', '.', '</s>'))
    >>> words_of(["the", "cat", "##s"], "www").names, words_of(["ca@@", "ts", "sit"], "www").names
    (('the', 'cats'), ('cats', 'sit'))
    """
    marked = any(token.startswith(START_MARKS) for token in tokens)
    ended = any(token.endswith(_ENDS) for token in tokens)
    starts = [
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if index == 0
        or kind != "w"
        or kinds[index - 1] != "w"
        or not _continues(tokens[index - 1], token, marked=marked, ended=ended)
    ]
    ends = [*starts[1:], len(tokens)]
    names = (
        tokens[start] if kinds[start] in "ocs" else "".join(map(_plain, tokens[start:end]))
        for start, end in zip(starts, ends, strict=True)
    )
    return Words(tuple(starts), tuple(names))


def _continues(before: str, token: str, *, marked: bool, ended: bool) -> bool:
    """Whether a token goes on with the word of the one before it."""
    if marked:
        return not token.startswith(START_MARKS)
    if ended:
        return not before.endswith(_ENDS)
    return token.startswith(_CONTINUED) or before.endswith(_CONTINUES)


def _plain(token: str) -> str:
    for mark in START_MARKS:
        token = token.removeprefix(mark)
    return token.removeprefix(_CONTINUED).removesuffix(_CONTINUES).removesuffix(_ENDS)


def head_facts(result: Result, sentences: Sequence[int]) -> list[Facts]:
    """One dictionary per head, see `HeadFacts` of viewer/weights.js.

    Args:
        result: of an analysis.
        sentences: those whose matrices the page holds.
    """
    rows = {_head(row): row for row in head_rows(result.table).to_dict("records")}
    lines, controls, bits = _lines(result), _controls(result), _bits(result)
    profiles = offset_profiles(result.heads, views_of(result)[0])
    best, nearest = result.details["best_sentences"], result.details["nearest_heads"]
    facts = []
    for index, row in enumerate(result.heads.to_dict("records")):
        head = _head(row)
        ranked = best.get(str(head), {"by": "", "sentences": []})
        numbers = [pair for pair in ranked["sentences"] if pair[0] in sentences]
        facts.append(
            {
                **head._asdict(),
                "name": str(head),
                "short": _short(rows[head]),
                "phrase": str(rows[head].get("role_figure", "")),
                "lines": [*lines.get(head, []), *_statistics(row)],
                "controls": controls.get(head, {"columns": [], "rows": []}),
                "bits": bits.get(head, []),
                "offsets": _offsets(profiles[index]),
                "nearest": [(name, rounded(cosine, 3)) for name, cosine in nearest[str(head)]],
                "best": [(number, rounded(figure, 2)) for number, figure in numbers[:_MOST_NAMED]],
                "bestBy": MEASURES[ranked["by"]][0] if numbers else "",
            }
        )
    return facts


def _short(row: Mapping[Any, Any]) -> str:
    """The closest role of a head with its mark."""
    return f"{row.get('role', '')} {row.get('mark', '')}".strip()


def _lines(result: Result) -> dict[Head, list[tuple[str, str, str]]]:
    """Heading, value and meaning of the cells of the first table by head, those of a second view behind."""
    lines: dict[Head, list[tuple[str, str, str]]] = {}
    columns = columns_named(_LINES, (*SUMMARY.columns, *SHOWN))
    first: dict[Head, Mapping[Any, Any]] = {}
    for keys in views_of(result):
        for row in _rows_of_view(result, keys).to_dict("records"):
            head = _head(row)
            view = f" ({VIEW_NAMES[keys]})" if head in first else ""
            before = first.setdefault(head, {})
            lines.setdefault(head, []).extend(
                (column.heading + view, row[column.name], column.meaning)
                for column in columns
                if row.get(column.name) and row[column.name] != before.get(column.name)
            )
            if not view and not pd.isna(row.get(ABLATION_CHANGE.name, math.nan)):
                change = replace(
                    ABLATION_CHANGE, column=readable(ABLATION_CHANGE.column, result.table)
                )
                words = f"{change.shown(row, signed=True)} nats per token"
                lines[head].append((change.column.heading, words, change.column.meaning))
            first[head] = before or row
    return lines


def _rows_of_view(result: Result, keys: View) -> pd.DataFrame:
    """The rows of the first table in a view of the keys; of the second one roles and shapes alone."""
    if keys == views_of(result)[0]:
        return head_rows(result.table)
    roles, structure = roles_of(result, keys), table_of(result, "structure", keys)
    if structure.empty:
        return head_rows(roles) if len(roles) else roles
    shapes = structure_of_heads(structure)[[*HEAD_COLUMNS, "structure"]]
    return head_rows(shapes if roles.empty else roles.merge(shapes, on=HEAD_COLUMNS, how="left"))


def _statistics(row: Mapping[Any, Any]) -> list[tuple[str, str, str]]:
    columns = [HEADS[name] for name in _STATISTICS if name in row]
    return [
        (column.heading, column.shown(row[column.name]), column.meaning)
        for column in columns
        if not pd.isna(row[column.name])
    ]


def _controls(result: Result) -> dict[Head, Facts]:
    """By head its role and the labels near it beside their controls, without empty columns."""
    controls = table_of(result, "controls", views_of(result)[0])
    tables: dict[Head, Facts] = {}
    if controls.empty:
        return tables
    roles = {_head(row): row["role"] for row in head_rows(result.table).to_dict("records")}
    for _, of_head in controls.groupby(HEAD_COLUMNS, sort=False):
        address = _head(of_head.iloc[0].to_dict())
        near = of_head["status"].isin(_NEAR) | (of_head["label"] == roles[address])
        rows = [_control_cells(row) for row in of_head[near].to_dict("records")]
        filled = [name for name in _CONTROLS if any(row[name] for row in rows)]
        tables[address] = {
            "columns": [(CONTROLS[name].heading, CONTROLS[name].meaning) for name in filled],
            "rows": [
                {"cells": [row[name] for name in filled], "status": row["status"]} for row in rows
            ],
        }
    return tables


def _control_cells(row: Mapping[Any, Any]) -> dict[str, str]:
    """A label of a head as text: its figure with the interval, the threshold and what its controls reach."""
    figures = ("value", "value_low", "value_high", "threshold", "untrained_value", "shuffled_value")
    cells = {name: "" if pd.isna(row[name]) else rounded(row[name], 2) for name in figures}
    value, low, high = (cells[name] for name in figures[:3])
    return {
        **cells,
        "label": named_label(row["label"], row["detail"]),
        "value": f"{value} [{low}, {high}]" if value else "",
        "significance": row["significance"],
        "status": row["status"],
    }


def _bits(result: Result) -> dict[Head, list[tuple[str, float, str, bool]]]:
    """Family, bits per row, its best member, and whether these are the fewest bits."""
    lines: dict[Head, list[tuple[str, float, str, bool]]] = {}
    for row in table_of(result, "structure", views_of(result)[0]).to_dict("records"):
        if np.isfinite(row["bits_per_row"]):
            family = family_words(row["family"])
            line = (family, round(row["bits_per_row"], 3), row["member"] or "", bool(row["chosen"]))
            lines.setdefault(_head(row), []).append(line)
    return lines


def _offsets(profile: np.ndarray[Any, np.dtype[np.float64]]) -> list[tuple[int, float]]:
    pairs = zip(OFFSETS, profile.tolist(), strict=True)
    return [(offset, round(mass, 3)) for offset, mass in pairs if np.isfinite(mass)]


def _head(row: Mapping[Any, Any]) -> Head:
    return Head(*(row[name] for name in HEAD_COLUMNS))


@dataclass(frozen=True)
class HeadViewer:
    """A page of heads that a notebook shows in a frame.

    Attributes:
        page: as HTML; it needs nothing else.
        shown: the name of the head that it opens with, or none.
        height: of the frame, in pixels.
    """

    page: str
    shown: str | None
    height: int

    def __repr__(self) -> str:
        what = self.shown or "all heads"
        return f"HeadViewer({what}, {len(self.page) / 2**20:.1f} MiB)"

    def _repr_html_(self) -> str:
        frame = Markup(
            '<iframe srcdoc="{}" sandbox="allow-scripts allow-downloads" title="Attention heads" '
            'style="width:100%;height:{}px;border:0"></iframe>'
        )
        return str(frame.format(self.page, self.height))


def view(
    result: Result, head: str | Head | None = None, *, sentence: int = 0, height: int = 820
) -> HeadViewer:
    """The heads of an analysis as its report page shows them, for the cell of a notebook.

    Args:
        result: of `analyze`, with matrices that were kept.
        head: the one to begin with, such as `encoder.0.3`; without it all of them.
        sentence: number of a sentence whose matrices were kept, from 0.
        height: of the frame, in pixels.

    Raises:
        InputError: it is of another question, no matrices were kept, or there is no such head or sentence.
    """
    question = getattr(result, "question", None)
    if question != QUESTION.name:
        given = " ".join(briefly(result).split()) if question is None else f"A result of {question}"
        msg = (
            f"{given} has no viewer; give a result of {QUESTION.name}, as in "
            "view(analyze(source, sentences=['A text.'], keep_matrices=1))."
        )
        raise InputError(msg)
    kept = sorted({number for number, _ in result.matrices.tokens})
    if not kept:
        msg = "No matrices were kept; analyze with keep_matrices of at least 1."
        raise InputError(msg, options=["keep_matrices"])
    if sentence not in kept:
        numbers = ", ".join(map(str, kept))
        msg = f"The matrices of sentence {sentence} were not kept; choose from: {numbers}."
        raise InputError(msg)
    name = None if head is None else str(head)
    names = head_names(result.heads)
    if name is not None and name not in names:
        msg = f"There is no head {name}; choose from: {', '.join(names)}."
        raise InputError(msg)
    shown = viewer_data(result, "Attention heads")
    if shown is None or sentence in shown.left_out:
        msg = f"Sentence {sentence} is too long for a page; choose a shorter one, or analyze fewer."
        raise InputError(msg)
    start = "" if name is None else f"head={name}&"
    page = render_page(
        "Attention heads", result.about, [], [],
        viewer=shown, start=f"#{start}sentence={sentence}",
    )  # fmt: skip
    return HeadViewer(page, name, height)
