"""Runs a model with its heads replaced: losses, translations, time, and the same after fine-tuning."""

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation.fine_tuning import (
    TrainingPairs,
    fine_tune,
    in_training,
    linear_decay,
    training_loss,
    training_pairs,
)
from attnlab.attention.bridge.installing import mechanisms_in, use
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.plan import AttentionPlan
from attnlab.core.errors import AttnlabError
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.shared_settings import Steps
from attnlab.models.run import Run
from attnlab.models.scoring import score
from attnlab.studies.substitution.settings import SubstitutionSettings
from attnlab.studies.substitution.targets import Replacement, Target

# Each pair of passes, with full attention and without, one after the other.
TIMED_PASSES = 3


@dataclass(frozen=True)
class Trial:
    """Heads that are replaced, by what, and the plan that does it.

    Attributes:
        target: the heads.
        replacement: the mechanism; None for a plan of the user's.
        plan: as it stands in the model.
    """

    target: Target
    replacement: Replacement | None
    plan: AttentionPlan


@dataclass(frozen=True)
class Outcome:
    """What a model did on the test sentences.

    Attributes:
        trial: what was replaced; None: nothing.
        steps: batches of fine-tuning.
        losses: of each sentence, in nats, summed over its tokens.
        tokens: number of target tokens of all sentences.
        translations: greedy translations; None where they were not asked for.
        bleu: of those.
        time_ratio: time of the losses, divided by that of full attention; NaN where not measured.
    """

    trial: Trial | None
    steps: int
    losses: Float[Tensor, " sentence"]
    tokens: float
    translations: tuple[str, ...] | None
    bleu: float | None
    time_ratio: float


def _is_head(trial: Trial | None) -> bool:
    """Whether one head is replaced, of which only the loss is measured."""
    return trial is not None and trial.target.scope == "head"


class Trials:
    """Tries one replacement after another; the model is put back after each.

    Args:
        evaluator: the model on test sentences.
        run: its run, for training pairs.
        settings: of the study.
    """

    def __init__(self, evaluator: Evaluator, run: Run, settings: SubstitutionSettings) -> None:
        self.evaluator, self.run, self.settings = evaluator, run, settings
        self._encoded = evaluator.reading_once()
        self._start = {name: part.clone() for name, part in evaluator.model.state_dict().items()}

    def outcomes(self, trials: Sequence[Trial]) -> list[Outcome]:
        """The model with full attention, every trial, and both again after fine-tuning."""
        everything = (None, *trials)
        heads = [index for index, trial in enumerate(everything) if _is_head(trial)]
        rest = [index for index, trial in enumerate(everything) if not _is_head(trial)]
        outcomes = {}
        # What is translated too comes first and is counted alone, since it takes many times as long.
        for what, indices in (("Replacing sites, models, plans", rest), ("Replacing heads", heads)):
            steps = Steps(what, len(indices), self.settings.progress)
            for index in indices:
                outcomes[index] = steps.of(partial(self._outcome, everything[index]))()
        found = [outcomes[index] for index in range(len(everything))]
        if self.settings.steps:
            tuned = (None, *(trial for trial in trials if trial.target.scope != "head"))
            steps = Steps("Fine-tuning", len(tuned), self.settings.progress)
            found += [steps.of(partial(self._tuned, trial))() for trial in tuned]
        return found

    @cached_property
    def _pairs(self) -> TrainingPairs:
        corpus = (self.evaluator.subject.corpus or self.run.corpus)()
        return training_pairs(self.run, corpus, batch_tokens=None, seed=self.settings.seed)

    def _outcome(self, trial: Trial | None) -> Outcome:
        """Without training."""
        alone = _is_head(trial)
        behind = trial is not None and all(head.site != "encoder" for head in trial.target.heads)
        with self._replaced(trial):
            losses = (self._encoded if behind else self.evaluator).losses()
            translations = None if alone else self._translations()
        ratio = math.nan if alone or trial is None else self._time_ratio(trial)
        return self._found(trial, 0, losses, translations, ratio)

    def _tuned(self, trial: Trial | None) -> Outcome:
        """After training from where the run ended, with the mechanisms in place.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        settings, model = self.settings, self.evaluator.model
        dropout = max(part.dropout for _, part in mechanisms_in(model))
        try:
            with self._replaced(trial):
                for _, mechanism in mechanisms_in(model):
                    for part in mechanism.modules():
                        if isinstance(part, Mechanism):
                            part.dropout = dropout
                with in_training(model, settings.seed):
                    losses = fine_tune(
                        model, self._pairs.batches(settings.steps), training_loss(self.run),
                        projections=self.evaluator.projections, schedule=linear_decay(settings.steps),
                    )  # fmt: skip
                if not all(map(math.isfinite, losses)):
                    name = "full attention" if trial is None else trial.target.name
                    msg = (
                        f"The loss of {self.run.folder} became no number while it was fine-tuned "
                        f"with {name} replaced; take fewer steps."
                    )
                    raise AttnlabError(msg)
                measured, translations = self.evaluator.losses(), self._translations()
        finally:
            model.load_state_dict(self._start)
        return self._found(trial, settings.steps, measured, translations, math.nan)

    @contextmanager
    def _replaced(self, trial: Trial | None) -> Iterator[None]:
        if trial is None:
            yield
            return
        with use(self.evaluator.model, trial.plan):
            self.evaluator.model.eval()
            yield

    def _translations(self) -> tuple[str, ...] | None:
        wanted = self.settings.bleu and self.evaluator.translates
        return tuple(self.evaluator.translations()) if wanted else None

    def _found(
        self,
        trial: Trial | None,
        steps: int,
        losses: Tensor,
        translations: tuple[str, ...] | None,
        ratio: float,
    ) -> Outcome:
        bleu = None if translations is None else score(translations, self.evaluator.references).bleu
        tokens = float(self.evaluator.tokens.sum())
        return Outcome(trial, steps, losses, tokens, translations, bleu, ratio)

    def _time_ratio(self, trial: Trial) -> float:
        """Median of pairs of passes, one after the other."""
        ratios = []
        for _ in range(TIMED_PASSES):
            whole = self._seconds()
            with self._replaced(trial):
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
