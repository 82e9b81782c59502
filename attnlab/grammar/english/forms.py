"""English word forms: plurals, verb endings, to be, a or an, pronouns."""

import re
from functools import cache

from attnlab.grammar.concepts import Determiner, Noun, Verb
from attnlab.grammar.english.words import DETERMINERS, PLURALS, VERB_FORMS, word
from attnlab.grammar.phrases import Agreement, Pronoun

_HISSING = ("s", "x", "z", "ch", "sh")
_AN = re.compile(r"[aeio]|u(?!ni|se)|honest", re.IGNORECASE)


def with_s(base: str) -> str:
    """The word with the ending -s of the plural and of the third person.

    >>> [with_s(word) for word in ("cat", "church", "city", "boy", "go")]
    ['cats', 'churches', 'cities', 'boys', 'goes']
    """
    if base.endswith((*_HISSING, "go", "tato", "mato")):
        return base + "es"
    if base[-1] == "y" and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


@cache
def plural(noun: Noun) -> str:
    """The plural of a noun."""
    return PLURALS.get(noun.name) or with_s(word(noun))


@cache
def third_person(verb: Verb) -> str:
    """The verb after he, she, it: eats, goes, has."""
    return _irregular(verb, "third") or with_s(word(verb))


@cache
def past(verb: Verb) -> str:
    """The simple past."""
    given = _irregular(verb, "past")
    if given is not None:
        return given
    base = word(verb)
    if base[-1] == "e":
        return base + "d"
    if base[-1] == "y" and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


@cache
def gerund(verb: Verb) -> str:
    """The form in -ing."""
    base = word(verb)
    return _irregular(verb, "gerund") or (base[:-1] if base[-1] == "e" else base) + "ing"


def _irregular(verb: Verb, form: str) -> str | None:
    return VERB_FORMS.get(verb.name, {}).get(form)


def is_third_singular(who: Agreement) -> bool:
    """True where the present takes -s."""
    return who.person == 3 and not who.plural


def to_be(who: Agreement, tense: str) -> str:
    """Am, is, are; was, were in the past."""
    if tense == "past":
        return "was" if not who.plural and who.person != 2 else "were"
    if who.plural or who.person == 2:
        return "are"
    return "am" if who.person == 1 else "is"


def determiner(entry: Determiner, following: str, *, is_plural: bool) -> str:
    """The written determiner; a becomes an before the sound of a vowel.

    Raises ValueError where the determiner lacks that number.
    """
    form = DETERMINERS[entry.name][is_plural]
    if form is None:
        msg = f"determiner {entry.name} has no {'plural' if is_plural else 'singular'}"
        raise ValueError(msg)
    return "an" if form == "a" and _AN.match(following) else form


_SUBJECTS = {
    (1, False): "I",
    (1, True): "we",
    (2, False): "you",
    (2, True): "you",
    (3, True): "they",
}
_OBJECTS = {
    (1, False): "me",
    (1, True): "us",
    (2, False): "you",
    (2, True): "you",
    (3, True): "them",
}


def pronoun(entry: Pronoun, *, subject: bool) -> str:
    """The written pronoun, as a subject or as an object."""
    if entry.person == 3 and not entry.plural:
        if not entry.animate:
            return "it"
        if subject:
            return "she" if entry.gender == "f" else "he"
        return "her" if entry.gender == "f" else "him"
    return (_SUBJECTS if subject else _OBJECTS)[entry.person, entry.plural]
