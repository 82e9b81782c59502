"""What a label of heads consists of, and what it may look at: one layer, one batch, one view."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.labels.counts import (
    GROUPS,
    Counts,
    Largest,
    RatioCounts,
    Scope,
    count_ratio,
    largest,
    sum_by_group,
)
from attnlab.labels.treebank import GoldSentence
from attnlab.labels.verdict import Verdict
from attnlab.labels.word_tokens import Alignment, BatchUnits, merge_tokens
from attnlab.reading import ALL, LayerWeights, View

TO_HEAD, TO_DEPENDENT = "dependent>head", "head>dependent"
ALL_RELATIONS = "all"
MAX_LINK_OFFSET = 32


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

    def to(self, device: torch.device) -> "Links":
        """The same links on a device, on which attention is that follows them."""
        columns = (self.sentence, self.query, self.key, self.kind)
        return Links(self.kinds, *(column.to(device) for column in columns))


def make_links(kinds: tuple[LinkKind, ...], rows: Sequence[tuple[int, int, int, int]]) -> Links:
    """Links from (sentence, query, key, kind) quadruples; the same link twice counts once."""
    columns = torch.tensor(sorted(set(rows)), dtype=torch.long).reshape(-1, 4).T
    return Links(kinds, *columns.unbind())


def base_relation(relation: str) -> str:
    """A relation without its subtype: `nsubj:pass` is `nsubj`."""
    return relation.split(":", maxsplit=1)[0]


def tree_kinds(sentences: Sequence[GoldSentence]) -> tuple[LinkKind, ...]:
    """Every relation of a treebank in both directions, and `all` (any but punctuation) to the head."""
    relations = sorted({base_relation(arc.relation) for tree in sentences for arc in tree.arcs})
    both = [LinkKind(name, way) for name in relations for way in (TO_HEAD, TO_DEPENDENT)]
    return (*both, LinkKind(ALL_RELATIONS, TO_HEAD))


def tree_links(
    sentences: Sequence[GoldSentence],
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
        links: links whose query may look at their key and at some other word.
        chance: how many of them a head that picks at random would follow on average.
        followed: those that the head's arg-max follows, over all.
        offsets: links by offset in word units, from -MAX_LINK_OFFSET to +MAX_LINK_OFFSET; longer ones are in
            `links` only.
        queries: words that look at the other sentence; 0 where a word looks at its own sentence.
    """

    kinds: tuple[LinkKind, ...]
    links: Int[Tensor, "group kind"]
    chance: Float[Tensor, "group kind"]
    followed: RatioCounts
    offsets: Int[Tensor, "group kind offset"]
    queries: Int[Tensor, " group"] = field(
        default_factory=lambda: torch.zeros(GROUPS, dtype=torch.long)
    )


@dataclass(frozen=True)
class PossibleLinks:
    """The links of a batch that a head could follow, counted; the same in all layers.

    Attributes:
        links: those whose key is a candidate of their query.
        groups: of each sentence.
        counts: how many there are and at which offsets, with no head in `followed`.
        self_attention: whether a query's own word is no candidate.
    """

    links: Links
    groups: Int[Tensor, " batch"]
    counts: LinkCounts
    self_attention: bool


def possible_links(
    links: Links,
    words: Bool[Tensor, "batch key_word"],
    groups: Int[Tensor, " batch"],
    *,
    self_attention: bool,
    causal: bool = False,
    queries: Bool[Tensor, "batch query_word"] | None = None,
) -> PossibleLinks:
    """The links that could be followed, where the query had two candidates or more.

    Args:
        links: gold pairs.
        words: True for words of the sentence on the key side, counted from the left.
        groups: of each sentence.
        self_attention: a query's own word is no candidate.
        causal: words behind the query are no candidates.
        queries: True for words that look at another sentence.
    """
    device = links.key.device
    offset = links.key - links.query
    candidates = links.query + 1 if causal else words.sum(1).to(device)[links.sentence]
    possible = torch.ones_like(offset, dtype=torch.bool)
    if self_attention:
        candidates = candidates - 1
        possible &= offset != 0
    if causal:
        possible &= offset <= 0
    possible &= candidates >= 2
    columns = (links.sentence, links.query, links.key, links.kind)
    kept = Links(links.kinds, *(column[possible] for column in columns))
    cell = groups.to(device)[kept.sentence] * len(links.kinds) + kept.kind
    counts = _count_possible(kept, cell, candidates[possible])
    if queries is not None:
        looking = (queries & (words.sum(1) >= 2)[:, None]).sum(1)
        counts = replace(counts, queries=sum_by_group(looking.to(device), groups.to(device)))
    return PossibleLinks(kept, groups.to(device), counts, self_attention)


def _count_possible(
    links: Links, cell: Int[Tensor, " link"], candidates: Int[Tensor, " link"]
) -> LinkCounts:
    kinds, wide = len(links.kinds), 2 * MAX_LINK_OFFSET + 1
    offset = links.key - links.query
    near = offset.abs() <= MAX_LINK_OFFSET
    index = cell[near] * wide + offset[near] + MAX_LINK_OFFSET
    no_heads = count_ratio(
        torch.zeros(1, kinds, 0, device=cell.device),
        torch.zeros(1, kinds, device=cell.device),
        torch.zeros(1, dtype=torch.long, device=cell.device),
    )
    chance = torch.zeros(GROUPS * kinds, dtype=torch.float64, device=cell.device)
    return LinkCounts(
        links.kinds,
        torch.bincount(cell, minlength=GROUPS * kinds).view(GROUPS, kinds),
        chance.index_add_(0, cell, 1 / candidates.double()).view(GROUPS, kinds),
        no_heads,
        torch.bincount(index, minlength=GROUPS * kinds * wide).view(GROUPS, kinds, wide),
    )


def count_links(
    attention: Float[Tensor, "batch head query_word key_word"], possible: PossibleLinks
) -> LinkCounts:
    """Counts of a batch; the arg-max is over the sentence's words, special tokens left out.

    Args:
        attention: word by word, 0 where a query may not look.
        possible: the gold pairs that could be followed.
    """
    if possible.self_attention:
        diagonal = torch.eye(*attention.shape[2:], dtype=torch.bool, device=attention.device)
        attention = attention.masked_fill(diagonal, -1)
    links, counts = possible.links, possible.counts
    best = largest(attention)
    # A row without weight on any word follows no link.
    hits = best.key[links.sentence, :, links.query] == links.key[:, None]
    hits = hits & best.found[links.sentence, :, links.query]
    kinds = len(links.kinds)
    cell = links.sentence * kinds + links.kind
    shape = (len(attention), kinds, attention.shape[1])
    total = torch.zeros(shape, dtype=torch.float64, device=attention.device)
    total.flatten(0, 1).index_add_(0, cell, hits.double())
    number = torch.bincount(cell, minlength=len(attention) * kinds)
    return replace(counts, followed=count_ratio(total, number.view(shape[:2]), possible.groups))


Value = TypeVar("Value")


@dataclass(frozen=True)
class GoldWords:
    """Word units of the queries and the keys of a batch, and which of them belong together.

    `coreference` are the links of mentions to their antecedents; None where a treebank has none.
    """

    queries: BatchUnits
    keys: BatchUnits
    links: PossibleLinks
    coreference: PossibleLinks | None = None


@dataclass(frozen=True)
class BatchFacts:
    """What is known of a batch at one site in one view, the same for all its layers.

    Attributes:
        scope: which rows and columns count.
        ranks: each key's frequency rank in the corpus, 0 for the most frequent type.
        words: gold arcs (self-attention) or alignments (cross-attention), if there are any.
        types: how many types the vocabulary of the keys has; None where that is not known.
        second: True at the tokens of the second text of each pair; None where texts are single.
    """

    scope: Scope
    ranks: Int[Tensor, "batch key"]
    words: GoldWords | None = None
    types: int | None = None
    second: Bool[Tensor, "batch token"] | None = None
    _known: dict[Any, Any] = field(default_factory=dict)

    def once(self, compute: Callable[["BatchFacts"], Value]) -> Value:
        """The result of `compute` for this batch, computed once for all its layers."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        value: Value = self._known[compute]
        return value


@dataclass(frozen=True)
class LayerView:
    """One layer's weights for one batch in one view, see `attnlab.reading.weights`."""

    layer: LayerWeights
    keys: View
    facts: BatchFacts

    @property
    def cross(self) -> bool:
        """Whether queries and keys are different sentences."""
        return self.layer.site == "cross"

    @cached_property
    def best(self) -> Largest:
        """The key of the largest weight of every row."""
        return largest(self.layer.wide, None if self.keys == ALL else self.layer.keys.content)

    @cached_property
    def word_weights(self) -> Float[Tensor, "batch head query_word key_word"] | None:
        """Attention between words; None where they are not known."""
        words = self.facts.words
        return None if words is None else merge_tokens(self.layer.wide, words.queries, words.keys)

    @property
    def mass(self) -> Float[Tensor, "batch head query"] | None:
        """Weight of every row on the keys that are looked at; None where that is all of it."""
        return None if self.keys == ALL else self.layer.content_mass

    @property
    def entropies(self) -> Float[Tensor, "batch head query"]:
        """Entropy of every row in nats among the keys that are looked at."""
        return self.layer.entropies if self.keys == ALL else self.layer.content_entropies


@dataclass(frozen=True)
class HeadLabel:
    """One function that heads can have. Other distributions add theirs, see `attnlab.core.installed`.

    Attributes:
        name: what it is called in tables.
        count: what is counted of a layer and batch; None where the label does not apply.
        decide: a verdict per head from the counts of all sentences and the seed of the bootstrap.
        precedence: of several labels that hold the smallest comes first.
        by_view: whether it depends on the view; else it is counted once, with all keys.
        meaning: what such heads do, in a line that stands beside maps.
        against_untrained: whether the same head of an untrained model must not carry it too; if not, a
            head that is not confirmed has strength 0, and a role that is has a mark of its own.
    """

    name: str
    count: Callable[[LayerView], Counts | None]
    decide: Callable[[Any, int], list[Verdict]]
    precedence: int = 99
    by_view: bool = True
    meaning: str = ""
    against_untrained: bool = True
