"""A model with mechanisms in place of its heads: losses, translations and time by case and by head."""

import copy
import math
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Unpack

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.ablation import (
    TrainingPairs,
    fine_tune,
    in_training,
    linear_decay,
    training_loss,
    training_pairs,
)
from attnlab.attention import (
    AttentionPlan,
    CallContext,
    Full,
    FullAttention,
    Mechanism,
    Setup,
    attention_modules,
    load_plan,
    mechanisms_in,
    plan_of,
    use,
)
from attnlab.budget import (
    BLEU_GAIN,
    FULL,
    LOSS_GAIN,
    BudgetedPlan,
    Candidates,
    Entry,
    Layer,
    mechanism_names,
)
from attnlab.core import AttnlabError, Head, InputError, layer_name
from attnlab.evaluation import Change, Evaluator, Quality, Steps
from attnlab.models import Model, Run, checksum, length_ratio
from attnlab.questions.compare.question import ComparisonSettings

# Each pair of passes, with full attention and without, one after the other.
TIMED_PASSES = 3


@dataclass(frozen=True)
class Outcome:
    """What a model did on the test sentences.

    Attributes:
        quality: its losses and, where they were asked for, translations.
        time_ratio: time of the losses, divided by that of full attention; NaN where not measured.
    """

    quality: Quality
    time_ratio: float


def named_plan(source: str | Path | BudgetedPlan) -> BudgetedPlan:
    """A plan with its name; one from a file is named after it."""
    if isinstance(source, BudgetedPlan):
        return source
    return BudgetedPlan(load_plan(source), Path(source).name, setting=Path(source).name)


def check_plans(
    plans: Sequence[BudgetedPlan],
    model: Model,
    mechanisms: Sequence[str] | None,
    sites: Sequence[str] | None,
) -> None:
    """Raises where a plan does not fit the model or the sites, before hours of work."""
    taken = {FULL, *(mechanism_names() if mechanisms is None else mechanisms)}
    for plan in plans:
        if plan.name in taken:
            msg = f"A plan cannot be called '{plan.name}', as another row is; give it another name."
            raise InputError(msg)
        tokenizer = checksum(model.both_tokenizers.source)
        plan.plan.check_same_tokenizer(tokenizer, f"The plan {plan.name}")
        with use(model.model, plan.plan):
            pass
        others = [
            site for site in _sites_replaced(plan.plan, model) if site not in (sites or [site])
        ]
        if others:
            msg = (
                f"The plan {plan.name} replaces heads of {' and '.join(others)}, which are not among the "
                f"sites that are compared ({', '.join(sites or ())}); add them, or give a plan without them."
            )
            raise InputError(msg)


def _sites_replaced(plan: AttentionPlan, model: Model) -> list[str]:
    """The sites of which some head has something else than full attention."""
    sites = {
        at.site: None
        for at in attention_modules(model.model)
        for layer in at.layers
        for head in range(at.heads)
        if plan.at(at.site, layer, head).name != FULL
    }
    return list(sites)


class Replacing:
    """Tries one plan after another; the model is put back after each.

    Args:
        evaluator: the model, on test sentences.
        translate: whether to translate them.
        seed: of what fine-tuning draws.
    """

    def __init__(self, evaluator: Evaluator, *, translate: bool, seed: int) -> None:
        self.evaluator, self._seed = evaluator, seed
        self._translates = translate and evaluator.translates
        self._encoded = evaluator.reading_once()

    def losses(
        self, plan: AttentionPlan | None, sites: Collection[str]
    ) -> Float[Tensor, " sentence"]:
        """Losses with a plan for heads of these sites; without the encoder's it is spared."""
        with self._replaced(plan):
            return (self.evaluator if "encoder" in sites else self._encoded).losses()

    def outcome(self, plan: AttentionPlan | None, sites: Collection[str]) -> Outcome:
        """The outcome of a plan without training; None: of full attention."""
        losses = self.losses(plan, sites)
        with self._replaced(plan):
            quality = self._quality(losses)
        return Outcome(quality, math.nan if plan is None else self._time(plan))

    def tuned(self, plan: AttentionPlan | None, steps: int, name: str) -> Outcome:
        """The outcome after so many further batches of training with the mechanisms in place.

        Args:
            plan: the mechanisms; None: full attention.
            steps: number of batches.
            name: of what is replaced, for the message.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        model, run = self.evaluator.model, self._run
        projections = self.evaluator.projections
        start = {key: part.clone() for key, part in model.state_dict().items()}
        dropout = max(part.dropout for _, part in mechanisms_in(model))
        try:
            with self._replaced(plan):
                for _, mechanism in mechanisms_in(model):
                    for part in mechanism.modules():
                        if isinstance(part, Mechanism):
                            part.dropout = dropout
                with in_training(model, self._seed):
                    losses = fine_tune(
                        model, self._pairs.batches(steps), training_loss(run),
                        projections=projections, schedule=linear_decay(steps),
                    )  # fmt: skip
                if not all(map(math.isfinite, losses)):
                    msg = (
                        f"The loss of {run.folder} became no number while it was fine-tuned with {name}; "
                        "take fewer steps."
                    )
                    raise AttnlabError(msg)
                return Outcome(self._quality(self.evaluator.losses()), math.nan)
        finally:
            model.load_state_dict(start)

    @cached_property
    def _pairs(self) -> TrainingPairs:
        corpus = (self.evaluator.corpus or self._run.corpus)()
        return training_pairs(self._run, corpus, batch_tokens=None, seed=self._seed)

    @property
    def _run(self) -> Run:
        run = self.evaluator.loaded
        assert isinstance(run, Run)  # noqa: S101 - only runs are evaluated here
        return run

    @contextmanager
    def _replaced(self, plan: AttentionPlan | None) -> Iterator[None]:
        if plan is None:
            yield
            return
        with use(self.evaluator.model, plan):
            self.evaluator.model.eval()
            yield

    def _quality(self, losses: Float[Tensor, " sentence"]) -> Quality:
        """These losses, with translations of the model as it stands."""
        translations = self.evaluator.translations() if self._translates else ()
        return Quality(losses, self.evaluator.tokens, translations, self.evaluator.references)

    def _time(self, plan: AttentionPlan) -> float:
        """The time of a pass with a plan as a share of one without: the median of pairs of passes."""
        ratios = []
        for _ in range(TIMED_PASSES):
            whole = self._seconds()
            with self._replaced(plan):
                ratios.append(self._seconds() / whole)
        return statistics.median(ratios)

    def _seconds(self) -> float:
        self._wait()
        start = time.perf_counter()
        self.evaluator.losses()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.evaluator.model.device.type == "cuda":
            torch.cuda.synchronize(self.evaluator.model.device)


@dataclass(frozen=True)
class Case:
    """A row: one mechanism at all heads of some sites, a plan, or full attention, which has no budget."""

    name: str
    budget: int | None
    sites: tuple[str, ...]
    plan: AttentionPlan | None = None

    @property
    def is_mechanism(self) -> bool:
        """Whether one mechanism is made for each layer, as it was taught there."""
        return self.plan is None and self.name != FULL

    @property
    def entries(self) -> list[Entry]:
        """Where its heads are found among what was measured."""
        return [Entry(site, self.budget, self.name) for site in self.sites]


class _CasePlans:
    """The plans of cases: mechanisms as they were taught for each layer, for some or all of its heads."""

    def __init__(
        self, candidates: Candidates, counts: Mapping[Layer, int], dtype: torch.dtype
    ) -> None:
        self._counts, self._dtype = counts, dtype
        self._mechanisms: dict[tuple[int, str], dict[Layer, Mechanism]] = {}
        for at, chosen in candidates.items():
            for budget, candidate in chosen:
                self._mechanisms.setdefault((budget, candidate.name), {})[at] = candidate.mechanism

    def of(self, case: Case, head: Head | None = None) -> AttentionPlan | None:
        """All heads of the sites of a case replaced, or one; None for full attention."""
        if not case.is_mechanism or case.budget is None:
            return case.plan
        layers, counts = self._mechanisms[case.budget, case.name], self._counts
        heads = [
            Head(*at, index) for at in layers if at[0] in case.sites for index in range(counts[at])
        ]
        return plan_replacing(heads if head is None else [head], layers, counts, self._dtype)


@dataclass(frozen=True)
class _Losses:
    """What the model loses in every case, against full attention and against the case that is named."""

    cases: Sequence[Case]
    settings: ComparisonSettings

    def changes(self, outcomes: Sequence[Outcome]) -> pd.DataFrame:
        """Loss, BLEU and time of every outcome, with changes from the first, full attention, and gains."""
        whole, *others = (outcome.quality for outcome in outcomes)
        unchanged, *changes = Change.each(whole, [whole, *others])
        rows = [unchanged.scores | dict.fromkeys(unchanged.cells(), math.nan)]
        rows += [change.scores | change.cells() for change in changes]
        for row, outcome in zip(rows, outcomes, strict=True):
            row["time_ratio"] = outcome.time_ratio
            if whole.translations:
                row["length_ratio"] = length_ratio(outcome.quality.translations, whole.references)
        return pd.DataFrame(rows).join(self._gains([whole, *others]))

    def _gains(self, qualities: Sequence[Quality]) -> pd.DataFrame:
        """How much better the named case is than each other at the same sites and budget."""
        rows: dict[int, dict[str, float]] = {}
        # A plan from a file has no budget: of several it would be held against any.
        comparable = {None} if len(set(self.settings.budgets)) == 1 else set()
        for index, case in enumerate(self.cases):
            if self.settings.against != case.name:
                continue
            alike = [
                other
                for other, one in enumerate(self.cases)
                if one.name not in {FULL, case.name}
                and set(one.sites) == set(case.sites)
                and (case.budget is None or one.budget in comparable | {case.budget})
            ]
            changes = Change.each(qualities[index], [qualities[other] for other in alike])
            rows |= dict(zip(alike, map(_gain, changes), strict=True))
        return pd.DataFrame.from_dict(rows, orient="index")


def _gain(change: Change) -> dict[str, float]:
    """The cells of what is gained where a change is taken back."""
    cells = change.cells(LOSS_GAIN, BLEU_GAIN)
    return cells | ({} if change.bleu is None else BLEU_GAIN.reversed(cells))


def with_losses(
    evaluator: Evaluator,
    settings: ComparisonSettings,
    cases: Sequence[Case],
    candidates: Candidates,
    counts: Mapping[Layer, int],
    *,
    summary: pd.DataFrame,
    by_head: pd.DataFrame,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of a comparison with what the model loses.

    Args:
        evaluator: the model, on held-out sentences.
        settings: of the comparison.
        cases: the rows of `summary`, full attention first.
        candidates: mechanisms as they were taught for each layer.
        counts: number of heads of each layer.
        summary: a row a case.
        by_head: a row a head and mechanism; it gains what is lost with `per_head`.
    """
    replacing = Replacing(evaluator, translate=not settings.quick, seed=settings.seed)
    plans = _CasePlans(candidates, counts, evaluator.model.dtype)
    losses = _Losses(cases, settings)
    tables, whole = _rows_with_losses(replacing, cases, summary, plans, losses)
    if settings.per_head:
        by_head = _heads_with_losses(replacing, whole, by_head, plans, settings)
    return pd.concat(tables, ignore_index=True), by_head


def _rows_with_losses(
    replacing: Replacing,
    cases: Sequence[Case],
    summary: pd.DataFrame,
    plans: _CasePlans,
    against: _Losses,
) -> tuple[list[pd.DataFrame], Outcome]:
    """The rows with what the model loses, and with fine-tuning again; and the model as it is."""
    settings = against.settings
    steps = Steps("Replacing sites", len(cases), settings.progress)
    outcomes = []
    for case in cases:
        # A plan may name heads of the encoder.
        sites = case.sites if case.is_mechanism else ("encoder",)
        outcomes.append(steps.of(partial(replacing.outcome, plans.of(case), sites))())
    tables = [summary.join(against.changes(outcomes))]
    if not settings.fine_tune:
        return tables, outcomes[0]
    steps = Steps("Fine-tuning", len(cases), settings.progress)
    tuned = [
        steps.of(partial(replacing.tuned, plans.of(case), settings.fine_tune, case.name))()
        for case in cases
    ]
    again = summary.assign(steps=settings.fine_tune)
    return [*tables, again.join(against.changes(tuned))], outcomes[0]


def _heads_with_losses(
    replacing: Replacing,
    whole: Outcome,
    by_head: pd.DataFrame,
    plans: _CasePlans,
    settings: ComparisonSettings,
) -> pd.DataFrame:
    """The rows of heads with the loss when the head alone has the mechanism."""
    planned = {named_plan(plan).name for plan in settings.plans}
    rows = by_head[by_head["budget"].notna() & ~by_head["mechanism"].isin(planned)]
    steps = Steps("Replacing heads", len(rows), settings.progress)
    losses = []
    for row in rows.to_dict("records"):
        case = Case(row["mechanism"], row["budget"], (row["site"],))
        plan = plans.of(case, Head(row["site"], row["layer"], row["head"]))
        losses.append(steps.of(partial(replacing.losses, plan, case.sites))())
    before = replace(whole.quality, translations=())
    changes = Change.each(before, [replace(before, losses=changed) for changed in losses])
    cells = [change.scores | change.cells() for change in changes]
    return by_head.join(pd.DataFrame(cells, index=rows.index))


def plan_replacing(
    heads: Iterable[Head],
    mechanisms: Mapping[Layer, Mechanism],
    counts: Mapping[Layer, int],
    dtype: torch.dtype,
) -> AttentionPlan:
    """The plan that replaces these heads.

    Args:
        heads: those that are replaced.
        mechanisms: what replaces all heads of each layer, as it was taught for the layer.
        counts: number of heads of each layer.
        dtype: of the model.
    """
    members: dict[Layer, list[int]] = {}
    for head in sorted(heads):
        members.setdefault((head.site, head.layer), []).append(head.head)
    entries = {}
    for layer, indices in members.items():
        mechanism = copy.deepcopy(mechanisms[layer]).to(dtype)
        if len(indices) < counts[layer]:
            mechanism = SelectedHeads(mechanism, indices, counts[layer])
        entries[layer_name(*layer)] = mechanism
    return plan_of(entries)


class SelectedHeads(Mechanism):
    """Computes a layer both ways and takes each head from the one that it has.

    Unlike `PerHead` it needs no mechanism made for a part of the heads, so that what was calibrated
    for a layer can be tried at one head. Cost: both ways.

    Args:
        mechanism: made for all heads of the layer.
        heads: those that have it.
        count: number of heads of the layer.
    """

    name: ClassVar[str] = "selected heads"
    # The two that it computes are asked for themselves.
    scored: ClassVar[bool] = True

    def __init__(self, mechanism: Mechanism, heads: Iterable[int], count: int) -> None:
        super().__init__(causal=mechanism.causal, cross=mechanism.cross)
        self.mechanism = mechanism
        self.full = FullAttention(Full(), Setup(causal=mechanism.causal, cross=mechanism.cross))
        chosen = set(heads)
        mask = torch.tensor([head in chosen for head in range(count)])
        self.register_buffer("mask", mask[:, None, None], persistent=False)

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, each head by what it has."""
        replaced = self.mechanism(query, key, value, visible, **call_context)
        kept = self.full(query, key, value, visible, **_for_full(call_context))
        return torch.where(self.get_buffer("mask"), replaced, kept)

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **call_context: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrices of all heads, each from what it has."""
        replaced = self.mechanism.implied_matrix(query, key, visible, **call_context)
        kept = self.full.implied_matrix(query, key, visible, **_for_full(call_context))
        return torch.where(self.get_buffer("mask"), replaced, kept)


def _for_full(call_context: CallContext) -> CallContext:
    """The call context without what counts positions, since full attention counts none."""
    part: CallContext = {**call_context}
    part.pop("real_queries", None)
    return part
