"""Mentions of one entity in a sentence, from the column MISC of CoNLL-U as CorefUD writes it.

`Entity=(e1-person-1-` opens a mention of the entity e1, `e1)` closes it; both may stand at one word. Mentions
in several parts (`e1[1/2]`) and mentions that begin or end at an empty node are left out.
Format: https://ufal.mff.cuni.cz/corefud
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

_BRACKET = re.compile(r"\((?P<opened>[^()]+)|(?P<closed>[^()]*)\)")


def coreferent_words(lines: Sequence[Any], owner: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Pairs (mention, antecedent) of written words: each mention and the nearest before it of its entity.

    A mention stands for its head, the first of its words whose own head lies outside.

    Args:
        lines: syntactic words of a sentence, by the names of their columns.
        owner: the written word that each is part of, from 0.
    """
    heads = {line["id"]: line["head"] for line in lines}
    words: dict[str, list[int]] = {}
    for first, last, entity in _mentions(lines):
        inside = range(first, last + 1)
        head = next(word for word in inside if heads[word] not in inside)
        words.setdefault(entity, []).append(owner[head])
    pairs = (pair for mine in words.values() for pair in pairwise(sorted({*mine})))
    return tuple(sorted((later, earlier) for earlier, later in pairs))


def _mentions(lines: Sequence[Any]) -> list[tuple[int, int, str]]:
    """The first and the last word of each mention, with its entity."""
    opened: list[tuple[str, int]] = []
    found: list[tuple[int, int, str]] = []
    for line in lines:
        for bracket in _BRACKET.finditer((line["misc"] or {}).get("Entity") or ""):
            if bracket["opened"]:
                opened.append((bracket["opened"].split("-")[0], line["id"]))
                continue
            # A bracket without a name closes what was opened last.
            named = [at for at, (name, _) in enumerate(opened) if bracket["closed"] in {"", name}]
            if named:
                entity, first = opened.pop(named[-1])
                found.append((first, line["id"], entity))
    return [mention for mention in found if "[" not in mention[-1]]
