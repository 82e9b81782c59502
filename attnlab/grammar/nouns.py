"""The nouns of the embedded grammar, by what they name."""

from attnlab.grammar.concepts import (
    ANIMAL,
    CLOTHES,
    CONTAINER,
    DRINK,
    FOOD,
    OBJECT,
    OPENABLE,
    PERSON,
    PLACE,
    SURFACE,
    TEXT,
    VEHICLE,
    Gender,
    Noun,
)
from attnlab.grammar.tables import marked


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
