"""A run that is pruned again and again: gates learned, parameters tuned, all put back to the start."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import (
    PARAMETER_LEARNING_RATE,
    Batch,
    GateStep,
    HeadGates,
    Projections,
    TrainingPairs,
    fine_tune,
    in_training,
    linear_decay,
    train_gates,
    training_loss,
    training_pairs,
)
from attnlab.core import SITES, AttnlabError, Head, InputError
from attnlab.evaluation import Evaluator, Progress, load_evaluator
from attnlab.models import Run, is_run, no_run, read_record
from attnlab.questions.prune.question import PruningSettings

GATE_LEARNING_RATE = 0.1

State = dict[str, Tensor]


@dataclass(frozen=True)
class Measured:
    """What a model did on the sentences of one split.

    Attributes:
        losses: each sentence's loss in nats, summed over its target tokens.
        tokens: target tokens of each sentence.
        translations: greedy translations, one a sentence; none of a language model.
        references: what they are scored against.
    """

    losses: Float[Tensor, " sentence"]
    tokens: Float[Tensor, " sentence"]
    translations: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True)
class Pruner:
    """A run, its training pairs, and the sentences that its pruned models are measured on.

    Attributes:
        run: its model is changed in place; the folder is read only.
        evaluators: by split, the model with sentences of that split.
        projections: where the heads are apart.
        sites: where heads may be closed.
        pairs: what is trained on.
        start: the parameters as the run has them.
        seed: of batches, gates and dropout.
        train_model: whether parameters are trained along with gates.
        progress: called with (what is being done, steps done, steps in all).
    """

    run: Run
    evaluators: Mapping[str, Evaluator]
    projections: Projections
    sites: tuple[str, ...]
    pairs: TrainingPairs
    start: State
    seed: int
    train_model: bool
    progress: Progress | None

    @property
    def gated(self) -> Projections:
        """The layers whose heads may be closed."""
        return {layer: p for layer, p in self.projections.items() if layer[0] in self.sites}

    def start_again(self) -> None:
        """Puts the model back to where the run's training ended."""
        self.run.model.load_state_dict(self.start)

    def learn(self, penalty: float, steps: int) -> tuple[HeadGates, list[GateStep]]:
        """Gates trained from the start, the model's parameters along with them if they are to be.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        self.start_again()
        model = self.run.model
        gates = HeadGates(self.gated).to(model.device)
        with in_training(model, self.seed):
            history = train_gates(
                gates,
                self._batches(f"Penalty {penalty:g}: learning gates", steps),
                training_loss(self.run),
                penalty=penalty,
                seed=self.seed,
                learning_rate=GATE_LEARNING_RATE,
                parameters=list(model.parameters()) if self.train_model else [],
                parameter_learning_rate=PARAMETER_LEARNING_RATE,
                schedule=linear_decay(steps),
            )
        self._check_numbers([step.loss for step in history])
        return gates, history

    def tune(self, what: str, steps: int, closed: Sequence[Head] = ()) -> None:
        """Trains the model's parameters from the start, with some heads closed.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        self.start_again()
        with in_training(self.run.model, self.seed):
            losses = fine_tune(
                self.run.model,
                self._batches(f"{what}: fine-tuning", steps),
                training_loss(self.run),
                projections=self.projections,
                closed=closed,
                schedule=linear_decay(steps),
            )
        self._check_numbers(losses)

    def measured(self, what: str) -> dict[str, Measured]:
        """What the model does as it stands, by split."""
        found = {}
        for split, evaluator in self.evaluators.items():
            found[split] = Measured(
                evaluator.losses(),
                evaluator.tokens,
                self._translations(evaluator, f"{what}: translating {split}"),
                tuple(evaluator.references),
            )
        return found

    def _translations(self, evaluator: Evaluator, what: str) -> tuple[str, ...]:
        """Those of the model as it stands; none of a language model."""
        if not evaluator.translates:
            return ()
        return tuple(evaluator.translations(lambda _, *done: self._tell(what, *done)))

    def _batches(self, what: str, steps: int) -> Iterator[Batch]:
        for done, batch in enumerate(self.pairs.batches(steps)):
            self._tell(what, done, steps)
            yield batch
        self._tell(what, steps, steps)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)

    def _check_numbers(self, losses: Sequence[float]) -> None:
        if not all(map(math.isfinite, losses)):
            msg = (
                f"The loss on the training pairs of {self.run.folder} became no number while it was "
                "trained further; see whether the run's own training ended well."
            )
            raise AttnlabError(msg)


def load_pruner(source: str | Path | Run, settings: PruningSettings) -> Pruner:
    """The run at `source`, ready to be pruned; with these settings.

    Raises:
        InputError: the source is no run, or one that was pruned before.
        AttnlabError: the corpus is no longer the one of the training.
    """
    if not isinstance(source, Run) and not is_run(source):
        raise no_run(source)
    folder = source.folder if isinstance(source, Run) else Path(source)
    _check_not_pruned(folder)
    if isinstance(source, Run):  # whose model is the caller's
        source = replace(source, model=copy.deepcopy(source.model))
    test = load_evaluator(source, sentences=settings.sentences, device=settings.device)
    run, corpus = test.loaded, test.corpus
    if not isinstance(run, Run) or corpus is None:
        raise no_run(folder)
    return Pruner(
        run=run,
        evaluators={"validation": test.on_split("validation", settings.sentences), "test": test},
        projections=test.projections,
        sites=tuple(site for site in SITES if settings.sites is None or site in settings.sites),
        pairs=training_pairs(run, corpus(), batch_tokens=settings.batch_tokens, seed=settings.seed),
        start={name: tensor.clone() for name, tensor in run.model.state_dict().items()},
        seed=settings.seed,
        train_model=settings.train_model,
        progress=settings.progress,
    )


def _check_not_pruned(folder: Path) -> None:
    # Closed heads are columns of zeros, which training would fill and the curve would count as open.
    record = read_record(folder)
    if "pruned" in record:
        msg = (
            f"{folder} was pruned before, and its closed heads would open again; prune the run that it "
            f"came from: {record['pruned']['run']}."
        )
        raise InputError(msg)
