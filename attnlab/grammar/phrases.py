"""What a sentence of the embedded grammar says, before it is said in English or in Italian.

A `Sentence` is a small tree of phrases that hold lexicon entries; `english.py` and `italian.py`
each write it out. Words of the two languages are aligned when they come from the same place of
this tree: every place has a number, `inside(parent, slot)`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

from attnlab.grammar.lexicon import (
    Adjective,
    Adverb,
    Conjunction,
    Determiner,
    Gender,
    Name,
    Noun,
    Preposition,
)
from attnlab.grammar.verb_lexicon import Verb

Tense: TypeAlias = Literal["present", "past", "future", "progressive"]
Modal: TypeAlias = Literal["can", "must", "want"]
Gap: TypeAlias = Literal["subject", "object"]


class Slot(IntEnum):
    """The places inside a phrase, a clause or a sentence."""

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
    """The number of the place `slot` inside the place `parent`; the whole sentence is `WHOLE`."""
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

    Italian gender is part of it, because the participle shows it: `I`, `you` and `we` are
    masculine by convention; `it` and `they` take the gender of what they refer to.
    """

    person: int
    plural: bool = False
    gender: Gender = "m"
    animate: bool = True


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
    """A noun with what belongs to it; `possessor` is written Anna's in English, di Anna in Italian."""

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


def agreement(phrase: Phrase) -> Agreement:
    """Person, number and gender of a phrase; two phrases joined are feminine only when both are."""
    match phrase:
        case NounPhrase():
            return Agreement(3, phrase.plural, phrase.noun.gender)
        case NamePhrase():
            return Agreement(3, plural=False, gender=phrase.name.gender)
        case Pronoun():
            return Agreement(phrase.person, phrase.plural, phrase.gender)
        case Coordination():
            genders = {agreement(phrase.first).gender, agreement(phrase.second).gender}
            return Agreement(3, plural=True, gender="f" if genders == {"f"} else "m")
