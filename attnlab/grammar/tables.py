"""Tables of words as text: entries end at a line's end or a semicolon, fields stand between spaces."""

from collections.abc import Iterator


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
