"""Concepts by their name, to write structures by hand."""

from attnlab.grammar.lexicon import (
    ADJECTIVES,
    FREQUENCIES,
    MANNERS,
    NOUNS,
    TIMES,
    VERBS,
    Adjective,
    Adverb,
    Name,
    Noun,
    Verb,
)
from attnlab.grammar.phrase_structure import NamePhrase


def noun(name: str) -> Noun:
    (found,) = [entry for entry in NOUNS if entry.name == name]
    return found


def adjective(name: str) -> Adjective:
    (found,) = [entry for entry in ADJECTIVES if entry.name == name]
    return found


def verb(name: str) -> Verb:
    (found,) = [entry for entry in VERBS if entry.name == name]
    return found


def adverb(name: str) -> Adverb:
    (found,) = [e for e in (*FREQUENCIES, *MANNERS, *TIMES) if e.name == name]
    return found


def woman(name: str) -> NamePhrase:
    return NamePhrase(Name(name, "f"))


def man(name: str) -> NamePhrase:
    return NamePhrase(Name(name, "m"))


def town(name: str) -> NamePhrase:
    return NamePhrase(Name(name, "f", town=True))
