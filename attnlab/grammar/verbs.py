"""The verbs of the embedded grammar, and what they go with."""

from attnlab.grammar.concepts import (
    ANIMAL,
    ANIMATE,
    ANY,
    CLOTHES,
    CONTAINER,
    DRINK,
    FOOD,
    OBJECT,
    OPENABLE,
    PERSON,
    PLACE,
    TEXT,
    THING,
    VEHICLE,
    Verb,
)


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
