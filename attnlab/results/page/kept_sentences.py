"""What the viewer of a page is given of sentences: tokens, words, and weights as text, within a limit."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.core import Head, Site, layer_name, shown
from attnlab.figures import plain
from attnlab.labels import OTHER_MARKS, START_MARKS
from attnlab.reading import KeptMatrices
from attnlab.results.export import SITE_NAMES
from attnlab.results.page.rendering import (
    CutQueries,
    Stored,
    ViewerData,
    block_maxima,
    encode_weights,
    rows_keeping_largest,
)

MOST_SENTENCE_BYTES = 8_000_000
MOST_PAGE_BYTES = 24_000_000
# Small pictures of longer sentences have this many pixels along the longer side.
SMALL = 64
_CONTINUED, _CONTINUES, _ENDS = OTHER_MARKS

Facts = dict[str, Any]
# Of a sentence and site the outlines by layer, of every head.
Outlined = Callable[[int, Site], Mapping[str, Sequence[Sequence[Facts]]]]


def kept_viewer(
    kept: KeptMatrices,
    title: str,
    heads: Callable[[Sequence[int]], Sequence[Facts]],
    *,
    outlined: Outlined = lambda *_: {},
    analyzed: bool = True,
    second: int | None = None,
    most_sentence_bytes: int = MOST_SENTENCE_BYTES,
    most_page_bytes: int = MOST_PAGE_BYTES,
) -> ViewerData | None:
    """What the viewer reads of sentences whose matrices were kept; None without any.

    Args:
        kept: their matrices.
        title: of the page.
        heads: facts of every head, given the numbers of the sentences that the page holds.
        outlined: what is outlined in the matrices of a sentence.
        analyzed: whether more is known of the heads than their matrices.
        second: position of the first token of the second text of a pair that is read as one.
        most_sentence_bytes: a sentence that takes more is stored as maxima of blocks.
        most_page_bytes: sentences beyond are left out, but for the first.
    """
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
    head_facts = heads(list(blocks))
    facts = {
        "title": shown(title),
        "sites": _sites_in_words({site for _, site in kept.tokens}),
        "heads": head_facts,
        "sentences": [
            _sentence(kept, number, block, outlined, second) for number, block in blocks.items()
        ],
    }
    return ViewerData(
        script_json(facts),
        tuple(head["name"] for head in head_facts),
        tuple(weights),
        {number: block for number, block in blocks.items() if block > 1},
        tuple(left_out),
        _largest_kept(kept, blocks),
        tuple(
            CutQueries(number, SITE_NAMES[site], len(kept.tokens[number, site][0]), count)
            for (number, site), count in kept.all_queries.items()
            if number in blocks
        ),
        analyzed,
    )


def plain_heads(kept: KeptMatrices) -> Iterator[Facts]:
    """Facts of heads of which nothing is known, see `HeadFacts` of viewer/weights.js."""
    layers = {(site, layer): matrices for (_, site, layer), matrices in kept.matrices.items()}
    for (site, layer), matrices in layers.items():
        for number in range(len(matrices)):
            head = Head(site, layer, number)
            yield {
                **head._asdict(), "name": str(head), "short": "", "phrase": "", "lines": [],
                "controls": {"columns": [], "rows": []}, "bits": [], "offsets": [], "nearest": [], "best": [],
                "bestBy": "",
            }  # fmt: skip


def _sites_in_words(sites: Collection[Site]) -> dict[Site, str]:
    """What stands above the matrices of each site; of an encoder alone no source has to be told."""
    return {"encoder": "encoder self-attention"} if set(sites) == {"encoder"} else SITE_NAMES


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


def _sentence(
    kept: KeptMatrices, number: int, block: int, outlined: Outlined, second: int | None
) -> Facts:
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
            "fits": outlined(number, site),
            **({} if second is None else {"second": second}),
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
