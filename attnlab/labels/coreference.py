"""Mentions of one entity in a sentence, from the column MISC of CoNLL-U as CorefUD writes it.

`Entity=(e1-person-1-` opens a mention of the entity e1, `e1)` closes it; both may stand at one word. Mentions
in several parts (`e1[1/2]`) and mentions that begin or end at an empty node are left out.
Format: https://ufal.mff.cuni.cz/corefud
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

_BRACKET = re.compile(r"\((?P<opened>[^()]+)|(?P<closed>[^()]*)\)")


def coreferent_words(lines: Sequence[Any], owner: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """The written words of the mentions of each entity, in order, where there are two or more.

    A word may stand for mentions of several entities, as in [[John] and [Mary]]. A mention stands for its
    head, the first of its words whose own head lies outside.

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
    entities = (tuple(sorted({*mine})) for mine in words.values())
    return tuple(mine for mine in entities if len(mine) > 1)


def nearest_antecedents(entities: Iterable[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Pairs (mention, antecedent) of words: each mention and the nearest before it of its entity."""
    pairs = (pair for mine in entities for pair in pairwise(mine))
    return tuple(sorted((later, earlier) for earlier, later in pairs))


def _mentions(lines: Sequence[Any]) -> list[tuple[int, int, str]]:
    """The first and the last word of each mention, with its entity."""
    opened: list[tuple[str, int]] = []
    mentions: list[tuple[int, int, str]] = []
    for line in lines:
        for bracket in _BRACKET.finditer((line["misc"] or {}).get("Entity") or ""):
            if bracket["opened"]:
                opened.append((bracket["opened"].split("-")[0], line["id"]))
                continue
            # A bracket without a name closes what was opened last.
            named = [at for at, (name, _) in enumerate(opened) if bracket["closed"] in {"", name}]
            if named:
                entity, first = opened.pop(named[-1])
                mentions.append((first, line["id"], entity))
    return [mention for mention in mentions if "[" not in mention[-1]]
