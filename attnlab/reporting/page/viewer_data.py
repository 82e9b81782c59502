"""What the viewer of a report page is given: sentences, weights as text, and facts of every head."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from attnlab.core.addresses import Site, layer_name
from attnlab.core.texts import shown
from attnlab.reading.keeping import KeptMatrices
from attnlab.reporting.heatmaps import plain
from attnlab.reporting.naming import SITE_NAMES
from attnlab.reporting.page.fitted import fitted_layers
from attnlab.reporting.page.head_facts import CONTROL_COLUMNS, head_facts
from attnlab.reporting.page.payload import (
    CutQueries,
    Stored,
    ViewerData,
    block_maxima,
    encode_weights,
    rows_keeping_largest,
)
from attnlab.reporting.page.words import words_of
from attnlab.studies.analysis.measuring import Analysis

MOST_SENTENCE_BYTES = 8_000_000
MOST_PAGE_BYTES = 24_000_000
# Small pictures of longer sentences have this many pixels along the longer side.
SMALL = 64


def viewer_data(
    analysis: Analysis,
    title: str,
    *,
    most_sentence_bytes: int = MOST_SENTENCE_BYTES,
    most_page_bytes: int = MOST_PAGE_BYTES,
) -> ViewerData | None:
    """The sentences of which matrices were kept, with what is known of every head; None without any."""
    kept = analysis.matrices
    blocks: dict[int, int] = {}
    room, weights, left_out = most_page_bytes, [], []
    for number in kept.sentences:
        block, stored = _encoded(kept, number, most_sentence_bytes)
        size = sum(len(one.encoded.text) for one in stored)
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
        "heads": head_facts(analysis, list(blocks)),
        "sentences": [_sentence(kept, number, block) for number, block in blocks.items()],
        "controlColumns": CONTROL_COLUMNS,
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
        return {name: _printable(one) for name, one in value.items()}
    return [_printable(one) for one in value] if isinstance(value, list | tuple) else value


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
        if block >= SMALL or sum(len(one.encoded.text) for one in stored) <= most_bytes:
            return block, [*stored, *_small(kept, number)]
        block *= 2


def _small(kept: KeptMatrices, number: int) -> list[Stored]:
    found = []
    for site, layer, matrix in _layers(kept, number):
        block = -(-max(matrix.shape[1:]) // SMALL)
        if block > 1:
            small = encode_weights(block_maxima(matrix, block))
            found.append(Stored(f"small.{number}.{layer_name(site, layer)}", small))
    return found


def _largest_kept(kept: KeptMatrices, numbers: dict[int, int]) -> tuple[int, int]:
    pairs = [
        rows_keeping_largest(matrix)
        for number, block in numbers.items()
        if block == 1
        for _, _, matrix in _layers(kept, number)
    ]
    return sum(same for same, _ in pairs), sum(rows for _, rows in pairs)


def _sentence(kept: KeptMatrices, number: int, block: int) -> dict[str, Any]:
    sites = {}
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
            "fits": fitted_layers(kept, number, site),
        }
    return {"number": number, "text": sentence_text(kept, number), "sites": sites}


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
