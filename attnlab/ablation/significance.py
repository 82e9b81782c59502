"""Whether a change of loss or BLEU is more than chance: a paired jackknife over sentences.

Both systems are scored without each sentence in turn. What that does to their difference is read as the
values of a mean, whose interval and p-value are those of `attnlab.core.mean_interval`: nothing is drawn, and
few sentences whose changes are skewed are hardly more often significant by chance than many.
Source: Tukey 1958; Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 11.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Shaped
from scipy import stats
from torch import Tensor

from attnlab.core import (
    FEWEST_FOR_INTERVAL,
    Estimate,
    InputError,
    mean_interval,
    mean_p_value,
    skewness_of,
)

# Quantiles at the ends of a 95 % interval.
INTERVAL = (0.025, 0.975)
SIGNIFICANCE_LEVEL = 0.05

# A corpus score from sums over sentences of what is counted of each, `[..., count]`.
Score = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Difference:
    """A corpus score before and after a change.

    Attributes:
        before: score on all sentences.
        after: score on all sentences.
        change: after - before.
        low: lower end of the change's 95 % interval; NaN where so few sentences give none.
        high: upper end.
        p_value: of no change; NaN where `low` is.
        sentences: how many sentences.
    """

    before: float
    after: float
    change: float
    low: float
    high: float
    p_value: float
    sentences: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the interval; None where there is none."""
        return None if math.isnan(self.low) else (self.low, self.high)

    def cells(self, estimate: Estimate) -> dict[str, float]:
        """The change as cells of the columns of `estimate`."""
        tested = estimate.tested or estimate.together
        return estimate.cells(self.change, self.low, self.high, self.p_value if tested else None)


def add_significance(table: pd.DataFrame, estimate: Estimate) -> None:
    """Fills the column that says which changes are significant, where there is a p-value.

    Holm's correction is over all rows that have one.

    Args:
        table: it is changed; it holds the p-values.
        estimate: the columns.
    """
    p_values = table[estimate.p].dropna()
    significant = pd.Series(None, table.index, dtype=object)
    significant[p_values.index] = holm_significant(
        p_values.to_numpy(dtype=float), SIGNIFICANCE_LEVEL
    )
    table[estimate.significant] = significant.infer_objects()


def loss_difference(
    before: Float[Tensor, " sentence"],
    after: Float[Tensor, " sentence"],
    tokens: Float[Tensor, " sentence"],
) -> Difference:
    """Change of the mean loss per token, in the unit of the losses.

    Args:
        before: each sentence's summed loss.
        after: the same sentences' losses after the change.
        tokens: how many tokens each loss sums over.
    """
    return loss_differences(before, [after], tokens)[0]


def loss_differences(
    before: Float[Tensor, " sentence"],
    afters: Sequence[Float[Tensor, " sentence"]],
    tokens: Float[Tensor, " sentence"],
) -> list[Difference]:
    """`loss_difference` of several changes."""
    first, *others = (torch.stack([losses, tokens], -1) for losses in (before, *afters))
    return paired_differences(first, others, ratio)


def bleu_difference(
    before: Sequence[str], after: Sequence[str], references: Sequence[str]
) -> Difference:
    """Change of corpus BLEU (sacrebleu's defaults), 0 to 100.

    Raises:
        ValueError: the three do not hold the same number of sentences.
    """
    return bleu_differences(before, [after], references)[0]


def bleu_differences(
    before: Sequence[str], afters: Sequence[Sequence[str]], references: Sequence[str]
) -> list[Difference]:
    """`bleu_difference` of several changes.

    Raises:
        ValueError: not all hold the same number of sentences.
    """
    for after in afters:
        if not len(before) == len(after) == len(references):
            msg = (
                f"BLEU is compared on the same sentences, not on {len(before)}, {len(after)} and "
                f"{len(references)}."
            )
            raise ValueError(msg)
    first, *others = (_bleu_counts(translations, references) for translations in (before, *afters))
    return paired_differences(first, others, _bleu)


def _bleu_counts(system: Sequence[str], references: Sequence[str]) -> Float[Tensor, "sentence 10"]:
    """Counts by sentence: matched and all n-grams of 1 to 4 words, lengths of translation and reference."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(effective_order=True)
    rows = []
    for hypothesis, reference in zip(system, references, strict=True):
        scored = metric.sentence_score(hypothesis, [reference])
        rows.append([*scored.counts, *scored.totals, scored.sys_len, scored.ref_len])
    return torch.tensor(rows, dtype=torch.float64)


def _bleu(sums: Float[Tensor, "*corpus 10"]) -> Float[Tensor, "*corpus"]:
    """Corpus BLEU with sacrebleu's exponential smoothing.

    An n-gram order without a match counts half a match, the next such order a quarter, and so on. Without
    any match, or with no n-gram of an order, BLEU is 0.
    """
    matched, totals, lengths = sums.split([4, 4, 2], dim=-1)
    smoothing = 2.0 ** (matched == 0).cumsum(-1)
    smoothed = torch.where(matched > 0, matched, 1 / smoothing)
    has_bleu = (matched > 0).any(-1) & (totals > 0).all(-1)
    logs = (smoothed / totals.clamp(min=1)).log().mean(-1)
    length, reference = lengths.unbind(-1)
    brevity = (1 - reference / length.clamp(min=1)).clamp(max=0)
    return torch.where(has_bleu, 100 * (logs + brevity).exp(), 0.0)


def ratio(sums: Float[Tensor, "*corpus 2"]) -> Float[Tensor, "*corpus"]:
    """The first sum over the second."""
    return sums[..., 0] / sums[..., 1]


def paired_differences(
    before: Shaped[Tensor, "sentence count"] | None,
    afters: Sequence[Shaped[Tensor, "sentence count"]],
    score: Score,
) -> list[Difference]:
    """The changes from one corpus score to others, each with an interval and a p-value.

    ::

        theta_(s) = change without sentence s,   values u_s = n change - (n - 1) theta_(s)

    Args:
        before: what is counted of each sentence for one system; None: `change` is the score itself, whose
            interval lies within the scores of single sentences, so that shares end at 0 and 1.
        afters: the same of the other systems.
        score: the corpus score of sums over sentences.
    """
    none = torch.zeros((), dtype=torch.float64)
    first, first_without = (none, none) if before is None else _leave_one_out(before, score)
    return [_difference(first, first_without, after, score, before is None) for after in afters]


def _leave_one_out(
    counts: Shaped[Tensor, "sentence count"], score: Score
) -> tuple[Float[Tensor, ""], Float[Tensor, " sentence"]]:
    """The score of all sentences, and without each of them."""
    sums = counts.double().sum(0)
    return score(sums), score(sums - counts.double())


def _difference(
    first: Float[Tensor, ""],
    first_without: Float[Tensor, "*sentence"],
    counts: Shaped[Tensor, "sentence count"],
    score: Score,
    alone: bool,
) -> Difference:
    second, without = _leave_one_out(counts, score)
    number, change = len(counts), float(second - first)
    low = high = p_value = math.nan
    if number >= FEWEST_FOR_INTERVAL:
        from_mean = (without - first_without).numpy()
        from_mean = (number - 1) * (from_mean.mean() - from_mean)
        variance, third = (np.mean(from_mean**power, keepdims=True) for power in (2, 3))
        error, skewness = np.sqrt(variance / (number - 1)), skewness_of(variance, third)
        of_mean = np.array([change]), error, skewness, np.array([number])
        low, high = (end.item() for end in mean_interval(*of_mean))
        p_value = mean_p_value(*of_mean).item()
    if alone:
        # A sentence without anything that counts has no score.
        each = score(counts.double()).nan_to_num(float(second))
        least, most = float(each.min().minimum(second)), float(each.max().maximum(second))
        low, high = max(low, least), min(high, most)
    return Difference(float(first), float(second), change, low, high, p_value, number)


def holm_significant(
    p_values: Float[np.ndarray, " test"], level: float
) -> Bool[np.ndarray, " test"]:
    """True at the tests that are significant when the chance of any false one is `level` at most.

    The k-th smallest of n p-values, from 0, is held against level / (n - k), up to the first that
    exceeds its bound. Source: Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure.
    """
    order = np.argsort(p_values, kind="stable")
    holds = p_values[order] <= level / np.arange(len(p_values), 0, -1)
    significant = np.zeros(len(p_values), dtype=bool)
    significant[order] = np.logical_and.accumulate(holds)
    return significant


def holm_adjusted(p_values: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """The smallest level, at most 1, at which `holm_significant` calls each of several tests significant."""
    order = np.argsort(p_values, kind="stable")
    raised = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = raised.clip(max=1)
    return adjusted


# Values that differ by no more of their size are equal.
ROUNDING = 1e-12

_CONTRAST = ("contrast", "models", "same_sign")
_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_value")


def over_models(
    table: pd.DataFrame,
    keys: Sequence[str],
    measures: Sequence[str],
    *,
    shares: Collection[str] = (),
) -> pd.DataFrame:
    """The mean of each measure over the models that share the keys.

    Models are the units: an interval is of the mean over all trainings on the same sentences, not of one
    more training, and with few models it is wide. Rows are estimates; `contrasts` tests the few that were
    named beforehand.

    Args:
        table: a row a model and set of keys.
        keys: columns that tell the rows of one model apart.
        measures: columns of numbers. A row that lacks a measure which other rows of its keys have is left
            out, so that all figures of a row are of the same models.
        shares: those of the measures that lie from 0 to 1, where their intervals end.

    Returns:
        A row a set of keys, in the order of the table: `models`, how many the figures are of, and for
        each measure its mean,
        `MEASURE_low` and `MEASURE_high`, the ends of the 95 % t interval. One model has no interval,
        nor have equal values other than 0, which tell nothing of how models differ.
    """
    rows: list[dict[str, Any]] = []
    for values, group in table.groupby(list(keys), sort=False, dropna=False):
        measured = group[list(measures)].dropna(axis="columns", how="all").dropna()
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        row["models"] = len(measured) if len(measured.columns) else 0
        for name in measures:
            each = measured[name] if name in measured else pd.Series(dtype=float)
            described = _described(name, each.to_numpy(dtype=float))
            if name in shares:
                described = {key: np.clip(value, 0, 1) for key, value in described.items()}
            row |= described
        rows.append(row)
    numbers = [f"{name}{end}" for name in measures for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*keys, "models", *numbers])


def contrasts(differences: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Tests of the contrasts of a study, corrected among themselves.

    Args:
        differences: by the name of the contrast one difference a model; all that were named beforehand,
            and no other. Each takes part in the correction, so none may lack a figure.

    Returns:
        A row a contrast: `contrast`, `models`, `same_sign` (how many models differ in the direction of
        the mean), `difference` with `difference_low` and `difference_high`, the ends of the 95 % t
        interval over models, and `p_value` of the t-test after Holm's correction over the contrasts.
        Fewer than two models, or equal differences, have neither interval nor p-value; differences that are
        all 0 have the interval [0, 0].

    Raises:
        InputError: a difference is no finite number.
    """
    rows = []
    for name, each in differences.items():
        values = np.asarray(each, dtype=float)
        if not np.isfinite(values).all():
            bad = int((~np.isfinite(values)).sum())
            msg = (
                f"Contrast '{name}' has no finite difference for {bad} of {len(values)} models; give the "
                "models that have one, or leave the contrast out of the study."
            )
            raise InputError(msg)
        row: dict[str, Any] = {"contrast": name, "models": len(values)}
        row |= {"same_sign": int((np.sign(values) == np.sign(values.mean())).sum())}
        rows.append(row | _described("difference", values) | {"p_value": _p_value(values)})
    table = pd.DataFrame(rows, columns=[*_CONTRAST, *_DIFFERENCE])
    tested = table["p_value"].notna()
    table.loc[tested, "p_value"] = holm_adjusted(table.loc[tested, "p_value"].to_numpy(dtype=float))
    return table


def _described(name: str, values: Float[np.ndarray, " model"]) -> dict[str, float]:
    """Mean and interval, what cannot be known NaN."""
    mean = float(values.mean()) if len(values) else np.nan
    low = high = np.nan
    if len(values) > 1 and not values.any():
        low, high = 0.0, 0.0
    elif _varying(values):
        low, high = mean + stats.sem(values) * stats.t.ppf(INTERVAL, len(values) - 1)
    return {name: mean, f"{name}_low": float(low), f"{name}_high": float(high)}


def _p_value(values: Float[np.ndarray, " model"]) -> float:
    return float(stats.ttest_1samp(values, 0).pvalue) if _varying(values) else np.nan


def _varying(values: Float[np.ndarray, " model"]) -> bool:
    return len(values) > 1 and not np.allclose(values, values[0], rtol=ROUNDING, atol=0)


# A bootstrap over fewer heads draws the same few orders again and again.
FEWEST_HEADS = 8
_HEAD_DRAWS = 2_000


def rank_agreement(measures: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
    """Spearman's rank correlation over heads of each pair of columns, heads without a value left out.

    NaN where a column does not vary.

    Args:
        measures: a row per head, a column per measure.
        seed: of a bootstrap over heads, which are drawn as if each were independent of the others; None: no
            interval is taken, nor of fewer than `FEWEST_HEADS`.

    Returns:
        One row per pair: `measure`, `other`, `spearman`, with a seed `spearman_low` and `spearman_high`, and
        `head_count`.
    """
    rows: list[dict[str, Any]] = []
    names = list(measures)
    for index, name in enumerate(names):
        for other in names[index + 1 :]:
            both = measures[[name, other]].dropna().to_numpy(dtype=float).T
            row: dict[str, Any] = {"measure": name, "other": other}
            row |= {"spearman": float(_spearman(both[:, None])[0]) if both.shape[1] > 1 else np.nan}
            if seed is not None:
                row |= dict(zip(("spearman_low", "spearman_high"), _ends(both, seed), strict=True))
            rows.append(row | {"head_count": both.shape[1]})
    ends = () if seed is None else ("spearman_low", "spearman_high")
    return pd.DataFrame(rows, columns=["measure", "other", "spearman", *ends, "head_count"])


def _ends(both: Float[np.ndarray, "2 head"], seed: int) -> tuple[float, float]:
    heads = both.shape[1]
    if heads < FEWEST_HEADS:
        return np.nan, np.nan
    picks = np.random.default_rng(seed).integers(heads, size=(_HEAD_DRAWS, heads))
    drawn = _spearman(both[:, picks])
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, INTERVAL) if len(drawn) else (np.nan, np.nan)
    return float(low), float(high)


def _spearman(both: Float[np.ndarray, "2 draw head"]) -> Float[np.ndarray, " draw"]:
    """Rank correlation of each draw; NaN where one of the two does not vary."""
    ranks = stats.rankdata(both, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    sizes = np.sqrt((ranks**2).sum(-1)).prod(0)
    return np.divide(ranks.prod(0).sum(-1), sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
