"""The words of English: a concept is named by its English word, so that only irregular forms stand here."""

from functools import cache

from attnlab.grammar.concepts import Concept
from attnlab.grammar.tables import entries

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
