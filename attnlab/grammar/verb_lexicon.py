"""The verbs of the embedded grammar: English, Italian, irregular forms, and what they go with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from attnlab.grammar.lexicon import (
    ANIMAL,
    ANIMATE,
    ANY,
    CLOTHES,
    CONTAINER,
    DRINK,
    FOOD,
    FOR,
    FROM,
    IN,
    OBJECT,
    OPENABLE,
    PERSON,
    PLACE,
    TEXT,
    THING,
    TO,
    VEHICLE,
    WITH,
    Preposition,
)

Frame: TypeAlias = Literal["none", "object", "recipient", "complement"]
NOTHING: frozenset[str] = frozenset()
AT = Preposition("at", "a")
ABOUT = Preposition("about", "di")


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb, its frame, the kinds of its subject and object, and its irregular forms.

    `governs` and `italian_governs` are the prepositions before the object (wait for, entrare in);
    with `dative` an Italian object pronoun is gli, le. `stative` verbs tell the past in the
    imperfect and have no progressive. `inverted` verbs (like, piacere) make the English object
    the Italian subject. `irregular` names Italian forms: present (six), stem (of the imperfect
    and the gerund), future (stem), participle; and English ones: past, third, gerund.
    """

    english: str
    italian: str
    frame: Frame
    subjects: frozenset[str]
    objects: frozenset[str] = NOTHING
    governs: Preposition | None = None
    italian_governs: Preposition | None = None
    dative: bool = False
    auxiliary: Literal["avere", "essere"] = "avere"
    stative: bool = False
    inverted: bool = False
    manner: bool = True
    irregular: Mapping[str, str] = field(default_factory=dict)


def _plain(english: str, italian: str, **irregular: str) -> Verb:
    return Verb(english, italian, "none", ANIMATE, irregular=irregular)


def _action(
    english: str, italian: str, objects: frozenset[str], *, manner: bool = True, **irregular: str
) -> Verb:
    return Verb(english, italian, "object", PERSON, objects, manner=manner, irregular=irregular)


def _gift(english: str, italian: str, **irregular: str) -> Verb:
    objects = THING - VEHICLE - FOOD - DRINK
    return Verb(english, italian, "recipient", PERSON, objects, irregular=irregular, manner=False)


def _state(english: str, italian: str, objects: frozenset[str], **irregular: str) -> Verb:
    return Verb(
        english, italian, "object", PERSON, objects, stative=True, manner=False, irregular=irregular
    )


def _governing(
    english: str,
    italian: str,
    objects: frozenset[str],
    governs: Preposition | None,
    italian_governs: Preposition | None,
    *,
    dative: bool = False,
    auxiliary: Literal["avere", "essere"] = "avere",
    **irregular: str,
) -> Verb:
    return Verb(
        english,
        italian,
        "object",
        PERSON,
        objects,
        governs=governs,
        italian_governs=italian_governs,
        dative=dative,
        auxiliary=auxiliary,
        irregular=irregular,
    )


def _saying(english: str, italian: str, *, stative: bool = False, **irregular: str) -> Verb:
    return Verb(
        english,
        italian,
        "complement",
        PERSON,
        stative=stative,
        manner=False,
        irregular=irregular,
    )


VERBS: list[Verb] = [
    _plain("sleep", "dormire", past="slept"),
    _plain("swim", "nuotare", past="swam", gerund="swimming"),
    _plain("walk", "camminare"),
    _plain("rest", "riposare"),
    _plain("run", "correre", past="ran", gerund="running", participle="corso"),
    Verb("work", "lavorare", "none", PERSON),
    Verb("sing", "cantare", "none", PERSON, irregular={"past": "sang"}),
    Verb("dance", "ballare", "none", PERSON),
    Verb("laugh", "ridere", "none", PERSON, irregular={"participle": "riso"}),
    Verb("cry", "piangere", "none", PERSON, irregular={"participle": "pianto"}),
    Verb("smile", "sorridere", "none", PERSON, irregular={"participle": "sorriso"}),
    Verb("study", "studiare", "none", PERSON),
    Verb("travel", "viaggiare", "none", PERSON),
    Verb("eat", "mangiare", "object", ANIMATE, FOOD, irregular={"past": "ate"}),
    Verb(
        "drink",
        "bere",
        "object",
        ANIMATE,
        DRINK,
        irregular={
            "past": "drank",
            "present": "bevo bevi beve beviamo bevete bevono",
            "stem": "beve",
            "future": "berr",
            "participle": "bevuto",
        },
    ),
    Verb(
        "see",
        "vedere",
        "object",
        ANIMATE,
        ANY,
        manner=False,
        irregular={"past": "saw", "gerund": "seeing", "future": "vedr", "participle": "visto"},
    ),
    Verb("follow", "seguire", "object", ANIMATE, ANIMATE),
    _action("buy", "comprare", THING, past="bought"),
    _action("find", "trovare", THING | ANIMATE, manner=False, past="found"),
    _action("write", "scrivere", TEXT, past="wrote", participle="scritto"),
    _action("greet", "salutare", PERSON),
    _action("help", "aiutare", PERSON),
    _action("invite", "invitare", PERSON),
    _action("hug", "abbracciare", ANIMATE, past="hugged", gerund="hugging"),
    _action("thank", "ringraziare", PERSON),
    _action("wash", "lavare", CLOTHES | VEHICLE | ANIMAL),
    _action("open", "aprire", OPENABLE | CONTAINER, participle="aperto"),
    _action("close", "chiudere", OPENABLE | CONTAINER, participle="chiuso"),
    _action("paint", "dipingere", PLACE | ANIMATE, participle="dipinto"),
    _action("draw", "disegnare", PLACE | ANIMATE, past="drew"),
    _action(
        "lose", "perdere", OBJECT | CLOTHES | TEXT, manner=False, past="lost", participle="perso"
    ),
    _action(
        "break",
        "rompere",
        OBJECT | OPENABLE | CONTAINER,
        manner=False,
        past="broke",
        participle="rotto",
    ),
    _action("touch", "toccare", OBJECT | CLOTHES | ANIMAL),
    _action("use", "usare", OBJECT | VEHICLE),
    _action("prepare", "preparare", FOOD | DRINK),
    _action("visit", "visitare", PLACE),
    _action("drive", "guidare", VEHICLE, past="drove"),
    _action("build", "costruire", PLACE | VEHICLE, past="built", isc="yes"),
    _action("clean", "pulire", PLACE | CLOTHES | VEHICLE, isc="yes"),
    _action(
        "forget",
        "dimenticare",
        TEXT | OBJECT | CLOTHES,
        manner=False,
        past="forgot",
        gerund="forgetting",
    ),
    _action("hide", "nascondere", THING - DRINK, past="hid", participle="nascosto"),
    _action("watch", "guardare", ANY - DRINK - FOOD),
    _state("love", "amare", PERSON | ANIMAL | PLACE),
    _state("know", "conoscere", PERSON | PLACE, past="knew", participle="conosciuto"),
    _state(
        "have",
        "avere",
        THING - FOOD - DRINK | ANIMAL,
        past="had",
        third="has",
        present="ho hai ha abbiamo avete hanno",
        future="avr",
    ),
    Verb(
        "like",
        "piacere",
        "object",
        PERSON,
        ANY - PERSON,
        stative=True,
        inverted=True,
        manner=False,
        auxiliary="essere",
        irregular={
            "present": "piaccio piaci piace piacciamo piacete piacciono",
            "participle": "piaciuto",
        },
    ),
    _governing("wait", "aspettare", PERSON | VEHICLE, FOR, None),
    _governing("look", "cercare", PERSON | ANIMAL | OBJECT, FOR, None),
    _governing("listen", "ascoltare", PERSON, TO, None),
    _governing("enter", "entrare", PLACE, None, IN, auxiliary="essere"),
    _governing("phone", "telefonare", PERSON, None, TO, dative=True),
    _governing("answer", "rispondere", PERSON, None, TO, dative=True, participle="risposto"),
    _governing("talk", "parlare", PERSON, WITH, WITH),
    Verb(
        "dream",
        "sognare",
        "object",
        PERSON,
        ANY - FOOD - DRINK - OPENABLE,
        governs=ABOUT,
        manner=False,
    ),
    _governing(
        "go",
        "andare",
        PLACE,
        TO,
        TO,
        auxiliary="essere",
        past="went",
        present="vado vai va andiamo andate vanno",
        future="andr",
    ),
    _governing(
        "come",
        "venire",
        PLACE,
        FROM,
        FROM,
        auxiliary="essere",
        past="came",
        present="vengo vieni viene veniamo venite vengono",
        future="verr",
        participle="venuto",
    ),
    _governing("return", "tornare", PLACE, TO, TO, auxiliary="essere"),
    _governing("arrive", "arrivare", PLACE, AT, TO, auxiliary="essere"),
    _gift(
        "give",
        "dare",
        past="gave",
        present="do dai dà diamo date danno",
        future="dar",
    ),
    _gift("show", "mostrare"),
    _gift("send", "mandare", past="sent"),
    _gift("bring", "portare", past="brought"),
    _gift("offer", "offrire", participle="offerto"),
    _gift("sell", "vendere", past="sold"),
    _gift("lend", "prestare", past="lent"),
    _saying(
        "say",
        "dire",
        past="said",
        present="dico dici dice diciamo dite dicono",
        stem="dice",
        participle="detto",
    ),
    _saying(
        "know",
        "sapere",
        stative=True,
        past="knew",
        present="so sai sa sappiamo sapete sanno",
        future="sapr",
    ),
    _saying("discover", "scoprire", participle="scoperto"),
    _saying("remember", "ricordare", stative=True),
]
