"""The Italian verb with what clings to it: non, object pronouns, auxiliary, participle."""

from dataclasses import dataclass

from attnlab.grammar.italian import forms
from attnlab.grammar.lexicon import NEVER, Adjective, Adverb
from attnlab.grammar.phrases import Agreement, Clause, Pronoun, Slot, inside
from attnlab.grammar.trees import Token
from attnlab.grammar.verb_lexicon import Verb

_DIRECT = {(1, False): "mi", (2, False): "ti", (1, True): "ci", (2, True): "vi"}
_STRONG = {
    (1, False): "me",
    (2, False): "te",
    (1, True): "noi",
    (2, True): "voi",
    (3, True): "loro",
}
_BEFORE_PRONOUN = {"mi": "me", "ti": "te", "ci": "ce", "vi": "ve"}


def direct_pronoun(entry: Pronoun) -> str:
    """The object pronoun before the verb: mi, ti, lo, la, ci, vi, li, le."""
    if entry.person < 3:
        return _DIRECT[entry.person, entry.plural]
    return ("lo", "la", "li", "le")[forms.form_index(entry.gender, plural=entry.plural)]


def dative_pronoun(entry: Pronoun) -> str:
    """The pronoun of the receiver: mi, ti, gli, le, ci, vi, gli (to them)."""
    if entry.person < 3:
        return _DIRECT[entry.person, entry.plural]
    return "le" if entry.gender == "f" and not entry.plural else "gli"


def strong_pronoun(entry: Pronoun) -> str:
    """The pronoun after a preposition: con me, con lei."""
    if entry.person == 3 and not entry.plural:
        return "lei" if entry.gender == "f" else "lui"
    return _STRONG[entry.person, entry.plural]


@dataclass(slots=True)
class Predicate:
    """The verb's tokens before and after the place of adverbs, and the two heads."""

    before: list[Token]
    after: list[Token]
    root: Token
    verb: Token


def clinging_object(clause: Clause) -> Pronoun | None:
    """The object when it is a pronoun that stands before the verb."""
    entry = clause.predicate
    if not isinstance(clause.object, Pronoun) or not isinstance(entry, Verb) or entry.inverted:
        return None
    return clause.object if entry.italian_governs is None or entry.dative else None


def _clitics(clause: Clause, place: int, verb: Token) -> list[Token]:
    """Receiver before object; the two of the third person are one word (glielo)."""
    entry = clause.predicate
    found = clinging_object(clause)
    dative = isinstance(entry, Verb) and entry.dative
    tokens: list[Token] = []
    if found is not None:
        form = dative_pronoun(found) if dative else direct_pronoun(found)
        where = inside(place, Slot.OBJECT)
        relation = "iobj" if dative else "obj"
        keys = inside(where, Slot.NOUN), inside(where, Slot.PREPOSITION)
        tokens = [Token(form, form, "PRON", relation, verb, *keys)]
    inverted = isinstance(entry, Verb) and entry.inverted
    receiver = clause.subject if inverted else clause.recipient
    if isinstance(receiver, Pronoun):
        form = dative_pronoun(receiver)
        where = inside(place, Slot.SUBJECT if inverted else Slot.RECIPIENT)
        keys = inside(where, Slot.NOUN), inside(where, Slot.PREPOSITION)
        if tokens and receiver.person == 3:
            tokens[0].form = tokens[0].lemma = "glie" + tokens[0].form
            tokens[0].keys += keys
            return tokens
        form = _BEFORE_PRONOUN[form] if tokens else form
        tokens.insert(0, Token(form, form, "PRON", "iobj", verb, *keys))
    return tokens


def _elide(clitics: list[Token], following: str) -> None:
    """Lo and la lose their vowel before another: l'ho visto, gliel'ho dato."""
    if clitics and forms.starts_with_vowel(following):
        last = clitics[-1]
        if last.form.endswith(("lo", "la")):
            last.form = last.form[:-1] + "'"
            last.glued = True


def _participle(entry: Verb, clause: Clause, who: Agreement) -> str:
    """The participle: agrees with the subject after essere, with lo, la, li, le before avere."""
    form = forms.conjugated(entry).participle
    pronoun = clinging_object(clause)
    if entry.auxiliary == "essere":
        return forms.inflected_participle(form, forms.form_index(who.gender, plural=who.plural))
    if pronoun is not None and pronoun.person == 3 and not entry.dative:
        index = forms.form_index(pronoun.gender, plural=pronoun.plural)
        return forms.inflected_participle(form, index)
    return form


def _verb_tokens(
    entry: Verb, clause: Clause, who: Agreement, place: int, subject_keys: tuple[int, ...]
) -> tuple[Token, Token, Token]:
    """Finite token, verb token (perhaps the same), and the root of the two."""
    person = who.person - 1 + 3 * who.plural
    finite_keys = (inside(place, Slot.FINITE), *subject_keys)
    key = inside(place, Slot.VERB)
    verb = Token(entry.italian, entry.italian, "VERB", "root", None, key)
    if clause.modal is not None:
        finite, root = _modal(clause.modal, person, verb, finite_keys)
        return finite, verb, root
    if clause.tense == "progressive":
        verb.form = forms.conjugated(entry).gerund
        form = forms.AUXILIARIES["stare"][person]
        return Token(form, "stare", "AUX", "aux", verb, *finite_keys), verb, verb
    if clause.tense == "past" and not entry.stative:
        verb.form = _participle(entry, clause, who)
        form = forms.AUXILIARIES[entry.auxiliary][person]
        return Token(form, entry.auxiliary, "AUX", "aux", verb, *finite_keys), verb, verb
    conjugation = forms.conjugated(entry)
    series = {
        "present": conjugation.present,
        "past": conjugation.imperfect,
        "future": conjugation.future,
    }[clause.tense]
    verb.form = series[person]
    verb.keys = (*finite_keys, key)
    return verb, verb, verb


_MODALS = {"can": "potere", "must": "dovere", "want": "volere"}


def _modal(modal: str, person: int, verb: Token, keys: tuple[int, ...]) -> tuple[Token, Token]:
    lemma = _MODALS[modal]
    form = forms.AUXILIARIES[lemma][person]
    if modal != "want":
        return Token(form, lemma, "AUX", "aux", verb, *keys), verb
    root = Token(form, lemma, "VERB", "root", None, *keys)
    verb.head, verb.relation = root, "xcomp"
    return root, root


def _copular(
    entry: Adjective, clause: Clause, who: Agreement, place: int, subject_keys: tuple[int, ...]
) -> Predicate:
    person = who.person - 1 + 3 * who.plural
    keys = (inside(place, Slot.FINITE), *subject_keys)
    form = forms.adjective_form(entry, forms.form_index(who.gender, plural=who.plural))
    word = Token(form, entry.italian, "ADJ", "root", None, inside(place, Slot.VERB))
    after = [word]
    if clause.degree is not None:
        degree = adverb(clause.degree, inside(place, Slot.DEGREE), word)
        after = [degree, word]
    if clause.modal is not None:
        finite, root = _modal(clause.modal, person, word, keys)
        inner = word.keys if clause.modal == "want" else keys[:1]
        after.insert(0, Token("essere", "essere", "AUX", "cop", word, *inner))
        return Predicate([finite], after, root, word)
    series = {
        "present": forms.AUXILIARIES["essere"],
        "past": forms.ESSERE_PAST,
        "future": forms.ESSERE_FUTURE,
    }[clause.tense]
    return Predicate(
        [Token(series[person], "essere", "AUX", "cop", word, *keys)], after, word, word
    )


def adverb(entry: Adverb, place: int, head: Token) -> Token:
    """The adverb's token."""
    return Token(entry.italian, entry.italian, "ADV", "advmod", head, place)


def predicate_tokens(
    clause: Clause, who: Agreement, place: int, subject_keys: tuple[int, ...]
) -> Predicate:
    """Non, object pronouns and the verb; `subject_keys` belong to a subject that is left out."""
    entry = clause.predicate
    if isinstance(entry, Adjective):
        group = _copular(entry, clause, who, place, subject_keys)
    else:
        finite, verb, root = _verb_tokens(entry, clause, who, place, subject_keys)
        clitics = _clitics(clause, place, verb)
        _elide(clitics, finite.form)
        group = Predicate([*clitics, finite], [] if verb is finite else [verb], root, verb)
    if clause.negated or clause.frequency is NEVER:
        slot = Slot.NEGATION if clause.negated else Slot.FREQUENCY
        group.before.insert(
            0, Token("non", "non", "ADV", "advmod", group.root, inside(place, slot))
        )
    if clause.frequency is not None:
        where = inside(place, Slot.FREQUENCY)
        group.before.append(adverb(clause.frequency, where, group.root))
    return group
