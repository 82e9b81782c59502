"""Syntactic heads: the arg-max follows a relation 10 points more often than its most frequent offset.

The offset is fitted on the choosing half and scored on the other, and a relation (or a head) that
was picked out of many is reported on the half on which it was not picked. Cross-attention that
follows gold word alignments is judged by the same rule.
Source: Voita et al. 2019 (arXiv 1905.09418), section 4.2; Clark et al. 2019 (1906.04341), section 4.2.
"""

from collections.abc import Sequence

import pandas as pd
import torch

from attnlab.heads.functions.counts import CHOOSING, REPORTED
from attnlab.heads.functions.intervals import wilson_interval
from attnlab.heads.functions.links import (
    ALL_RELATIONS,
    MAX_OFFSET,
    LinkCounts,
    LinkKind,
    Links,
    make_links,
)
from attnlab.heads.functions.verdict import Verdict
from attnlab.heads.words import Alignment

MARGIN = 0.10
LEAST_LINKS = 100
# Shares that differ by the margin exactly must not fail by the last digit.
ROUNDING = 1e-12
ALIGNMENT_KINDS = (LinkKind("alignment", "target>source"),)


def alignment_links(
    pairs: Sequence[Sequence[tuple[int, int]]],
    targets: Sequence[Alignment | None],
    sources: Sequence[Alignment | None],
) -> Links:
    """Gold word alignments of a batch as links between units, target to source.

    Args:
        pairs: for each sentence pairs (target word, source word), counted from 0.
        targets: the target sentences' alignments with their tokens.
        sources: the source sentences' alignments with theirs.
    """
    rows = [
        (index, target.unit_of_word[one], source.unit_of_word[other], 0)
        for index, (sentence, target, source) in enumerate(
            zip(pairs, targets, sources, strict=True)
        )
        if target is not None and source is not None
        for one, other in sentence
    ]
    return make_links(ALIGNMENT_KINDS, rows)


def relation_table(
    counts: LinkCounts, margin: float = MARGIN, least_links: int = LEAST_LINKS
) -> pd.DataFrame:
    """One row a head and kind of link: accuracy, its interval, and the offset baseline.

    Columns: `head, relation, direction, baseline_offset` (most frequent in the choosing half);
    `links, accuracy, low, high, baseline, chance` of the reported half; `choosing_links,
    choosing_accuracy, choosing_baseline` (fitted and scored on the same half, so a little too
    high), `choosing_chance`; `follows`, whether accuracy exceeds both the offset baseline and
    chance by `margin` in both halves with `least_links` links in each. Chance is what a head gets
    that picks at random among the words it may look at: high in a causal decoder, where early words
    see few others.
    """
    best = counts.offsets[CHOOSING].argmax(-1)
    at_best = counts.offsets.gather(2, best.expand(2, -1)[..., None])[..., 0]
    links = counts.links
    wide = links.double()
    baseline, chance = at_best / wide, counts.chance / wide
    accuracy = counts.hits / wide[..., None]
    low, high = wilson_interval(
        counts.hits[REPORTED], links[REPORTED, :, None].expand_as(counts.hits[REPORTED])
    )
    enough = (links >= least_links).all(0)
    control = torch.maximum(baseline, chance)
    follows = (accuracy >= control[..., None] + margin - ROUNDING).all(0) & enough[:, None]
    kinds, heads = follows.shape
    number = torch.arange(kinds).repeat_interleave(heads).tolist()

    def by_kind(values: torch.Tensor) -> list[float | int]:
        return values.cpu()[number].tolist()

    def by_head(values: torch.Tensor) -> list[float | bool]:
        return values.cpu().flatten().tolist()

    return pd.DataFrame(
        {
            "head": list(range(heads)) * kinds,
            "relation": [counts.kinds[index].relation for index in number],
            "direction": [counts.kinds[index].direction for index in number],
            "links": by_kind(links[REPORTED]),
            "accuracy": by_head(accuracy[REPORTED]),
            "low": by_head(low),
            "high": by_head(high),
            "baseline": by_kind(baseline[REPORTED]),
            "chance": by_kind(chance[REPORTED]),
            "baseline_offset": by_kind(best - MAX_OFFSET),
            "choosing_links": by_kind(links[CHOOSING]),
            "choosing_accuracy": by_head(accuracy[CHOOSING]),
            "choosing_baseline": by_kind(baseline[CHOOSING]),
            "choosing_chance": by_kind(chance[CHOOSING]),
            "follows": by_head(follows),
        }
    )


def judge_links(
    table: pd.DataFrame, label: str, margin: float = MARGIN, least_links: int = LEAST_LINKS
) -> list[Verdict]:
    """One verdict a head: on the kind of link with the largest margin in the choosing half.

    The margin is over the offset baseline or chance, whichever is higher.

    `all` relations together are shown in the table but give no label.

    Args:
        table: of one layer, from `relation_table` with the same `margin` and `least_links`.
        label: `"syntactic"` or `"alignment"`.
        margin: how far accuracy must exceed the baseline.
        least_links: how many links each half must have.
    """
    return [
        _judge_head(int(str(head)), rows, label, margin, least_links)
        for head, rows in table[table.relation != ALL_RELATIONS].groupby("head")
    ]


def _judge_head(
    head: int, rows: pd.DataFrame, label: str, margin: float, least_links: int
) -> Verdict:
    enough = rows[(rows.links >= least_links) & (rows.choosing_links >= least_links)]
    candidates = enough if len(enough) else rows
    control = candidates[["choosing_baseline", "choosing_chance"]].max(axis="columns")
    gain = (candidates.choosing_accuracy - control).fillna(-1.0)
    best = candidates.iloc[int(gain.to_numpy().argmax())]
    standard = max(float(best.baseline), float(best.chance))
    reason = (
        "" if best.follows else f"not {margin:g} above offset baseline and chance in both halves"
    )
    reason = reason if len(enough) else f"fewer than {least_links} links"
    return Verdict(
        label=label,
        head=head,
        detail=f"{best.relation} {best.direction}",
        statistic="argmax_accuracy",
        value=float(best.accuracy),
        low=float(best.low),
        high=float(best.high),
        threshold=standard + margin,
        control=standard,
        denominator=int(best.links),
        holds=not reason,
        reason=reason,
    )


def best_heads(table: pd.DataFrame) -> pd.DataFrame:
    """For each kind of link the head with the highest accuracy in the choosing half, one row each.

    `accuracy`, its interval and `baseline` are of the other half; `choosing_accuracy`, the best of
    many, stands beside them to show the difference.
    """
    counted = table[(table.links > 0) & (table.choosing_links > 0)]
    rows = counted.groupby(["relation", "direction"]).choosing_accuracy.idxmax()
    return table.loc[rows].sort_values("links", ascending=False, kind="stable")
