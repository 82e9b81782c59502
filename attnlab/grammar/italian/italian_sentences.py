"""A sentence of the embedded grammar written in Italian: pronouns dropped, agreement, elision.

Every written word is one word of the tree: an article contracted with its preposition (della) is
an ADP with the relation `case`, aligned with both English words; an elided article (l') is a
word of its own, written onto the next. A subject pronoun that Italian leaves out is aligned with
the finite verb, whose ending stands for it.
"""

from dataclasses import dataclass

import attnlab.grammar.italian.italian_words as forms
from attnlab.grammar.italian.italian_words import (
    ADJECTIVE_WORDS,
    BEFORE_TOWNS,
    SECOND_WORDS,
    VERB_WORDS,
    ItalianVerb,
    agreement,
    word,
)
from attnlab.grammar.lexicon import NEVER, THE, Adjective, Adverb, Preposition, Verb
from attnlab.grammar.phrase_structure import (
    WHOLE,
    Adjunct,
    Agreement,
    Clause,
    Coordination,
    NamePhrase,
    NounPhrase,
    Phrase,
    Pronoun,
    Sentence,
    Slot,
    inside,
)
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
    """Pronouns of receiver and object, in this order; two of the third person are one word (glielo)."""
    entry = italian_verb(clause)
    pronoun = clinging_object(clause)
    dative = entry is not None and entry.dative
    tokens: list[Token] = []
    if pronoun is not None:
        form = dative_pronoun(pronoun) if dative else direct_pronoun(pronoun)
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


def italian_tokens(sentence: Sentence) -> list[Token]:
    """The sentence's tokens in order, with a full stop or a question mark at the end."""
    tokens, root = _clause(sentence.main, inside(WHOLE, Slot.FIRST), None)
    if sentence.opening is not None:
        tokens.insert(0, adverb(sentence.opening, inside(WHOLE, Slot.OPENING), root))
    if sentence.second is not None and sentence.conjunction is not None:
        joins = not sentence.conjunction.subordinating
        subject = sentence.main.subject
        who = agreement(subject) if subject is not None else None
        second, head = _clause(sentence.second, inside(WHOLE, Slot.SECOND), who)
        head.head, head.relation = root, "conj" if joins else "advcl"
        link = word(sentence.conjunction)
        if link == "ma":
            tokens[-1].glued = True
            tokens.append(Token(",", ",", "PUNCT", "punct", head, inside(WHOLE, Slot.MARKER)))
        form = link if link != "e" else _and(second[0].form)
        part_of_speech, relation = ("CCONJ", "cc") if joins else ("SCONJ", "mark")
        key = inside(WHOLE, Slot.LINK)
        tokens += [Token(form, link, part_of_speech, relation, head, key), *second]
    mark = "?" if sentence.question else "."
    tokens.append(Token(mark, mark, "PUNCT", "punct", root, inside(WHOLE, Slot.FINAL)))
    return tokens


def _and(following: str) -> str:
    return "ed" if following[0].lower() in "eè" else "e"


def _phrase(
    phrase: Phrase, node: int, relation: str, head: Token | None
) -> tuple[list[Token], Token]:
    match phrase:
        case NounPhrase():
            return _noun_phrase(phrase, node, relation, head)
        case NamePhrase():
            name = word(phrase.name)
            token = Token(name, name, "PROPN", relation, head, inside(node, Slot.NOUN))
            return [token], token
        case Pronoun():
            form = strong_pronoun(phrase)
            token = Token(form, form, "PRON", relation, head, inside(node, Slot.NOUN))
            return [token], token
        case Coordination():
            tokens, first = _phrase(phrase.first, inside(node, Slot.FIRST), relation, head)
            others, second = _phrase(phrase.second, inside(node, Slot.SECOND), "conj", first)
            form = _and(others[0].form)
            link = Token(form, "e", "CCONJ", "cc", second, inside(node, Slot.LINK))
            return [*tokens, link, *others], first


def _noun_phrase(
    phrase: NounPhrase, node: int, relation: str, head: Token | None
) -> tuple[list[Token], Token]:
    entry = phrase.noun
    index = forms.form_index(agreement(phrase).gender, plural=phrase.plural)
    form = forms.noun_form(entry, plural=phrase.plural)
    noun = Token(form, word(entry), "NOUN", relation, head, inside(node, Slot.NOUN))
    tokens = [noun]
    for number, adjective in reversed(tuple(enumerate(phrase.adjectives))):
        key = inside(node, Slot.ADJECTIVE + number)
        before = ADJECTIVE_WORDS[adjective.name].before_noun
        written = forms.adjective_form(adjective, index, tokens[0].form if before else None)
        token = Token(written, word(adjective), "ADJ", "amod", noun, key)
        tokens.insert(0 if before else len(tokens), token)
    tokens = [*_determiners(phrase, node, index, noun, tokens[0].form), *tokens]
    if phrase.possessor is not None:
        owner = inside(node, Slot.POSSESSOR)
        group, name = _phrase(phrase.possessor, owner, "nmod", noun)
        key = inside(owner, Slot.PREPOSITION)
        tokens += [Token("di", "di", "ADP", "case", name, key), *group]
    if phrase.modifier is not None:
        tokens += _adjunct(phrase.modifier, inside(node, Slot.MODIFIER), "nmod", noun)
    if phrase.relative is not None:
        where = inside(node, Slot.RELATIVE)
        relative, verb = _clause(phrase.relative, where, agreement(phrase))
        verb.head, verb.relation = noun, "acl:relcl"
        tokens += relative
    return tokens, noun


def _determiners(
    phrase: NounPhrase, node: int, index: int, noun: Token, following: str
) -> list[Token]:
    """The determiner, before a possessive mostly with its article: il mio."""
    entry = phrase.determiner if phrase.possessor is None else THE
    key = (inside(node, Slot.DETERMINER),)
    if phrase.possessor is not None:
        # Anna's dog: the 's stands for the article too.
        key = (inside(inside(node, Slot.POSSESSOR), Slot.PREPOSITION),)
    form = forms.determiner_form(word(entry), index, following)
    if not entry.possessive:
        part_of_speech, relation = ("NUM", "nummod") if entry.numeral else ("DET", "det")
        return [Token(form, word(entry), part_of_speech, relation, noun, *key)]
    modified = bool(phrase.adjectives) or phrase.modifier is not None or phrase.relative is not None
    tokens = [Token(form, word(entry), "DET", "det:poss", noun, *key)]
    if forms.has_article(entry, phrase.noun, plural=phrase.plural, modified=modified):
        article = forms.definite_article(index, form)
        tokens.insert(0, Token(article, "il", "DET", "det", noun, *key))
    return tokens


def _prepositional_phrase(
    entry: Preposition, tokens: list[Token], noun: Token, key: Key
) -> list[Token]:
    """Preposition and phrase, contracted with the article where there is one."""
    preposition = word(entry)
    if noun.part_of_speech == "PROPN":
        preposition = BEFORE_TOWNS.get(entry.name, preposition)
    if entry.name in SECOND_WORDS:
        first = Token(preposition, preposition, "ADP", "case", noun, key)
        return [first, *_contracted(SECOND_WORDS[entry.name], tokens, first, key, "fixed")]
    return _contracted(preposition, tokens, noun, key)


def _contracted(
    preposition: str, tokens: list[Token], head: Token, key: Key, relation: str = "case"
) -> list[Token]:
    first = tokens[0]
    if first.lemma == "il" and forms.contracts(preposition):
        form = forms.contracted(preposition, first.form)
        return [Token(form, preposition, "ADP", relation, head, key, *first.keys), *tokens[1:]]
    form = forms.before_vowel(preposition, first.form)
    return [Token(form, preposition, "ADP", relation, head, key), *tokens]


def _adjunct(adjunct: Adjunct, node: int, relation: str, head: Token) -> list[Token]:
    tokens, noun = _phrase(adjunct.phrase, inside(node, Slot.PHRASE), relation, head)
    key = inside(node, Slot.PREPOSITION)
    return _prepositional_phrase(adjunct.preposition, tokens, noun, key)


def _clause(clause: Clause, node: int, shared: Agreement | None) -> tuple[list[Token], Token]:
    verb = italian_verb(clause)
    if verb is not None and verb.inverted:
        return _inverted_clause(clause, node)
    who = agreement(clause.subject) if clause.subject is not None else shared
    if who is None:
        msg = "a clause without a subject needs one to share"
        raise ValueError(msg)
    where = inside(node, Slot.SUBJECT)
    dropped = isinstance(clause.subject, Pronoun)
    keys = (inside(where, Slot.NOUN),) if dropped else ()
    group = predicate_tokens(clause, who, node, keys)
    tokens: list[Token] = []
    if clause.gap is not None:
        relation, head = ("nsubj", group.root) if clause.gap == "subject" else ("obj", group.verb)
        tokens.append(Token("che", "che", "PRON", relation, head, inside(node, Slot.MARKER)))
    if clause.subject is not None and not dropped:
        tokens += _phrase(clause.subject, where, "nsubj", group.root)[0]
    tokens += [*group.before, *group.after]
    if clause.manner is not None:
        tokens.append(adverb(clause.manner, inside(node, Slot.MANNER), group.verb))
    tokens += _verb_complements(clause, node, group.verb)
    return tokens, group.root


def _inverted_clause(clause: Clause, node: int) -> tuple[list[Token], Token]:
    """The tokens of a clause whose receiver is the subject in other languages: a Maria piace il mare."""
    if clause.subject is None or clause.object is None or clause.modal is not None:
        msg = "like needs a subject and an object of its own, and no modal verb"
        raise ValueError(msg)
    subject_node = inside(node, Slot.SUBJECT)
    group = predicate_tokens(clause, agreement(clause.object), node, ())
    tokens = [*group.before, *group.after]
    if not isinstance(clause.subject, Pronoun):
        phrase, noun = _phrase(clause.subject, subject_node, "obl", group.root)
        tokens = [*_contracted("a", phrase, noun, inside(node, Slot.VERB)), *tokens]
    tokens += _phrase(clause.object, inside(node, Slot.OBJECT), "nsubj", group.root)[0]
    return [*tokens, *_circumstances(clause, node, group.verb)], group.root


def _verb_complements(clause: Clause, node: int, verb: Token) -> list[Token]:
    tokens: list[Token] = []
    if clause.object is not None and clinging_object(clause) is None:
        tokens += _object(clause, clause.object, node, verb)
    if clause.recipient is not None and not isinstance(clause.recipient, Pronoun):
        where = inside(node, Slot.RECIPIENT)
        phrase, noun = _phrase(clause.recipient, where, "obl", verb)
        tokens += _contracted("a", phrase, noun, inside(where, Slot.PREPOSITION))
    return [*tokens, *_circumstances(clause, node, verb)]


def _circumstances(clause: Clause, node: int, verb: Token) -> list[Token]:
    """Tokens of where, with whom and when, and of the clause that a verb of saying governs."""
    tokens: list[Token] = []
    for number, adjunct in enumerate(clause.adjuncts):
        tokens += _adjunct(adjunct, inside(node, Slot.ADJUNCT + number), "obl", verb)
    if clause.time is not None:
        tokens.append(adverb(clause.time, inside(node, Slot.TIME), verb))
    if clause.complement is not None:
        where = inside(node, Slot.COMPLEMENT)
        inner, head = _clause(clause.complement, where, None)
        head.head, head.relation = verb, "ccomp"
        mark = Token("che", "che", "SCONJ", "mark", head, inside(where, Slot.MARKER))
        tokens += [mark, *inner]
    return tokens


def _object(clause: Clause, phrase: Phrase, node: int, verb: Token) -> list[Token]:
    where = inside(node, Slot.OBJECT)
    entry = italian_verb(clause)
    if entry is None or entry.governs is None:
        return _phrase(phrase, where, "obj", verb)[0]
    tokens, noun = _phrase(phrase, where, "obl", verb)
    # A preposition that another language lacks belongs to the meaning of the verb (enter).
    key = inside(where, Slot.PREPOSITION), inside(node, Slot.VERB)
    return _contracted(entry.governs, tokens, noun, key)
