"""What the embedded grammar can say, apart from any language: kinds of concepts, and the small ones.

A concept is named by its English word; how a language says it stands in the folder of that language.
Nouns stand in `nouns.py`, verbs in `verbs.py`, proper names in `names.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, zip_longest
from typing import Literal, TypeAlias


def entries(table: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The plain fields of each entry, and its options, which are written `name=value`.

    >>> list(entries("king re m plural=re; queen regina f"))
    [(['king', 're', 'm'], {'plural': 're'}), (['queen', 'regina', 'f'], {})]
    """
    for line in table.strip().replace(";", "\n").splitlines():
        fields = line.split()
        options = dict(field.split("=", 1) for field in fields if "=" in field)
        yield [field for field in fields if "=" not in field], options


def marked(words: str) -> Iterator[tuple[str, set[str]]]:
    """Each word with the marks that stand behind it after a stroke.

    >>> [word for word, marks in marked("bread/mass salad") if "mass" in marks]
    ['bread']
    """
    for field in words.split():
        word, *marks = field.split("/")
        yield word, set(marks)


Gender: TypeAlias = Literal["m", "f"]
Frame: TypeAlias = Literal["none", "object", "recipient", "complement"]

PERSON = frozenset({"person"})
ANIMAL = frozenset({"animal"})
FOOD = frozenset({"food"})
DRINK = frozenset({"drink"})
TEXT = frozenset({"text"})
OBJECT = frozenset({"object"})
OPENABLE = frozenset({"openable"})
CONTAINER = frozenset({"container"})
CLOTHES = frozenset({"clothes"})
SURFACE = frozenset({"surface"})
PLACE = frozenset({"place"})
VEHICLE = frozenset({"vehicle"})
ANIMATE = PERSON | ANIMAL
THING = FOOD | DRINK | TEXT | OBJECT | SURFACE | CONTAINER | CLOTHES | VEHICLE
ANY = ANIMATE | THING | PLACE | OPENABLE
COLOURED = OBJECT | SURFACE | CONTAINER | OPENABLE | CLOTHES | VEHICLE


@dataclass(frozen=True, eq=False, slots=True)
class Concept:
    """What a word of any language stands for."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Noun(Concept):
    """What a noun names; people have a `gender` of their own, all else has that of the language's noun."""

    kind: str
    gender: Gender | None = None
    mass: bool = False
    kinship: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Adjective(Concept):
    """A property and the kinds of nouns that have it.

    Of two adjectives the `first` is one of opinion, size or age.
    """

    kinds: frozenset[str]
    first: bool = False
    gradable: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Verb(Concept):
    """What is done, with the kinds of its subject and object.

    Attributes:
        frame: what it stands with beside a subject.
        indirect: some language sets a preposition before the object (wait for, entrare in).
        stative: it has no progressive, and takes no time.
        experienced: the subject experiences the object; some languages make that the subject (piacere).
        manner: it goes with adverbs of manner.
    """

    frame: Frame
    subjects: frozenset[str]
    objects: frozenset[str] = frozenset()
    indirect: bool = False
    stative: bool = False
    experienced: bool = False
    manner: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Adverb(Concept):
    """An adverb; one of time goes with some tenses only."""

    tenses: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Preposition(Concept):
    """How a phrase is related to what it belongs to."""


@dataclass(frozen=True, eq=False, slots=True)
class Determiner(Concept):
    """What stands before a noun; a numeral and a possessive are some too."""

    numeral: bool = False
    possessive: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Conjunction(Concept):
    """A word that joins a second clause: beside the first, or `subordinating` below it."""

    subordinating: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Name(Concept):
    """A person or a town; languages may have names of their own for towns."""

    gender: Gender
    town: bool = False


def _adjectives(kinds: frozenset[str], words: str, *, first: bool = False) -> list[Adjective]:
    return [
        Adjective(name, kinds, first=first, gradable="absolute" not in marks)
        for name, marks in marked(words)
    ]


ADJECTIVES: list[Adjective] = [
    *_adjectives(ANY - FOOD - DRINK, "old beautiful", first=True),
    *_adjectives(ANY - DRINK, "big small", first=True),
    *_adjectives(PERSON | FOOD | DRINK | TEXT, "good", first=True),
    *_adjectives(COLOURED | TEXT | PLACE, "new ugly", first=True),
    *_adjectives(ANIMATE, "young poor", first=True),
    *_adjectives(
        COLOURED,
        "red/absolute yellow/absolute green/absolute blue/absolute pink/absolute expensive",
    ),
    *_adjectives(COLOURED | ANIMAL, "white/absolute black/absolute gray/absolute"),
    *_adjectives(
        PERSON,
        "tall rich sad kind famous lazy honest shy intelligent elegant "
        "Italian/absolute French/absolute German/absolute",
    ),
    *_adjectives(ANIMATE, "happy tired strong hungry sick calm"),
    *_adjectives(ANIMAL, "dangerous wild/absolute"),
    *_adjectives(FOOD | DRINK, "cold hot fresh delicious"),
    *_adjectives(TEXT, "long short interesting boring strange"),
    *_adjectives(OBJECT | SURFACE | CONTAINER, "heavy useful precious"),
    *_adjectives(CONTAINER | VEHICLE | PLACE, "empty"),
    *_adjectives(PLACE, "quiet dark crowded ancient modern"),
    *_adjectives(VEHICLE, "fast slow"),
]

VERY = Adverb("very")
NEVER = Adverb("never")
FREQUENCIES = [NEVER, Adverb("always"), Adverb("often"), Adverb("rarely")]
MANNERS = [
    Adverb(name)
    for name in ("slowly", "quickly", "carefully", "gladly", "secretly", "calmly", "patiently")
]
HERE = Adverb("here", ("present", "past", "future", "progressive"))
TIMES = [
    Adverb("today", ("present", "past", "future", "progressive")),
    Adverb("yesterday", ("past",)),
    Adverb("tomorrow", ("future",)),
    Adverb("tonight", ("future",)),
    Adverb("soon", ("future",)),
    Adverb("now", ("present", "progressive")),
    HERE,
]

OF = Preposition("of")
WITH = Preposition("with")
WITHOUT = Preposition("without")
FOR = Preposition("for")
IN = Preposition("in")
NEAR = Preposition("near")
BEHIND = Preposition("behind")
ON = Preposition("on")
UNDER = Preposition("under")

THE = Determiner("the")
A = Determiner("a")
THIS = Determiner("this")
THAT = Determiner("that")
EVERY = Determiner("every")
SOME = Determiner("some")
MANY = Determiner("many")
NUMERALS = [Determiner(name, numeral=True) for name in ("two", "three", "four", "ten")]
POSSESSIVES = [
    Determiner(name, possessive=True) for name in ("my", "your", "his", "her", "our", "their")
]

CONJUNCTIONS = {
    name: Conjunction(name, subordinating=name in {"because", "when", "while"})
    for name in ("and", "but", "because", "when", "while")
}


def _nouns(kind: frozenset[str], words: str, gender: Gender | None = None) -> list[Noun]:
    (named,) = kind
    return [
        Noun(name, named, gender, mass="mass" in marks, kinship="kin" in marks)
        for name, marks in marked(words)
    ]


NOUNS: list[Noun] = [
    *_nouns(
        PERSON,
        """
        man boy child brother/kin father/kin son/kin uncle/kin grandfather/kin husband/kin doctor teacher
        student friend king painter farmer lawyer soldier waiter gardener thief baker psychologist gnome
        writer actor engineer
        """,
        "m",
    ),
    *_nouns(
        PERSON,
        """
        woman girl mother/kin sister/kin daughter/kin aunt/kin grandmother/kin wife/kin queen actress
        nurse waitress witch princess lady ballerina
        """,
        "f",
    ),
    *_nouns(
        ANIMAL,
        """
        dog cat horse bird wolf lion rabbit mouse squirrel elephant bear cow hen bee eagle goat frog
        turtle monkey zebra
        """,
    ),
    *_nouns(
        FOOD,
        """
        apple pear cake sandwich potato tomato soup cookie lemon orange cherry strawberry salad bread/mass
        cheese/mass rice/mass meat/mass honey/mass
        """,
    ),
    *_nouns(DRINK, "milk/mass water/mass wine/mass coffee/mass tea/mass beer/mass"),
    *_nouns(TEXT, "book letter story poem postcard article message novel"),
    *_nouns(
        OBJECT,
        """
        chair lamp plate knife spoon key mirror ball umbrella clock guitar backpack toy candle sword
        instrument computer ring bicycle painting
        """,
    ),
    *_nouns(SURFACE, "table bed bench carpet sofa"),
    *_nouns(OPENABLE, "door window drawer gate"),
    *_nouns(CONTAINER, "box bottle bag envelope"),
    *_nouns(CLOTHES, "hat coat shirt shoe dress boot scarf skirt glove"),
    *_nouns(
        PLACE,
        """
        house garden kitchen school city market church park station hospital square forest castle
        restaurant library museum village stadium office hotel shop zoo theater room university
        """,
    ),
    *_nouns(VEHICLE, "car train boat bus ship truck"),
]


def _plain(subjects: frozenset[str], names: str) -> list[Verb]:
    return [Verb(name, "none", subjects) for name in names.split()]


def _action(names: str, objects: frozenset[str], *, manner: bool = True) -> list[Verb]:
    return [Verb(name, "object", PERSON, objects, manner=manner) for name in names.split()]


def _state(name: str, objects: frozenset[str], *, experienced: bool = False) -> Verb:
    return Verb(
        name, "object", PERSON, objects, stative=True, experienced=experienced, manner=False
    )


def _indirect(names: str, objects: frozenset[str], *, manner: bool = True) -> list[Verb]:
    return [
        Verb(name, "object", PERSON, objects, indirect=True, manner=manner)
        for name in names.split()
    ]


VERBS: list[Verb] = [
    *_plain(ANIMATE, "sleep swim walk rest run"),
    *_plain(PERSON, "work sing dance laugh cry smile study travel"),
    Verb("eat", "object", ANIMATE, FOOD),
    Verb("drink", "object", ANIMATE, DRINK),
    Verb("see", "object", ANIMATE, ANY, manner=False),
    Verb("follow", "object", ANIMATE, ANIMATE),
    *_action("buy", THING),
    *_action("find", THING | ANIMATE, manner=False),
    *_action("write", TEXT),
    *_action("greet help invite", PERSON),
    *_action("hug", ANIMATE),
    *_action("thank", PERSON),
    *_action("wash", CLOTHES | VEHICLE | ANIMAL),
    *_action("open close", OPENABLE | CONTAINER),
    *_action("paint draw", PLACE | ANIMATE),
    *_action("lose", OBJECT | CLOTHES | TEXT, manner=False),
    *_action("break", OBJECT | OPENABLE | CONTAINER, manner=False),
    *_action("touch", OBJECT | CLOTHES | ANIMAL),
    *_action("use", OBJECT | VEHICLE),
    *_action("prepare", FOOD | DRINK),
    *_action("visit", PLACE),
    *_action("drive", VEHICLE),
    *_action("build", PLACE | VEHICLE),
    *_action("clean", PLACE | CLOTHES | VEHICLE),
    *_action("forget", TEXT | OBJECT | CLOTHES, manner=False),
    *_action("hide", THING - DRINK),
    *_action("watch", ANY - DRINK - FOOD),
    _state("love", PERSON | ANIMAL | PLACE),
    _state("know", PERSON | PLACE),
    _state("have", THING - FOOD - DRINK | ANIMAL),
    _state("like", ANY - PERSON, experienced=True),
    *_indirect("wait", PERSON | VEHICLE),
    *_indirect("look", PERSON | ANIMAL | OBJECT),
    *_indirect("listen", PERSON),
    *_indirect("enter", PLACE),
    *_indirect("phone answer talk", PERSON),
    *_indirect("dream", ANY - FOOD - DRINK - OPENABLE, manner=False),
    *_indirect("go come return arrive", PLACE),
    *(
        Verb(name, "recipient", PERSON, THING - VEHICLE - FOOD - DRINK, manner=False)
        for name in ("give", "show", "send", "bring", "offer", "sell", "lend")
    ),
    # A verb of its own beside knowing somebody.
    *(
        Verb(name, "complement", PERSON, stative=stative, manner=False)
        for name, stative in (
            ("say", False),
            ("know_that", True),
            ("discover", False),
            ("remember", True),
        )
    ),
]

_WOMEN = """
Anna Maria Lucia Elena Giulia Sara Laura Chiara Francesca Paola Marta Silvia Valentina Martina Elisa
Alice Emma Sofia Giorgia Federica Claudia Roberta Daniela Monica Cristina Barbara Simona Sabrina
Patrizia Angela Teresa Rosa Giovanna Caterina Lucrezia Beatrice Irene Ilaria Serena Veronica Alessia
Michela Arianna Camilla Ludovica Greta Noemi Gaia Aurora Ginevra Vittoria Bianca Carlotta Matilde
Viola Nicole Rebecca Rachele Miriam Debora Ester Diana Flavia Fabiola Fiorella Gabriella Graziella
Ivana Letizia Liliana Loredana Luisa Manuela Marcella Margherita Mariella Marina Marisa Mirella Nadia
Nicoletta Norma Olga Ornella Pamela Raffaella Renata Rita Rosanna Rossella Samanta Sandra Stefania
Susanna Tamara Tatiana Tiziana Vanessa Viviana Wanda Zoe Agnese Agata Adele Adriana Alba Alberta
Alda Amalia Amelia Anastasia Antonella Antonietta Assunta Benedetta Bruna Carla Carmela Carolina
Cecilia Celeste Cinzia Clara Clarissa Clelia Clementina Concetta Cornelia Corinna Cosima Costanza
Delia Desideria Dina Domenica Donatella Dora Doriana Edda Edvige Elda Eleonora Elettra Eliana Elvira
Emanuela Emilia Enrica Erica Ersilia Eugenia Eva Evelina Fausta Fedora Felicia Filomena Flaminia
Flora Fosca Gemma Genoveffa Germana Giacinta Gianna Gilda Gina Giordana Giuditta Giuliana Giuseppina
Gloria Grazia Guenda Ida Ilda Imelda Ines Iolanda Iris Isabella Isotta Italia Ivonne Katia Lara Lavinia
Lea Leda Lidia Lina Linda Livia Lorena Lorenza Luana Luciana Ludmilla Maddalena Mafalda Mara Marzia
Melania Melissa Milena Milva Mina Minerva Mirta Moira Morgana Natalia Nives Noemia Nora Nunzia
Oriana Orsola Ottavia Palmira Penelope Perla Piera Pierina Priscilla Ramona Regina Romana Romilda
Rosalba Rosalia Rosaria Rosetta Sabina Selene Selvaggia Serafina Sibilla Sofonisba Sonia Stella
Tania Tecla Tosca Tullia Ulrica Urania Valeria Vera Verdiana Virginia Zaira Zelinda Zenobia Zita
"""

_MEN = """
Marco Luca Paolo Giovanni Andrea Matteo Francesco Alessandro Davide Stefano Roberto Antonio Giuseppe
Lorenzo Simone Pietro Carlo Tommaso Riccardo Filippo Daniele Fabio Massimo Giorgio Enrico Alberto
Claudio Michele Nicola Leonardo Gabriele Federico Edoardo Jacopo Emanuele Diego Samuele Giacomo
Vincenzo Salvatore Sergio Mario Luigi Bruno Franco Maurizio Vittorio Aldo Dario Cesare Ugo Guido
Alessio Mattia Mirko Manuel Ivan Igor Ettore Dante Adriano Agostino Albano Alceste Alcide Aldino
Alfonso Alfredo Alvaro Amadeo Ambrogio Amedeo Amerigo Amilcare Anacleto Angelo Aniello Anselmo
Arcangelo Aristide Armando Arnaldo Arturo Attilio Augusto Aurelio Baldassarre Bartolomeo Basilio
Battista Benedetto Beniamino Bernardo Biagio Bonifacio Brando Calogero Camillo Carmelo
Carmine Casimiro Celestino Cirillo Ciro Clemente Corrado Cosimo Costantino Cristiano Cristoforo
Damiano Demetrio Desiderio Dino Dionigi Domenico Donato Duccio Efisio Egidio Egisto Elia Eligio Elio
Emiliano Emilio Ennio Enzo Eraldo Ercole Ermanno Ermes Ernesto Erminio Eugenio Eusebio Evaristo Ezio
Fabrizio Fausto Fedele Felice Ferdinando Fermo Fernando Ferruccio Flaminio Flavio Fortunato Fosco
Fulvio Furio Gaetano Galileo Gaspare Gastone Gennaro Gerardo Germano Gherardo Giancarlo Gianfranco
Gianluca Gianni Gilberto Gino Gioacchino Giordano Girolamo Giuliano Giulio Glauco Goffredo Graziano
Gregorio Gualtiero Guglielmo Ignazio Ilario Innocenzo Ippolito Isacco Isidoro Italo Ivano Lamberto
Lando Lanfranco Lapo Lazzaro Leandro Leone Leopoldo Libero Liborio Livio Lodovico Loris Luciano Lucio
Ludovico Manfredi Manlio Marcello Mariano Marino Martino Marzio Massimiliano Maurilio Mauro Melchiorre
Michelangelo Milo Modesto Moreno Napoleone Narciso Nazario Nello Nereo Nestore Niccolò Nino Norberto
Nunzio Olindo Olivo Omar Omero Onofrio Orazio Oreste Orfeo Orlando Orso Oscar Osvaldo Ottavio Ottone
Ovidio Pancrazio Pantaleo Pasquale Patrizio Pellegrino Pierluigi Piero Pio Placido Pompeo Primo
Procopio Prospero Quintino Quirino Raffaele Raimondo Raniero Raul Remigio Remo Renato Renzo Rinaldo
Rocco Rodolfo Rodrigo Rolando Romano Romeo Romolo Rosario Ruben Ruggero Sabino Sandro Santo Saverio
Savino Sebastiano Secondo Settimio Severino Silvano Silvestro Silvio Siro Socrate Spartaco Sulpicio
Tancredi Teodoro Terenzio Tiberio Timoteo Tito Tiziano Tobia Tullio Ubaldo Ulderico Ulisse Umberto
Urbano Valentino Valerio Vasco Venanzio Vinicio Virgilio Vitale Vito Vittore Vladimiro Walter Zaccaria
Zeno
"""

_TOWNS = """
Rome Paris London Milan Florence Venice Naples Berlin Madrid Turin Barcelona Vienna Athens Bologna
Genoa Lisbon Moscow Palermo Prague Dublin Brussels Verona Pisa Siena Munich Hamburg Stockholm
Copenhagen Oslo Helsinki Geneva Zurich Marseille Lyon Seville Valencia Catania Bari Padua Mantua
Trieste Perugia Lucca Parma Modena Ravenna Bergamo Brescia Cagliari Istanbul Tokyo Beijing Boston
Chicago Toronto Havana Cairo Jerusalem Budapest Warsaw Krakow Edinburgh Salzburg Bruges Antwerp Nice
Cologne Dresden Leipzig Frankfurt Ancona Aosta Arezzo Asti Avellino Benevento Bolzano Brindisi Caserta
Como Cosenza Cremona Cuneo Empoli Enna Faenza Ferrara Foggia Gorizia Imola Ivrea Lecce Lecco Livorno
Lodi Matera Messina Monza Novara Nuoro Oristano Orvieto Otranto Pavia Pesaro Pescara Pistoia Potenza
Prato Rieti Rimini Salerno Sassari Savona Sondrio Spoleto Syracuse Taranto Teramo Terni Trapani Trento
Treviso Udine Urbino Varese Vercelli Viareggio Vicenza Viterbo Volterra
"""


def _people() -> list[Name]:
    women = [Name(name, "f") for name in _WOMEN.split()]
    men = [Name(name, "m") for name in _MEN.split()]
    turns = chain.from_iterable(zip_longest(women, men))
    return [name for name in turns if name is not None]


def zipf_weights(count: int) -> list[float]:
    """Sums of the harmonic weights 1/1 + ... + 1/rank for every rank up to `count`."""
    return list(accumulate(1 / rank for rank in range(1, count + 1)))


PEOPLE: list[Name] = _people()
TOWNS: list[Name] = [Name(name, "f", town=True) for name in _TOWNS.split()]
