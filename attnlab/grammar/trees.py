"""Dependency trees of written words, built token by token, and their text in CoNLL-U."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Word:
    """A written word in its dependency tree (Universal Dependencies, version 2).

    `head` is the position of the governing word, counted from 1; 0 marks the root.
    `space_after` is False where the next word is written without a space.
    """

    form: str
    lemma: str
    part_of_speech: str
    head: int
    relation: str
    space_after: bool = True


Key: TypeAlias = int | tuple[int, int]


class Token:
    """A word under construction: its head is another token, its position is not yet known.

    `keys` name the pieces of meaning that the token expresses; tokens of two languages that
    share a key are aligned. Of a pair of keys the second counts where the other language expresses
    nothing by the first. A form that ends in an apostrophe is written onto the next word.
    """

    __slots__ = ("form", "glued", "head", "keys", "lemma", "part_of_speech", "position", "relation")

    def __init__(
        self,
        form: str,
        lemma: str,
        part_of_speech: str,
        relation: str,
        head: "Token | None",
        *keys: Key,
    ) -> None:
        self.form = form
        self.lemma = lemma
        self.part_of_speech = part_of_speech
        self.relation = relation
        self.head = head
        self.keys = keys
        self.glued = form[-1] == "'"
        self.position = 0


def finished_words(tokens: list[Token]) -> tuple[Word, ...]:
    """The sentence's words: numbered from 1, the first with a capital letter.

    The last token is taken to be the final punctuation mark.
    """
    for position, token in enumerate(tokens, 1):
        token.position = position
    first = tokens[0]
    first.form = first.form[0].upper() + first.form[1:]
    tokens[-2].glued = True
    return tuple(
        Word(
            token.form,
            token.lemma,
            token.part_of_speech,
            token.head.position if token.head is not None else 0,
            token.relation,
            not token.glued,
        )
        for token in tokens
    )


def surface(words: tuple[Word, ...]) -> str:
    """The written sentence.

    >>> surface((Word("l'", "il", "DET", 2, "det", False), Word("amico", "amico", "NOUN", 0, "root")))
    "l'amico"
    """
    return "".join([word.form + " " if word.space_after else word.form for word in words]).rstrip()


def aligned_positions(source: list[Token], target: list[Token]) -> tuple[tuple[int, int], ...]:
    """Pairs (source position, target position), from 1, of finished tokens that share a key."""
    left, right = _positions(source, target), _positions(target, source)
    pairs = {
        (position, other)
        for key, positions in left.items()
        for position in positions
        for other in right.get(key, ())
    }
    return tuple(sorted(pairs))


def _positions(tokens: list[Token], others: list[Token]) -> dict[int, list[int]]:
    """Positions at which each key is expressed; of a pair of keys the one that counts beside `others`."""
    theirs = {key if isinstance(key, int) else key[0] for other in others for key in other.keys}
    positions: dict[int, list[int]] = {}
    for token in tokens:
        for key in token.keys:
            counted = key if isinstance(key, int) else key[key[0] not in theirs]
            positions.setdefault(counted, []).append(token.position)
    return positions


def conllu(words: tuple[Word, ...]) -> str:
    """The tree as a CoNLL-U sentence block, with its `# text` line and the empty line that ends it."""
    lines = [f"# text = {surface(words)}"]
    for position, word in enumerate(words, 1):
        spacing = "_" if word.space_after else "SpaceAfter=No"
        lines.append(
            f"{position}\t{word.form}\t{word.lemma}\t{word.part_of_speech}\t_\t_\t"
            f"{word.head}\t{word.relation}\t_\t{spacing}"
        )
    return "\n".join(lines) + "\n\n"
