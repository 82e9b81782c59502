"""What the embedded grammar can say, apart from any language: kinds of concepts, and the small ones.

A concept is named by its English word; how a language says it stands in the folder of that language.
Nouns stand in `nouns.py`, verbs in `verbs.py`, proper names in `names.py`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from attnlab.grammar.tables import marked

Gender: TypeAlias = Literal["m", "f"]
Frame: TypeAlias = Literal["none", "object", "recipient", "complement"]

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
COLOURED = OBJECT | SURFACE | CONTAINER | OPENABLE | CLOTHES | VEHICLE


@dataclass(frozen=True, eq=False, slots=True)
class Concept:
    """What a word of any language stands for."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Noun(Concept):
    """What a noun names; people have a `gender` of their own, all else has that of the language's noun."""

    kind: str
    gender: Gender | None = None
    mass: bool = False
    kinship: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Adjective(Concept):
    """A property and the kinds of nouns that have it.

    Of two adjectives the `first` is one of opinion, size or age.
    """

    kinds: frozenset[str]
    first: bool = False
    gradable: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Verb(Concept):
    """What is done, with the kinds of its subject and object.

    Attributes:
        frame: what it stands with beside a subject.
        indirect: some language sets a preposition before the object (wait for, entrare in).
        stative: it has no progressive, and takes no time.
        experienced: the subject experiences the object; some languages make that the subject (piacere).
        manner: it goes with adverbs of manner.
    """

    frame: Frame
    subjects: frozenset[str]
    objects: frozenset[str] = frozenset()
    indirect: bool = False
    stative: bool = False
    experienced: bool = False
    manner: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Adverb(Concept):
    """An adverb; one of time goes with some tenses only."""

    tenses: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Preposition(Concept):
    """How a phrase is related to what it belongs to."""


@dataclass(frozen=True, eq=False, slots=True)
class Determiner(Concept):
    """What stands before a noun; a numeral and a possessive are some too."""

    numeral: bool = False
    possessive: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Conjunction(Concept):
    """A word that joins a second clause: beside the first, or `subordinating` below it."""

    subordinating: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Name(Concept):
    """A person or a town; languages may have names of their own for towns."""

    gender: Gender
    town: bool = False


def _adjectives(kinds: frozenset[str], words: str, *, first: bool = False) -> list[Adjective]:
    return [
        Adjective(name, kinds, first=first, gradable="absolute" not in marks)
        for name, marks in marked(words)
    ]


ADJECTIVES: list[Adjective] = [
    *_adjectives(ANY - FOOD - DRINK, "old beautiful", first=True),
    *_adjectives(ANY - DRINK, "big small", first=True),
    *_adjectives(PERSON | FOOD | DRINK | TEXT, "good", first=True),
    *_adjectives(COLOURED | TEXT | PLACE, "new ugly", first=True),
    *_adjectives(ANIMATE, "young poor", first=True),
    *_adjectives(
        COLOURED,
        "red/absolute yellow/absolute green/absolute blue/absolute pink/absolute expensive",
    ),
    *_adjectives(COLOURED | ANIMAL, "white/absolute black/absolute gray/absolute"),
    *_adjectives(
        PERSON,
        "tall rich sad kind famous lazy honest shy intelligent elegant "
        "Italian/absolute French/absolute German/absolute",
    ),
    *_adjectives(ANIMATE, "happy tired strong hungry sick calm"),
    *_adjectives(ANIMAL, "dangerous wild/absolute"),
    *_adjectives(FOOD | DRINK, "cold hot fresh delicious"),
    *_adjectives(TEXT, "long short interesting boring strange"),
    *_adjectives(OBJECT | SURFACE | CONTAINER, "heavy useful precious"),
    *_adjectives(CONTAINER | VEHICLE | PLACE, "empty"),
    *_adjectives(PLACE, "quiet dark crowded ancient modern"),
    *_adjectives(VEHICLE, "fast slow"),
]

VERY = Adverb("very")
NEVER = Adverb("never")
FREQUENCIES = [NEVER, Adverb("always"), Adverb("often"), Adverb("rarely")]
MANNERS = [
    Adverb(name)
    for name in ("slowly", "quickly", "carefully", "gladly", "secretly", "calmly", "patiently")
]
HERE = Adverb("here", ("present", "past", "future", "progressive"))
TIMES = [
    Adverb("today", ("present", "past", "future", "progressive")),
    Adverb("yesterday", ("past",)),
    Adverb("tomorrow", ("future",)),
    Adverb("tonight", ("future",)),
    Adverb("soon", ("future",)),
    Adverb("now", ("present", "progressive")),
    HERE,
]

OF = Preposition("of")
WITH = Preposition("with")
WITHOUT = Preposition("without")
FOR = Preposition("for")
IN = Preposition("in")
NEAR = Preposition("near")
BEHIND = Preposition("behind")
ON = Preposition("on")
UNDER = Preposition("under")

THE = Determiner("the")
A = Determiner("a")
THIS = Determiner("this")
THAT = Determiner("that")
EVERY = Determiner("every")
SOME = Determiner("some")
MANY = Determiner("many")
NUMERALS = [Determiner(name, numeral=True) for name in ("two", "three", "four", "ten")]
POSSESSIVES = [
    Determiner(name, possessive=True) for name in ("my", "your", "his", "her", "our", "their")
]

CONJUNCTIONS = {
    name: Conjunction(name, subordinating=name in {"because", "when", "while"})
    for name in ("and", "but", "because", "when", "while")
}
