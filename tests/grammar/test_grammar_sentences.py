# ruff: noqa: E501, E741  (a row of a table is one line; I is the pronoun)
"""Sentences built by hand, with the translation that a speaker of Italian writes."""

import pytest
from grammar.grammar_words import adjective, adverb, man, noun, town, verb, woman

from attnlab.grammar import lexicon as words
from attnlab.grammar.embedded import pair_of
from attnlab.grammar.phrase_structure import (
    Adjunct,
    Clause,
    Coordination,
    NounPhrase,
    Phrase,
    Pronoun,
    Sentence,
)

MY, YOUR, HIS, HER, OUR, THEIR = words.POSSESSIVES
TWO, THREE = words.NUMERALS[:2]
ANNA, MARCO = woman("Anna"), man("Marco")
I, YOU, HE, SHE = Pronoun(1), Pronoun(2), Pronoun(3), Pronoun(3, gender="f")
WE, YOU_ALL, THEY = Pronoun(1, plural=True), Pronoun(2, plural=True), Pronoun(3, plural=True)
SHES = Pronoun(3, plural=True, gender="f")
IT_F = Pronoun(3, gender="f", animate=False)


def the(english: str, *adjectives: str, **more: object) -> NounPhrase:
    return some(words.THE, english, *adjectives, **more)


def some(
    determiner: words.Determiner, english: str, *adjectives: str, **more: object
) -> NounPhrase:
    found = tuple(adjective(word) for word in adjectives)
    return NounPhrase(noun(english), determiner, adjectives=found, **more)


def does(who: Phrase | None, what: str, thing: Phrase | None = None, **more: object) -> Clause:
    return Clause(who, verb(what), object=thing, **more)


def sees(thing: Phrase) -> Clause:
    return does(ANNA, "see", thing)


def joined(main: Clause, word: str, second: Clause) -> Sentence:
    return Sentence(main, conjunction=words.CONJUNCTIONS[word], second=second)


ADJECTIVES = [
    (sees(the("house", "old", "empty")), "Anna sees the old empty house.", "Anna vede la vecchia casa vuota."),
    (sees(some(words.A, "hat", "red")), "Anna sees a red hat.", "Anna vede un cappello rosso."),
    (sees(some(words.A, "student", "good")), "Anna sees a good student.", "Anna vede un buono studente."),
    (sees(some(words.A, "friend", "good")), "Anna sees a good friend.", "Anna vede un buon amico."),
    (sees(some(words.A, "friend", "old")), "Anna sees an old friend.", "Anna vede un vecchio amico."),
    (sees(the("boy", "beautiful", plural=True)), "Anna sees the beautiful boys.", "Anna vede i bei ragazzi."),
    (sees(the("friend", "beautiful", plural=True)), "Anna sees the beautiful friends.", "Anna vede i begli amici."),
    (sees(the("friend", "kind", plural=True)), "Anna sees the kind friends.", "Anna vede gli amici gentili."),
    (sees(the("woman", "German", plural=True)), "Anna sees the German women.", "Anna vede le donne tedesche."),
    (sees(the("scarf", "pink", plural=True)), "Anna sees the pink scarves.", "Anna vede le sciarpe rosa."),
    (sees(the("mirror", "big", "heavy")), "Anna sees the big heavy mirror.", "Anna vede il grande specchio pesante."),
    (sees(some(words.A, "university", "ancient")), "Anna sees an ancient university.", "Anna vede un'università antica."),
]  # fmt: skip

DETERMINERS = [
    (sees(the("water")), "Anna sees the water.", "Anna vede l'acqua."),
    (sees(the("gnome")), "Anna sees the gnome.", "Anna vede lo gnomo."),
    (sees(some(words.A, "backpack")), "Anna sees a backpack.", "Anna vede uno zaino."),
    (sees(some(words.A, "apple")), "Anna sees an apple.", "Anna vede una mela."),
    (sees(some(words.A, "bee")), "Anna sees a bee.", "Anna vede un'ape."),
    (sees(some(words.THAT, "psychologist")), "Anna sees that psychologist.", "Anna vede quello psicologo."),
    (sees(some(words.THAT, "elephant", plural=True)), "Anna sees those elephants.", "Anna vede quegli elefanti."),
    (sees(some(words.THIS, "eagle")), "Anna sees this eagle.", "Anna vede quest'aquila."),
    (sees(some(words.EVERY, "key")), "Anna sees every key.", "Anna vede ogni chiave."),
    (sees(some(words.SOME, "cow", plural=True)), "Anna sees some cows.", "Anna vede alcune mucche."),
    (sees(some(words.MANY, "hotel", plural=True)), "Anna sees many hotels.", "Anna vede molti alberghi."),
    (sees(some(THREE, "city", plural=True)), "Anna sees three cities.", "Anna vede tre città."),
    (sees(some(MY, "uncle")), "Anna sees my uncle.", "Anna vede mio zio."),
    (sees(some(MY, "uncle", "old")), "Anna sees my old uncle.", "Anna vede il mio vecchio zio."),
    (sees(some(MY, "uncle", plural=True)), "Anna sees my uncles.", "Anna vede i miei zii."),
    (sees(some(THEIR, "mother")), "Anna sees their mother.", "Anna vede la loro madre."),
    (sees(some(OUR, "dog")), "Anna sees our dog.", "Anna vede il nostro cane."),
    (sees(the("dog", "black", possessor=MARCO)), "Anna sees Marco's black dog.", "Anna vede il cane nero di Marco."),
]  # fmt: skip

PREPOSITIONS = [
    (Adjunct(words.IN, the("garden")), "in the garden", "nel giardino"),
    (Adjunct(words.IN, the("zoo")), "in the zoo", "nello zoo"),
    (Adjunct(words.IN, the("hotel")), "in the hotel", "nell'albergo"),
    (Adjunct(words.IN, the("office", plural=True)), "in the offices", "negli uffici"),
    (Adjunct(words.IN, some(MY, "room")), "in my room", "nella mia stanza"),
    (Adjunct(words.IN, some(words.A, "park")), "in a park", "in un parco"),
    (Adjunct(words.IN, some(words.THIS, "city")), "in this city", "in questa città"),
    (Adjunct(words.IN, town("Florence")), "in Florence", "a Firenze"),
    (Adjunct(words.IN, town("Athens")), "in Athens", "ad Atene"),
    (Adjunct(words.NEAR, the("church", plural=True)), "near the churches", "vicino alle chiese"),
    (Adjunct(words.NEAR, some(words.A, "stadium")), "near a stadium", "vicino a uno stadio"),
    (Adjunct(words.BEHIND, the("stadium")), "behind the stadium", "dietro lo stadio"),
    (Adjunct(words.WITH, the("engineer")), "with the engineer", "con l'ingegnere"),
    (Adjunct(words.WITH, some(HER, "sister")), "with her sister", "con sua sorella"),
    (Adjunct(words.WITH, I), "with me", "con me"),
    (Adjunct(words.WITHOUT, SHE), "without her", "senza lei"),
]

MODIFIERS = [
    (the("house", modifier=Adjunct(words.OF, the("aunt"))), "the house of the aunt", "la casa della zia"),
    (the("book", modifier=Adjunct(words.OF, the("student"))), "the book of the student", "il libro dello studente"),
    (the("key", modifier=Adjunct(words.OF, the("lawyer"))), "the key of the lawyer", "la chiave dell'avvocato"),
    (the("toy", modifier=Adjunct(words.OF, the("boy", plural=True))), "the toy of the boys", "il giocattolo dei ragazzi"),
    (the("museum", modifier=Adjunct(words.OF, town("Rome"))), "the museum of Rome", "il museo di Roma"),
    (the("cat", modifier=Adjunct(words.ON, the("carpet"))), "the cat on the carpet", "il gatto sul tappeto"),
    (the("ball", modifier=Adjunct(words.UNDER, the("bed"))), "the ball under the bed", "la palla sotto il letto"),
    (the("man", modifier=Adjunct(words.WITH, the("hat"))), "the man with the hat", "l'uomo con il cappello"),
]  # fmt: skip

TENSES = [
    (does(SHE, "sleep"), "She sleeps.", "Dorme."),
    (does(SHE, "sleep", tense="past"), "She slept.", "Ha dormito."),
    (does(SHE, "go", town("Rome"), tense="past"), "She went to Rome.", "È andata a Roma."),
    (does(THEY, "go", the("market"), tense="past"), "They went to the market.", "Sono andati al mercato."),
    (does(Coordination(ANNA, woman("Lucia")), "arrive", the("station"), tense="past"), "Anna and Lucia arrived at the station.", "Anna e Lucia sono arrivate alla stazione."),
    (does(Coordination(MARCO, woman("Elena")), "return", the("hospital"), tense="past"), "Marco and Elena returned to the hospital.", "Marco ed Elena sono tornati all'ospedale."),
    (does(I, "write", the("letter"), tense="future"), "I will write the letter.", "Scriverò la lettera."),
    (does(WE, "look", the("dog"), tense="future"), "We will look for the dog.", "Cercheremo il cane."),
    (does(YOU_ALL, "drink", the("milk"), tense="progressive"), "You all are drinking the milk.", "State bevendo il latte."),
    (does(I, "run", tense="progressive"), "I am running.", "Sto correndo."),
    (does(SHE, "love", MARCO, tense="past"), "She loved Marco.", "Amava Marco."),
    (does(YOU, "have", the("key"), tense="past"), "You had the key.", "Avevi la chiave."),
    (does(SHE, "open", the("door"), modal="can"), "She can open the door.", "Può aprire la porta."),
    (does(SHE, "open", the("door"), modal="must"), "She must open the door.", "Deve aprire la porta."),
    (does(SHE, "open", the("door"), modal="want"), "She wants to open the door.", "Vuole aprire la porta."),
]  # fmt: skip

NEGATIONS = [
    (does(SHE, "sleep", negated=True), "She does not sleep.", "Non dorme."),
    (does(WE, "sleep", negated=True), "We do not sleep.", "Non dormiamo."),
    (does(HE, "sleep", negated=True, tense="past"), "He did not sleep.", "Non ha dormito."),
    (does(HE, "sleep", negated=True, tense="future"), "He will not sleep.", "Non dormirà."),
    (does(HE, "sleep", negated=True, modal="can"), "He cannot sleep.", "Non può dormire."),
    (does(HE, "sleep", negated=True, modal="want"), "He does not want to sleep.", "Non vuole dormire."),
    (does(HE, "sleep", frequency=adverb("never")), "He never sleeps.", "Non dorme mai."),
    (does(HE, "sleep", frequency=adverb("never"), tense="past"), "He never slept.", "Non ha mai dormito."),
    (does(HE, "sleep", frequency=adverb("always"), tense="future"), "He will always sleep.", "Dormirà sempre."),
    (does(ANNA, "see", I, negated=True, tense="past"), "Anna did not see me.", "Anna non mi ha visto."),
    (does(ANNA, "eat", the("soup"), manner=adverb("slowly")), "Anna eats the soup slowly.", "Anna mangia lentamente la zuppa."),
    (does(ANNA, "dance", time=adverb("today")), "Anna dances today.", "Anna balla oggi."),
]  # fmt: skip

OBJECT_PRONOUNS = [
    (sees(HE), "Anna sees him.", "Anna lo vede."),
    (sees(SHE), "Anna sees her.", "Anna la vede."),
    (sees(THEY), "Anna sees them.", "Anna li vede."),
    (sees(SHES), "Anna sees them.", "Anna le vede."),
    (sees(WE), "Anna sees us.", "Anna ci vede."),
    (sees(YOU_ALL), "Anna sees you all.", "Anna vi vede."),
    (does(ANNA, "see", SHE, tense="past"), "Anna saw her.", "Anna l'ha vista."),
    (does(ANNA, "see", SHES, tense="past"), "Anna saw them.", "Anna le ha viste."),
    (does(ANNA, "help", HE), "Anna helps him.", "Anna l'aiuta."),
    (does(ANNA, "invite", YOU, tense="progressive"), "Anna is inviting you.", "Anna ti sta invitando."),
    (does(ANNA, "help", SHE, modal="want"), "Anna wants to help her.", "Anna la vuole aiutare."),
    (does(ANNA, "wait", WE), "Anna waits for us.", "Anna ci aspetta."),
    (does(ANNA, "phone", SHE), "Anna phones her.", "Anna le telefona."),
    (does(ANNA, "phone", THEY), "Anna phones them.", "Anna gli telefona."),
    (does(ANNA, "answer", HE, tense="past"), "Anna answered him.", "Anna gli ha risposto."),
    (does(ANNA, "talk", SHE), "Anna talks with her.", "Anna parla con lei."),
    (does(HE, "give", the("book"), recipient=I), "He gives me the book.", "Mi dà il libro."),
    (does(HE, "give", the("book"), recipient=SHE), "He gives her the book.", "Le dà il libro."),
    (does(HE, "give", the("book"), recipient=ANNA), "He gives the book to Anna.", "Dà il libro ad Anna."),
    (does(HE, "give", IT_F, recipient=SHE), "He gives it to her.", "Gliela dà."),
    (does(HE, "give", IT_F, recipient=WE, tense="past"), "He gave it to us.", "Ce l'ha data."),
    (does(HE, "give", IT_F, recipient=HE, tense="past"), "He gave it to him.", "Gliel'ha data."),
]  # fmt: skip

GOVERNMENT = [
    (does(ANNA, "wait", the("train")), "Anna waits for the train.", "Anna aspetta il treno."),
    (does(ANNA, "listen", the("teacher")), "Anna listens to the teacher.", "Anna ascolta il maestro."),
    (does(ANNA, "dream", the("castle")), "Anna dreams about the castle.", "Anna sogna il castello."),
    (does(ANNA, "enter", the("house"), tense="past"), "Anna entered the house.", "Anna è entrata nella casa."),
    (does(ANNA, "phone", the("doctor")), "Anna phones the doctor.", "Anna telefona al medico."),
    (does(MARCO, "come", the("office")), "Marco comes from the office.", "Marco viene dall'ufficio."),
    (does(ANNA, "like", the("city")), "Anna likes the city.", "Ad Anna piace la città."),
    (does(the("king"), "like", the("horse", plural=True)), "The king likes the horses.", "Al re piacciono i cavalli."),
    (does(SHE, "like", the("horse", plural=True), negated=True), "She does not like the horses.", "Non le piacciono i cavalli."),
    (does(WE, "like", the("soup"), tense="past"), "We liked the soup.", "Ci piaceva la zuppa."),
]  # fmt: skip

COPULA = [
    (Clause(SHE, adjective("tired")), "She is tired.", "È stanca."),
    (Clause(I, adjective("tired")), "I am tired.", "Sono stanco."),
    (Clause(the("girl", plural=True), adjective("tall"), degree=words.VERY), "The girls are very tall.", "Le ragazze sono molto alte."),
    (Clause(the("house"), adjective("old"), negated=True), "The house is not old.", "La casa non è vecchia."),
    (Clause(the("boy", plural=True), adjective("beautiful"), tense="past"), "The boys were beautiful.", "I ragazzi erano belli."),
    (Clause(ANNA, adjective("famous"), tense="future"), "Anna will be famous.", "Anna sarà famosa."),
    (Clause(ANNA, adjective("famous"), modal="want"), "Anna wants to be famous.", "Anna vuole essere famosa."),
]  # fmt: skip

RELATIVES = [
    (sees(the("girl", relative=does(None, "laugh", gap="subject"))), "Anna sees the girl who laughs.", "Anna vede la ragazza che ride."),
    (sees(the("dog", relative=does(None, "sleep", gap="subject"))), "Anna sees the dog that sleeps.", "Anna vede il cane che dorme."),
    (sees(the("girl", plural=True, relative=does(None, "greet", I, gap="subject"))), "Anna sees the girls who greet me.", "Anna vede le ragazze che mi salutano."),
    (sees(the("book", relative=does(MARCO, "write", gap="object", tense="past"))), "Anna sees the book that Marco wrote.", "Anna vede il libro che Marco ha scritto."),
    (sees(the("book", relative=does(SHE, "buy", gap="object", tense="past"))), "Anna sees the book that she bought.", "Anna vede il libro che ha comprato."),
    (sees(the("actress", relative=Clause(None, adjective("sad"), gap="subject"))), "Anna sees the actress who is sad.", "Anna vede l'attrice che è triste."),
]  # fmt: skip

TWO_CLAUSES = [
    (joined(does(ANNA, "buy", the("apple", plural=True)), "and", does(None, "eat", Pronoun(3, plural=True, gender="f", animate=False))), "Anna buys the apples and eats them.", "Anna compra le mele e le mangia."),
    (joined(does(I, "write", the("letter"), tense="past"), "and", does(None, "send", IT_F, recipient=MARCO, tense="past")), "I wrote the letter and sent it to Marco.", "Ho scritto la lettera e l'ho mandata a Marco."),
    (joined(does(the("girl", plural=True), "sleep"), "because", Clause(SHES, adjective("tired"))), "The girls sleep because they are tired.", "Le ragazze dormono perché sono stanche."),
    (joined(does(ANNA, "sing"), "while", does(HE, "work")), "Anna sings while he works.", "Anna canta mentre lavora."),
    (joined(does(ANNA, "sleep"), "but", does(MARCO, "work", negated=True)), "Anna sleeps, but Marco does not work.", "Anna dorme, ma Marco non lavora."),
    (joined(does(ANNA, "smile", tense="past"), "when", does(MARCO, "arrive", the("hotel"), tense="past")), "Anna smiled when Marco arrived at the hotel.", "Anna ha sorriso quando Marco è arrivato all'albergo."),
    (Sentence(Clause(MARCO, verb("know_that"), complement=does(SHE, "sleep", tense="past"))), "Marco knows that she slept.", "Marco sa che ha dormito."),
    (Sentence(does(ANNA, "sleep", tense="past"), opening=adverb("yesterday")), "Yesterday Anna slept.", "Ieri Anna ha dormito."),
]  # fmt: skip

QUESTIONS = [
    (does(ANNA, "eat", the("bread")), "Does Anna eat the bread?", "Anna mangia il pane?"),
    (does(YOU, "see", HE, tense="past"), "Did you see him?", "L'hai visto?"),
    (
        does(the("cat", plural=True), "sleep", tense="future"),
        "Will the cats sleep?",
        "I gatti dormiranno?",
    ),
    (does(THEY, "sleep", tense="progressive"), "Are they sleeping?", "Stanno dormendo?"),
    (does(ANNA, "swim", modal="want"), "Does Anna want to swim?", "Anna vuole nuotare?"),
    (Clause(YOU, adjective("hungry")), "Are you hungry?", "Sei affamato?"),
    (does(ANNA, "like", the("poem")), "Does Anna like the poem?", "Ad Anna piace la poesia?"),
]


@pytest.mark.parametrize(
    ("clause", "source", "target"),
    ADJECTIVES
    + DETERMINERS
    + TENSES
    + NEGATIONS
    + OBJECT_PRONOUNS
    + GOVERNMENT
    + COPULA
    + RELATIVES,
)
def test_clause(clause: Clause, source: str, target: str) -> None:
    pair = pair_of(Sentence(clause))
    assert (pair.source, pair.target) == (source, target)


@pytest.mark.parametrize(("adjunct", "source", "target"), PREPOSITIONS)
def test_prepositional_phrase(adjunct: Adjunct, source: str, target: str) -> None:
    pair = pair_of(Sentence(does(MARCO, "work", adjuncts=(adjunct,))))
    assert (pair.source, pair.target) == (f"Marco works {source}.", f"Marco lavora {target}.")


@pytest.mark.parametrize(("phrase", "source", "target"), MODIFIERS)
def test_modifier(phrase: NounPhrase, source: str, target: str) -> None:
    pair = pair_of(Sentence(sees(phrase)))
    assert (pair.source, pair.target) == (f"Anna sees {source}.", f"Anna vede {target}.")


@pytest.mark.parametrize(("sentence", "source", "target"), TWO_CLAUSES)
def test_sentence(sentence: Sentence, source: str, target: str) -> None:
    pair = pair_of(sentence)
    assert (pair.source, pair.target) == (source, target)


@pytest.mark.parametrize(("clause", "source", "target"), QUESTIONS)
def test_question(clause: Clause, source: str, target: str) -> None:
    pair = pair_of(Sentence(clause, question=True))
    assert (pair.source, pair.target) == (source, target)


def test_tree_of_a_sentence() -> None:
    clause = does(the("girl", "old"), "give", the("book"), recipient=the("king"), tense="past")
    pair = pair_of(Sentence(clause))
    assert [(w.form, w.head, w.relation) for w in pair.source_tree] == [
        ("The", 3, "det"), ("old", 3, "amod"), ("girl", 4, "nsubj"), ("gave", 0, "root"),
        ("the", 6, "det"), ("book", 4, "obj"), ("to", 9, "case"), ("the", 9, "det"),
        ("king", 4, "obl"), (".", 4, "punct"),
    ]  # fmt: skip
    assert [(w.form, w.part_of_speech, w.head, w.relation) for w in pair.target_tree] == [
        ("La", "DET", 3, "det"), ("vecchia", "ADJ", 3, "amod"), ("ragazza", "NOUN", 5, "nsubj"),
        ("ha", "AUX", 5, "aux"), ("dato", "VERB", 0, "root"), ("il", "DET", 7, "det"),
        ("libro", "NOUN", 5, "obj"), ("al", "ADP", 9, "case"), ("re", "NOUN", 5, "obl"),
        (".", "PUNCT", 5, "punct"),
    ]  # fmt: skip
    assert pair.alignment == (
        (1, 1), (2, 2), (3, 3), (4, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 8), (9, 9), (10, 10),
    )  # fmt: skip


def links(clause: Clause) -> set[str]:
    pair = pair_of(Sentence(clause))
    return {
        f"{pair.source_tree[i - 1].form}-{pair.target_tree[j - 1].form}" for i, j in pair.alignment
    } - {".-."}


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (does(SHE, "sleep", negated=True, tense="past"), "She-ha did-ha not-Non sleep-dormito"),
        (does(HE, "sleep", frequency=words.NEVER), "He-dorme never-Non never-mai sleeps-dorme"),
        (does(ANNA, "wait", HE), "Anna-Anna waits-aspetta for-aspetta him-l'"),
        (does(ANNA, "enter", the("zoo")), "Anna-Anna enters-entra enters-nello the-nello zoo-zoo"),
        (does(SHE, "like", the("zoo")), "She-Le likes-piace the-lo zoo-zoo"),
        (does(ANNA, "like", the("zoo")), "Anna-Anna likes-Ad likes-piace the-lo zoo-zoo"),
        (does(I, "see", the("cat", possessor=ANNA)), "I-Vedo see-Vedo Anna-Anna 's-il 's-di cat-gatto"),
        (does(I, "swim", modal="want"), "I-Voglio want-Voglio to-nuotare swim-nuotare"),
        (does(I, "give", IT_F, recipient=HE), "I-do give-do it-Gliela to-Gliela him-Gliela"),
        (does(I, "see", some(MY, "cat")), "I-Vedo see-Vedo my-il my-mio cat-gatto"),
    ],
)  # fmt: skip
def test_alignment(clause: Clause, expected: str) -> None:
    assert links(clause) == set(expected.split())
