"""What a sentence of the embedded grammar says, before it is said in any language.

A `Sentence` is a small tree of phrases that hold concepts; the folder of each language writes it
out. Words of two languages are aligned when they come from the same position of this tree: every
position has a number, `inside(parent, slot)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

from attnlab.grammar.concepts import (
    Adjective,
    Adverb,
    Conjunction,
    Determiner,
    Gender,
    Name,
    Noun,
    Preposition,
    Verb,
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
