"""Sink heads: much of a row's weight lies on one special token, on the first token, or on punctuation.

Mass, not arg-max. In a model without a start token the first word is the sink to expect, in
cross-attention the end-of-sentence token. Equal weights have mass there too, on the first key of n causal
rows H_n / n = (1 + 1/2 + ... + 1/n) / n: that is the control. Source: Gu et al. 2024 (arXiv 2410.10781),
threshold 0.3; Clark et al. 2019 (1906.04341) draw heads from 0.5 on, so counts at several thresholds are
given, `sink_curve`.
"""

from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.labels.counts import (
    CHOOSING,
    REPORTED,
    Counts,
    RatioCounts,
    Scope,
    count_ratio,
    sum_by_group,
    sum_of_halves,
)
from attnlab.labels.label import HeadLabel, LayerView
from attnlab.labels.label_columns import EQUAL_ROWS, LINKS, SINK, SINK_THRESHOLDS
from attnlab.labels.verdict import Verdict, ratio_condition, verdicts_of
from attnlab.reading import ALL, CONTENT, View

FIRST = "first"
# As much as a head must follow a relation more often than chance.
ABOVE_EVEN = LINKS.threshold
# What tables call the kinds of keys.
_WORDS = {
    "opening": "first token",
    FIRST: "first token",
    "closing": "end token",
    "punctuation": "punctuation",
}
# The kinds of keys by view; among content there are no special tokens, also where one comes first.
SINK_KINDS: dict[View, tuple[str, ...]] = {
    # Of equals the first is named: where an opening token comes first, it is that.
    ALL: ("opening", "closing", "punctuation", FIRST),
    CONTENT: ("punctuation", FIRST),
}


@dataclass(frozen=True)
class SinkCounts(Counts):
    """Mass of each head on each kind of key, over the rows of ordinary tokens.

    Attributes:
        kinds: names of the kinds, such as `closing` ([SEP], EOS) and `punctuation`.
        mass: summed weight, or share of weight, on the kind over rows, by sentence.
        even: what that would be if all keys of a row had equal weights.
    """

    kinds: tuple[str, ...]
    mass: RatioCounts
    even: Float[Tensor, "group head kind"]


def count_sink(
    weights: Float[Tensor, "batch head query key"],
    scope: Scope,
    kinds: tuple[str, ...],
    marked: Bool[Tensor, "batch key kind"],
    mass: Float[Tensor, "batch head query"] | None = None,
) -> SinkCounts:
    """Counts of a batch.

    Args:
        weights: of all heads.
        scope: what is counted.
        kinds: names of the kinds.
        marked: which keys are of which kind.
        mass: what is divided by, row by row, for shares of it; rows where it is 0 are left out.
            None: the weights are the shares.
    """
    of_kinds = scope.seen.double() @ marked.double()
    even = of_kinds / scope.seen.sum(-1, keepdim=True).clamp_min(1)
    if mass is None:
        columns = (scope.rows[:, None, None].to(weights.dtype) @ weights)[:, :, 0]
        on_kinds = columns.double() @ marked.double()
        even = (even * scope.rows[..., None]).sum(1)[:, None].expand_as(on_kinds)
        ratio = count_ratio(on_kinds, scope.rows.sum(1), scope.groups)
        return SinkCounts(kinds, ratio, sum_by_group(even, scope.groups))
    rows = scope.rows[:, None] & (mass > 0)
    on_kinds = (weights.flatten(1, 2) @ marked.to(weights.dtype)).unflatten(1, mass.shape[1:])
    shares = on_kinds.double() / mass.double().masked_fill(~rows, torch.inf)[..., None]
    ratio = count_ratio(shares.sum(2), rows.sum(-1), scope.groups)
    return SinkCounts(kinds, ratio, sum_by_group(rows.double() @ even, scope.groups))


def decide_sink(counts: SinkCounts, seed: int = 0) -> list[Verdict]:
    """One verdict per head: on the kind with the largest mean mass in the choosing half.

    Its control is the mean mass of equal weights there, `ABOVE_EVEN` above which the threshold is at least.
    """
    chosen = counts.mass.by_half().ratio[CHOOSING].nan_to_num(-1).argmax(-1)
    mass = counts.mass.of_each_head(chosen)
    of_half = mass.by_half()
    even = sum_of_halves(counts.even)[REPORTED].gather(-1, chosen[:, None])[:, 0]
    control = even / of_half.denominator[REPORTED]
    return verdicts_of(
        "sink",
        SINK,
        [_WORDS.get(counts.kinds[kind], counts.kinds[kind]) for kind in chosen.tolist()],
        [
            ratio_condition(
                "mean_mass_fraction",
                mass,
                (control + ABOVE_EVEN).nan_to_num(0).clamp_min(SINK.threshold),
                seed=seed,
                least=0.0,
                most=1.0,
            )
        ],
        denominator=of_half.denominator[REPORTED].long(),
        counted=of_half.sentences[REPORTED],
        control=control,
        control_kind=EQUAL_ROWS,
    )


def first_tokens(real: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch key"]:
    """True at the first token of each sentence, whatever it is and wherever padding stands.

    >>> first_tokens(torch.tensor([[False, True, True]])).tolist()
    [[False, True, False]]
    """
    return real & (real.cumsum(1) == 1)


def sink_curve(controls: pd.DataFrame) -> dict[float, int]:
    """How many heads have a mean weight above each of `SINK_THRESHOLDS` on one kind of key.

    Args:
        controls: one row per head and label, see `attnlab.labels.label_columns.CONTROLS`.
    """
    mass = controls.loc[controls["label"] == SINK_LABEL.name, "value"]
    return {threshold: int((mass > threshold).sum()) for threshold in SINK_THRESHOLDS}


def _count(view: LayerView) -> SinkCounts:
    kinds = SINK_KINDS[view.keys]
    keys = view.layer.keys
    first = first_tokens(keys.real)
    marked = torch.stack([first if kind == FIRST else getattr(keys, kind) for kind in kinds], -1)
    if view.keys == CONTENT:
        marked = marked & keys.content[..., None]
    return count_sink(view.layer.wide, view.facts.scope, kinds, marked, view.mass)


SINK_LABEL = HeadLabel(
    name="sink",
    meaning="much weight on average on one special token, the first token, or punctuation",
    count=_count,
    decide=decide_sink,
    precedence=3,
)
