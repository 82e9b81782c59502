"""A sentence of the embedded grammar written in Italian: pronouns dropped, agreement, elision.

Every written word is one word of the tree: an article contracted with its preposition (della) is
an ADP with the relation `case`, aligned with both English words; an elided article (l') is a
word of its own, written onto the next. A subject pronoun that Italian leaves out is aligned with
the finite verb, whose ending stands for it.
"""

from attnlab.grammar.italian import forms
from attnlab.grammar.italian.predicate import adverb, predicate_tokens, strong_pronoun
from attnlab.grammar.italian.predicate import clinging_object as clinging
from attnlab.grammar.lexicon import THE, TO, Preposition
from attnlab.grammar.phrases import (
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
from attnlab.grammar.verb_lexicon import Verb


def italian_tokens(sentence: Sentence) -> list[Token]:
    """The sentence's tokens in order, with a full stop or a question mark at the end."""
    tokens, root = _clause(sentence.main, inside(WHOLE, Slot.FIRST), None)
    if sentence.opening is not None:
        tokens.insert(0, adverb(sentence.opening, inside(WHOLE, Slot.OPENING), root))
    if sentence.second is not None and sentence.conjunction is not None:
        joins = sentence.conjunction.part_of_speech == "CCONJ"
        subject = sentence.main.subject
        who = agreement(subject) if subject is not None else None
        second, head = _clause(sentence.second, inside(WHOLE, Slot.SECOND), who)
        head.head, head.relation = root, "conj" if joins else "advcl"
        word = sentence.conjunction.italian
        if word == "ma":
            tokens[-1].glued = True
            tokens.append(Token(",", ",", "PUNCT", "punct", head, inside(WHOLE, Slot.MARKER)))
        link = Token(
            word if word != "e" else _and(second[0].form),
            word,
            sentence.conjunction.part_of_speech,
            "cc" if joins else "mark",
            head,
            inside(WHOLE, Slot.LINK),
        )
        tokens += [link, *second]
    mark = "?" if sentence.question else "."
    tokens.append(Token(mark, mark, "PUNCT", "punct", root, inside(WHOLE, Slot.FINAL)))
    return tokens


def _and(following: str) -> str:
    return "ed" if following[0].lower() in "eè" else "e"


def _phrase(
    phrase: Phrase, place: int, relation: str, head: Token | None
) -> tuple[list[Token], Token]:
    match phrase:
        case NounPhrase():
            return _noun_phrase(phrase, place, relation, head)
        case NamePhrase():
            name = phrase.name.italian
            token = Token(name, name, "PROPN", relation, head, inside(place, Slot.NOUN))
            return [token], token
        case Pronoun():
            form = strong_pronoun(phrase)
            token = Token(form, form, "PRON", relation, head, inside(place, Slot.NOUN))
            return [token], token
        case Coordination():
            tokens, first = _phrase(phrase.first, inside(place, Slot.FIRST), relation, head)
            others, second = _phrase(phrase.second, inside(place, Slot.SECOND), "conj", first)
            word = _and(others[0].form)
            link = Token(word, "e", "CCONJ", "cc", second, inside(place, Slot.LINK))
            return [*tokens, link, *others], first


def _noun_phrase(
    phrase: NounPhrase, place: int, relation: str, head: Token | None
) -> tuple[list[Token], Token]:
    entry = phrase.noun
    index = forms.form_index(entry.gender, plural=phrase.plural)
    form = forms.noun_form(entry, plural=phrase.plural)
    noun = Token(form, entry.italian, "NOUN", relation, head, inside(place, Slot.NOUN))
    tokens = [noun]
    for number, adjective in reversed(tuple(enumerate(phrase.adjectives))):
        key = inside(place, Slot.ADJECTIVE + number)
        following = tokens[0].form if adjective.before_noun else None
        written = forms.adjective_form(adjective, index, following)
        token = Token(written, adjective.italian, "ADJ", "amod", noun, key)
        tokens.insert(0 if adjective.before_noun else len(tokens), token)
    tokens = [*_determiners(phrase, place, index, noun, tokens[0].form), *tokens]
    if phrase.possessor is not None:
        owner = inside(place, Slot.POSSESSOR)
        group, name = _phrase(phrase.possessor, owner, "nmod", noun)
        key = inside(owner, Slot.PREPOSITION)
        tokens += [Token("di", "di", "ADP", "case", name, key), *group]
    if phrase.modifier is not None:
        tokens += _adjunct(phrase.modifier, inside(place, Slot.MODIFIER), "nmod", noun)
    if phrase.relative is not None:
        where = inside(place, Slot.RELATIVE)
        relative, verb = _clause(phrase.relative, where, agreement(phrase))
        verb.head, verb.relation = noun, "acl:relcl"
        tokens += relative
    return tokens, noun


def _determiners(
    phrase: NounPhrase, place: int, index: int, noun: Token, following: str
) -> list[Token]:
    """The determiner, before a possessive mostly with its article: il mio."""
    entry = phrase.determiner if phrase.possessor is None else THE
    key = (inside(place, Slot.DETERMINER),)
    if phrase.possessor is not None:
        # Anna's dog: the 's stands for the article too.
        key = (inside(inside(place, Slot.POSSESSOR), Slot.PREPOSITION),)
    form = forms.determiner_form(entry.italian, index, following)
    if not entry.possessive:
        part_of_speech, relation = ("NUM", "nummod") if entry.english_class[0] == "NUM" else _DET
        return [Token(form, entry.italian, part_of_speech, relation, noun, *key)]
    modified = bool(phrase.adjectives) or phrase.modifier is not None or phrase.relative is not None
    tokens = [Token(form, entry.italian, "DET", "det:poss", noun, *key)]
    if forms.has_article(entry, phrase.noun, plural=phrase.plural, modified=modified):
        article = forms.definite_article(index, form)
        tokens.insert(0, Token(article, "il", "DET", "det", noun, *key))
    return tokens


_DET = ("DET", "det")


def _with_preposition(
    entry: Preposition, tokens: list[Token], noun: Token, keys: tuple[int, ...]
) -> list[Token]:
    """Preposition and phrase, contracted with the article where there is one."""
    word = entry.italian
    if noun.part_of_speech == "PROPN" and entry.italian_with_town is not None:
        word = entry.italian_with_town
    if entry.italian_second is not None:
        first = Token(word, word, "ADP", "case", noun, *keys)
        return [first, *_contracted(entry.italian_second, tokens, first, "fixed", keys)]
    return _contracted(word, tokens, noun, "case", keys)


def _contracted(
    word: str, tokens: list[Token], head: Token, relation: str, keys: tuple[int, ...]
) -> list[Token]:
    first = tokens[0]
    if first.lemma == "il" and forms.contracts(word):
        form = forms.contracted(word, first.form)
        return [Token(form, word, "ADP", relation, head, *keys, *first.keys), *tokens[1:]]
    form = forms.before_vowel(word, first.form)
    return [Token(form, word, "ADP", relation, head, *keys), *tokens]


def _adjunct(adjunct: Adjunct, place: int, relation: str, head: Token) -> list[Token]:
    tokens, noun = _phrase(adjunct.phrase, inside(place, Slot.PHRASE), relation, head)
    keys = (inside(place, Slot.PREPOSITION),)
    return _with_preposition(adjunct.preposition, tokens, noun, keys)


def _clause(clause: Clause, place: int, shared: Agreement | None) -> tuple[list[Token], Token]:
    entry = clause.predicate
    if isinstance(entry, Verb) and entry.inverted:
        return _inverted_clause(clause, place)
    who = agreement(clause.subject) if clause.subject is not None else shared
    if who is None:
        msg = "a clause without a subject needs one to share"
        raise ValueError(msg)
    where = inside(place, Slot.SUBJECT)
    dropped = isinstance(clause.subject, Pronoun)
    keys = (inside(where, Slot.NOUN),) if dropped else ()
    group = predicate_tokens(clause, who, place, keys)
    tokens: list[Token] = []
    if clause.gap is not None:
        relation, head = ("nsubj", group.root) if clause.gap == "subject" else ("obj", group.verb)
        tokens.append(Token("che", "che", "PRON", relation, head, inside(place, Slot.MARKER)))
    if clause.subject is not None and not dropped:
        tokens += _phrase(clause.subject, where, "nsubj", group.root)[0]
    tokens += [*group.before, *group.after]
    if clause.manner is not None:
        tokens.append(adverb(clause.manner, inside(place, Slot.MANNER), group.verb))
    tokens += _after_verb(clause, place, group.verb)
    return tokens, group.root


def _inverted_clause(clause: Clause, place: int) -> tuple[list[Token], Token]:
    """The English subject is the one who is pleased: a Maria piace il mare."""
    if clause.subject is None or clause.object is None or clause.modal is not None:
        msg = "like needs a subject and an object of its own, and no modal verb"
        raise ValueError(msg)
    place_of_subject = inside(place, Slot.SUBJECT)
    group = predicate_tokens(clause, agreement(clause.object), place, ())
    tokens = [*group.before, *group.after]
    if not isinstance(clause.subject, Pronoun):
        found, noun = _phrase(clause.subject, place_of_subject, "obl", group.root)
        keys = (inside(place, Slot.VERB),)
        tokens = [*_with_preposition(TO, found, noun, keys), *tokens]
    tokens += _phrase(clause.object, inside(place, Slot.OBJECT), "nsubj", group.root)[0]
    return [*tokens, *_circumstances(clause, place, group.verb)], group.root


def _after_verb(clause: Clause, place: int, verb: Token) -> list[Token]:
    tokens: list[Token] = []
    if clause.object is not None and clinging(clause) is None:
        tokens += _object(clause, clause.object, place, verb)
    if clause.recipient is not None and not isinstance(clause.recipient, Pronoun):
        where = inside(place, Slot.RECIPIENT)
        found, noun = _phrase(clause.recipient, where, "obl", verb)
        tokens += _with_preposition(TO, found, noun, (inside(where, Slot.PREPOSITION),))
    return [*tokens, *_circumstances(clause, place, verb)]


def _circumstances(clause: Clause, place: int, verb: Token) -> list[Token]:
    """Where, with whom and when; and the clause that a verb of saying governs."""
    tokens: list[Token] = []
    for number, adjunct in enumerate(clause.adjuncts):
        tokens += _adjunct(adjunct, inside(place, Slot.ADJUNCT + number), "obl", verb)
    if clause.time is not None:
        tokens.append(adverb(clause.time, inside(place, Slot.TIME), verb))
    if clause.complement is not None:
        where = inside(place, Slot.COMPLEMENT)
        inner, head = _clause(clause.complement, where, None)
        head.head, head.relation = verb, "ccomp"
        mark = Token("che", "che", "SCONJ", "mark", head, inside(where, Slot.MARKER))
        tokens += [mark, *inner]
    return tokens


def _object(clause: Clause, phrase: Phrase, place: int, verb: Token) -> list[Token]:
    where = inside(place, Slot.OBJECT)
    entry = clause.predicate
    governs = entry.italian_governs if isinstance(entry, Verb) else None
    if governs is None or not isinstance(entry, Verb):
        return _phrase(phrase, where, "obj", verb)[0]
    tokens, noun = _phrase(phrase, where, "obl", verb)
    # A preposition that English does not have belongs to the meaning of the verb (enter).
    both = entry.governs is not None
    key = inside(where, Slot.PREPOSITION) if both else inside(place, Slot.VERB)
    return _with_preposition(governs, tokens, noun, (key,))
