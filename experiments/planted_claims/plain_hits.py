"""How often a head hits a pattern, as loops over matrices and trees that use nothing of attnlab.claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import punctuation
from typing import Any

from attnlab.grammar import GrammarPair, Word


@dataclass(frozen=True)
class PlainText:
    """A sentence with all that patterns of the experiment ask.

    Attributes:
        tokens: as the tokenizer writes them.
        special: True for marks of the tokenizer.
        pieces: the tokens of each word.
        tree: its words.
        counts: how often each token stands in all sentences.
        causal: whether keys behind the query are hidden.
    """

    tokens: list[str]
    special: list[bool]
    pieces: list[list[int]]
    tree: tuple[Word, ...]
    counts: dict[str, int]
    causal: bool


def plain_texts(pairs: Sequence[GrammarPair], tokenizer: Any, *, causal: bool) -> list[PlainText]:
    """The sentences, tokenized one by one."""
    given = [tokenizer(pair.source, return_offsets_mapping=True) for pair in pairs]
    every = [number for one in given for number in one["input_ids"]]
    counts = {tokenizer.convert_ids_to_tokens(number): every.count(number) for number in set(every)}
    texts = []
    for pair, one in zip(pairs, given, strict=True):
        special = [start == end for start, end in one["offset_mapping"]]
        pieces, place = [], 0
        for word in pair.source_tree:
            end = place + len(word.form)
            spans = enumerate(one["offset_mapping"])
            pieces.append([at for at, (low, high) in spans if place <= low < high <= end])
            place = end + word.space_after
        tokens = tokenizer.convert_ids_to_tokens(one["input_ids"])
        texts.append(PlainText(tokens, special, pieces, pair.source_tree, counts, causal))
    return texts


def plain_hit(pattern: str, texts: Sequence[PlainText], matrices: Sequence[Any]) -> float:
    """The share of rows whose largest weight is of the pattern, given the matrix of each text."""
    words = pattern.startswith(("dep", "pos"))
    with_special = any(name in pattern for name in ("first", "last", "special"))
    hits = []
    for text, matrix in zip(texts, matrices, strict=True):
        weights = _between_words(matrix.tolist(), text.pieces) if words else matrix.tolist()
        for query, row in enumerate(weights):
            if not words and text.special[query]:
                continue
            among = [
                key
                for key in range(query + 1 if text.causal else len(row))
                if (key != query if words else with_special or not text.special[key])
            ]
            keys = _keys(pattern, text, query, among)
            if 0 < len(keys) < len(among):
                most = max(row[key] for key in among)
                tied = [key for key in among if row[key] == most]
                hits.append(sum(key in keys for key in tied) / len(tied))
    return sum(hits) / len(hits)


def _between_words(weights: list[list[float]], pieces: list[list[int]]) -> list[list[float]]:
    """To a word the sum over its tokens, from a word their mean."""
    return [
        [sum(weights[q][k] for q in query for k in key) / len(query) for key in pieces]
        for query in pieces
    ]


def _keys(  # noqa: C901, PLR0912 - a case a pattern
    pattern: str, text: PlainText, query: int, among: list[int]
) -> set[int]:
    """The keys of the pattern among those that count; of words where it is of words."""
    tokens, tree = text.tokens, text.tree
    match pattern.split():
        case ["offset", by]:
            return {query + int(by)} & {*among}
        case ["first"]:
            return {0} & {*among}
        case ["not", "first"]:
            return {*among} - {0}
        case ["special", "separator"]:
            return {key for key in among if tokens[key] == "[SEP]"}
        case ["punctuation"]:
            return {key for key in among if {*tokens[key]} <= {*punctuation}}
        case ["token", '"the"']:
            return {key for key in among if tokens[key] == "the"}
        case ["same", "token"]:
            return {key for key in among if key != query and tokens[key] == tokens[query]}
        case ["rarest", *count]:
            content = {token for token, mark in zip(tokens, text.special, strict=True) if not mark}
            most = int(count[0]) if count else 1
            rare = {
                token for token in content
                if sum(text.counts[other] < text.counts[token] for other in content) < most
            }  # fmt: skip
            return {key for key in among if tokens[key] in rare}
        case ["last", "&", "punctuation", "|", "offset", "1"]:
            ends = {query + 1}
            if {*tokens[-1]} <= {*punctuation}:
                ends.add(len(tokens) - 1)
            return ends & {*among}
        case ["dep", relation]:
            own = tree[query].relation.split(":")[0]
            return {tree[query].head - 1} & {*among} if own == relation else set()
        case ["dep", relation, "reversed"]:
            return {
                key
                for key in among
                if tree[key].head - 1 == query and tree[key].relation.split(":")[0] == relation
            }
        case ["pos", tag, "->", other, *nearest]:
            if tree[query].part_of_speech != tag:
                return set()
            keys = {key for key in among if key != query and tree[key].part_of_speech == other}
            least = min((abs(key - query) for key in keys), default=0)
            return {key for key in keys if not nearest or abs(key - query) == least}
    raise NotImplementedError(pattern)
