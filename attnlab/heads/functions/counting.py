"""All functions of a layer counted at once, and judged at the end."""

from dataclasses import dataclass

import pandas as pd
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.heads.functions.broad import BroadCounts, count_broad, judge_broad
from attnlab.heads.functions.counts import Counts, Scope
from attnlab.heads.functions.links import LinkCounts, Links, count_links
from attnlab.heads.functions.monotone import MonotoneCounts, count_monotone, judge_monotone
from attnlab.heads.functions.positional import (
    PositionalCounts,
    count_positional,
    judge_positional,
)
from attnlab.heads.functions.rare import RareCounts, count_rare, judge_rare
from attnlab.heads.functions.sink import SinkCounts, count_sink, judge_sink
from attnlab.heads.functions.syntactic import judge_links, relation_table
from attnlab.heads.functions.verdict import verdict_table
from attnlab.heads.word_attention import BatchUnits, merge_tokens


@dataclass(frozen=True)
class Facts:
    """What must be known of a batch at one site, the same for all its layers.

    Attributes:
        scope: which rows and columns count.
        ranks: frequency rank of each key's type.
        sink_kinds: names of the kinds of sinks.
        sinks: where they stand.
        causal: a query sees no key behind itself (decoder self-attention).
        queries: word units of the queries; None when there are no gold links.
        keys: word units of the keys.
        links: gold arcs (self-attention) or gold alignments (cross-attention) between word units.
    """

    scope: Scope
    ranks: Int[Tensor, "batch key"]
    sink_kinds: tuple[str, ...]
    sinks: Bool[Tensor, "batch key kind"]
    causal: bool = False
    queries: BatchUnits | None = None
    keys: BatchUnits | None = None
    links: Links | None = None


@dataclass(frozen=True)
class SelfCounts(Counts):
    """Everything that labels of self-attention heads rest on."""

    positional: PositionalCounts
    rare: RareCounts
    sink: SinkCounts
    broad: BroadCounts
    links: LinkCounts | None


@dataclass(frozen=True)
class CrossCounts(Counts):
    """Everything that labels of cross-attention heads rest on."""

    monotone: MonotoneCounts
    rare: RareCounts
    sink: SinkCounts
    broad: BroadCounts
    links: LinkCounts | None


def count_functions(
    site: str, weights: Float[Tensor, "batch head query key"], facts: Facts
) -> SelfCounts | CrossCounts:
    """Counts of one batch in one layer of `site` (`encoder`, `decoder` or `cross`)."""
    links = _count_links(site, weights, facts)
    rare = count_rare(weights, facts.scope, facts.ranks)
    sink = count_sink(weights, facts.scope, facts.sink_kinds, facts.sinks)
    broad = count_broad(weights, facts.scope)
    if site == "cross":
        return CrossCounts(count_monotone(weights, facts.scope), rare, sink, broad, links)
    return SelfCounts(count_positional(weights, facts.scope), rare, sink, broad, links)


def _count_links(
    site: str, weights: Float[Tensor, "batch head query key"], facts: Facts
) -> LinkCounts | None:
    if facts.links is None or facts.queries is None or facts.keys is None:
        return None
    rows, columns = facts.queries.words.shape[1], facts.keys.words.shape[1]
    attention = merge_tokens(weights, facts.queries, facts.keys)[..., :rows, :columns]
    return count_links(
        attention,
        facts.keys.words,
        facts.links,
        facts.scope.halves,
        self_attention=site != "cross",
        causal=facts.causal,
    )


def judge_functions(counts: SelfCounts | CrossCounts) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Verdicts of a layer's heads, and the table of relations if there were gold links."""
    verdicts = [
        *judge_rare(counts.rare),
        *judge_sink(counts.sink),
        *judge_broad(counts.broad),
    ]
    if isinstance(counts, CrossCounts):
        verdicts += judge_monotone(counts.monotone)
    else:
        verdicts += judge_positional(counts.positional)
    if counts.links is None:
        return verdict_table(verdicts), None
    relations = relation_table(counts.links)
    label = "alignment" if isinstance(counts, CrossCounts) else "syntactic"
    return verdict_table([*verdicts, *judge_links(relations, label)]), relations
