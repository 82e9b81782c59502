"""A sentence of the embedded grammar written in English: do-support, -s, adjectives before nouns."""

from dataclasses import dataclass

import attnlab.grammar.english.english_words as forms
from attnlab.grammar.english.english_words import DETERMINERS, GOVERNED, word
from attnlab.grammar.lexicon import Adjective, Adverb, Noun
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
    agreement,
    inside,
)
from attnlab.grammar.trees import Token


def english_tokens(sentence: Sentence) -> list[Token]:
    """The sentence's tokens in order, with a full stop or a question mark at the end."""
    main = inside(WHOLE, Slot.FIRST)
    tokens, root = _clause(sentence.main, main, None, question=sentence.question)
    if sentence.opening is not None:
        tokens.insert(0, _adverb(sentence.opening, inside(WHOLE, Slot.OPENING), root))
    if sentence.second is not None and sentence.conjunction is not None:
        joins = not sentence.conjunction.subordinating
        subject = sentence.main.subject
        who = agreement(subject) if subject is not None else None
        second, head = _clause(sentence.second, inside(WHOLE, Slot.SECOND), who)
        head.head, head.relation = root, "conj" if joins else "advcl"
        link = word(sentence.conjunction)
        if link == "but":
            tokens[-1].glued = True
            tokens.append(Token(",", ",", "PUNCT", "punct", head, inside(WHOLE, Slot.MARKER)))
        part_of_speech, relation = ("CCONJ", "cc") if joins else ("SCONJ", "mark")
        key = inside(WHOLE, Slot.LINK)
        tokens += [Token(link, link, part_of_speech, relation, head, key), *second]
    mark = "?" if sentence.question else "."
    tokens.append(Token(mark, mark, "PUNCT", "punct", root, inside(WHOLE, Slot.FINAL)))
    return tokens


def _adverb(entry: Adverb, node: int, head: Token) -> Token:
    return Token(word(entry), word(entry), "ADV", "advmod", head, node)


def _phrase(
    phrase: Phrase, node: int, relation: str, head: Token | None, *, subject: bool = False
) -> tuple[list[Token], Token]:
    match phrase:
        case NounPhrase():
            return _noun_phrase(phrase, node, relation, head)
        case NamePhrase():
            name = word(phrase.name)
            token = Token(name, name, "PROPN", relation, head, inside(node, Slot.NOUN))
            return [token], token
        case Pronoun():
            return _pronoun(phrase, node, relation, head, subject=subject)
        case Coordination():
            tokens, first = _phrase(phrase.first, inside(node, Slot.FIRST), relation, head)
            others, second = _phrase(phrase.second, inside(node, Slot.SECOND), "conj", first)
            link = Token("and", "and", "CCONJ", "cc", second, inside(node, Slot.LINK))
            return [*tokens, link, *others], first


def _pronoun(
    entry: Pronoun, node: int, relation: str, head: Token | None, *, subject: bool
) -> tuple[list[Token], Token]:
    form, lemma = forms.pronoun(entry, subject=subject), forms.pronoun(entry, subject=True)
    key = inside(node, Slot.NOUN)
    token = Token(form, lemma, "PRON", relation, head, key)
    if entry.person == 2 and entry.plural:
        return [token, Token("all", "all", "DET", "det", token, key)], token
    return [token], token


def _noun_phrase(
    phrase: NounPhrase, node: int, relation: str, head: Token | None
) -> tuple[list[Token], Token]:
    entry = phrase.noun
    form = forms.plural(entry) if phrase.plural else word(entry)
    noun = Token(form, word(entry), "NOUN", relation, head, inside(node, Slot.NOUN))
    tokens = [
        Token(
            word(adjective),
            word(adjective),
            "ADJ",
            "amod",
            noun,
            inside(node, Slot.ADJECTIVE + number),
        )
        for number, adjective in enumerate(phrase.adjectives)
    ]
    tokens.append(noun)
    tokens = [*_determiners(phrase, node, noun, tokens[0].form), *tokens]
    if phrase.modifier is not None:
        tokens += _adjunct(phrase.modifier, inside(node, Slot.MODIFIER), "nmod", noun)
    if phrase.relative is not None:
        relative, verb = _clause(
            phrase.relative, inside(node, Slot.RELATIVE), agreement(phrase), antecedent=entry
        )
        verb.head, verb.relation = noun, "acl:relcl"
        tokens += relative
    return tokens, noun


def _determiners(phrase: NounPhrase, node: int, noun: Token, following: str) -> list[Token]:
    if phrase.possessor is not None:
        owner = inside(node, Slot.POSSESSOR)
        tokens, name = _phrase(phrase.possessor, owner, "nmod:poss", noun)
        name.glued = True
        return [*tokens, Token("'s", "'s", "PART", "case", name, inside(owner, Slot.PREPOSITION))]
    entry = phrase.determiner
    form = forms.determiner(entry, following, is_plural=phrase.plural)
    singular, _, part_of_speech, relation = DETERMINERS[entry.name]
    return [
        Token(form, singular or form, part_of_speech, relation, noun, inside(node, Slot.DETERMINER))
    ]


def _adjunct(adjunct: Adjunct, node: int, relation: str, head: Token) -> list[Token]:
    tokens, noun = _phrase(adjunct.phrase, inside(node, Slot.PHRASE), relation, head)
    form, key = word(adjunct.preposition), inside(node, Slot.PREPOSITION)
    return [Token(form, form, "ADP", "case", noun, key), *tokens]


@dataclass(slots=True)
class _VerbGroup:
    """Auxiliary (which a question puts first), what follows it, and the two heads.

    `verb` may be an adjective, which then is not among the `lexical` tokens.
    """

    auxiliary: Token | None
    lexical: list[Token]
    root: Token
    verb: Token


def _verb_group(clause: Clause, node: int, who: Agreement, *, question: bool) -> _VerbGroup:
    finite, key = inside(node, Slot.FINITE), inside(node, Slot.VERB)
    predicate = clause.predicate
    verb = Token(word(predicate), word(predicate), "VERB", "root", None, key)
    base = [verb]
    if isinstance(predicate, Adjective):
        verb.part_of_speech = "ADJ"
        base = [Token("be", "be", "AUX", "cop", verb, finite)]
    if clause.modal == "want":
        return _wanting(clause, who, verb, base, finite, question=question)
    if clause.modal is not None or clause.tense == "future":
        modal = clause.modal or "will"
        return _VerbGroup(Token(modal, modal, "AUX", "aux", verb, finite), base, verb, verb)
    if isinstance(predicate, Adjective):
        copula = Token(forms.to_be(who, clause.tense), "be", "AUX", "cop", verb, finite)
        return _VerbGroup(copula, [], verb, verb)
    if clause.tense == "progressive":
        verb.form = forms.gerund(predicate)
        to_be = Token(forms.to_be(who, "present"), "be", "AUX", "aux", verb, finite)
        return _VerbGroup(to_be, [verb], verb, verb)
    if clause.negated or question:
        return _VerbGroup(_infinitive(clause, who, verb, finite), [verb], verb, verb)
    verb.keys = (finite, key)
    if clause.tense == "past":
        verb.form = forms.past(predicate)
    elif forms.is_third_singular(who):
        verb.form = forms.third_person(predicate)
    return _VerbGroup(None, [verb], verb, verb)


def _infinitive(clause: Clause, who: Agreement, verb: Token, key: int) -> Token:
    present = "does" if forms.is_third_singular(who) else "do"
    return Token("did" if clause.tense == "past" else present, "do", "AUX", "aux", verb, key)


def _wanting(
    clause: Clause, who: Agreement, verb: Token, base: list[Token], finite: int, *, question: bool
) -> _VerbGroup:
    want = Token("want", "want", "VERB", "root", None, finite)
    verb.head, verb.relation = want, "xcomp"
    lexical = [want, Token("to", "to", "PART", "mark", verb, *verb.keys), *base]
    if base[0] is not verb:
        base[0].keys = verb.keys
        lexical[1].keys = verb.keys
    if clause.negated or question:
        return _VerbGroup(_infinitive(clause, who, want, finite), lexical, want, verb)
    want.form = "wants" if forms.is_third_singular(who) else "want"
    return _VerbGroup(None, lexical, want, verb)


def _clause(
    clause: Clause,
    node: int,
    shared: Agreement | None,
    *,
    question: bool = False,
    antecedent: Noun | None = None,
) -> tuple[list[Token], Token]:
    who = agreement(clause.subject) if clause.subject is not None else shared
    if who is None:
        msg = "a clause without a subject needs one to share"
        raise ValueError(msg)
    group = _verb_group(clause, node, who, question=question)
    subject: list[Token] = []
    if clause.subject is not None:
        where = inside(node, Slot.SUBJECT)
        subject, _ = _phrase(clause.subject, where, "nsubj", group.root, subject=True)
    start = [group.auxiliary] if group.auxiliary is not None else []
    tokens = [*start, *subject] if question else [*subject, *start]
    if clause.gap is not None:
        tokens.insert(0, _relative_pronoun(clause, node, group, antecedent))
    if clause.negated:
        if start and start[0].form == "can" and not question:
            start[0].glued = True
        key = inside(node, Slot.NEGATION)
        tokens.append(Token("not", "not", "PART", "advmod", group.root, key))
    if clause.frequency is not None:
        tokens.append(_adverb(clause.frequency, inside(node, Slot.FREQUENCY), group.root))
    tokens += group.lexical
    if isinstance(clause.predicate, Adjective):
        if clause.degree is not None:
            tokens.append(_adverb(clause.degree, inside(node, Slot.DEGREE), group.verb))
        tokens.append(group.verb)
    tokens += _verb_complements(clause, node, group.verb)
    return tokens, group.root


def _relative_pronoun(
    clause: Clause, node: int, group: _VerbGroup, antecedent: Noun | None
) -> Token:
    """The relative pronoun: who for people who act, that for all else."""
    acting = clause.gap == "subject"
    personal = acting and antecedent is not None and antecedent.kind == "person"
    form = "who" if personal else "that"
    relation, head = ("nsubj", group.root) if acting else ("obj", group.verb)
    return Token(form, form, "PRON", relation, head, inside(node, Slot.MARKER))


def _verb_complements(clause: Clause, node: int, verb: Token) -> list[Token]:
    tokens: list[Token] = []
    late: list[Token] = []
    if clause.recipient is not None:
        where = inside(node, Slot.RECIPIENT)
        shifted = isinstance(clause.recipient, Pronoun) and not isinstance(clause.object, Pronoun)
        phrase, head = _phrase(clause.recipient, where, "iobj" if shifted else "obl", verb)
        if shifted:
            tokens += phrase
        else:
            key = inside(where, Slot.PREPOSITION)
            late = [Token("to", "to", "ADP", "case", head, key), *phrase]
    if clause.object is not None:
        tokens += _object(clause, clause.object, node, verb)
    tokens += late
    for number, adjunct in enumerate(clause.adjuncts):
        tokens += _adjunct(adjunct, inside(node, Slot.ADJUNCT + number), "obl", verb)
    if clause.manner is not None:
        tokens.append(_adverb(clause.manner, inside(node, Slot.MANNER), verb))
    if clause.time is not None:
        tokens.append(_adverb(clause.time, inside(node, Slot.TIME), verb))
    if clause.complement is not None:
        where = inside(node, Slot.COMPLEMENT)
        inner, head = _clause(clause.complement, where, None)
        head.head, head.relation = verb, "ccomp"
        mark = Token("that", "that", "SCONJ", "mark", head, inside(where, Slot.MARKER))
        tokens += [mark, *inner]
    return tokens


def _object(clause: Clause, phrase: Phrase, node: int, verb: Token) -> list[Token]:
    where = inside(node, Slot.OBJECT)
    governs = GOVERNED.get(clause.predicate.name)
    if governs is None:
        return _phrase(phrase, where, "obj", verb)[0]
    tokens, head = _phrase(phrase, where, "obl", verb)
    # A preposition that another language lacks belongs to the meaning of the verb (aspettare).
    key = inside(where, Slot.PREPOSITION), inside(node, Slot.VERB)
    return [Token(governs, governs, "ADP", "case", head, key), *tokens]
