"""The Italian verb with what clings to it: non, object pronouns, auxiliary, participle."""

from dataclasses import dataclass

from attnlab.grammar.concepts import NEVER, Adjective, Adverb, Verb
from attnlab.grammar.italian import forms
from attnlab.grammar.italian.words import VERB_WORDS, ItalianVerb, agreement, word
from attnlab.grammar.phrases import Agreement, Clause, Pronoun, Slot, inside
from attnlab.grammar.trees import Key, Token

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
    return ("lo", "la", "li", "le")[_index(agreement(entry))]


def dative_pronoun(entry: Pronoun) -> str:
    """The pronoun of the receiver: mi, ti, gli, le, ci, vi, gli (to them)."""
    if entry.person < 3:
        return _DIRECT[entry.person, entry.plural]
    return "le" if _index(agreement(entry)) == 1 else "gli"


def strong_pronoun(entry: Pronoun) -> str:
    """The pronoun after a preposition: con me, con lei."""
    if entry.person == 3 and not entry.plural:
        return ("lui", "lei")[_index(agreement(entry))]
    return _STRONG[entry.person, entry.plural]


def _index(who: Agreement) -> int:
    return forms.form_index(who.gender, plural=who.plural)


def italian_verb(clause: Clause) -> ItalianVerb | None:
    """The words of a clause's verb; None where an adjective stands with to be."""
    entry = clause.predicate
    return VERB_WORDS[entry.name] if isinstance(entry, Verb) else None


@dataclass(slots=True)
class Predicate:
    """The verb's tokens before and after adverbs, and the two heads."""

    before: list[Token]
    after: list[Token]
    root: Token
    verb: Token


def clinging_object(clause: Clause) -> Pronoun | None:
    """The object when it is a pronoun that stands before the verb."""
    verb = italian_verb(clause)
    if not isinstance(clause.object, Pronoun) or verb is None or verb.inverted:
        return None
    return clause.object if verb.governs is None or verb.dative else None


def _clitics(clause: Clause, node: int, verb: Token) -> list[Token]:
    """Receiver before object; the two of the third person are one word (glielo)."""
    entry = italian_verb(clause)
    found = clinging_object(clause)
    dative = entry is not None and entry.dative
    tokens: list[Token] = []
    if found is not None:
        form = dative_pronoun(found) if dative else direct_pronoun(found)
        where = inside(node, Slot.OBJECT)
        relation = "iobj" if dative else "obj"
        preposition = (inside(where, Slot.PREPOSITION),) if dative else ()
        keys = inside(where, Slot.NOUN), *preposition
        tokens = [Token(form, form, "PRON", relation, verb, *keys)]
    inverted = entry is not None and entry.inverted
    receiver = clause.subject if inverted else clause.recipient
    if isinstance(receiver, Pronoun):
        form = dative_pronoun(receiver)
        where = inside(node, Slot.SUBJECT if inverted else Slot.RECIPIENT)
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
    if VERB_WORDS[entry.name].auxiliary == "essere":
        return forms.inflected_participle(form, _index(who))
    if pronoun is not None and pronoun.person == 3 and not VERB_WORDS[entry.name].dative:
        return forms.inflected_participle(form, _index(agreement(pronoun)))
    return form


def _verb_tokens(
    entry: Verb, clause: Clause, who: Agreement, node: int, subject_keys: tuple[Key, ...]
) -> tuple[Token, Token, Token]:
    """Finite token, verb token (perhaps the same), and the root of the two."""
    person = who.person - 1 + 3 * who.plural
    finite_keys = (inside(node, Slot.FINITE), *subject_keys)
    key = inside(node, Slot.VERB)
    verb = Token(word(entry), word(entry), "VERB", "root", None, key)
    if clause.modal is not None:
        finite, root = _modal(clause.modal, person, verb, finite_keys)
        return finite, verb, root
    if clause.tense == "progressive":
        verb.form = forms.conjugated(entry).gerund
        form = forms.AUXILIARIES["stare"][person]
        return Token(form, "stare", "AUX", "aux", verb, *finite_keys), verb, verb
    if clause.tense == "past" and not entry.stative:
        verb.form = _participle(entry, clause, who)
        auxiliary = VERB_WORDS[entry.name].auxiliary
        form = forms.AUXILIARIES[auxiliary][person]
        return Token(form, auxiliary, "AUX", "aux", verb, *finite_keys), verb, verb
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


def _modal(modal: str, person: int, verb: Token, keys: tuple[Key, ...]) -> tuple[Token, Token]:
    lemma = _MODALS[modal]
    form = forms.AUXILIARIES[lemma][person]
    if modal != "want":
        return Token(form, lemma, "AUX", "aux", verb, *keys), verb
    root = Token(form, lemma, "VERB", "root", None, *keys)
    verb.head, verb.relation = root, "xcomp"
    return root, root


def _copular(
    entry: Adjective, clause: Clause, who: Agreement, node: int, subject_keys: tuple[Key, ...]
) -> Predicate:
    person = who.person - 1 + 3 * who.plural
    keys = (inside(node, Slot.FINITE), *subject_keys)
    form = forms.adjective_form(entry, _index(who))
    adjective = Token(form, word(entry), "ADJ", "root", None, inside(node, Slot.VERB))
    after = [adjective]
    if clause.degree is not None:
        degree = adverb(clause.degree, inside(node, Slot.DEGREE), adjective)
        after = [degree, adjective]
    if clause.modal is not None:
        finite, root = _modal(clause.modal, person, adjective, keys)
        inner = adjective.keys if clause.modal == "want" else keys[:1]
        after.insert(0, Token("essere", "essere", "AUX", "cop", adjective, *inner))
        return Predicate([finite], after, root, adjective)
    series = {
        "present": forms.AUXILIARIES["essere"],
        "past": forms.ESSERE_PAST,
        "future": forms.ESSERE_FUTURE,
    }[clause.tense]
    copula = Token(series[person], "essere", "AUX", "cop", adjective, *keys)
    return Predicate([copula], after, adjective, adjective)


def adverb(entry: Adverb, node: int, head: Token) -> Token:
    """The adverb's token."""
    return Token(word(entry), word(entry), "ADV", "advmod", head, node)


def predicate_tokens(
    clause: Clause, who: Agreement, node: int, subject_keys: tuple[Key, ...]
) -> Predicate:
    """Non, object pronouns and the verb; `subject_keys` belong to a subject that is left out."""
    entry = clause.predicate
    if isinstance(entry, Adjective):
        group = _copular(entry, clause, who, node, subject_keys)
    else:
        finite, verb, root = _verb_tokens(entry, clause, who, node, subject_keys)
        clitics = _clitics(clause, node, verb)
        _elide(clitics, finite.form)
        group = Predicate([*clitics, finite], [] if verb is finite else [verb], root, verb)
    if clause.negated or clause.frequency is NEVER:
        slot = Slot.NEGATION if clause.negated else Slot.FREQUENCY
        group.before.insert(0, Token("non", "non", "ADV", "advmod", group.root, inside(node, slot)))
    if clause.frequency is not None:
        where = inside(node, Slot.FREQUENCY)
        group.before.append(adverb(clause.frequency, where, group.root))
    return group
