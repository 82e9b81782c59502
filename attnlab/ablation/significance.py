"""Whether a change of loss or BLEU is more than chance: paired bootstrap over sentences.

Both systems are scored on the same resampled sentences. Source: Koehn 2004, Statistical
Significance Tests for Machine Translation Evaluation; sacrebleu does the same for two systems.
Resampling n sentences varies by sqrt((n - 1) / n) too little, and as if that spread were known: both are
made up for by Student's t, so that few sentences are no more often significant by chance than many.
Source: Hesterberg 2015, What Teachers Should Know About the Bootstrap, section 3.2.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor

from attnlab.core import FEWEST_FOR_INTERVAL, Estimate, InputError

# Enough that no p-value of a few tests is the least that there can be.
DRAWS = 10_000
MOST_DRAWS = 100_000
# Quantiles at the ends of a 95 % interval.
INTERVAL = (0.025, 0.975)
SIGNIFICANCE_LEVEL = 0.05
# Of the times that sentences are drawn, at once, in float64: 32 MiB.
MOST_COUNTS = 2**22

Score = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Difference:
    """A corpus score before and after a change.

    Attributes:
        before: score on all sentences.
        after: score on all sentences.
        change: after - before.
        low: lower end of the change's 95 % bootstrap interval, widened as in `widening`; NaN where so few
            sentences give none.
        high: upper end.
        p_value: share of draws whose change, moved to mean 0, is as large as `change`, see `for_few`; at
            least that of a sign test in which all sentences change alike, 2^(1 - sentences).
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


def add_changes(table: pd.DataFrame, estimate: Estimate, found: Mapping[Any, Difference]) -> None:
    """Fills the columns of an estimate; Holm's correction is over all that was found.

    Args:
        table: the table; it is changed. Rows without a change are empty there, and not significant.
        estimate: the columns.
        found: the changes by index label of the table.
    """
    names = [column.name for column in estimate if column.name != estimate.significant]
    rows = {row: one.cells(estimate) for row, one in found.items()}
    cells = pd.DataFrame.from_dict(rows, orient="index", columns=names, dtype=float)
    table[names] = cells.reindex(table.index)
    if estimate.together:
        significant = pd.Series(False, index=table.index)
        p_values = cells[estimate.p].to_numpy()
        significant[cells.index] = holm_significant(p_values, SIGNIFICANCE_LEVEL)
        table[estimate.significant] = significant


def loss_difference(
    before: Float[Tensor, " sentence"],
    after: Float[Tensor, " sentence"],
    tokens: Float[Tensor, " sentence"],
    *,
    seed: int,
    draws: int = DRAWS,
) -> Difference:
    """Change of the mean loss a token, in the unit of the losses.

    Args:
        before: each sentence's summed loss.
        after: the same sentences' losses after the change.
        tokens: how many tokens each loss sums over.
        seed: of the resampling.
        draws: number of resamplings.
    """
    return loss_differences(before, [after], tokens, seed=seed, draws=draws)[0]


def loss_differences(
    before: Float[Tensor, " sentence"],
    afters: Sequence[Float[Tensor, " sentence"]],
    tokens: Float[Tensor, " sentence"],
    *,
    seed: int,
    draws: int = DRAWS,
) -> list[Difference]:
    """`loss_difference` of several changes, for which the sentences are drawn once."""

    def score(losses: Tensor) -> Score:
        return lambda times: (times @ losses.double()) / (times @ tokens.double())

    scores = [score(after) for after in afters]
    return paired_bootstraps(score(before), scores, len(tokens), seed=seed, draws=draws)


def bleu_difference(
    before: Sequence[str],
    after: Sequence[str],
    references: Sequence[str],
    *,
    seed: int,
    draws: int = DRAWS,
) -> Difference:
    """Change of corpus BLEU (sacrebleu's defaults), 0 to 100.

    Raises:
        ValueError: the three do not hold the same number of sentences.
    """
    return bleu_differences(before, [after], references, seed=seed, draws=draws)[0]


def bleu_differences(
    before: Sequence[str],
    afters: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    seed: int,
    draws: int = DRAWS,
) -> list[Difference]:
    """`bleu_difference` of several changes, for which the sentences are drawn once.

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
    first, *others = (_bleu_of(_bleu_counts(one, references)) for one in (before, *afters))
    return paired_bootstraps(first, others, len(references), seed=seed, draws=draws)


def _bleu_counts(system: Sequence[str], references: Sequence[str]) -> Float[Tensor, "sentence 10"]:
    """By sentence: matched and all n-grams of 1 to 4 words, lengths of translation and reference."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(effective_order=True)
    rows = []
    for hypothesis, reference in zip(system, references, strict=True):
        found = metric.sentence_score(hypothesis, [reference])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return torch.tensor(rows, dtype=torch.float64)


def _bleu_of(counts: Float[Tensor, "sentence 10"]) -> Score:
    """Corpus BLEU with sacrebleu's exponential smoothing, of many draws at once.

    An n-gram order without a match counts half a match, the next such order a quarter, and so on. Without
    any match, or with no n-gram of an order, BLEU is 0.
    """

    def score(times: Tensor) -> Tensor:
        matched, totals, lengths = (times @ counts).round().split([4, 4, 2], dim=-1)
        smoothing = 2.0 ** (matched == 0).cumsum(-1)
        smoothed = torch.where(matched > 0, matched, 1 / smoothing)
        known = (matched > 0).any(-1) & (totals > 0).all(-1)
        logs = (smoothed / totals.clamp(min=1)).log().mean(-1)
        length, reference = lengths.unbind(-1)
        brevity = (1 - reference / length.clamp(min=1)).clamp(max=0)
        return torch.where(known, 100 * (logs + brevity).exp(), 0.0)

    return score


def paired_bootstraps(
    before: Score,
    afters: Sequence[Score],
    sentences: int,
    *,
    seed: int,
    draws: int = DRAWS,
) -> list[Difference]:
    """The changes from one corpus score to others, each with an interval and a p-value.

    Args:
        before: corpus scores of one system from how often each sentence is drawn, `[..., sentence]`.
        afters: the same of the other systems.
        sentences: how many sentences there are.
        seed: of the resampling; the global random state is not touched.
        draws: number of resamplings.

    Cost: memory is bounded by `MOST_COUNTS`, and draws x systems.
    """
    once = torch.ones(sentences, dtype=torch.float64)
    first, seconds = float(before(once)), [float(after(once)) for after in afters]
    parts: list[list[Tensor]] = [[] for _ in afters]
    for times in _drawn_times(sentences, seed, draws):
        whole = before(times)
        for part, after in zip(parts, afters, strict=True):
            part.append(after(times) - whole)
    return [
        _difference(first, second, torch.cat(part), sentences)
        for second, part in zip(seconds, parts, strict=True)
    ]


def _drawn_times(sentences: int, seed: int, draws: int) -> Iterator[Float[Tensor, "draw sentence"]]:
    """How often each sentence is drawn, some draws at a time; together the same at any size."""
    generator = torch.Generator().manual_seed(seed)
    size = max(1, MOST_COUNTS // sentences)
    for start in range(0, draws, size):
        shape = (min(size, draws - start), sentences)
        picks = torch.randint(sentences, shape, generator=generator)
        times = torch.zeros(shape, dtype=torch.float64)
        yield times.scatter_add_(1, picks, torch.ones((), dtype=torch.float64).expand(shape))


def holm_significant(
    p_values: Float[np.ndarray, " test"], level: float
) -> Bool[np.ndarray, " test"]:
    """Which of several tests are significant when the chance of any false one is `level` at most.

    The k-th smallest of n p-values, from 0, is held against level / (n - k), up to the first that
    exceeds its bound. Source: Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure.
    """
    order = np.argsort(p_values, kind="stable")
    holds = p_values[order] <= level / np.arange(len(p_values), 0, -1)
    significant = np.zeros(len(p_values), dtype=bool)
    significant[order] = np.logical_and.accumulate(holds)
    return significant


def draws_for(tests: int, sentences: int) -> int:
    """Enough draws for a p-value that `holm_significant` can still accept among so many tests.

    Of few sentences that would be very many, so no more than `MOST_DRAWS` are made.
    """
    wanted = SIGNIFICANCE_LEVEL / tests / 2
    freedom, narrowing = _of_few(sentences)
    deviate = stats.t.isf(wanted / 2, freedom) / narrowing
    # Of very few sentences the chance is smaller than any float.
    chance = max(2 * float(stats.norm.sf(deviate)), 1 / MOST_DRAWS)
    return max(DRAWS, math.ceil(1 / chance))


def for_few(p_value: float, sentences: int) -> float:
    """A two-sided p-value of the bootstrap, corrected for the number of sentences.

    The normal deviate that it belongs to is taken as one of Student's t.

    >>> round(for_few(0.05, 1000), 3), round(for_few(0.05, 10), 3)
    (0.05, 0.096)
    """
    freedom, narrowing = _of_few(sentences)
    return float(2 * stats.t.sf(stats.norm.isf(p_value / 2) * narrowing, freedom))


def widening(sentences: int) -> float:
    """By what the distance of a 95 % bootstrap interval's ends from its middle is multiplied.

    >>> round(widening(1000), 3), round(widening(10), 3)
    (1.002, 1.217)
    """
    freedom, narrowing = _of_few(sentences)
    return float(stats.t.ppf(INTERVAL[1], freedom) / stats.norm.ppf(INTERVAL[1]) / narrowing)


def _of_few(sentences: int) -> tuple[int, float]:
    """The degrees of freedom of Student's t, and sqrt((n - 1) / n), what resampling makes of a spread."""
    freedom = max(sentences - 1, 1)
    return freedom, math.sqrt(freedom / (freedom + 1))


def holm_adjusted(p_values: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """The smallest level, at most 1, at which `holm_significant` calls each of several tests significant."""
    order = np.argsort(p_values, kind="stable")
    raised = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = raised.clip(max=1)
    return adjusted


def _difference(
    first: float, second: float, changes: Float[Tensor, " draw"], sentences: int
) -> Difference:
    # All signs alike is the most that few sentences can show; draws of two alike sentences do not vary.
    by_signs = min(1.0, 2.0 ** (1 - sentences))
    middle = changes.mean()
    ends = changes.quantile(torch.tensor(INTERVAL, dtype=torch.float64))
    # What no draw reaches may be impossible, as a share below 0.
    wide = (middle + widening(sentences) * (ends - middle)).clamp(changes.min(), changes.max())
    low, high = wide.tolist()
    if sentences < FEWEST_FOR_INTERVAL:
        low = high = math.nan
    as_large = (changes - middle).abs() >= abs(second - first)
    p_value = for_few((int(as_large.sum()) + 1) / (len(changes) + 1), sentences)
    return Difference(first, second, second - first, low, high, max(p_value, by_signs), sentences)


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
    for values, own in table.groupby(list(keys), sort=False, dropna=False):
        known = own[list(measures)].dropna(axis="columns", how="all").dropna()
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        row["models"] = len(known) if len(known.columns) else 0
        for name in measures:
            each = known[name] if name in known else pd.Series(dtype=float)
            found = _described(name, each.to_numpy(dtype=float))
            row |= (
                {key: np.clip(one, 0, 1) for key, one in found.items()} if name in shares else found
            )
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
    known = table["p_value"].notna()
    table.loc[known, "p_value"] = holm_adjusted(table.loc[known, "p_value"].to_numpy(dtype=float))
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
        `heads`.
    """
    rows: list[dict[str, Any]] = []
    names = list(measures)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            both = measures[[one, other]].dropna().to_numpy(dtype=float).T
            row: dict[str, Any] = {"measure": one, "other": other}
            row |= {"spearman": float(_spearman(both[:, None])[0]) if both.shape[1] > 1 else np.nan}
            if seed is not None:
                row |= dict(zip(("spearman_low", "spearman_high"), _ends(both, seed), strict=True))
            rows.append(row | {"heads": both.shape[1]})
    ends = () if seed is None else ("spearman_low", "spearman_high")
    return pd.DataFrame(rows, columns=["measure", "other", "spearman", *ends, "heads"])


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
    """Of each draw; NaN where one of the two does not vary."""
    ranks = stats.rankdata(both, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    sizes = np.sqrt((ranks**2).sum(-1)).prod(0)
    return np.divide(ranks.prod(0).sum(-1), sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
