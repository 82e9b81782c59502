"""All functions of a layer counted at once, and judged at the end."""

from dataclasses import dataclass

import pandas as pd
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.heads.functions.broad import BroadCounts, count_broad, judge_broad
from attnlab.heads.functions.counts import Counts, Scope, largest
from attnlab.heads.functions.links import LinkCounts, PossibleLinks, count_links
from attnlab.heads.functions.monotone import MonotoneCounts, count_monotone, judge_monotone
from attnlab.heads.functions.positional import (
    PositionalCounts,
    count_positional,
    judge_positional,
)
from attnlab.heads.functions.rare import RareCounts, RarePlaces, count_rare, judge_rare
from attnlab.heads.functions.sink import SinkCounts, count_sink, judge_sink
from attnlab.heads.functions.syntactic import judge_links, relation_table
from attnlab.heads.functions.verdict import verdict_table
from attnlab.heads.word_attention import BatchUnits, merge_tokens


@dataclass(frozen=True)
class Facts:
    """What must be known of a batch at one site, the same for all its layers.

    Attributes:
        scope: which rows and columns count.
        rare: where the rarest tokens stand.
        sink_kinds: names of the kinds of sinks.
        sinks: where they stand.
        words: gold arcs (self-attention) or alignments (cross-attention), if there are any.
    """

    scope: Scope
    rare: RarePlaces
    sink_kinds: tuple[str, ...]
    sinks: Bool[Tensor, "batch key kind"]
    words: "GoldWords | None" = None


@dataclass(frozen=True)
class GoldWords:
    """Word units of the queries and the keys of a batch, and which of them belong together."""

    queries: BatchUnits
    keys: BatchUnits
    links: PossibleLinks


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
    site: str,
    weights: Float[Tensor, "batch head query key"],
    entropies: Float[Tensor, "batch head query"],
    facts: Facts,
) -> SelfCounts | CrossCounts:
    """Counts of one batch in one layer of `site` (`encoder`, `decoder` or `cross`).

    Args:
        site: where the layer stands.
        weights: of all heads.
        entropies: of their rows, in nats.
        facts: what is known of the batch.
    """
    best = largest(weights)
    links = None
    if facts.words is not None:
        attention = merge_tokens(weights, facts.words.queries, facts.words.keys)
        links = count_links(attention, facts.words.links)
    rare = count_rare(best, facts.rare)
    sink = count_sink(weights, facts.scope, facts.sink_kinds, facts.sinks)
    broad = count_broad(entropies, facts.scope)
    if site == "cross":
        return CrossCounts(count_monotone(weights, facts.scope), rare, sink, broad, links)
    return SelfCounts(count_positional(best, facts.scope), rare, sink, broad, links)


def judge_functions(
    counts: SelfCounts | CrossCounts, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Verdicts of a layer's heads, and the table of relations if there were gold links.

    Args:
        counts: of all sentences.
        seed: of the bootstrap draws behind `stability`.
    """
    verdicts = [
        *judge_rare(counts.rare, seed=seed),
        *judge_sink(counts.sink, seed=seed),
        *judge_broad(counts.broad, seed=seed),
    ]
    if isinstance(counts, CrossCounts):
        verdicts += judge_monotone(counts.monotone, seed=seed)
    else:
        verdicts += judge_positional(counts.positional, seed=seed)
    if counts.links is None:
        return verdict_table(verdicts), None
    relations = relation_table(counts.links, seed=seed)
    label = "alignment" if isinstance(counts, CrossCounts) else "syntactic"
    return verdict_table([*verdicts, *judge_links(relations, label)]), relations
