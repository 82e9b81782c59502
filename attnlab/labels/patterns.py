"""A small language of patterns: sets of keys for each query, read from text; knows no tensors.

    offset -1 | offset -3..-1 | word offset 1     positions relative to the query, of tokens or of words
    first | last                                  the first or last token of the text, whatever it is
    special | special [SEP] | special separator   special tokens
    punctuation | token "the"                     tokens of a kind or text
    same token | after same token                 other occurrences of the query's token; what is behind them
    rarest | rarest 2                             the rarest tokens of the text
    same word | other segment                     other pieces of the query's word; the other text of a pair
    pos ADJ -> NOUN | pos ADJ -> NOUN nearest     words by part of speech
    dep nsubj | dep nsubj reversed                the word's head by a relation; its dependents
    coref                                         other mentions of the entity of the word
    aligned                                       source words linked to the target word

`P | Q`, `P & Q` and `not P` are set operations, `not` before `&` before `|`; brackets group them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from attnlab.core import InputError, shown

OFFSET, WORD_OFFSET, FIRST, LAST, SPECIAL = "offset", "word offset", "first", "last", "special"
PUNCTUATION, TOKEN, SAME_TOKEN, AFTER_SAME = (
    "punctuation", "token", "same token", "after same token",
)  # fmt: skip
RAREST, SAME_WORD, SEGMENT, POS, DEP, COREF, ALIGNED = (
    "rarest", "same word", "other segment", "pos", "dep", "coref", "aligned",
)  # fmt: skip
SEPARATOR_NAME = "separator"
NEAREST, REVERSED = "nearest", "reversed"
_RANGE = r"([+-]?\d{1,6})(?:\s*\.\.\s*([+-]?\d{1,6}))?"
_FORMS = {
    name: re.compile(r"\s+".join(name.split()) + values + r"(?!\w)")
    for name, values in {
        OFFSET: rf"\s+{_RANGE}",
        WORD_OFFSET: rf"\s+{_RANGE}",
        FIRST: "",
        LAST: "",
        SPECIAL: rf"(?:\s+(\[[^\]\s]+\]|<[^>\s]+>|{SEPARATOR_NAME}))?",
        PUNCTUATION: "",
        TOKEN: r'\s+"([^"]+)"',
        SAME_TOKEN: "",
        AFTER_SAME: "",
        RAREST: r"(?:\s+(\d{1,6}))?",
        SAME_WORD: "",
        SEGMENT: "",
        POS: rf"\s+(\w+)\s*->\s*(\w+)(?:\s+({NEAREST}))?",
        DEP: rf"\s+([\w:]+)(?:\s+({REVERSED}))?",
        COREF: "",
        ALIGNED: "",
    }.items()
}
_SIGN = re.compile(r"\s*([|&()]|not(?!\w))")
# Each may take some calls within calls to read.
_MOST_SIGNS = 100
_EXAMPLES = 'offset -1, first, special, punctuation, token "the", same token, dep nsubj'
PHRASES = {
    "the previous word": "word offset -1",
    "the previous token": "offset -1",
    "the next word": "word offset 1",
    "the next token": "offset 1",
    "itself": "offset 0",
    "the first token": "first",
    "the beginning of the sentence": "first",
    "the separator": "special separator",
    "punctuation": "punctuation",
    "commas": 'token ","',
    "the same word": "same token",
    "rare words": "rarest 2",
    "the other sentence": "other segment",
    "its subject": "dep nsubj reversed",
    "its object": "dep obj reversed",
    "the noun of an adjective": "dep amod",
    "determiner to noun": "pos DET -> NOUN nearest",
}
# What others call a pattern, by its first word.
_CALLED = {
    "self": "offset 0",
    "diagonal": "offset 0",
    "previous": "offset -1",
    "next": "offset 1",
    "bos": "first",
    "start": "first",
    "cls": "special [CLS]",
    "sep": "special [SEP]",
    "separator": "special separator",
    "sink": "first | special",
    "induction": "after same token",
    "duplicate": "same token",
    "subject": "dep nsubj reversed",
    "object": "dep obj reversed",
    "direct": "dep obj reversed",
    "period": 'token "."',
    "nearby": "offset -3..3",
    "align": "aligned",
    "alignment": "aligned",
}
# Those of the query's own sentence.
WITHIN = frozenset({SAME_TOKEN, AFTER_SAME, SAME_WORD, SEGMENT, POS, DEP, COREF})
OF_RELATIONS = frozenset({POS, DEP, COREF, ALIGNED})
_OF_WORDS = OF_RELATIONS | {WORD_OFFSET}


@dataclass(frozen=True)
class Atom:
    """A set of keys with a name, and what stands behind it: numbers of an offset or a rank, or words."""

    name: str
    words: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Computed:
    """Keys that a function of a text gives, as a boolean matrix, see `pattern_keys.PatternText`."""

    function: Callable[[Any], Any]


@dataclass(frozen=True)
class Not:
    """All keys but those of a pattern."""

    of: "Tree"


@dataclass(frozen=True)
class Joined:
    """Keys of either pattern (`|`) or of both (`&`)."""

    sign: str
    parts: tuple["Tree", "Tree"]


Tree = Atom | Computed | Not | Joined


@dataclass(frozen=True)
class Pattern:
    """A set of keys for each query of a text.

    Attributes:
        text: as it is written; the name of a function.
        tree: what it consists of.
    """

    text: str
    tree: Tree

    @property
    def leaves(self) -> frozenset[Atom | Computed]:
        """Its parts that are no operations."""
        return frozenset(_leaves(self.tree))

    @property
    def names(self) -> frozenset[str]:
        """The names of its atoms."""
        return frozenset(leaf.name for leaf in self.leaves if isinstance(leaf, Atom))

    @property
    def of_words(self) -> bool:
        """Whether all its parts are of words, so that attention between words is counted."""
        return all(isinstance(leaf, Atom) and leaf.name in _OF_WORDS for leaf in self.leaves)

    @property
    def of_other_words(self) -> bool:
        """Whether all its parts are relations of a word to others, so that the word itself is no key."""
        return self.of_words and not self.names & {WORD_OFFSET, ALIGNED}

    @property
    def needs_words(self) -> bool:
        """Whether some part needs to know which tokens are of one word."""
        return bool(self.names & (_OF_WORDS | {SAME_WORD}))

    @property
    def names_special(self) -> bool:
        """Whether special tokens are among what it speaks of, and so among the keys that are counted."""
        return bool(self.names & {SPECIAL, FIRST, LAST})

    @property
    def is_offset(self) -> bool:
        """Whether it is made of offsets alone."""
        return len(self.names) > 0 and self.names <= {OFFSET, WORD_OFFSET}


def _leaves(tree: Tree) -> Iterator[Atom | Computed]:
    if isinstance(tree, Not):
        yield from _leaves(tree.of)
    elif isinstance(tree, Joined):
        for part in tree.parts:
            yield from _leaves(part)
    else:
        yield tree


def pattern_of(written: str | Callable[[Any], Any]) -> Pattern:
    """The pattern of a text in the language of this module, of a phrase, or of a function.

    Raises:
        InputError: the text is no pattern; the message says where it stops being one. Or it is too long.

    >>> pattern_of("the previous word").text, pattern_of("first token").text
    ('word offset -1', 'first')
    >>> pattern_of("first | not offset -3..-1").names_special
    True
    """
    if not isinstance(written, str):
        return Pattern(getattr(written, "__name__", "function"), Computed(written))
    words = " ".join(written.split()).lower()
    phrase = words if words in PHRASES or words == SAME_WORD else f"the {words}"
    text = PHRASES.get(phrase, written.strip())
    signs = len(_SIGN.findall(text))
    if signs > _MOST_SIGNS:
        msg = (
            f"The pattern '{shown(text[:40])}...' has {signs:,} of |, &, not and brackets, of which it may "
            f"have {_MOST_SIGNS}; write it shorter, or as a function."
        )
        raise InputError(msg)
    return Pattern(text, _Reader(text).whole())


def pattern_meant(words: str) -> str | None:
    """The pattern that is called so elsewhere, by its first word; None where nothing is known.

    >>> pattern_meant("[CLS]"), pattern_meant("the direct object"), pattern_meant("moon")
    ('special [CLS]', 'dep obj reversed', None)
    """
    return _CALLED.get(words.lower().removeprefix("the ").partition(" ")[0].strip("[]"))


def check_distinct(patterns: Iterable[Pattern]) -> None:
    """Raises InputError for two functions of one name, which nobody could tell apart."""
    named: dict[str, Pattern] = {}
    for pattern in patterns:
        if named.setdefault(pattern.text, pattern) != pattern:
            msg = f"Two patterns are called {pattern.text}; give each function a name of its own."
            raise InputError(msg)


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def whole(self) -> Tree:
        tree = self.either()
        if self.text[self.place :].strip():
            raise self.fault("| or & or the end")
        return tree

    def either(self) -> Tree:
        tree = self.both()
        while self.takes("|"):
            tree = Joined("|", (tree, self.both()))
        return tree

    def both(self) -> Tree:
        tree = self.part()
        while self.takes("&"):
            tree = Joined("&", (tree, self.part()))
        return tree

    def part(self) -> Tree:
        if self.takes("not"):
            return Not(self.part())
        if not self.takes("("):
            return self.atom()
        tree = self.either()
        if not self.takes(")"):
            raise self.fault("| or & or )")
        return tree

    def atom(self) -> Atom:
        rest = self.text[self.place :]
        start = self.place + len(rest) - len(rest.lstrip())
        for name, form in _FORMS.items():
            match = form.match(self.text, start)
            if match is not None:
                self.place = match.end()
                values = [value for value in match.groups() if value is not None]
                if name in {OFFSET, WORD_OFFSET, RAREST}:
                    return Atom(name, numbers=tuple(sorted(map(int, values))))
                return Atom(name, tuple(values))
        raise self.fault(f"a set of keys, such as {_EXAMPLES}", pattern_meant(rest.lstrip()))

    def takes(self, sign: str) -> bool:
        """Whether the sign is next, which is then behind the reader."""
        match = _SIGN.match(self.text, self.place)
        if match is None or match[1] != sign:
            return False
        self.place = match.end()
        return True

    def fault(self, expected: str, meant: str | None = None) -> InputError:
        rest = self.text[self.place :].lstrip()
        place = len(self.text) - len(rest) + 1
        what = f"'{shown(rest[:40])}' stands at character {place}" if rest else "it ends"
        hint = f"; did you mean '{meant}'?" if meant else "."
        msg = f"The pattern '{shown(self.text)}' cannot be read: {what} where {expected} must follow{hint}"
        return InputError(msg)
