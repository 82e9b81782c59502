"""A model that is pruned again and again: gates learned, parameters tuned, all put back to the start."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.ablation import (
    PARAMETER_LEARNING_RATE,
    GateStep,
    HeadGates,
    Projections,
    check_closable,
    fine_tune,
    in_training,
    linear_decay,
    train_gates,
    training_loss,
    training_pairs,
)
from attnlab.core import AttnlabError, Head, InputError, Progress, usable_device
from attnlab.evaluation import (
    Evaluator,
    Quality,
    ScoredBatch,
    Texts,
    calibrated_parts,
    calibrated_texts,
    evaluator_of,
)
from attnlab.models import IGNORED_LABEL, Model, Run, Source, read_record
from attnlab.questions.prune.question import PruningSettings
from attnlab.reading import SentencesDropped, read_sentences

GATE_LEARNING_RATE = 0.1

State = dict[str, Tensor]


@dataclass(frozen=True)
class Training:
    """What a model is trained further on, and by what.

    Attributes:
        batches: so many batches, the same at every call.
        loss: mean loss per token of a batch; differentiable.
        steps_in_epoch: how many batches hold everything once.
        sentences: how many that is.
        dropped: what is left out of it.
        batch_tokens: tokens a batch and side; None where batches count sentences.
    """

    batches: Callable[[int], Iterator[Any]]
    loss: Callable[[Any], Float[Tensor, ""]]
    steps_in_epoch: int
    sentences: int
    dropped: tuple[SentencesDropped, ...]
    batch_tokens: int | None = None


@dataclass(frozen=True)
class Pruner:
    """A model, what it is trained on, and the sentences that its pruned forms are measured on.

    Attributes:
        loaded: its model is changed in place; a folder is read only.
        texts: that it is measured on.
        evaluators: by split, the model with sentences of that split.
        projections: where the heads are apart.
        sites: where heads may be closed.
        training: what it is trained on.
        start: the parameters as they were.
        seed: of batches, gates and dropout.
        train_model: whether parameters are trained along with gates.
        translate: whether a model that translates is measured by its translations too.
        progress: called with (what is being done, steps done, steps in all).
    """

    loaded: Model
    texts: Texts
    evaluators: Mapping[str, Evaluator]
    projections: Projections
    sites: tuple[str, ...]
    training: Training
    start: State
    seed: int
    train_model: bool
    translate: bool
    progress: Progress | None

    @property
    def gated(self) -> Projections:
        """The layers whose heads may be closed."""
        return {layer: p for layer, p in self.projections.items() if layer[0] in self.sites}

    def start_again(self) -> None:
        """Puts the model back to what it was."""
        self.loaded.model.load_state_dict(self.start)

    def learn(self, penalty: float, steps: int) -> tuple[HeadGates, list[GateStep]]:
        """Gates trained from the start, the model's parameters along with them if they are to be.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        self.start_again()
        model = self.loaded.model
        gates = HeadGates(self.gated).to(model.device)
        with in_training(model, self.seed):
            history = train_gates(
                gates,
                self._batches(f"Penalty {penalty:g}: learning gates", steps),
                self.training.loss,
                penalty=penalty,
                seed=self.seed,
                learning_rate=GATE_LEARNING_RATE,
                parameters=[weight for weight in model.parameters() if weight.requires_grad]
                if self.train_model
                else [],
                parameter_learning_rate=PARAMETER_LEARNING_RATE,
                schedule=linear_decay(steps),
            )
        self._check_values([step.loss for step in history])
        return gates, history

    def tune(self, what: str, steps: int, closed: Sequence[Head] = ()) -> None:
        """Trains the model's parameters from the start, with some heads closed.

        Raises:
            AttnlabError: the loss is no longer a number.
        """
        self.start_again()
        with in_training(self.loaded.model, self.seed):
            losses = fine_tune(
                self.loaded.model,
                self._batches(f"{what}: fine-tuning", steps),
                self.training.loss,
                projections=self.projections,
                closed=closed,
                schedule=linear_decay(steps),
            )
        self._check_values(losses)

    def measured(self, what: str) -> dict[str, Quality]:
        """What the model does as it stands, by split."""
        by_split = {}
        for split, evaluator in self.evaluators.items():
            translates = self.translate and evaluator.translates
            by_split[split] = Quality(
                evaluator.losses(),
                evaluator.tokens,
                self._translations(evaluator, f"{what}: translating {split}") if translates else (),
                tuple(evaluator.references) if translates else (),
            )
        return by_split

    def _translations(self, evaluator: Evaluator, what: str) -> tuple[str, ...]:
        """Translations of the model as it stands."""
        return tuple(evaluator.translations(lambda _, *done: self._tell(what, *done)))

    def _batches(self, what: str, steps: int) -> Iterator[Any]:
        for done, batch in enumerate(self.training.batches(steps)):
            self._tell(what, done, steps)
            yield batch
        self._tell(what, steps, steps)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)

    def _check_values(self, losses: Sequence[float]) -> None:
        if not all(map(math.isfinite, losses)):
            msg = (
                f"The loss on the training sentences of {self.loaded.label} became no number while it was "
                "trained further; see whether its own training ended well."
            )
            raise AttnlabError(msg)


def load_pruner(source: Source, settings: PruningSettings) -> Pruner:
    """The model at `source`, ready to be pruned; with these settings.

    Raises:
        InputError: the source or its sentences cannot be used, or it is a run that was pruned before.
        AttnlabError: the corpus is no longer the one of the training.
    """
    model, texts = calibrated_texts(source, settings)
    if isinstance(model, Run):
        _check_not_pruned(model.folder)
    else:
        _check_for_any_model(settings)
    if not isinstance(source, str | Path):  # whose model is the caller's
        model = replace(model, model=copy.deepcopy(model.model))
    model.move_to(usable_device(settings.device))
    evaluators, training = (
        _of_run(model, texts, settings)
        if isinstance(model, Run)
        else _of_model(model, texts, settings)
    )
    for evaluator in evaluators.values():
        evaluator.check_finite()
    projections = evaluators["test"].projections
    check_closable(projections, projections)
    return Pruner(
        loaded=model,
        texts=texts,
        evaluators=evaluators,
        projections=projections,
        sites=evaluators["test"].sites_among(settings.sites),
        training=training,
        start={name: tensor.clone() for name, tensor in model.model.state_dict().items()},
        seed=settings.seed,
        train_model=settings.train_model,
        translate=not settings.quick,
        progress=settings.progress,
    )


def _check_for_any_model(settings: PruningSettings) -> None:
    """Raises InputError for what runs alone can be told."""
    # In words beside the names: models are kept with another word on the command line.
    of_runs = {
        "saving pruned models (keep_models)": settings.keep_models,
        "counting tokens of a batch (batch_tokens)": settings.batch_tokens is not None,
    }
    given = [what for what, is_set in of_runs.items() if is_set]
    if given:
        msg = f"Only for runs of attnlab train: {', '.join(given)}; leave that out."
        raise InputError(msg)


def _of_run(
    run: Run, texts: Texts, settings: PruningSettings
) -> tuple[dict[str, Evaluator], Training]:
    """A run is trained on its own pairs, as its training did."""
    if settings.calibration_text is not None:
        msg = "A run is pruned on its own training pairs; leave calibration text out."
        raise InputError(msg)
    read = read_sentences(run, texts.texts, texts.origin)
    test = evaluator_of(run, read, settings.batch_size, texts.corpus, settings.loss)
    corpus = texts.corpus
    assert corpus is not None  # noqa: S101 - a run brings one
    pairs = training_pairs(run, corpus(), batch_tokens=settings.batch_tokens, seed=settings.seed)
    total, used = len(corpus().train), len(pairs.pairs)
    long = SentencesDropped(total - used, total, run.settings.corpus.max_tokens)
    most = settings.most_sentences
    return (
        {"validation": test.on_split("validation", most), "test": test},
        Training(
            pairs.batches,
            training_loss(run),
            pairs.steps_in_epoch,
            used,
            (long,) if long.count else (),
            pairs.batch_tokens,
        ),
    )


def _of_model(
    model: Model, texts: Texts, settings: PruningSettings
) -> tuple[dict[str, Evaluator], Training]:
    """Any other model is trained on training sentences by what it is evaluated by."""
    parts = calibrated_parts(model, texts, settings, with_loss=True)
    test, validation, training = (
        evaluator_of(model, part, settings.batch_size, loss=settings.loss, seed=settings.seed)
        for part in parts
    )

    def batches(steps: int) -> Iterator[ScoredBatch]:
        generator = torch.Generator().manual_seed(settings.seed)
        for start in range(0, steps, len(training.batches)):
            order = torch.randperm(len(training.batches), generator=generator).tolist()
            yield from (training.batches[index] for index in order[: steps - start])

    def loss(batch: ScoredBatch) -> Tensor:
        return training.example_losses(batch).sum() / (batch.labels != IGNORED_LABEL).sum()

    evaluators = {"validation": validation, "test": test}
    return evaluators, Training(
        batches, loss, len(training.batches), len(training), training.sentences.dropped
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
