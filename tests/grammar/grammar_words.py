"""Lexicon entries by their English word, to write structures by hand."""

from attnlab.grammar.lexicon import (
    ADJECTIVES,
    FREQUENCIES,
    MANNERS,
    TIMES,
    Adjective,
    Adverb,
    Name,
    Noun,
)
from attnlab.grammar.noun_lexicon import NOUNS
from attnlab.grammar.phrases import NamePhrase
from attnlab.grammar.verb_lexicon import VERBS, Verb


def noun(english: str) -> Noun:
    (found,) = [entry for entry in NOUNS if entry.english == english]
    return found


def adjective(english: str) -> Adjective:
    (found,) = [entry for entry in ADJECTIVES if entry.english == english]
    return found


def verb(english: str, *, complement: bool = False) -> Verb:
    frames = [entry for entry in VERBS if entry.english == english]
    (found,) = [entry for entry in frames if (entry.frame == "complement") == complement]
    return found


def adverb(english: str) -> Adverb:
    (found,) = [e for e in (*FREQUENCIES, *MANNERS, *TIMES) if e.english == english]
    return found


def woman(name: str) -> NamePhrase:
    return NamePhrase(Name(name, name, "f"))


def man(name: str) -> NamePhrase:
    return NamePhrase(Name(name, name, "m"))


def town(english: str, italian: str) -> NamePhrase:
    return NamePhrase(Name(english, italian, "f", town=True))
