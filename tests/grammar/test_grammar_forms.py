"""Word forms of both languages against tables written by hand."""

import pytest
from grammar.grammar_words import adjective, noun, verb

from attnlab.grammar.english import english_words as english_forms
from attnlab.grammar.italian import italian_words as italian_forms
from attnlab.grammar.lexicon import MANY, A
from attnlab.grammar.phrase_structure import Pronoun

PLURALS = """
man men uomini; boy boys ragazzi; child children bambini; uncle uncles zii; doctor doctors medici
friend friends amici; king kings re; waiter waiters camerieri; thief thieves ladri
psychologist psychologists psicologi; actor actors attori; woman women donne; wife wives mogli
actress actresses attrici; witch witches streghe; princess princesses principesse
lady ladies signore; wolf wolves lupi; mouse mice topi; cow cows mucche; turtle turtles tartarughe
bee bees api; rabbit rabbits conigli; potato potatoes patate; tomato tomatoes pomodori
cherry cherries ciliegie; orange oranges arance; sandwich sandwiches panini; story stories storie
knife knives coltelli; spoon spoons cucchiai; key keys chiavi; mirror mirrors specchi
computer computers computer; clock clocks orologi; box boxes scatole; bag bags borse
shirt shirts camicie; scarf scarves sciarpe; dress dresses vestiti; boot boots stivali
city cities città; church churches chiese; park parks parchi; forest forests boschi
library libraries biblioteche; stadium stadiums stadi; office offices uffici; hotel hotels alberghi
shop shops negozi; zoo zoos zoo; university universities università; bus buses autobus
ship ships navi; truck trucks camion; station stations stazioni; bench benches panchine
"""

ADJECTIVES = """
old vecchio vecchia vecchi vecchie; big grande grande grandi grandi; rich ricco ricca ricchi ricche
tired stanco stanca stanchi stanche; German tedesco tedesca tedeschi tedesche
fresh fresco fresca freschi fresche; long lungo lunga lunghi lunghe; blue blu blu blu blu
pink rosa rosa rosa rosa; gray grigio grigia grigi grigie; wild selvaggio selvaggia selvaggi selvagge
dark buio buia bui buie; happy felice felice felici felici; kind gentile gentile gentili gentili
boring noioso noiosa noiosi noiose; ancient antico antica antichi antiche
young giovane giovane giovani giovani; white bianco bianca bianchi bianche
"""

PRESENT = """
eat mangio mangi mangia mangiamo mangiate mangiano
hug abbraccio abbracci abbraccia abbracciamo abbracciate abbracciano
look cerco cerchi cerca cerchiamo cercate cercano
touch tocco tocchi tocca tocchiamo toccate toccano
study studio studi studia studiamo studiate studiano
travel viaggio viaggi viaggia viaggiamo viaggiate viaggiano
dream sogno sogni sogna sogniamo sognate sognano
sleep dormo dormi dorme dormiamo dormite dormono
follow seguo segui segue seguiamo seguite seguono
open apro apri apre apriamo aprite aprono
clean pulisco pulisci pulisce puliamo pulite puliscono
build costruisco costruisci costruisce costruiamo costruite costruiscono
know conosco conosci conosce conosciamo conoscete conoscono
cry piango piangi piange piangiamo piangete piangono
smile sorrido sorridi sorride sorridiamo sorridete sorridono
drink bevo bevi beve beviamo bevete bevono
"""

FIRST_FUTURE = """
eat mangerò; hug abbraccerò; look cercherò; forget dimenticherò; study studierò; thank ringrazierò
travel viaggerò; see vedrò; go andrò; come verrò; have avrò; give darò; drink berrò; sleep dormirò
clean pulirò; know conoscerò; write scriverò; buy comprerò; sell venderò; dream sognerò
"""

THIRD_IMPERFECT = "drink beveva; eat mangiava; sleep dormiva; see vedeva; have aveva; give dava"

PARTICIPLES = """
eat mangiato; drink bevuto; see visto; write scritto; open aperto; close chiuso; paint dipinto
lose perso; break rotto; hide nascosto; answer risposto; come venuto; go andato; run corso
laugh riso; cry pianto; smile sorriso; offer offerto; sell venduto; clean pulito; follow seguito
build costruito; sleep dormito; give dato; enter entrato
"""

GERUNDS = """
eat eating mangiando; drink drinking bevendo; swim swimming nuotando; run running correndo
see seeing vedendo; hug hugging abbracciando; write writing scrivendo; come coming venendo
give giving dando; clean cleaning pulendo; close closing chiudendo; forget forgetting dimenticando
travel traveling viaggiando; go going andando; sleep sleeping dormendo; study studying studiando
"""

ENGLISH_VERBS = """
eat eats ate; go goes went; cry cries cried; study studies studied; hug hugs hugged
watch watches watched; touch touches touched; wash washes washed; have has had; use uses used
drive drives drove; enter enters entered; visit visits visited; lend lends lent; close closes closed
"""

ARTICLES = """
cane il un; gatto il un; amico l' un; studente lo uno; specchio lo uno; zio lo uno; gnomo lo uno
psicologo lo uno; scoiattolo lo uno; uccello l' un; orologio l' un; sindaco il un; sole il un
"""

FEMININE_ARTICLES = (
    "casa la una; amica l' un'; isola l' un'; strega la una; zebra la una; acqua l' un'"
)

CONTRACTIONS = """
di del dello dell' della dei degli delle
a al allo all' alla ai agli alle
da dal dallo dall' dalla dai dagli dalle
in nel nello nell' nella nei negli nelle
su sul sullo sull' sulla sui sugli sulle
"""


def rows(table: str) -> list[list[str]]:
    return [row.split() for line in table.strip().splitlines() for row in line.split(";")]


@pytest.mark.parametrize(("english", "plural", "plurale"), rows(PLURALS))
def test_plural(english: str, plural: str, plurale: str) -> None:
    assert english_forms.plural(noun(english)) == plural
    assert italian_forms.noun_form(noun(english), plural=True) == plurale


@pytest.mark.parametrize("row", rows(ADJECTIVES), ids=" ".join)
def test_adjective(row: list[str]) -> None:
    forms = [italian_forms.adjective_form(adjective(row[0]), index) for index in range(4)]
    assert forms == row[1:]


@pytest.mark.parametrize("row", rows(PRESENT), ids=" ".join)
def test_present(row: list[str]) -> None:
    assert list(italian_forms.conjugated(verb(row[0])).present) == row[1:]


@pytest.mark.parametrize(("english", "form"), rows(FIRST_FUTURE))
def test_future(english: str, form: str) -> None:
    future = italian_forms.conjugated(verb(english)).future
    stem = form[:-1]
    assert future == (form, *(stem + end for end in ("ai", "à", "emo", "ete", "anno")))


@pytest.mark.parametrize(("english", "form"), rows(THIRD_IMPERFECT))
def test_imperfect(english: str, form: str) -> None:
    stem = form[:-1]
    expected = tuple(stem + end for end in ("o", "i", "a", "amo", "ate", "ano"))
    assert italian_forms.conjugated(verb(english)).imperfect == expected


@pytest.mark.parametrize(("english", "form"), rows(PARTICIPLES))
def test_participle(english: str, form: str) -> None:
    assert italian_forms.conjugated(verb(english)).participle == form


@pytest.mark.parametrize(("english", "gerund", "gerundio"), rows(GERUNDS))
def test_gerund(english: str, gerund: str, gerundio: str) -> None:
    assert english_forms.gerund(verb(english)) == gerund
    assert italian_forms.conjugated(verb(english)).gerund == gerundio


@pytest.mark.parametrize(("english", "third", "past"), rows(ENGLISH_VERBS))
def test_english_verb(english: str, third: str, past: str) -> None:
    assert english_forms.third_person(verb(english)) == third
    assert english_forms.past(verb(english)) == past


def test_verbs_of_saying() -> None:
    say, know = verb("say"), verb("know_that")
    assert italian_forms.conjugated(say).present[2] == "dice"
    assert italian_forms.conjugated(say).gerund == "dicendo"
    assert italian_forms.conjugated(know).present[5] == "sanno"
    assert italian_forms.conjugated(know).future[0] == "saprò"


@pytest.mark.parametrize(("word", "definite", "indefinite"), rows(ARTICLES))
def test_masculine_article(word: str, definite: str, indefinite: str) -> None:
    plural = "i" if definite == "il" else "gli"
    assert italian_forms.definite_article(0, word) == definite
    assert italian_forms.definite_article(2, word) == plural
    assert italian_forms.indefinite_article(0, word) == indefinite


@pytest.mark.parametrize(("word", "definite", "indefinite"), rows(FEMININE_ARTICLES))
def test_feminine_article(word: str, definite: str, indefinite: str) -> None:
    assert italian_forms.definite_article(1, word) == definite
    assert italian_forms.definite_article(3, word) == "le"
    assert italian_forms.indefinite_article(1, word) == indefinite


@pytest.mark.parametrize("row", rows(CONTRACTIONS), ids=" ".join)
def test_contraction(row: list[str]) -> None:
    articles = ("il", "lo", "l'", "la", "i", "gli", "le")
    assert [italian_forms.contracted(row[0], article) for article in articles] == row[1:]


@pytest.mark.parametrize(
    ("following", "forms"),
    [
        ("cane", ["quel", "bel", "buon", "questo"]),
        ("studente", ["quello", "bello", "buono", "questo"]),
        ("amico", ["quell'", "bell'", "buon", "quest'"]),
    ],
)
def test_words_that_end_like_the_article(following: str, forms: list[str]) -> None:
    assert forms == [
        italian_forms.determiner_form("quello", 0, following),
        italian_forms.adjective_form(adjective("beautiful"), 0, following),
        italian_forms.adjective_form(adjective("good"), 0, following),
        italian_forms.determiner_form("questo", 0, following),
    ]


def test_they_end_so_in_the_plural_too() -> None:
    beautiful = adjective("beautiful")
    assert italian_forms.determiner_form("quello", 2, "cani") == "quei"
    assert italian_forms.determiner_form("quello", 2, "studenti") == "quegli"
    assert italian_forms.adjective_form(beautiful, 2, "amici") == "begli"
    assert italian_forms.adjective_form(beautiful, 2, "cani") == "bei"
    assert italian_forms.adjective_form(beautiful, 3, "amiche") == "belle"
    assert italian_forms.adjective_form(beautiful, 2) == "belli"


@pytest.mark.parametrize(
    ("following", "article"),
    rows(
        "apple an; honest an; uncle an; ugly an; Italian an; "
        "university a; useful a; hotel a; young a; woman a"
    ),
)
def test_english_article(following: str, article: str) -> None:
    assert english_forms.determiner(A, following, is_plural=False) == article


def test_determiner_without_that_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no plural"):
        english_forms.determiner(A, "dogs", is_plural=True)
    with pytest.raises(ValueError, match="no singular"):
        english_forms.determiner(MANY, "dog", is_plural=False)


def test_english_pronouns() -> None:
    everyone = [Pronoun(1), Pronoun(2), Pronoun(3), Pronoun(3, gender="f")]
    everyone += [Pronoun(3, animate=False), Pronoun(1, plural=True), Pronoun(3, plural=True)]
    subjects = [english_forms.pronoun(entry, subject=True) for entry in everyone]
    objects = [english_forms.pronoun(entry, subject=False) for entry in everyone]
    assert subjects == ["I", "you", "he", "she", "it", "we", "they"]
    assert objects == ["me", "you", "him", "her", "it", "us", "them"]
