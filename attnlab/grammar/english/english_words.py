"""The words of English: a concept is named by its English word, so that only irregular forms stand here."""

import re
from functools import cache

from attnlab.grammar.lexicon import Concept, Determiner, Noun, Verb, entries
from attnlab.grammar.phrase_structure import Agreement, Pronoun

PLURALS: dict[str, str] = {
    name: plural
    for (name, plural), _ in entries(
        """
        man men; child children; thief thieves; woman women; wife wives; wolf wolves; mouse mice
        knife knives; scarf scarves
        """
    )
}
# By verb: past, third (person of the present), gerund.
VERB_FORMS: dict[str, dict[str, str]] = {
    name: forms
    for (name,), forms in entries(
        """
        sleep past=slept; swim past=swam gerund=swimming; run past=ran gerund=running; sing past=sang
        eat past=ate; drink past=drank; see past=saw gerund=seeing; buy past=bought; find past=found
        write past=wrote; hug past=hugged gerund=hugging; draw past=drew; lose past=lost
        break past=broke; drive past=drove; build past=built; forget past=forgot gerund=forgetting
        hide past=hid; know past=knew; have past=had third=has; go past=went; come past=came
        give past=gave; send past=sent; bring past=brought; sell past=sold; lend past=lent
        say past=said; know_that past=knew
        """
    )
}
# The preposition before the object of a verb.
GOVERNED = {
    "wait": "for",
    "look": "for",
    "listen": "to",
    "talk": "with",
    "dream": "about",
    "go": "to",
    "come": "from",
    "return": "to",
    "arrive": "at",
}
# By determiner: singular and plural, of which one may not exist, its part of speech and its relation.
DETERMINERS: dict[str, tuple[str | None, str | None, str, str]] = {
    "the": ("the", "the", "DET", "det"),
    "a": ("a", None, "DET", "det"),
    "this": ("this", "these", "DET", "det"),
    "that": ("that", "those", "DET", "det"),
    "every": ("every", None, "DET", "det"),
    "some": (None, "some", "DET", "det"),
    "many": (None, "many", "ADJ", "amod"),
    **{name: (None, name, "NUM", "nummod") for name in ("two", "three", "four", "ten")},
    **{
        name: (name, name, "PRON", "nmod:poss")
        for name in ("my", "your", "his", "her", "our", "their")
    },
}
_WORDS = {"know_that": "know"}


@cache
def word(concept: Concept) -> str:
    """The word that a dictionary has for a concept."""
    return _WORDS.get(concept.name, concept.name)


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
    """The form of to be: am, is, are; was, were in the past."""
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
