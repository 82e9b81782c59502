"""Patterns of keys as plain loops over the tokens or the words of one text."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Text:
    """A text of which everything is known.

    Attributes:
        tokens: as they are written, with ## where they go on with a word.
        special: True for marks of the tokenizer.
        word: the word of each token; None of special ones.
        tags: part of speech of each word.
        arcs: (dependent, head, relation) between words.
        entities: words of each that is spoken of.
        second: position of the first token of the second text; None without one.
        counts: how often each token stands in the corpus.
        causal: whether keys behind the query are hidden.
    """

    tokens: list[str]
    special: list[bool]
    word: list[int | None]
    tags: list[str]
    arcs: list[tuple[int, int, str]]
    entities: list[set[int]]
    second: int | None
    counts: dict[str, int]
    causal: bool

    def visible(self, query: int, key: int) -> bool:
        return key <= query or not self.causal


# Whether a key is of the pattern for a query, of tokens or of words.
Rule = Callable[[Text, int, int], bool]


def between(low: int, high: int) -> Rule:
    return lambda text, query, key: low <= key - query <= high


def same_token(text: Text, query: int, key: int) -> bool:
    return query != key and text.tokens[query] == text.tokens[key] and not text.special[key]


def after_same_token(text: Text, query: int, key: int) -> bool:
    return key > 0 and key - 1 < query and same_token(text, query, key - 1)


def rarest(most: int) -> Rule:
    def rule(text: Text, _: int, key: int) -> bool:
        if text.special[key]:
            return False
        content = {t for t, special in zip(text.tokens, text.special, strict=True) if not special}
        own = text.counts[text.tokens[key]]
        return sum(text.counts[token] < own for token in content) < most

    return rule


def same_word(text: Text, query: int, key: int) -> bool:
    return query != key and text.word[query] is not None and text.word[query] == text.word[key]


def other_segment(text: Text, query: int, key: int) -> bool:
    if text.second is None or text.special[key]:
        return False
    return (query >= text.second) != (key >= text.second)


def pos(tag: str, other: str) -> Rule:
    return lambda text, query, key: (
        query != key and text.tags[query] == tag and text.tags[key] == other
    )


def nearest(rule: Rule) -> Rule:
    def nearer(text: Text, query: int, key: int) -> bool:
        distances = [
            abs(one - query)
            for one in range(len(text.tags))
            if rule(text, query, one) and text.visible(query, one)
        ]
        return rule(text, query, key) and abs(key - query) == min(distances, default=0)

    return nearer


def dependent(relation: str) -> Rule:
    return lambda text, query, key: any(
        arc[:2] == (query, key) and arc[2].split(":")[0] == relation for arc in text.arcs
    )


def head(relation: str) -> Rule:
    return lambda text, query, key: dependent(relation)(text, key, query)


def coreferent(text: Text, query: int, key: int) -> bool:
    return query != key and any(query in words and key in words for words in text.entities)


def as_tokens(rule: Rule) -> Rule:
    """A rule of words for all their tokens."""

    def of_tokens(text: Text, query: int, key: int) -> bool:
        words = text.word[query], text.word[key]
        return None not in words and rule(text, *words)

    return of_tokens


def rows_of(
    text: Text, rule: Rule, *, words: bool, special: bool, itself: bool
) -> dict[int, tuple[set[int], set[int]]]:
    """For each row that counts the keys of the pattern, and those that count, `itself` if that may."""
    side = range(len(text.tags)) if words else range(len(text.tokens))
    found = {}
    for query in side:
        if not words and text.special[query]:
            continue
        among = {
            key
            for key in side
            if text.visible(query, key)
            and (words or special or not text.special[key])
            and (itself or key != query)
        }
        keys = {key for key in among if rule(text, query, key)}
        if keys and among - keys:
            found[query] = keys, among
    return found


def hit_and_mass(
    weights: list[list[float]], rows: dict[int, tuple[set[int], set[int]]]
) -> tuple[list[float], list[float]]:
    """Of each row the share of its largest weights that lies in the pattern, and its weight on it."""
    hits, masses = [], []
    for query, (keys, among) in rows.items():
        most = max(weights[query][key] for key in among)
        tied = [key for key in among if weights[query][key] == most]
        hits.append(sum(key in keys for key in tied) / len(tied) if most > 0 else 0)
        masses.append(sum(weights[query][key] for key in keys))
    return hits, masses


def between_words(
    weights: list[list[float]], word: list[int | None], count: int
) -> list[list[float]]:
    """To a word the sum over its tokens, from a word their mean."""
    tokens = [[t for t, own in enumerate(word) if own == number] for number in range(count)]
    return [
        [sum(weights[q][k] for q in query for k in key) / len(query) for key in tokens]
        for query in tokens
    ]


# What TransformerLens marks of a text's tokens: whether the key at j is one for the query at i.
TRANSFORMER_LENS: dict[str, Callable[[list[str], int, int], bool]] = {
    "offset -1": lambda tokens, i, j: j == i - 1,
    "same token": lambda tokens, i, j: j < i and tokens[j] == tokens[i],
    "after same token": lambda tokens, i, j: 0 < j <= i and tokens[j - 1] == tokens[i],
}


def transformer_lens(name: str, text: Text, weights: list[list[float]]) -> float:
    """The share of all weight on what is marked, over all rows and all tokens."""
    every = range(len(text.tokens))
    marked = sum(
        weights[i][j] for i in every for j in every if TRANSFORMER_LENS[name](text.tokens, i, j)
    )
    return marked / sum(weights[i][j] for i in every for j in every)
