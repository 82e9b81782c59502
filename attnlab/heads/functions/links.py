"""Gold pairs of words (dependency arcs, word alignments), and how often a head's arg-max follows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.heads.functions.counts import Counts
from attnlab.heads.treebank import Sentence
from attnlab.heads.words import Alignment

TO_HEAD, TO_DEPENDENT = "dependent>head", "head>dependent"
ALL_RELATIONS = "all"
MAX_OFFSET = 32


class LinkKind(NamedTuple):
    """A relation and which of its two words asks: `dependent>head` has the dependent as the query."""

    relation: str
    direction: str


@dataclass(frozen=True)
class Links:
    """Gold pairs in a batch: in `sentence`, word unit `query` is linked with word unit `key`.

    `kind` numbers `kinds`. The four vectors have one entry a link.
    """

    kinds: tuple[LinkKind, ...]
    sentence: Int[Tensor, " link"]
    query: Int[Tensor, " link"]
    key: Int[Tensor, " link"]
    kind: Int[Tensor, " link"]


def make_links(kinds: tuple[LinkKind, ...], rows: Sequence[tuple[int, int, int, int]]) -> Links:
    """Links from (sentence, query, key, kind) quadruples; the same link twice counts once."""
    columns = torch.tensor(sorted(set(rows)), dtype=torch.long).reshape(-1, 4).T
    return Links(kinds, *columns.unbind())


def base_relation(relation: str) -> str:
    """A relation without its subtype: `nsubj:pass` is `nsubj`."""
    return relation.split(":", maxsplit=1)[0]


def tree_kinds(sentences: Sequence[Sentence]) -> tuple[LinkKind, ...]:
    """Every relation of a treebank in both directions, and `all` (any but punctuation) to the head."""
    relations = sorted({base_relation(arc.relation) for one in sentences for arc in one.arcs})
    both = [LinkKind(name, way) for name in relations for way in (TO_HEAD, TO_DEPENDENT)]
    return (*both, LinkKind(ALL_RELATIONS, TO_HEAD))


def tree_links(
    sentences: Sequence[Sentence],
    alignments: Sequence[Alignment | None],
    kinds: tuple[LinkKind, ...],
) -> Links:
    """The arcs of a batch between units, in both directions; arcs within one unit are left out."""
    number = {kind: index for index, kind in enumerate(kinds)}
    rows: list[tuple[int, int, int, int]] = []
    for index, (sentence, alignment) in enumerate(zip(sentences, alignments, strict=True)):
        if alignment is None:
            continue
        for arc in sentence.arcs:
            low = alignment.unit_of_word[arc.dependent]
            high = alignment.unit_of_word[arc.head]
            if low == high:
                continue
            relation = base_relation(arc.relation)
            rows.append((index, low, high, number[LinkKind(relation, TO_HEAD)]))
            rows.append((index, high, low, number[LinkKind(relation, TO_DEPENDENT)]))
            if relation != "punct":
                rows.append((index, low, high, number[LinkKind(ALL_RELATIONS, TO_HEAD)]))
    return make_links(kinds, rows)


@dataclass(frozen=True)
class LinkCounts(Counts):
    """How many links there are, how many each head's arg-max follows, and at which offsets they lie.

    Attributes:
        kinds: what the axis `kind` numbers.
        links: links whose query may look at their key.
        hits: those that the head's arg-max follows.
        offsets: links by offset in word units, from -MAX_OFFSET to +MAX_OFFSET; longer ones are in
            `links` only.
    """

    kinds: tuple[LinkKind, ...]
    links: Int[Tensor, "half kind"]
    hits: Int[Tensor, "half kind head"]
    offsets: Int[Tensor, "half kind offset"]


def count_links(
    attention: Float[Tensor, "batch head query_word key_word"],
    keys: Bool[Tensor, "batch key_word"],
    links: Links,
    halves: Int[Tensor, " batch"],
    *,
    self_attention: bool,
    causal: bool = False,
) -> LinkCounts:
    """Counts of a batch; the arg-max is over the sentence's words.

    Args:
        attention: word by word; special tokens are no candidates.
        keys: True for words of the sentence.
        links: gold pairs.
        halves: 0 or 1 for each sentence.
        self_attention: the query's own word is no candidate.
        causal: words behind the query are no candidates, and links to them are not counted.
    """
    device = attention.device
    candidates = keys[:, None, :].expand(-1, attention.shape[2], -1)
    position = torch.arange(attention.shape[3], device=device)
    offset = position - torch.arange(attention.shape[2], device=device)[:, None]
    if self_attention:
        candidates = candidates & (offset != 0)
    if causal:
        candidates = candidates & (offset <= 0)
    best = attention.masked_fill(~candidates[:, None], -1).argmax(-1)
    sentence, query, key, kind = (
        vector.to(device) for vector in (links.sentence, links.query, links.key, links.kind)
    )
    possible = candidates[sentence, query, key]
    sentence, query, key, kind = (v[possible] for v in (sentence, query, key, kind))
    hits = (best[sentence, :, query] == key[:, None]).long()
    cell = halves.long().to(device)[sentence] * len(links.kinds) + kind
    shape = (2, len(links.kinds))
    near = (key - query).abs() <= MAX_OFFSET
    wide = 2 * MAX_OFFSET + 1
    place = cell[near] * wide + (key - query)[near] + MAX_OFFSET
    zeros = torch.zeros(shape[0] * shape[1], attention.shape[1], dtype=torch.long, device=device)
    return LinkCounts(
        links.kinds,
        torch.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape),
        zeros.index_add_(0, cell, hits).reshape(*shape, -1),
        torch.bincount(place, minlength=shape[0] * shape[1] * wide).reshape(*shape, wide),
    )
