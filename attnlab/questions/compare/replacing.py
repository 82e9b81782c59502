"""A model with mechanisms in place of its heads: losses, translations, time, also after fine-tuning."""

import copy
import math
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Unpack

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
from attnlab.budget import FULL, BudgetedPlan, Layer, mechanism_names
from attnlab.core import AttnlabError, Head, InputError, check_installed, layer_name
from attnlab.evaluation import Evaluator
from attnlab.models import Model, Run, checksum

# Each pair of passes, with full attention and without, one after the other.
TIMED_PASSES = 3


@dataclass(frozen=True)
class Outcome:
    """What a model did on the test sentences.

    Attributes:
        losses: of each sentence, summed over its tokens.
        translations: greedy translations; None where they were not asked for.
        time_ratio: time of the losses, divided by that of full attention; NaN where not measured.
    """

    losses: Float[Tensor, " sentence"]
    translations: tuple[str, ...] | None
    time_ratio: float


def named_plan(source: str | Path | BudgetedPlan) -> BudgetedPlan:
    """A plan with its name; one from a file is named after it."""
    if isinstance(source, BudgetedPlan):
        return source
    return BudgetedPlan(load_plan(source), Path(source).name, written=Path(source).name)


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
        own = checksum(model.both_tokenizers.source)
        plan.plan.check_same_tokenizer(own, f"The plan {plan.name}")
        with use(model.model, plan.plan):
            pass
        beside = [
            site for site in _sites_replaced(plan.plan, model) if site not in (sites or [site])
        ]
        if beside:
            msg = (
                f"The plan {plan.name} replaces heads of {' and '.join(beside)}, which are not among the "
                f"sites that are compared ({', '.join(sites or ())}); add them, or give a plan without them."
            )
            raise InputError(msg)


def _sites_replaced(plan: AttentionPlan, model: Model) -> list[str]:
    """The sites of which some head has something else than full attention."""
    found = {
        at.site: None
        for at in attention_modules(model.model)
        for layer in at.layers
        for head in range(at.heads)
        if plan.at(at.site, layer, head).name != FULL
    }
    return list(found)


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
        if self._translates:
            check_installed("sacrebleu")
        self._encoded = evaluator.reading_once()

    def losses(
        self, plan: AttentionPlan | None, sites: Collection[str]
    ) -> Float[Tensor, " sentence"]:
        """Losses with a plan for heads of these sites; without the encoder's it is spared."""
        with self._replaced(plan):
            return (self.evaluator if "encoder" in sites else self._encoded).losses()

    def outcome(self, plan: AttentionPlan | None, sites: Collection[str]) -> Outcome:
        """Without training; None: with full attention."""
        losses = self.losses(plan, sites)
        with self._replaced(plan):
            translations = self._translations()
        return Outcome(losses, translations, math.nan if plan is None else self._time(plan))

    def tuned(self, plan: AttentionPlan | None, steps: int, name: str) -> Outcome:
        """After so many batches of training from where the run ended, with the mechanisms in place.

        Args:
            plan: the mechanisms; None: full attention.
            steps: number of batches.
            name: of what is replaced, for the message.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        model, run = self.evaluator.model, self._run
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
                        projections=self.evaluator.projections, schedule=linear_decay(steps),
                    )  # fmt: skip
                if not all(map(math.isfinite, losses)):
                    msg = (
                        f"The loss of {run.folder} became no number while it was fine-tuned with {name}; "
                        "take fewer steps."
                    )
                    raise AttnlabError(msg)
                return Outcome(self.evaluator.losses(), self._translations(), math.nan)
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

    def _translations(self) -> tuple[str, ...] | None:
        return tuple(self.evaluator.translations()) if self._translates else None

    def _time(self, plan: AttentionPlan) -> float:
        """Median of pairs of passes, one after the other."""
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
    for layer, own in members.items():
        mechanism = copy.deepcopy(mechanisms[layer]).to(dtype)
        if len(own) < counts[layer]:
            mechanism = SelectedHeads(mechanism, own, counts[layer])
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
        **told: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Mixed values, each head by what it has."""
        replaced = self.mechanism(query, key, value, visible, **told)
        kept = self.full(query, key, value, visible, **_for_full(told))
        return torch.where(self.get_buffer("mask"), replaced, kept)

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        **told: Unpack[CallContext],
    ) -> Float[Tensor, "batch head query key"]:
        """The matrices of all heads, each from what it has."""
        replaced = self.mechanism.implied_matrix(query, key, visible, **told)
        kept = self.full.implied_matrix(query, key, visible, **_for_full(told))
        return torch.where(self.get_buffer("mask"), replaced, kept)


def _for_full(told: CallContext) -> CallContext:
    """Full attention counts no positions."""
    part: CallContext = {**told}
    part.pop("real_queries", None)
    return part
