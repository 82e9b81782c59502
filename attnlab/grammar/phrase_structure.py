"""What a sentence of the embedded grammar says, before it is said in any language.

A `Sentence` is a small tree of phrases that hold concepts; the folder of each language writes it
out. Words of two languages are aligned when they come from the same position of this tree: every
position has a number, `inside(parent, slot)`.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from random import Random
from typing import Literal, TypeAlias, TypeVar

from attnlab.grammar import lexicon as concepts
from attnlab.grammar.lexicon import (
    NOUNS,
    PEOPLE,
    PERSON,
    PLACE,
    TOWNS,
    Adjective,
    Adverb,
    Conjunction,
    Determiner,
    Gender,
    Name,
    Noun,
    Preposition,
    Verb,
    zipf_weights,
)

Tense: TypeAlias = Literal["present", "past", "future", "progressive"]
Modal: TypeAlias = Literal["can", "must", "want"]
Gap: TypeAlias = Literal["subject", "object"]


class Slot(IntEnum):
    """The positions inside a phrase, a clause or a sentence."""

    DETERMINER = 1
    NOUN = 2
    MODIFIER = 3
    RELATIVE = 4
    POSSESSOR = 5
    PREPOSITION = 6
    PHRASE = 7
    FIRST = 8
    LINK = 9
    SECOND = 10
    SUBJECT = 11
    FINITE = 12
    VERB = 13
    NEGATION = 14
    FREQUENCY = 15
    MANNER = 16
    TIME = 17
    OBJECT = 18
    RECIPIENT = 19
    DEGREE = 20
    COMPLEMENT = 21
    MARKER = 22
    OPENING = 23
    FINAL = 24
    ADJECTIVE = 25
    SECOND_ADJECTIVE = 26
    ADJUNCT = 27
    SECOND_ADJUNCT = 28


WHOLE = 1


def inside(parent: int, slot: int) -> int:
    """The number of the position `slot` inside the position `parent`; the whole sentence is `WHOLE`."""
    return parent * 32 + slot


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a verb or a participle copies from its subject: person 1 to 3, number, gender."""

    person: int
    plural: bool
    gender: Gender


@dataclass(frozen=True, slots=True)
class Pronoun:
    """I, you (always one person: tu), he, she, it, we, you all (voi), they.

    Gender is part of it, because participles of some languages show it: `I`, `you` and `we` are
    masculine by convention; `it` and `they` take the gender that `noun`, which they stand for, has
    in the language.
    """

    person: int
    plural: bool = False
    gender: Gender = "m"
    animate: bool = True
    noun: Noun | None = None


@dataclass(frozen=True, slots=True)
class NamePhrase:
    """A person or a town, alone."""

    name: Name


@dataclass(frozen=True, slots=True)
class Adjunct:
    """A preposition with its phrase: of the old king, with Anna, in Rome."""

    preposition: Preposition
    phrase: "Phrase"


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with what belongs to it; `possessor` is who has it: Anna's, di Anna."""

    noun: Noun
    determiner: Determiner
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    modifier: Adjunct | None = None
    relative: "Clause | None" = None
    possessor: NamePhrase | None = None


@dataclass(frozen=True, slots=True)
class Coordination:
    """Two phrases joined by `and`."""

    first: NamePhrase | NounPhrase
    second: NamePhrase | NounPhrase


Phrase: TypeAlias = NounPhrase | NamePhrase | Pronoun | Coordination


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate with its arguments.

    `subject` is None in a relative clause on the subject (`gap="subject"`) and where the
    subject is shared with the clause before. `object` is None in a relative clause on the object
    (`gap="object"`). `modal` goes with the present tense only. A predicate that is an adjective
    stands with to be; `degree` belongs to it.
    """

    subject: Phrase | None
    predicate: Verb | Adjective
    tense: Tense = "present"
    modal: Modal | None = None
    negated: bool = False
    object: Phrase | None = None
    recipient: Phrase | None = None
    frequency: Adverb | None = None
    manner: Adverb | None = None
    time: Adverb | None = None
    degree: Adverb | None = None
    adjuncts: tuple[Adjunct, ...] = ()
    complement: "Clause | None" = None
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A main clause, perhaps an adverb before it, perhaps a conjunction and a second clause."""

    main: Clause
    opening: Adverb | None = None
    conjunction: Conjunction | None = None
    second: Clause | None = None
    question: bool = False


def natural_gender(noun: Noun) -> Gender:
    """The gender of a person; masculine for all else."""
    return noun.gender or "m"


def agreement(phrase: Phrase, gender_of: Callable[[Noun], Gender] = natural_gender) -> Agreement:
    """Person, number and gender of a phrase; two phrases joined are feminine only when both are.

    `gender_of` is that of nouns in the language.
    """
    match phrase:
        case NounPhrase():
            return Agreement(3, phrase.plural, gender_of(phrase.noun))
        case NamePhrase():
            return Agreement(3, plural=False, gender=phrase.name.gender)
        case Pronoun():
            gender = phrase.gender if phrase.noun is None else gender_of(phrase.noun)
            return Agreement(phrase.person, phrase.plural, gender)
        case Coordination():
            parts = (phrase.first, phrase.second)
            genders = {agreement(part, gender_of).gender for part in parts}
            return Agreement(3, plural=True, gender="f" if genders == {"f"} else "m")


Entry = TypeVar("Entry")

_SINGULAR = (
    [concepts.THE] * 5
    + [concepts.A] * 3
    + [concepts.THIS, concepts.THAT, concepts.EVERY, *concepts.POSSESSIVES]
)
_PLURAL = [concepts.THE] * 5 + [concepts.THIS, concepts.THAT, concepts.MANY, concepts.SOME] * 2
_PLURAL += [*concepts.NUMERALS, *concepts.POSSESSIVES]
_MASS = [concepts.THE] * 8 + [concepts.THIS, concepts.THAT, *concepts.POSSESSIVES]
_POSITIONS = [concepts.IN, concepts.IN, concepts.NEAR, concepts.BEHIND]
_PEOPLE_WEIGHTS = zipf_weights(len(PEOPLE))
_TOWN_WEIGHTS = zipf_weights(len(TOWNS))


@cache
def nouns_of(kinds: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns of some kinds."""
    return tuple(noun for noun in NOUNS if noun.kind in kinds)


@cache
def adjectives_for(kind: str, *, first: bool | None = None) -> tuple[Adjective, ...]:
    """The adjectives that fit a kind of noun: all, or those that stand first of two, or the others."""
    return tuple(
        adjective
        for adjective in concepts.ADJECTIVES
        if kind in adjective.kinds and first in {None, adjective.first}
    )


class PhraseSampler:
    """Draws phrases from the random numbers it was given, and from nothing else."""

    def __init__(self, random: Random) -> None:
        self._uniform = random.random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._uniform() < probability

    def pick(self, choices: Sequence[Entry]) -> Entry:
        """One of the choices, each as likely."""
        return choices[int(self._uniform() * len(choices))]

    def person(self) -> NamePhrase:
        """A person by name; the name of rank r has probability proportional to 1 / r."""
        index = bisect(_PEOPLE_WEIGHTS, self._uniform() * _PEOPLE_WEIGHTS[-1])
        return NamePhrase(PEOPLE[index])

    def town(self) -> NamePhrase:
        """A town by name, ranks as for people."""
        return NamePhrase(TOWNS[bisect(_TOWN_WEIGHTS, self._uniform() * _TOWN_WEIGHTS[-1])])

    def noun_phrase(self, kinds: frozenset[str], *, plain: bool = False) -> NounPhrase:
        """A noun of these kinds with its determiner, adjectives and prepositional phrase.

        `plain` leaves out what belongs badly under a negation or after a preposition (some
        dogs), and any prepositional phrase.
        """
        noun = self.pick(nouns_of(kinds))
        plural = not noun.mass and self.chance(0.1 if noun.kinship else 0.3)
        determiner = self._determiner(noun, plural=plural)
        if plain and determiner in {concepts.SOME, concepts.MANY, concepts.EVERY}:
            determiner = concepts.THE
        adjectives = self._adjectives(noun)
        if determiner is concepts.THE and self.chance(0.15):
            return NounPhrase(noun, determiner, plural, adjectives, possessor=self.person())
        modifier = None
        if not plain and not determiner.possessive and self.chance(0.15):
            modifier = self._modifier(noun)
        return NounPhrase(noun, determiner, plural, adjectives, modifier)

    def _determiner(self, noun: Noun, *, plural: bool) -> Determiner:
        if noun.mass:
            return self.pick(_MASS)
        return self.pick(_PLURAL if plural else _SINGULAR)

    def _adjectives(self, noun: Noun) -> tuple[Adjective, ...]:
        """None, one, or two adjectives, of which the first is one of opinion, size or age."""
        dice = self._uniform()
        if dice < 0.6:
            return ()
        if dice < 0.92:
            return (self.pick(adjectives_for(noun.kind)),)
        first = adjectives_for(noun.kind, first=True)
        second = adjectives_for(noun.kind, first=False)
        return (self.pick(first), self.pick(second)) if first and second else ()

    def _modifier(self, noun: Noun) -> Adjunct | None:
        if noun.kind == "person":
            if self.chance(0.5):
                return Adjunct(concepts.WITH, self.noun_phrase(concepts.CLOTHES, plain=True))
            return Adjunct(concepts.OF, self.noun_phrase(PERSON, plain=True))
        if noun.kind == "place":
            return Adjunct(concepts.OF, self.town() if self.chance(0.5) else self.owner())
        if noun.kind in {"animal", "object", "text", "clothes"} and self.chance(0.5):
            position: Preposition = concepts.ON if self.chance(0.6) else concepts.UNDER
            return Adjunct(position, self.noun_phrase(concepts.SURFACE, plain=True))
        return None if noun.mass else Adjunct(concepts.OF, self.owner())

    def owner(self) -> Phrase:
        """A person as a plain noun phrase."""
        return self.noun_phrase(PERSON, plain=True)

    def human(self) -> Phrase:
        """A person by name or by noun, or two people joined by `and`."""
        dice = self._uniform()
        if dice < 0.62:
            return self.person()
        if dice < 0.92:
            return self.noun_phrase(PERSON)
        second = self.person() if self.chance(0.5) else self.noun_phrase(PERSON, plain=True)
        return Coordination(self.person(), second)

    def whereabouts(self) -> Adjunct:
        """A place: in, near or behind a location, or in a town."""
        if self.chance(0.35):
            return Adjunct(concepts.IN, self.town())
        return Adjunct(self.pick(_POSITIONS), self.noun_phrase(PLACE, plain=True))

    def speaker_or_other(self, *, third_plural: bool = True) -> Pronoun:
        """A pronoun for people; without `third_plural` never they, whose gender would be unknown."""
        person = self.pick((1, 2, 3, 3))
        plural = self.chance(0.3) and (third_plural or person < 3)
        gender: Gender = "f" if person == 3 and not plural and self.chance(0.5) else "m"
        return Pronoun(person, plural, gender)

    def other_than(self, subject: Phrase | None, *, third_plural: bool) -> Pronoun:
        """An object pronoun that does not turn the action back on a speaker (I see me)."""
        pronoun = self.speaker_or_other(third_plural=third_plural)
        if isinstance(subject, Pronoun) and pronoun.person == subject.person < 3:
            return replace(pronoun, person=3 - pronoun.person)
        return pronoun
