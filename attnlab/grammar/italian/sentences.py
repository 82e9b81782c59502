"""A sentence of the embedded grammar written in Italian: pronouns dropped, agreement, elision.

Every written word is one word of the tree: an article contracted with its preposition (della) is
an ADP with the relation `case`, aligned with both English words; an elided article (l') is a
word of its own, written onto the next. A subject pronoun that Italian leaves out is aligned with
the finite verb, whose ending stands for it.
"""

from attnlab.grammar.concepts import THE, Preposition
from attnlab.grammar.italian import forms
from attnlab.grammar.italian.predicate import (
    adverb,
    clinging_object,
    italian_verb,
    predicate_tokens,
    strong_pronoun,
)
from attnlab.grammar.italian.words import (
    ADJECTIVE_WORDS,
    BEFORE_TOWNS,
    SECOND_WORDS,
    agreement,
    word,
)
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
    inside,
)
from attnlab.grammar.trees import Key, Token


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


def _with_preposition(
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
    return _with_preposition(adjunct.preposition, tokens, noun, key)


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
    tokens += _after_verb(clause, node, group.verb)
    return tokens, group.root


def _inverted_clause(clause: Clause, node: int) -> tuple[list[Token], Token]:
    """The subject in other languages is the one who is pleased: a Maria piace il mare."""
    if clause.subject is None or clause.object is None or clause.modal is not None:
        msg = "like needs a subject and an object of its own, and no modal verb"
        raise ValueError(msg)
    subject_node = inside(node, Slot.SUBJECT)
    group = predicate_tokens(clause, agreement(clause.object), node, ())
    tokens = [*group.before, *group.after]
    if not isinstance(clause.subject, Pronoun):
        found, noun = _phrase(clause.subject, subject_node, "obl", group.root)
        tokens = [*_contracted("a", found, noun, inside(node, Slot.VERB)), *tokens]
    tokens += _phrase(clause.object, inside(node, Slot.OBJECT), "nsubj", group.root)[0]
    return [*tokens, *_circumstances(clause, node, group.verb)], group.root


def _after_verb(clause: Clause, node: int, verb: Token) -> list[Token]:
    tokens: list[Token] = []
    if clause.object is not None and clinging_object(clause) is None:
        tokens += _object(clause, clause.object, node, verb)
    if clause.recipient is not None and not isinstance(clause.recipient, Pronoun):
        where = inside(node, Slot.RECIPIENT)
        found, noun = _phrase(clause.recipient, where, "obl", verb)
        tokens += _contracted("a", found, noun, inside(where, Slot.PREPOSITION))
    return [*tokens, *_circumstances(clause, node, verb)]


def _circumstances(clause: Clause, node: int, verb: Token) -> list[Token]:
    """Where, with whom and when; and the clause that a verb of saying governs."""
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
