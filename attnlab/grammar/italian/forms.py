"""Italian word forms: articles, contraction, elision, agreement of adjectives, conjugation.

The index of a form is 0 masculine singular, 1 feminine singular, 2 masculine plural, 3 feminine
plural; the index of a person is 0, 1, 2 in the singular and 3, 4, 5 in the plural.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from attnlab.grammar.concepts import Adjective, Determiner, Gender, Noun, Verb
from attnlab.grammar.italian.words import ADJECTIVE_WORDS, NOUN_WORDS, VERB_WORDS

FourForms: TypeAlias = tuple[str, str, str, str]

VOWELS = "aeiouàèéìòù"
_LO = re.compile(r"s[^aeiouàèéìòù]|z|gn|ps|pn|x|y", re.IGNORECASE)
_CONTRACTING = {"di": "de", "a": "a", "da": "da", "in": "ne", "su": "su"}


def starts_with_vowel(word: str) -> bool:
    """True before words that take l': vowels, and the silent h of ho, hai, ha, hanno."""
    return word[0].lower() in VOWELS or word in {"ho", "hai", "ha", "hanno"}


def form_index(gender: Gender, *, plural: bool) -> int:
    """Where a gender and number stand among the four forms."""
    return (gender == "f") + 2 * plural


@cache
def definite_article(index: int, following: str) -> str:
    """The written form of the: il, lo, l', la, i, gli, le.

    >>> [definite_article(0, noun) for noun in ("cane", "studente", "zaino", "gnomo", "amico")]
    ['il', 'lo', 'lo', 'lo', "l'"]
    """
    vowel = starts_with_vowel(following)
    if index == 3:
        return "le"
    if index == 2:
        return "gli" if vowel or _LO.match(following) else "i"
    if vowel:
        return "l'"
    if index == 1:
        return "la"
    return "lo" if _LO.match(following) else "il"


@cache
def indefinite_article(index: int, following: str) -> str:
    """The written form of a: un, uno, una, un'."""
    if index == 1:
        return "un'" if starts_with_vowel(following) else "una"
    return "uno" if _LO.match(following) else "un"


def contracted(preposition: str, article: str) -> str:
    """Preposition and definite article as one written word: di + la = della.

    >>> contracted("in", "il"), contracted("di", "l'"), contracted("a", "gli")
    ('nel', "dell'", 'agli')
    """
    stem = _CONTRACTING[preposition]
    if article == "il":
        return stem + "l"
    return stem + article if article in {"i", "gli"} else stem + "l" + article


def contracts(preposition: str) -> bool:
    """True for di, a, da, in, su."""
    return preposition in _CONTRACTING


def before_vowel(preposition: str, following: str) -> str:
    """The preposition a as ad before another a: ad Anna."""
    return "ad" if preposition == "a" and following[0].lower() == "a" else preposition


def _like_article(stem: str, index: int, following: str) -> str:
    """Quello and bello before a noun end as the definite article does."""
    endings = {
        "il": "l",
        "lo": "llo",
        "l'": "ll'",
        "la": "lla",
        "i": "i",
        "gli": "gli",
        "le": "lle",
    }
    return stem + endings[definite_article(index, following)]


@cache
def determiner_form(lemma: str, index: int, following: str) -> str:
    """The written form of a determiner before `following`, for every lemma of the lexicon."""
    if lemma == "il":
        return definite_article(index, following)
    if lemma == "uno":
        return indefinite_article(index, following)
    if lemma == "quello":
        return _like_article("que", index, following)
    if lemma == "questo" and index < 2 and starts_with_vowel(following):
        return "quest'"
    return possessive_form(lemma, index) if lemma in _POSSESSIVES else _regular(lemma)[index]


_POSSESSIVES: dict[str, FourForms] = {
    "mio": ("mio", "mia", "miei", "mie"),
    "tuo": ("tuo", "tua", "tuoi", "tue"),
    "suo": ("suo", "sua", "suoi", "sue"),
    "nostro": ("nostro", "nostra", "nostri", "nostre"),
    "loro": ("loro", "loro", "loro", "loro"),
}
_UNCHANGING = {"ogni", "due", "tre", "quattro", "dieci"}


def possessive_form(lemma: str, index: int) -> str:
    """Mio, mia, miei, mie and the like; loro does not change."""
    return _POSSESSIVES[lemma][index]


def has_article(entry: Determiner, noun: Noun, *, plural: bool, modified: bool) -> bool:
    """True where il stands before the possessive: not before a lone relative (mia madre)."""
    bare = noun.kinship and not plural and not modified and entry.name != "their"
    return entry.possessive and not bare


@cache
def _regular(lemma: str) -> FourForms:
    """The four forms of an adjective by its ending."""
    if lemma in _UNCHANGING:
        return lemma, lemma, lemma, lemma
    stem = lemma[:-1]
    if lemma[-1] == "e":
        return lemma, lemma, stem + "i", stem + "i"
    if lemma.endswith("io"):
        feminine = stem[:-1] + "e" if lemma.endswith("ggio") else stem + "e"
        return lemma, stem + "a", stem, feminine
    hard = "h" if lemma[-2] in "cg" else ""
    return lemma, stem + "a", stem + hard + "i", stem + hard + "e"


@cache
def adjective_form(entry: Adjective, index: int, following: str | None = None) -> str:
    """The adjective in gender and number; `following` is the noun when it stands before it."""
    adjective = ADJECTIVE_WORDS[entry.name]
    if following is not None and adjective.word == "bello":
        return _like_article("be", index, following)
    if following is not None and adjective.word == "buono" and index == 0:
        return "buono" if _LO.match(following) else "buon"
    return (adjective.forms or _regular(adjective.word))[index]


@cache
def noun_form(entry: Noun, *, plural: bool) -> str:
    """The noun in its number."""
    noun = NOUN_WORDS[entry.name]
    word = noun.word
    if not plural:
        return word
    if noun.plural is not None:
        return noun.plural
    if word[-1] not in "aeo" or word in {"re", "zoo"}:
        return word
    hard = "h" if word[-1] != "e" and word[-2] in "cg" else ""
    if noun.gender == "f" and word[-1] == "a":
        # After a consonant the i of -cia, -gia is only spelling: spiaggia, spiagge.
        soft = word.endswith(("cia", "gia")) and word[-4] not in VOWELS
        return word[:-2] + "e" if soft else word[:-1] + hard + "e"
    if word.endswith("io"):
        return word[:-1]
    return word[:-1] + hard + "i"


@dataclass(frozen=True, eq=False, slots=True)
class Conjugation:
    """The forms of a verb; the first three hold six persons each."""

    present: tuple[str, ...]
    imperfect: tuple[str, ...]
    future: tuple[str, ...]
    participle: str
    gerund: str


_PRESENT = {
    "are": ("o", "i", "a", "iamo", "ate", "ano"),
    "ere": ("o", "i", "e", "iamo", "ete", "ono"),
    "ire": ("o", "i", "e", "iamo", "ite", "ono"),
    "isc": ("isco", "isci", "isce", "iamo", "ite", "iscono"),
}
_IMPERFECT = ("vo", "vi", "va", "vamo", "vate", "vano")
_FUTURE = ("ò", "ai", "à", "emo", "ete", "anno")


def _joined(stem: str, ending: str) -> str:
    """Stem and ending with the sound of the stem kept: cerc + i = cerchi, mangi + i = mangi."""
    if stem[-1] == "i" and ending[0] == "i":
        return stem + ending[1:]
    return stem + ending


def _present(stem: str, ending: str, group: str) -> str:
    hard = group == "are" and stem[-1] in "cg" and ending[0] == "i"
    return _joined(stem + "h" if hard else stem, ending)


def _future_stem(stem: str, group: str) -> str:
    if group != "are":
        return stem + ("er" if group == "ere" else "ir")
    if stem[-1] in "cg":
        return stem + "her"
    return (stem[:-1] if stem.endswith(("ci", "gi", "sci")) else stem) + "er"


@cache
def conjugated(entry: Verb) -> Conjugation:
    """All forms of a verb, regular but for those that its words give."""
    verb = VERB_WORDS[entry.name]
    stem, group = verb.word[:-3], verb.word[-3:]
    given = verb.irregular
    endings = _PRESENT["isc" if verb.isc else group]
    present = [_present(stem, ending, group) for ending in endings]
    base = given.get("stem") or stem + {"are": "a", "ere": "e", "ire": "i"}[group]
    future = given.get("future") or _future_stem(stem, group)
    participle = stem + {"are": "ato", "ere": "uto", "ire": "ito"}[group]
    # The gerund of -ire verbs has the e of the second group: dormendo.
    gerund = (base[:-1] + "e" if group == "ire" else base) + "ndo"
    return Conjugation(
        present=tuple(given["present"].split(",")) if "present" in given else tuple(present),
        imperfect=tuple(base + ending for ending in _IMPERFECT),
        future=tuple(future + ending for ending in _FUTURE),
        participle=given.get("participle") or participle,
        gerund=gerund,
    )


def inflected_participle(participle: str, index: int) -> str:
    """Andato, andata, andati, andate."""
    return participle[:-1] + "oaie"[index]


AUXILIARIES: dict[str, tuple[str, ...]] = {
    "avere": ("ho", "hai", "ha", "abbiamo", "avete", "hanno"),
    "essere": ("sono", "sei", "è", "siamo", "siete", "sono"),
    "stare": ("sto", "stai", "sta", "stiamo", "state", "stanno"),
    "potere": ("posso", "puoi", "può", "possiamo", "potete", "possono"),
    "dovere": ("devo", "devi", "deve", "dobbiamo", "dovete", "devono"),
    "volere": ("voglio", "vuoi", "vuole", "vogliamo", "volete", "vogliono"),
}
ESSERE_PAST = ("ero", "eri", "era", "eravamo", "eravate", "erano")
ESSERE_FUTURE = ("sarò", "sarai", "sarà", "saremo", "sarete", "saranno")
