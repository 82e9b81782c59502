"""The words of Italian: what each concept is called, its gender, and its irregular forms."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from attnlab.grammar.lexicon import (
    Adjective,
    Concept,
    Determiner,
    Gender,
    Name,
    Noun,
    Verb,
    entries,
)
from attnlab.grammar.phrase_structure import Agreement, Phrase
from attnlab.grammar.phrase_structure import agreement as agreement_of

Auxiliary: TypeAlias = Literal["avere", "essere"]


@dataclass(frozen=True, slots=True)
class ItalianNoun:
    """A noun with its gender, and its plural where the rule fails."""

    word: str
    gender: Gender
    plural: str | None = None


@dataclass(frozen=True, slots=True)
class ItalianAdjective:
    """An adjective, whether it stands before the noun, and its four forms where the rule fails."""

    word: str
    before_noun: bool = False
    forms: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ItalianVerb:
    """An infinitive with what its forms and its sentences need.

    Attributes:
        governs: the preposition before its object (entrare in).
        dative: a pronoun as its object is gli, le.
        inverted: its subject is what others make the object (piacere).
        irregular: forms by name: present (six with commas), stem (of the imperfect and the gerund),
            future (stem), participle.
        isc: the present is capisco, not dormo.
    """

    word: str
    auxiliary: Auxiliary
    governs: str | None
    dative: bool
    inverted: bool
    isc: bool
    irregular: Mapping[str, str]


def _nouns(table: str) -> dict[str, ItalianNoun]:
    return {
        name: ItalianNoun(word, "f" if gender == "f" else "m", options.get("plural"))
        for (name, word, gender), options in entries(table)
    }


def _adjectives(table: str) -> dict[str, ItalianAdjective]:
    return {
        name: ItalianAdjective(
            word,
            before_noun="before" in marks,
            forms=tuple(options["forms"].split(",")) if "forms" in options else None,
        )
        for (name, word, *marks), options in entries(table)
    }


def _words(table: str) -> dict[str, str]:
    return {name: word for (name, word), _ in entries(table)}


def _verbs(table: str) -> dict[str, ItalianVerb]:
    return {
        name: ItalianVerb(
            word,
            auxiliary="essere" if "essere" in marks else "avere",
            governs=options.pop("prep", None),
            dative="dative" in marks,
            inverted="inverted" in marks,
            isc="isc" in marks,
            irregular=options,
        )
        for (name, word, *marks), options in entries(table)
    }


NOUN_WORDS = _nouns(
    """
    man uomo m plural=uomini; boy ragazzo m; child bambino m; brother fratello m; father padre m
    son figlio m; uncle zio m plural=zii; grandfather nonno m; husband marito m
    doctor medico m plural=medici; teacher maestro m; student studente m; friend amico m plural=amici
    king re m; painter pittore m; farmer contadino m; lawyer avvocato m; soldier soldato m
    waiter cameriere m; gardener giardiniere m; thief ladro m; baker panettiere m
    psychologist psicologo m plural=psicologi; gnome gnomo m; writer scrittore m; actor attore m
    engineer ingegnere m; woman donna f; girl ragazza f; mother madre f; sister sorella f
    daughter figlia f; aunt zia f; grandmother nonna f; wife moglie f plural=mogli; queen regina f
    actress attrice f; nurse infermiera f; waitress cameriera f; witch strega f; princess principessa f
    lady signora f; ballerina ballerina f; dog cane m; cat gatto m; horse cavallo m; bird uccello m
    wolf lupo m; lion leone m; rabbit coniglio m; mouse topo m; squirrel scoiattolo m
    elephant elefante m; bear orso m; cow mucca f; hen gallina f; bee ape f; eagle aquila f
    goat capra f; frog rana f; turtle tartaruga f; monkey scimmia f; zebra zebra f; apple mela f
    pear pera f; cake torta f; sandwich panino m; potato patata f; tomato pomodoro m; soup zuppa f
    cookie biscotto m; lemon limone m; orange arancia f; cherry ciliegia f plural=ciliegie
    strawberry fragola f; salad insalata f; bread pane m; cheese formaggio m; rice riso m; meat carne f
    honey miele m; milk latte m; water acqua f; wine vino m; coffee caffè m; tea tè m; beer birra f
    book libro m; letter lettera f; story storia f; poem poesia f; postcard cartolina f
    article articolo m; message messaggio m; novel romanzo m; chair sedia f; lamp lampada f
    plate piatto m; knife coltello m; spoon cucchiaio m; key chiave f; mirror specchio m; ball palla f
    umbrella ombrello m; clock orologio m; guitar chitarra f; backpack zaino m; toy giocattolo m
    candle candela f; sword spada f; instrument strumento m; computer computer m; ring anello m
    bicycle bicicletta f; painting quadro m; table tavolo m; bed letto m; bench panchina f
    carpet tappeto m; sofa divano m; door porta f; window finestra f; drawer cassetto m; gate cancello m
    box scatola f; bottle bottiglia f; bag borsa f; envelope busta f; hat cappello m; coat cappotto m
    shirt camicia f plural=camicie; shoe scarpa f; dress vestito m; boot stivale m; scarf sciarpa f
    skirt gonna f; glove guanto m; house casa f; garden giardino m; kitchen cucina f; school scuola f
    city città f; market mercato m; church chiesa f; park parco m; station stazione f
    hospital ospedale m; square piazza f; forest bosco m; castle castello m; restaurant ristorante m
    library biblioteca f; museum museo m; village villaggio m; stadium stadio m; office ufficio m
    hotel albergo m; shop negozio m; zoo zoo m; theater teatro m; room stanza f; university università f
    car macchina f; train treno m; boat barca f; bus autobus m; ship nave f; truck camion m
    """
)
ADJECTIVE_WORDS = _adjectives(
    """
    old vecchio before; beautiful bello before; big grande before; small piccolo before
    good buono before; new nuovo before; ugly brutto before; young giovane before; poor povero before
    red rosso; yellow giallo; green verde; blue blu forms=blu,blu,blu,blu
    pink rosa forms=rosa,rosa,rosa,rosa; expensive costoso; white bianco; black nero
    gray grigio forms=grigio,grigia,grigi,grigie; tall alto; rich ricco; sad triste; kind gentile
    famous famoso; lazy pigro; honest onesto; shy timido; intelligent intelligente; elegant elegante
    Italian italiano; French francese; German tedesco; happy felice; tired stanco; strong forte
    hungry affamato; sick malato; calm calmo; dangerous pericoloso; wild selvaggio; cold freddo
    hot caldo; fresh fresco; delicious squisito; long lungo; short breve; interesting interessante
    boring noioso; strange strano; heavy pesante; useful utile; precious prezioso; empty vuoto
    quiet tranquillo; dark buio; crowded affollato; ancient antico; modern moderno; fast veloce
    slow lento
    """
)
VERB_WORDS = _verbs(
    """
    sleep dormire; swim nuotare; walk camminare; rest riposare; run correre participle=corso
    work lavorare; sing cantare; dance ballare; laugh ridere participle=riso
    cry piangere participle=pianto; smile sorridere participle=sorriso; study studiare; travel viaggiare
    eat mangiare
    drink bere present=bevo,bevi,beve,beviamo,bevete,bevono stem=beve future=berr participle=bevuto
    see vedere future=vedr participle=visto; follow seguire; buy comprare; find trovare
    write scrivere participle=scritto; greet salutare; help aiutare; invite invitare; hug abbracciare
    thank ringraziare; wash lavare; open aprire participle=aperto; close chiudere participle=chiuso
    paint dipingere participle=dipinto; draw disegnare; lose perdere participle=perso
    break rompere participle=rotto; touch toccare; use usare; prepare preparare; visit visitare
    drive guidare; build costruire isc; clean pulire isc; forget dimenticare
    hide nascondere participle=nascosto; watch guardare; love amare
    know conoscere participle=conosciuto; have avere present=ho,hai,ha,abbiamo,avete,hanno future=avr
    like piacere essere inverted present=piaccio,piaci,piace,piacciamo,piacete,piacciono participle=piaciuto
    wait aspettare; look cercare; listen ascoltare; enter entrare prep=in essere
    phone telefonare prep=a dative; answer rispondere prep=a dative participle=risposto
    talk parlare prep=con; dream sognare
    go andare prep=a essere present=vado,vai,va,andiamo,andate,vanno future=andr
    come venire prep=da essere present=vengo,vieni,viene,veniamo,venite,vengono future=verr participle=venuto
    return tornare prep=a essere; arrive arrivare prep=a essere
    give dare present=do,dai,dà,diamo,date,danno future=dar; show mostrare; send mandare; bring portare
    offer offrire participle=offerto; sell vendere; lend prestare
    say dire present=dico,dici,dice,diciamo,dite,dicono stem=dice participle=detto
    know_that sapere present=so,sai,sa,sappiamo,sapete,sanno future=sapr
    discover scoprire participle=scoperto; remember ricordare
    """
)
# Towns that Italian calls otherwise.
TOWN_WORDS = _words(
    """
    Rome Roma; Paris Parigi; London Londra; Milan Milano; Florence Firenze; Venice Venezia
    Naples Napoli; Berlin Berlino; Turin Torino; Barcelona Barcellona; Athens Atene; Genoa Genova
    Lisbon Lisbona; Moscow Mosca; Prague Praga; Dublin Dublino; Brussels Bruxelles; Munich Monaco
    Hamburg Amburgo; Stockholm Stoccolma; Copenhagen Copenaghen; Geneva Ginevra; Zurich Zurigo
    Marseille Marsiglia; Lyon Lione; Seville Siviglia; Padua Padova; Mantua Mantova; Beijing Pechino
    Havana Avana; Jerusalem Gerusalemme; Warsaw Varsavia; Krakow Cracovia; Edinburgh Edimburgo
    Salzburg Salisburgo; Antwerp Anversa; Nice Nizza; Cologne Colonia; Dresden Dresda; Leipzig Lipsia
    Frankfurt Francoforte; Syracuse Siracusa
    """
)
# Adverbs, prepositions, determiners and conjunctions.
SMALL_WORDS = _words(
    """
    very molto; never mai; always sempre; often spesso; rarely raramente; slowly lentamente
    quickly velocemente; carefully attentamente; gladly volentieri; secretly segretamente
    calmly tranquillamente; patiently pazientemente; today oggi; yesterday ieri; tomorrow domani
    tonight stasera; soon presto; now adesso; here qui
    of di; with con; without senza; for per; in in; near vicino; behind dietro; on su; under sotto
    the il; a uno; this questo; that quello; every ogni; some alcuno; many molto
    two due; three tre; four quattro; ten dieci
    my mio; your tuo; his suo; her suo; our nostro; their loro
    and e; but ma; because perché; when quando; while mentre
    """
)
# The second word of a preposition, and what stands for one before the name of a town.
SECOND_WORDS = {"near": "a"}
BEFORE_TOWNS = {"in": "a"}


@cache
def word(concept: Concept) -> str:
    """The word that a dictionary has for a concept."""
    if isinstance(concept, Name):
        return TOWN_WORDS.get(concept.name, concept.name)
    if isinstance(concept, Noun):
        return NOUN_WORDS[concept.name].word
    if isinstance(concept, Adjective):
        return ADJECTIVE_WORDS[concept.name].word
    return VERB_WORDS[concept.name].word if isinstance(concept, Verb) else SMALL_WORDS[concept.name]


def agreement(phrase: Phrase) -> Agreement:
    """What a verb copies from a phrase, with the genders that nouns have in Italian."""
    return agreement_of(phrase, lambda noun: NOUN_WORDS[noun.name].gender)


FourForms: TypeAlias = tuple[str, str, str, str]

VOWELS = "aeiouàèéìòù"
_LO = re.compile(r"s[^aeiouàèéìòù]|z|gn|ps|pn|x|y", re.IGNORECASE)
_CONTRACTING = {"di": "de", "a": "a", "da": "da", "in": "ne", "su": "su"}


def starts_with_vowel(word: str) -> bool:
    """True before words that take l': vowels, and the silent h of ho, hai, ha, hanno."""
    return word[0].lower() in VOWELS or word in {"ho", "hai", "ha", "hanno"}


def form_index(gender: Gender, *, plural: bool) -> int:
    """The index of a gender and number among the four forms."""
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


def _article_forms(stem: str, index: int, following: str) -> str:
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
        return _article_forms("que", index, following)
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
        return _article_forms("be", index, following)
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
