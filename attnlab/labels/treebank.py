"""Gold dependency trees from CoNLL-U files, over the words as they are written.

Written words are what a tokenizer sees. Where a treebank splits one into several syntactic words
(Italian "della" = "di" + "la", a line numbered `3-4`), the written word carries the arcs of all of
them; arcs between its own parts are left out and counted. Empty nodes (`8.1`) stand for words that
nobody wrote and are skipped. Format: https://universaldependencies.org/format.html
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from attnlab.core import (
    TREEBANK,
    InputError,
    check_file_exists,
    check_installed,
    read_text,
    reason,
    shown,
)
from attnlab.grammar import Word, surface
from attnlab.labels.coreference import coreferent_words, nearest_antecedents
from attnlab.labels.word_tokens import Span

if TYPE_CHECKING:
    import conllu

_SHOWN = 10


def check_tree(lines: Sequence[Any], where: str) -> None:
    """Raises InputError for a sentence that breaks one of these rules.

    Args:
        lines: what conllu reads, by the names of its columns.
        where: which sentence it is, for the message.
    """
    words = [line for line in lines if isinstance(line["id"], int)]
    _check_numbering([line["id"] for line in words], where)
    _check_ranges(lines, len(words), where)
    for line in lines:
        if not (line["form"] or "").strip():
            msg = f"A word of {where} has no form; write one in the second column."
            raise InputError(msg)
    for line in words:
        head = line["head"]
        if head is None or not 0 <= head <= len(words) or head == line["id"]:
            msg = (
                f"The word '{shown(line['form'])}' in {where} has no valid head (the head of word "
                f"{line['id']} of {len(words)} is {'_' if head is None else head}); trees must be complete."
            )
            raise InputError(msg)
    _check_tree({line["id"]: line["head"] for line in words}, where)


def _check_numbering(numbers: Sequence[int], where: str) -> None:
    if not numbers:
        msg = f"There is no word in {where}; leave it out."
        raise InputError(msg)
    for index, number in enumerate(numbers, start=1):
        if number != index:
            msg = f"The words of {where} are not numbered from 1 on: {number} stands for {index}."
            raise InputError(msg)


def _check_ranges(lines: Sequence[Any], words: int, where: str) -> None:
    before, last_inside = 0, 0
    for line in lines:
        match line["id"]:
            case int(number):
                before = number
            case (first, "-", last):
                if not (first == before + 1 and last_inside < first <= last <= words):
                    msg = (
                        f"The range {first}-{last} of {where} does not stand before its words, overlaps "
                        f"another, or holds more than the {words} words there are."
                    )
                    raise InputError(msg)
                last_inside = last


def _check_tree(heads: Mapping[int, int], where: str) -> None:
    roots = [word for word, head in heads.items() if head == 0]
    if len(roots) != 1:
        shown_roots = ", ".join(map(str, roots[:_SHOWN]))
        problem = f"{len(roots)} roots ({shown_roots})" if roots else "no root"
        msg = f"The words of {where} have {problem}; a tree has one word whose head is 0."
        raise InputError(msg)
    reaches_root = {0}
    for word in heads:
        trail: dict[int, None] = {}
        while word not in reaches_root and word not in trail:
            trail[word] = None
            word = heads[word]  # noqa: PLW2901 - the way up
        if word not in reaches_root:
            circle = [*trail][[*trail].index(word) :]
            problem = " -> ".join(map(str, [*circle[:_SHOWN], word]))
            msg = (
                f"The heads of {where} run in a circle ({problem}); a tree leads from every word to its "
                "root."
            )
            raise InputError(msg)
        reaches_root.update(trail)


class Arc(NamedTuple):
    """One dependency between two written words, by their numbers from 0."""

    dependent: int
    head: int
    relation: str


@dataclass(frozen=True)
class GoldSentence:
    """A sentence with its gold tree over written words.

    Attributes:
        identifier: the treebank's `sent_id`, or the number in the file, from 1.
        text: the written words with the spaces between them.
        spans: where each written word stands in `text`.
        tags: universal part of speech of each written word; of several, the first.
        arcs: dependencies between different written words, the root left out.
        arcs_inside: how many dependencies lie within one written word.
        coreference: pairs (mention, antecedent) of written words, see `nearest_antecedents`.
        entities: written words of the mentions of each entity, see `coreferent_words`.
    """

    identifier: str
    text: str
    spans: tuple[Span, ...]
    tags: tuple[str, ...]
    arcs: tuple[Arc, ...]
    arcs_inside: int = 0
    coreference: tuple[tuple[int, int], ...] = ()
    entities: tuple[tuple[int, ...], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The written words."""
        return tuple(self.text[span.start : span.end] for span in self.spans)


def load_treebank(path: str | Path, sentences: int | None = None) -> list[GoldSentence]:
    """The sentences of a CoNLL-U file, plain or gzip, in order; the first `sentences` if given.

    Raises:
        InputError: the file is missing, is no CoNLL-U in UTF-8, or holds no sentence; or a sentence is no
            tree by the rules of Universal Dependencies, see `attnlab.labels.treebank`.
    """
    check_installed("conllu")
    import conllu
    from conllu.exceptions import ParseException

    path = Path(path)
    trees: list[GoldSentence] = []
    check_file_exists(path, TREEBANK)
    try:
        # With a line feed at the end, which the last sentence of some files lacks.
        for number, lines in enumerate(conllu.parse_incr(io.StringIO(read_text(path) + "\n")), 1):
            if sentences is not None and number > sentences:
                break
            trees.append(_read_sentence(lines, number, path))
    # conllu hands on what Python says of numbers and texts that are none.
    except (ParseException, ValueError, LookupError, TypeError) as error:
        msg = f"{path} cannot be read as CoNLL-U after sentence {len(trees)}: {reason(error)}."
        raise InputError(msg) from error
    if not trees:
        msg = f"{path} holds no sentence; name a CoNLL-U file with trees."
        raise InputError(msg)
    return trees


def sentences_in(path: str | Path) -> int:
    """How many sentences a CoNLL-U file holds, told by the lines of their first words.

    Raises:
        InputError: the file is not UTF-8.
    """
    return sum(line.startswith("1\t") for line in read_text(Path(path)).splitlines())


def gold_sentence(words: Sequence[Word], identifier: str) -> GoldSentence:
    """The tree of a sentence of the embedded corpus, which has no multi-word tokens."""
    spans: list[Span] = []
    start = 0
    for word in words:
        spans.append(Span(start, start + len(word.form)))
        start += len(word.form) + word.space_after
    arcs = tuple(
        Arc(number, word.head - 1, word.relation) for number, word in enumerate(words) if word.head
    )
    tags = tuple(word.part_of_speech for word in words)
    return GoldSentence(identifier, surface(tuple(words)), tuple(spans), tags, arcs)


def _read_sentence(lines: "conllu.TokenList", number: int, path: Path) -> GoldSentence:
    identifier = str(lines.metadata.get("sent_id", number))
    if any("misc" not in line for line in lines):
        msg = f"a line of sentence {identifier} has fewer than ten columns"
        raise ValueError(msg)
    check_tree(lines, f"sentence {identifier} of {path}")
    written, owner = _written_words(lines)
    pieces: list[str] = []
    spans: list[Span] = []
    length = 0
    for line in written:
        spans.append(Span(length, length + len(line["form"])))
        tight = (line["misc"] or {}).get("SpaceAfter") == "No" or line is written[-1]
        pieces.append(line["form"] + ("" if tight else " "))
        length += len(pieces[-1])
    arcs, inside = _arcs(lines, owner)
    first = {unit: line["upos"] for line, unit in reversed(list(_owned(lines, owner)))}
    tags = tuple(first[unit] or "_" for unit in range(len(written)))
    entities = coreferent_words([line for line, _ in _owned(lines, owner)], owner)
    text = "".join(pieces)
    return GoldSentence(
        identifier, text, tuple(spans), tags, arcs, inside, nearest_antecedents(entities), entities
    )


def _written_words(lines: "conllu.TokenList") -> tuple[list[Any], dict[int, int]]:
    """The lines of written words, and for every syntactic word the written one it is part of."""
    written: list[Any] = []
    owner: dict[int, int] = {}
    last_inside = 0
    for line in lines:
        match line["id"]:
            case int(word):
                if word > last_inside:
                    written.append(line)
                owner[word] = len(written) - 1
            case (_, "-", last):
                written.append(line)
                last_inside = last
    return written, owner


def _owned(lines: "conllu.TokenList", owner: dict[int, int]) -> Iterator[tuple[Any, int]]:
    """Syntactic words with the number of the written word that each is part of."""
    for line in lines:
        if isinstance(line["id"], int):
            yield line, owner[line["id"]]


def _arcs(lines: "conllu.TokenList", owner: dict[int, int]) -> tuple[tuple[Arc, ...], int]:
    arcs: list[Arc] = []
    inside = 0
    for line, unit in _owned(lines, owner):
        head = line["head"]
        if head == 0:
            continue
        if owner[head] == unit:
            inside += 1
        else:
            arcs.append(Arc(unit, owner[head], line["deprel"] or "_"))
    return tuple(dict.fromkeys(arcs)), inside


def shuffle_words(sentence: GoldSentence, seed: int) -> GoldSentence:
    """The same words, arcs and mentions in a random order: what is left is not owed to word order.

    Words are joined by single spaces. The order depends on `seed` and the sentence's identifier.
    """
    order = list(range(len(sentence.spans)))
    Random(f"{seed} {sentence.identifier}").shuffle(order)
    words = [sentence.words[old] for old in order]
    new_position = {old: new for new, old in enumerate(order)}
    arcs = tuple(
        Arc(new_position[arc.dependent], new_position[arc.head], arc.relation)
        for arc in sentence.arcs
    )
    tags = tuple(sentence.tags[old] for old in order)
    coreference = tuple(
        (new_position[one], new_position[other]) for one, other in sentence.coreference
    )
    return replace(
        sentence,
        text=" ".join(words),
        spans=_spans(words),
        tags=tags,
        arcs=arcs,
        coreference=coreference,
        entities=tuple(tuple(new_position[word] for word in mine) for mine in sentence.entities),
    )


def _spans(words: Sequence[str]) -> tuple[Span, ...]:
    spans: list[Span] = []
    start = 0
    for word in words:
        spans.append(Span(start, start + len(word)))
        start += len(word) + 1
    return tuple(spans)
