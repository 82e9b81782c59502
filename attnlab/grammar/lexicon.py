"""Kinds of lexicon entries, and the adjectives and small words of the embedded grammar.

Nouns stand in `noun_lexicon.py`, verbs in `verb_lexicon.py`, proper names in `name_lexicon.py`.
An entry holds what a language does not predict; `english_forms.py` and `italian_forms.py`
inflect it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Gender: TypeAlias = Literal["m", "f"]

PERSON = frozenset({"person"})
ANIMAL = frozenset({"animal"})
FOOD = frozenset({"food"})
DRINK = frozenset({"drink"})
TEXT = frozenset({"text"})
OBJECT = frozenset({"object"})
OPENABLE = frozenset({"openable"})
CONTAINER = frozenset({"container"})
CLOTHES = frozenset({"clothes"})
SURFACE = frozenset({"surface"})
PLACE = frozenset({"place"})
VEHICLE = frozenset({"vehicle"})
ANIMATE = PERSON | ANIMAL
THING = FOOD | DRINK | TEXT | OBJECT | SURFACE | CONTAINER | CLOTHES | VEHICLE
ANY = ANIMATE | THING | PLACE | OPENABLE


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun; the plurals are given where the rule fails, `mass` nouns have none."""

    english: str
    italian: str
    gender: Gender
    kind: str
    english_plural: str | None = None
    italian_plural: str | None = None
    mass: bool = False
    kinship: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective, the kinds of nouns it fits, and whether Italian puts it before the noun."""

    english: str
    italian: str
    kinds: frozenset[str]
    before_noun: bool = False
    gradable: bool = True
    italian_forms: tuple[str, str, str, str] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Adverb:
    """An adverb; one of time goes with some tenses only."""

    english: str
    italian: str
    tenses: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Preposition:
    """A preposition; `near` is two words in Italian (vicino a)."""

    english: str
    italian: str
    italian_second: str | None = None
    italian_with_town: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """A determiner; an English form is None where that number does not exist."""

    singular: str | None
    plural: str | None
    italian: str
    english_class: tuple[str, str] = ("DET", "det")
    with_mass: bool = False
    possessive: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Conjunction:
    """A word that joins a second clause, with the part of speech of UD (CCONJ or SCONJ)."""

    english: str
    italian: str
    part_of_speech: str


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    """A proper name; towns have a name of their own in each language."""

    english: str
    italian: str
    gender: Gender
    town: bool = False


def entries(table: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The lines of a table: plain fields, then options written `name=value`."""
    for line in table.strip().splitlines():
        fields = line.split()
        options = dict(field.split("=", 1) for field in fields if "=" in field)
        yield [field for field in fields if "=" not in field], options


def gender_of(text: str) -> Gender:
    """The gender that a table spells as one letter."""
    return "f" if text == "f" else "m"


def _adjectives(kinds: frozenset[str], table: str) -> list[Adjective]:
    adjectives = []
    for (english, italian, *marks), options in entries(table):
        forms = options["forme"].split(",") if "forme" in options else None
        adjectives.append(
            Adjective(
                english,
                italian,
                kinds,
                before_noun="before" in marks,
                gradable="absolute" not in marks,
                italian_forms=(forms[0], forms[1], forms[2], forms[3]) if forms else None,
            )
        )
    return adjectives


COLOURED = OBJECT | SURFACE | CONTAINER | OPENABLE | CLOTHES | VEHICLE

ADJECTIVES: list[Adjective] = [
    *_adjectives(
        ANY - FOOD - DRINK,
        """
        old vecchio before
        beautiful bello before
        """,
    ),
    *_adjectives(ANY - DRINK, "big grande before\nsmall piccolo before"),
    *_adjectives(PERSON | FOOD | DRINK | TEXT, "good buono before"),
    *_adjectives(COLOURED | TEXT | PLACE, "new nuovo before\nugly brutto before"),
    *_adjectives(ANIMATE, "young giovane before\npoor povero before"),
    *_adjectives(
        COLOURED,
        """
        red rosso absolute
        yellow giallo absolute
        green verde absolute
        blue blu absolute forme=blu,blu,blu,blu
        pink rosa absolute forme=rosa,rosa,rosa,rosa
        expensive costoso
        """,
    ),
    *_adjectives(
        COLOURED | ANIMAL,
        """
        white bianco absolute
        black nero absolute
        gray grigio absolute forme=grigio,grigia,grigi,grigie
        """,
    ),
    *_adjectives(
        PERSON,
        """
        tall alto
        rich ricco
        sad triste
        kind gentile
        famous famoso
        lazy pigro
        honest onesto
        shy timido
        intelligent intelligente
        elegant elegante
        Italian italiano absolute
        French francese absolute
        German tedesco absolute
        """,
    ),
    *_adjectives(
        ANIMATE,
        """
        happy felice
        tired stanco
        strong forte
        hungry affamato
        sick malato
        calm calmo
        """,
    ),
    *_adjectives(ANIMAL, "dangerous pericoloso\nwild selvaggio absolute"),
    *_adjectives(FOOD | DRINK, "cold freddo\nhot caldo\nfresh fresco\ndelicious squisito"),
    *_adjectives(
        TEXT,
        """
        long lungo
        short breve
        interesting interessante
        boring noioso
        strange strano
        """,
    ),
    *_adjectives(OBJECT | SURFACE | CONTAINER, "heavy pesante\nuseful utile\nprecious prezioso"),
    *_adjectives(CONTAINER | VEHICLE | PLACE, "empty vuoto"),
    *_adjectives(
        PLACE,
        """
        quiet tranquillo
        dark buio
        crowded affollato
        ancient antico
        modern moderno
        """,
    ),
    *_adjectives(VEHICLE, "fast veloce\nslow lento"),
]

VERY = Adverb("very", "molto")
NEVER = Adverb("never", "mai")
FREQUENCIES = [
    NEVER,
    Adverb("always", "sempre"),
    Adverb("often", "spesso"),
    Adverb("rarely", "raramente"),
]
MANNERS = [
    Adverb("slowly", "lentamente"),
    Adverb("quickly", "velocemente"),
    Adverb("carefully", "attentamente"),
    Adverb("gladly", "volentieri"),
    Adverb("secretly", "segretamente"),
    Adverb("calmly", "tranquillamente"),
    Adverb("patiently", "pazientemente"),
]
TIMES = [
    Adverb("today", "oggi", ("present", "past", "future", "progressive")),
    Adverb("yesterday", "ieri", ("past",)),
    Adverb("tomorrow", "domani", ("future",)),
    Adverb("tonight", "stasera", ("future",)),
    Adverb("soon", "presto", ("future",)),
    Adverb("now", "adesso", ("present", "progressive")),
    Adverb("here", "qui", ("present", "past", "future", "progressive")),
]

OF = Preposition("of", "di")
WITH = Preposition("with", "con")
WITHOUT = Preposition("without", "senza")
FOR = Preposition("for", "per")
TO = Preposition("to", "a")
IN = Preposition("in", "in", italian_with_town="a")
FROM = Preposition("from", "da")
NEAR = Preposition("near", "vicino", italian_second="a")
BEHIND = Preposition("behind", "dietro")
ON = Preposition("on", "su")
UNDER = Preposition("under", "sotto")

THE = Determiner("the", "the", "il", with_mass=True)
A = Determiner("a", None, "uno")
THIS = Determiner("this", "these", "questo", with_mass=True)
THAT = Determiner("that", "those", "quello", with_mass=True)
EVERY = Determiner("every", None, "ogni")
SOME = Determiner(None, "some", "alcuno")
MANY = Determiner(None, "many", "molto", ("ADJ", "amod"))
NUMERALS = [
    Determiner(None, english, italian, ("NUM", "nummod"))
    for english, italian in (
        ("two", "due"),
        ("three", "tre"),
        ("four", "quattro"),
        ("ten", "dieci"),
    )
]
POSSESSIVES = [
    Determiner(english, english, italian, ("PRON", "nmod:poss"), with_mass=True, possessive=True)
    for english, italian in (
        ("my", "mio"),
        ("your", "tuo"),
        ("his", "suo"),
        ("her", "suo"),
        ("our", "nostro"),
        ("their", "loro"),
    )
]

CONJUNCTIONS = {
    "and": Conjunction("and", "e", "CCONJ"),
    "but": Conjunction("but", "ma", "CCONJ"),
    "because": Conjunction("because", "perché", "SCONJ"),
    "when": Conjunction("when", "quando", "SCONJ"),
    "while": Conjunction("while", "mentre", "SCONJ"),
}
