"""Rare-token heads (encoder): most rows have their largest weight on a sentence's two rarest tokens.

Counted on sentences whose rarest token is outside the corpus's 500 most frequent types. A head that
looks at uncommon words in general would often hit the rarest by chance, so the share is compared
with that of a head that picks at random among the sentence's tokens outside those 500 types, on the
rows where that is a difference. Source: Voita et al. 2019 (arXiv 1905.09418), section 4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.labels.counts import (
    REPORTED,
    Counts,
    Largest,
    RatioCounts,
    Scope,
    count_ratio,
    sum_by_group,
)
from attnlab.labels.label import BatchFacts, HeadLabel, LayerView
from attnlab.labels.label_columns import BY_CHANCE, RARE
from attnlab.labels.verdict import Verdict, share_condition, verdicts_of
from attnlab.models import BothTokenizers
from attnlab.reading import TokenizedText, Tokens

FREQUENT_TYPES = 500
# What is looked for: by the frequencies of the training corpus, or of the analysed text.
IN_THE_CORPUS, IN_THE_TEXT = "two rarest", "two rarest of the text"


@dataclass(frozen=True)
class RareCounts(Counts):
    """How often each head's arg-max is the rarest, or one of the two rarest, tokens of a sentence.

    Attributes:
        rarest: rows whose largest weight is on the rarest type, out of those that `two_rarest` counts.
        two_rarest: rows whose largest weight is on one of the two rarest types, over rows that may
            attend to both, in sentences that qualify.
        contested_two_rarest: the same over rows that may also attend to some other uncommon token.
        contested_expected: how many that would be when picking at random among uncommon tokens.
    """

    rarest: Int[Tensor, "group head"]
    two_rarest: RatioCounts
    contested_two_rarest: RatioCounts
    contested_expected: Float[Tensor, " group"]


def frequency_ranks(counts: Int[Tensor, " type"]) -> Int[Tensor, " type"]:
    """The rank of every type, 0 for the most frequent; among equals the smaller number comes first.

    >>> import torch
    >>> frequency_ranks(torch.tensor([2, 9, 0, 2])).tolist()
    [1, 0, 3, 2]
    """
    return counts.argsort(descending=True, stable=True).argsort()


def counted_types(
    tokenizers: BothTokenizers, texts: Sequence[TokenizedText]
) -> list[Int[Tensor, "_"]]:
    """How often each type stands in the sentences themselves, source and target."""
    sources = [text.source for text in texts]
    targets = [text.target for text in texts if text.target is not None]
    counts = [_type_counts(sources, len(tokenizers.source))]
    return [*counts, _type_counts(targets, len(tokenizers.target))] if targets else counts


def _type_counts(texts: Sequence[Tokens], types: int) -> Int[Tensor, " type"]:
    every = torch.tensor([token for text in texts for token in text.ids])
    return torch.bincount(every, minlength=types)


@dataclass(frozen=True)
class RareTokens:
    """Where the rarest tokens of a batch stand and which rows count, the same in all layers.

    Attributes:
        rarity: for each key 2 if it is of the rarest type, 1 if of the second rarest, else 0.
        rows: rows that count.
        contested: of those, rows that may also look at some other uncommon token.
        expected: what a row picking at random among uncommon tokens would hit on average.
        groups: of each sentence.
    """

    rarity: Int[Tensor, "batch key"]
    rows: Bool[Tensor, "batch query"]
    contested: Bool[Tensor, "batch query"]
    expected: Float[Tensor, "batch query"]
    groups: Int[Tensor, " batch"]


def rare_tokens(scope: Scope, ranks: Int[Tensor, "batch key"]) -> RareTokens:
    """Where the rarest tokens stand; special tokens are never among them.

    Args:
        scope: what is counted.
        ranks: each key's frequency rank in the corpus, 0 for the most frequent type.
    """
    rank = ranks.masked_fill(~scope.keys, -1)
    first = rank.amax(1, keepdim=True)
    second = rank.masked_fill(rank == first, -1).amax(1, keepdim=True)
    rarest = scope.keys & (rank == first)
    two_rarest = rarest | (scope.keys & (rank == second))
    rows = scope.rows & (first >= FREQUENT_TYPES)
    rows = rows & (scope.seen | ~two_rarest[:, None]).all(-1)
    uncommon = ((rank >= FREQUENT_TYPES)[:, None] & scope.seen).sum(-1)
    size = two_rarest.sum(1, keepdim=True).expand_as(uncommon)
    contested = rows & (uncommon > size)
    expected = (size / uncommon.clamp_min(1)).double() * contested
    return RareTokens(two_rarest.long() + rarest.long(), rows, contested, expected, scope.groups)


def count_rare(best: Largest, tokens: RareTokens) -> RareCounts:
    """Counts of a batch; `best` is the key with the largest weight of every row."""
    rarity = tokens.rarity.gather(1, best.key.flatten(1)).view_as(best.key) * best.found

    def share(counted: Bool[Tensor, "batch query"]) -> RatioCounts:
        hits = ((rarity > 0) & counted[:, None]).sum(-1)
        return count_ratio(hits.double(), counted.sum(1), tokens.groups)

    return RareCounts(
        rarest=sum_by_group(((rarity == 2) & tokens.rows[:, None]).sum(-1), tokens.groups),
        two_rarest=share(tokens.rows),
        contested_two_rarest=share(tokens.contested),
        contested_expected=sum_by_group(tokens.expected.sum(1), tokens.groups),
    )


def decide_rare(counts: RareCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head: of all rows a share of `RARE.threshold`, of contested ones more than chance.

    The first figure is of all rows, the second of the contested ones, with what a head would hit
    there that picks at random among uncommon tokens as its threshold. That chance, of the contested
    rows, is the control of both figures: on the others a random choice never misses. The rule counts
    sentences with contested rows.
    """
    of_half = counts.by_half()
    heads = counts.rarest.shape[1]
    often = share_condition("argmax_rate", counts.two_rarest, RARE.threshold, seed=seed)
    more_than_chance = share_condition(
        "argmax_rate_contested",
        counts.contested_two_rarest,
        counts.contested_expected[:, None].expand(-1, heads),
        seed=seed,
    )
    chance = float(more_than_chance.threshold[0])
    return verdicts_of(
        "rare tokens",
        RARE,
        [IN_THE_CORPUS] * heads,
        [often, more_than_chance],
        denominator=of_half.two_rarest.denominator[REPORTED].long(),
        counted=of_half.contested_two_rarest.sentences[REPORTED],
        control=chance,
        control_kind=BY_CHANCE,
        second_control=chance,
    )


def _rare_tokens(facts: BatchFacts) -> RareTokens:
    return rare_tokens(facts.scope, facts.ranks)


def _count(view: LayerView) -> RareCounts | None:
    # The published label is of encoders: most rows of a decoder do not see their sentence's rarest token.
    # Not undecided in a small vocabulary: no sentence can hold a token that is rare.
    types = view.facts.types
    if view.layer.site != "encoder" or (types is not None and types <= FREQUENT_TYPES):
        return None
    return count_rare(view.best, view.facts.once(_rare_tokens))


RARE_LABEL = HeadLabel(
    name="rare tokens",
    meaning="largest weights on the two rarest tokens of a sentence",
    count=_count,
    decide=decide_rare,
    precedence=2,
)
