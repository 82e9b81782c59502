"""Syntactic heads: the arg-max follows a relation 10 points more often than its most frequent offset.

The offset is fitted on the choosing half and scored on the other, and a relation (or a head) that
was picked out of many is reported on the half on which it was not picked. Cross-attention that
follows gold word alignments is decided by the same rule.
Source: Voita et al. 2019 (arXiv 1905.09418), section 4.2; Clark et al. 2019 (1906.04341), section 4.2.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.labels.counts import CHOOSING, REPORTED, resampled, sum_of_halves
from attnlab.labels.label import (
    ALL_RELATIONS,
    MAX_LINK_OFFSET,
    HeadLabel,
    LayerView,
    LinkCounts,
    LinkKind,
    Links,
    count_links,
    make_links,
)
from attnlab.labels.label_columns import (
    AER,
    BEST_OFFSET,
    BY_CHANCE,
    CONFIDENCE_LEVEL,
    LINKS,
)
from attnlab.labels.verdict import Verdict, decided, status_of
from attnlab.labels.word_tokens import Alignment

ALIGNMENT_KINDS = (LinkKind("alignment", "target>source"),)
COREFERENCE_KINDS = (LinkKind("coreference", "mention>antecedent"),)


def word_links(
    pairs: Sequence[Sequence[tuple[int, int]]],
    targets: Sequence[Alignment | None],
    sources: Sequence[Alignment | None],
    kinds: tuple[LinkKind] = ALIGNMENT_KINDS,
) -> Links:
    """Gold pairs of words of a batch as links between units, such as alignments, target to source.

    Args:
        pairs: for each sentence pairs (target word, source word), counted from 0.
        targets: the target sentences' alignments with their tokens.
        sources: the source sentences' alignments with theirs.
        kinds: the one kind that the pairs are of.
    """
    rows = [
        (index, target.unit_of_word[target_word], source.unit_of_word[source_word], 0)
        for index, (sentence, target, source) in enumerate(
            zip(pairs, targets, sources, strict=True)
        )
        if target is not None and source is not None
        for target_word, source_word in sentence
    ]
    return make_links(kinds, rows)


def relation_table(counts: LinkCounts, seed: int = 0) -> pd.DataFrame:
    """One row per head and kind of link: accuracy, its interval, and what it must reach, by half.

    Columns as in `attnlab.labels.label_columns.RELATIONS`; those of the choosing half as `choosing_...`
    (its baseline is fitted and scored there, so a little too high). The threshold is the larger of
    offset baseline and chance, and `LINKS.threshold` more. Chance is what a head gets that picks at
    random among the words it may look at: high in a causal decoder, where early words see few others.

    `status` says how both accuracies lie to their thresholds, see `Verdict`; `counted` is the smaller
    number of links of the two halves; `stability` the share of bootstrap draws of sentences in which
    both accuracies reach their thresholds, which are drawn along; the offset stays.
    """
    of_half = counts.by_half()
    best = of_half.offsets[CHOOSING].argmax(-1)
    at_best = counts.offsets.gather(2, best.expand(len(counts.links), -1)[..., None])[..., 0]
    links = of_half.links
    wide = links.double()
    baseline, chance = sum_of_halves(at_best) / wide, of_half.chance / wide
    threshold = torch.maximum(baseline, chance) + LINKS.threshold
    accuracy = of_half.followed.numerator / wide[..., None]
    low, high = (
        end.masked_fill((links == 0)[..., None], math.nan)
        for end in of_half.followed.share_interval()
    )
    kinds, heads = accuracy.shape[1:]
    number = torch.arange(kinds).repeat_interleave(heads).tolist()

    def by_kind(values: Tensor) -> list[float | int]:
        return values.cpu()[number].tolist()

    def by_head(values: Tensor) -> list[float]:
        return values.cpu().flatten().tolist()

    columns: dict[str, Sequence[object]] = {
        "head": list(range(heads)) * kinds,
        "relation": [counts.kinds[index].relation for index in number],
        "direction": [counts.kinds[index].direction for index in number],
    }
    for half, prefix in ((REPORTED, ""), (CHOOSING, "choosing_")):
        columns |= {
            f"{prefix}links": by_kind(links[half]),
            f"{prefix}accuracy": by_head(accuracy[half]),
            f"{prefix}accuracy_low": by_head(low[half]),
            f"{prefix}accuracy_high": by_head(high[half]),
            f"{prefix}baseline": by_kind(baseline[half]),
            f"{prefix}chance": by_kind(chance[half]),
            f"{prefix}threshold": by_kind(threshold[half]),
        }
    if counts.kinds == ALIGNMENT_KINDS:
        rates = alignment_error_rates(counts, seed)
        columns |= dict(zip((AER.name, AER.low, AER.high), map(by_head, rates), strict=True))
    columns |= {
        "baseline_offset": by_kind(best - MAX_LINK_OFFSET),
        "counted": by_kind(links.amin(0)),
        "needed": [LINKS.needed] * len(number),
        "stability": by_head(_stability(counts, at_best, seed)),
    }
    table = pd.DataFrame(columns)
    status = [_status(row) for row in table.itertuples(index=False)]
    few = table["counted"] < table["needed"]
    return table.assign(status=status, stability=table["stability"].mask(few))


def alignment_error_rates(
    counts: LinkCounts, seed: int
) -> tuple[Float[Tensor, "kind head"], Float[Tensor, "kind head"], Float[Tensor, "kind head"]]:
    """AER of the links of each head in the reported half, and the ends of its 95 % bootstrap interval.

    Each target word gives one link, and all gold links are sure: 1 - 2 |A n S| / (|A| + |S|). The bootstrap
    draws groups of sentences. Source: Och and Ney 2003, Computational Linguistics 29 (1).
    """

    def rate(hits: Tensor, given: Tensor, gold: Tensor) -> Tensor:
        return 1 - 2 * hits / (given[..., None, None] + gold[..., None])

    followed, given, gold = counts.followed.numerator, counts.queries, counts.links
    observed = rate(*(sum_of_halves(sums)[REPORTED] for sums in (followed, given, gold)))
    drawn = rate(*(resampled(sums, seed)[:, REPORTED] for sums in (followed, given, gold)))
    tail = (1 - CONFIDENCE_LEVEL) / 2
    return observed, drawn.nanquantile(tail, 0), drawn.nanquantile(1 - tail, 0)


def _stability(
    counts: LinkCounts, at_best: Int[Tensor, "group kind"], seed: int
) -> Float[Tensor, "kind head"]:
    """How often the links that a head hits exceed those that offset and chance hit, as asked for."""
    links, offset, chance = (
        resampled(values, seed) for values in (counts.links, at_best, counts.chance)
    )
    required = torch.maximum(offset, chance) + LINKS.threshold * links
    reached = (resampled(counts.followed.numerator, seed) >= required[..., None]) & (links > 0)[
        ..., None
    ]
    return reached.all(1).double().mean(0)


def _status(row: Any) -> str:
    both = (
        status_of(row.accuracy_low, row.accuracy_high, row.threshold),
        status_of(row.choosing_accuracy_low, row.choosing_accuracy_high, row.choosing_threshold),
    )
    return decided(both, enough=row.counted >= row.needed)


def decide_links(table: pd.DataFrame, label: str) -> list[Verdict]:
    """One verdict per head: on the kind of link with the largest margin in the choosing half.

    The margin is over the offset baseline or chance, whichever is higher. The second figure of the
    verdict is that of the choosing half. `all` relations together give no label.

    Args:
        table: of one layer, from `relation_table`.
        label: `"syntactic"`, `"alignment"` or `"coreference"`.
    """
    return [
        _decide_head(int(str(head)), rows, label)
        for head, rows in table[table.relation != ALL_RELATIONS].groupby("head")
    ]


def _decide_head(head: int, rows: pd.DataFrame, label: str) -> Verdict:
    enough = rows[rows.counted >= rows.needed]
    candidates = enough if len(enough) else rows
    gain = (candidates.choosing_accuracy - candidates.choosing_threshold).fillna(-math.inf)
    best = candidates.iloc[int(gain.to_numpy().argmax())]
    return Verdict(
        label=label,
        head=head,
        detail=f"{best.relation} {best.direction}",
        statistic="argmax_accuracy",
        value=float(best.accuracy),
        value_low=float(best.accuracy_low),
        value_high=float(best.accuracy_high),
        threshold=float(best.threshold),
        control=max(float(best.baseline), float(best.chance)),
        control_kind=BEST_OFFSET if best.baseline >= best.chance else BY_CHANCE,
        denominator=int(best.links),
        second_statistic="argmax_accuracy_choosing",
        second_value=float(best.choosing_accuracy),
        second_value_low=float(best.choosing_accuracy_low),
        second_value_high=float(best.choosing_accuracy_high),
        second_threshold=float(best.choosing_threshold),
        second_control=max(float(best.choosing_baseline), float(best.choosing_chance)),
        unit=LINKS.unit,
        counted=int(best.counted),
        needed=int(best.needed),
        status=str(best.status),
        stability=float(best.stability),
    )


def best_heads(table: pd.DataFrame) -> pd.DataFrame:
    """The head with the highest accuracy in the choosing half for each kind of link, one row each.

    `accuracy`, its interval and `baseline` are of the other half; `choosing_accuracy`, the best of
    many, stands beside them to show the difference.
    """
    counted = table[(table.links > 0) & (table.choosing_links > 0)]
    rows = counted.groupby(["relation", "direction"]).choosing_accuracy.idxmax()
    return table.loc[rows].sort_values("links", ascending=False, kind="stable")


def _count(view: LayerView) -> LinkCounts | None:
    words, weights = view.facts.words, view.word_weights
    return None if words is None or weights is None else count_links(weights, words.links)


def _count_coreference(view: LayerView) -> LinkCounts | None:
    words, weights = view.facts.words, view.word_weights
    if words is None or words.coreference is None or weights is None:
        return None
    return count_links(weights, words.coreference)


SYNTACTIC_LABEL = HeadLabel(
    name="syntactic",
    meaning="largest weights from words to their heads or dependents in a relation; obj: verb and object",
    count=lambda view: None if view.cross else _count(view),
    decide=lambda counts, seed: decide_links(relation_table(counts, seed), "syntactic"),
    precedence=1,
    by_view=False,
)
ALIGNMENT_LABEL = HeadLabel(
    name="alignment",
    meaning="largest weights on the words that a target word translates",
    count=lambda view: _count(view) if view.cross else None,
    decide=lambda counts, seed: decide_links(relation_table(counts, seed), "alignment"),
    precedence=6,
    by_view=False,
)
# Clark et al. 2019, section 4.3.
COREFERENCE_LABEL = HeadLabel(
    name="coreference",
    meaning="largest weights from a mention to the one before of the same entity",
    count=_count_coreference,
    decide=lambda counts, seed: decide_links(relation_table(counts, seed), "coreference"),
    precedence=7,
    by_view=False,
)
