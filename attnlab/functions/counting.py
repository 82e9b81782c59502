"""All functions of a layer counted at once, and judged at the end."""

from dataclasses import dataclass

import pandas as pd
from jaxtyping import Bool
from torch import Tensor

from attnlab.extraction.views import ALL, View
from attnlab.extraction.weights import LayerWeights
from attnlab.functions.broad import BroadCounts, count_broad, judge_broad
from attnlab.functions.counts import Counts, Scope, largest
from attnlab.functions.links import LinkCounts, PossibleLinks, count_links
from attnlab.functions.monotone import MonotoneCounts, count_monotone, judge_monotone
from attnlab.functions.positional import (
    PositionalCounts,
    count_positional,
    judge_positional,
)
from attnlab.functions.rare import RareCounts, RarePlaces, count_rare, judge_rare
from attnlab.functions.sink import SinkCounts, count_sink, judge_sink
from attnlab.functions.syntactic import judge_links, relation_table
from attnlab.functions.verdict import verdict_table
from attnlab.functions.word_attention import BatchUnits, merge_tokens


@dataclass(frozen=True)
class ViewFacts:
    """What must be known of a batch at one site in one view, the same for all its layers.

    Attributes:
        scope: which rows and columns count.
        rare: where the rarest tokens stand.
        sink_kinds: names of the kinds of sinks.
        sinks: which keys they are.
    """

    scope: Scope
    rare: RarePlaces
    sink_kinds: tuple[str, ...]
    sinks: Bool[Tensor, "batch key kind"]


@dataclass(frozen=True)
class Facts:
    """What must be known of a batch at one site, the same for all its layers.

    Attributes:
        every: in the view of all keys.
        content: with special tokens left out as keys.
        words: gold arcs (self-attention) or alignments (cross-attention), if there are any.
    """

    every: ViewFacts
    content: ViewFacts
    words: "GoldWords | None" = None


@dataclass(frozen=True)
class GoldWords:
    """Word units of the queries and the keys of a batch, and which of them belong together."""

    queries: BatchUnits
    keys: BatchUnits
    links: PossibleLinks


@dataclass(frozen=True)
class ViewCounts(Counts):
    """Everything that labels rest on and that changes with the keys that are looked at.

    Attributes:
        positional: of self-attention; None for cross-attention.
        rare: rarest tokens.
        sink: mass on kinds of tokens.
        broad: entropies.
    """

    positional: PositionalCounts | None
    rare: RareCounts
    sink: SinkCounts
    broad: BroadCounts


@dataclass(frozen=True)
class FunctionCounts(Counts):
    """Everything that labels of a layer's heads rest on.

    Attributes:
        every: in the view of all keys.
        content: with special tokens left out as keys.
        monotone: of cross-attention, the same in both views; None for self-attention.
        links: gold links, the same in both views; None where there are none.
    """

    every: ViewCounts
    content: ViewCounts
    monotone: MonotoneCounts | None
    links: LinkCounts | None


def count_functions(layer: LayerWeights, facts: Facts) -> FunctionCounts:
    """Counts of one layer and batch in both views."""
    weights = layer.wide
    cross = layer.site == "cross"
    links = None
    if facts.words is not None:
        attention = merge_tokens(weights, facts.words.queries, facts.words.keys)
        links = count_links(attention, facts.words.links)
    every, content, mass = facts.every, facts.content, layer.content_mass
    best = largest(weights), largest(weights, layer.keys.content)
    return FunctionCounts(
        ViewCounts(
            None if cross else count_positional(best[0], every.scope),
            count_rare(best[0], every.rare),
            count_sink(weights, every.scope, every.sink_kinds, every.sinks),
            count_broad(layer.entropies, every.scope),
        ),
        ViewCounts(
            None if cross else count_positional(best[1], content.scope),
            count_rare(best[1], content.rare),
            count_sink(weights, content.scope, content.sink_kinds, content.sinks, mass),
            count_broad(layer.content_entropies, content.scope, mass > 0),
        ),
        count_monotone(weights, every.scope) if cross else None,
        links,
    )


def judge_functions(
    counts: FunctionCounts, keys: View = ALL, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Verdicts of a layer's heads in one view, and the table of relations if there were gold links.

    Args:
        counts: of all sentences.
        keys: the view.
        seed: of the bootstrap draws behind `stability`.
    """
    view = counts.every if keys == ALL else counts.content
    verdicts = [
        *judge_rare(view.rare, seed=seed),
        *judge_sink(view.sink, seed=seed),
        *judge_broad(view.broad, seed=seed),
    ]
    if view.positional is not None:
        verdicts += judge_positional(view.positional, seed=seed)
    if counts.monotone is not None:
        verdicts += judge_monotone(counts.monotone, seed=seed)
    if counts.links is None:
        return verdict_table(verdicts), None
    relations = relation_table(counts.links, seed=seed)
    label = "syntactic" if counts.monotone is None else "alignment"
    return verdict_table([*verdicts, *judge_links(relations, label)]), relations
