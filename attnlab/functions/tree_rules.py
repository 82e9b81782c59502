"""What makes the lines of a sentence in CoNLL-U a tree, by the rules of Universal Dependencies.

Words are numbered from 1 without gaps; ranges such as `3-4` stand before their first word, hold words
of the sentence and do not overlap; every word has a form, and a head that is another word or 0; exactly
one word, the root, has 0; and the heads of every word lead to the root.
https://universaldependencies.org/format.html
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.errors import InputError
from attnlab.texts import shown

_SHOWN = 10


def refuse_no_tree(lines: Sequence[Any], where: str) -> None:
    """Raises InputError for a sentence that breaks one of these rules.

    Args:
        lines: what conllu reads, by the names of its columns.
        where: which sentence it is, for the message.
    """
    words = [line for line in lines if isinstance(line["id"], int)]
    _refuse_numbers([line["id"] for line in words], where)
    _refuse_ranges(lines, len(words), where)
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
    _refuse_graph({line["id"]: line["head"] for line in words}, where)


def _refuse_numbers(numbers: Sequence[int], where: str) -> None:
    if not numbers:
        msg = f"There is no word in {where}; leave it out."
        raise InputError(msg)
    for wanted, number in enumerate(numbers, start=1):
        if number != wanted:
            msg = f"The words of {where} are not numbered from 1 on: {number} stands for {wanted}."
            raise InputError(msg)


def _refuse_ranges(lines: Sequence[Any], words: int, where: str) -> None:
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


def _refuse_graph(heads: Mapping[int, int], where: str) -> None:
    roots = [word for word, head in heads.items() if head == 0]
    if len(roots) != 1:
        shown_roots = ", ".join(map(str, roots[:_SHOWN]))
        told = f"{len(roots)} roots ({shown_roots})" if roots else "no root"
        msg = f"The words of {where} have {told}; a tree has one word whose head is 0."
        raise InputError(msg)
    reaches_root = {0}
    for word in heads:
        trail: dict[int, None] = {}
        while word not in reaches_root and word not in trail:
            trail[word] = None
            word = heads[word]  # noqa: PLW2901 - the way up
        if word not in reaches_root:
            circle = [*trail][[*trail].index(word) :]
            told = " -> ".join(map(str, [*circle[:_SHOWN], word]))
            msg = (
                f"The heads of {where} run in a circle ({told}); a tree leads from every word to its "
                "root."
            )
            raise InputError(msg)
        reaches_root.update(trail)
