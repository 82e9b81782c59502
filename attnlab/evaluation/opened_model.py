"""How a question on mechanisms in place of heads begins: its model, and the texts of its three parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from attnlab.core import InputError, Note, Progress, usable_device
from attnlab.corpora import notes_on_tables
from attnlab.evaluation.budget_settings import BudgetSettings
from attnlab.evaluation.evaluator import Evaluator, evaluator_of, loss_kind, scored
from attnlab.evaluation.shared_settings import (
    ENOUGH_FOR_INTERVALS,
    CalibratedSettings,
    FewForIntervals,
    TextsAsked,
)
from attnlab.evaluation.sources import (
    Texts,
    calibrated_texts,
    first_texts,
    notes_on_texts,
    read_texts,
)
from attnlab.models import Model, Source
from attnlab.reading import (
    Observed,
    Sentences,
    Text,
    most_heads,
    observe,
    read_sentences,
    sites_of,
    source_of,
)


class Parts(NamedTuple):
    """Sentences for three purposes; no source is in two of them."""

    test: Sentences
    validation: Sentences
    calibration: Sentences


def parts_of(
    model: Model,
    texts: Texts,
    *,
    calibration: TextsAsked,
    validation: TextsAsked,
    calibration_text: str | Path | None = None,
    with_loss: bool,
    loss: str | None = None,
) -> Parts:
    """Training sentences to learn on and validation sentences to choose on, beside those to report on.

    Where there is no validation part, every other training sentence is one; see `split_texts` too.

    Args:
        model: with its tokenizer.
        texts: to report on.
        calibration: the training sentences, or how many at most.
        validation: the validation sentences, or how many at most.
        calibration_text: a file of training sentences.
        with_loss: whether sentences on which the model has no loss are left out.
        loss: see `loss_of`.

    Raises:
        InputError: there is no sentence left for a part.
        AttnlabError: the corpus is no longer the one of the training.
    """

    def read(part: Sequence[Text], origin: str) -> Sentences:
        sentences = read_sentences(model, part, origin)
        return (
            scored(model, sentences, loss_kind(model, sentences, loss)) if with_loss else sentences
        )

    test = read(texts.texts, texts.origin)
    learning = training_texts(model, texts, calibration, calibration_text)
    used = set(map(source_of, (*texts.texts, *learning)))
    chosen: tuple[Text, ...] = ()
    if not isinstance(validation, int):
        chosen = tuple(text for text in validation if source_of(text) not in used)
    elif texts.corpus is not None:
        chosen = first_texts(model, texts.corpus(), "validation", validation, without=used)
    else:
        chosen = texts.validation
    if not chosen:
        most = validation if isinstance(validation, int) else None
        # A sentence that stands there twice must not be in both halves.
        once = tuple({source_of(text): text for text in learning}.values())
        learning, chosen = once[::2], once[1::2][:most]
    if not chosen:
        msg = (
            "There is one training sentence alone, and settings are chosen on another; give more, or "
            "validation sentences."
        )
        raise InputError(msg)
    return Parts(test, read(chosen, "validation sentences"), read(learning, "training sentences"))


def calibrated_parts(
    model: Model, texts: Texts, settings: CalibratedSettings, *, with_loss: bool
) -> Parts:
    """The parts that the settings of a study name, see `parts_of`."""
    return parts_of(
        model,
        texts,
        calibration=settings.calibration,
        validation=settings.validation,
        calibration_text=settings.calibration_text,
        with_loss=with_loss,
        loss=settings.loss,
    )


def training_texts(
    model: Model,
    texts: Texts,
    requested: TextsAsked,
    path: str | Path | None = None,
) -> tuple[Text, ...]:
    """The first training sentences that are not held out too.

    Args:
        model: with its tokenizer.
        texts: those that are held out.
        requested: the training sentences, or how many at most.
        path: a file of them.

    Raises:
        InputError: there are none, or all of them are held out.
        AttnlabError: the corpus is no longer the one of the training.
    """
    used = set(map(source_of, texts.texts))
    count = requested if isinstance(requested, int) else len(requested)
    if not isinstance(requested, int):
        available: Sequence[Text] = requested
    elif path is not None:
        available = read_texts(path, lowercase=model.lowercase)
    elif texts.corpus is not None:
        available = first_texts(model, texts.corpus(), "train", requested, without=used)
    elif texts.training:
        available = texts.training
    else:
        msg = (
            f"{model.name or 'A model without a folder'} brings no training sentences; give a file of them "
            "(calibration_text), or in Python a list (calibration)."
        )
        raise InputError(msg, options=["calibration_text"])
    kept = tuple(text for text in available if source_of(text) not in used)[:count]
    if not kept:
        msg = (
            "Every calibration sentence is among the held-out sentences too; give others "
            "as calibration_text."
        )
        raise InputError(msg, options=["calibration_text"])
    return kept


def observe_part(
    what: str,
    model: Model,
    part: Sentences,
    sites: Sequence[str],
    receive: Callable[[Observed], None],
    *,
    batch_size: int,
    progress: Progress | None,
) -> None:
    """Hands every layer of the sites for every batch of the sentences to `receive`.

    Args:
        what: is being done, for `progress`.
        model: with its tokenizer.
        part: the sentences.
        sites: those that are wanted.
        receive: called with each layer.
        batch_size: most sentences in one forward pass.
        progress: called with (what, done, in all).

    Raises:
        InputError: the model attends otherwise than by plain full attention.
    """
    tell = None if progress is None else partial(progress, what)
    observe(model.model, part, sites, receive, batch_size=batch_size, progress=tell)


@dataclass(frozen=True)
class Opened:
    """A model with the texts that mechanisms are learned on, chosen on and measured on.

    Attributes:
        model: on its device.
        texts: those to report on, with where they come from.
        parts: the texts as the model reads them.
        sites: where heads may be replaced; the matrices of the longest text fit into memory there.
        settings: what was asked.
        has_loss: whether the model has a loss on the texts.
    """

    model: Model
    texts: Texts
    parts: Parts
    sites: tuple[str, ...]
    settings: BudgetSettings
    has_loss: bool

    def evaluator(self, part: Sentences) -> Evaluator:
        """The model evaluated on one of the parts.

        Raises:
            InputError: its loss there is no finite number.
        """
        settings = self.settings
        evaluator = evaluator_of(
            self.model, part, settings.batch_size, self.texts.corpus, settings.loss,
            seed=settings.seed,
        )  # fmt: skip
        evaluator.check_finite()
        return evaluator

    def read(self, what: str, part: Sentences, receive: Callable[[Observed], None]) -> None:
        """Hands every layer of the sites to `receive` for every batch of a part, see `observe_part`."""
        observe_part(
            what, self.model, part, self.sites, receive,
            batch_size=self.settings.batch_size, progress=self.settings.progress,
        )  # fmt: skip

    @property
    def notes(self) -> list[Note]:
        """Notes on the texts, whatever was asked about them."""
        parts = dict(zip(("held-out", "validation", "training"), self.parts, strict=True))
        settings = self.settings
        notes = notes_on_texts(self.model, self.texts, parts, settings.sentences, settings.sites)
        notes += notes_on_tables(settings.calibration_text)
        if len(self.parts.test) < ENOUGH_FOR_INTERVALS:
            notes.append(FewForIntervals(len(self.parts.test)))
        return notes + [
            replace(dropped, part=name) for name, part in parts.items() for dropped in part.dropped
        ]


def opened(
    source: Source,
    settings: BudgetSettings,
    check: Callable[[Model, bool], None],
) -> Opened:
    """The model at `source` with three parts of texts, ready to have heads replaced.

    Args:
        source: what `model_of` takes.
        settings: what is asked.
        check: refuses what the question cannot be asked about, given the model and whether it has a loss on
            the texts: an encoder-decoder needs their translations.

    Raises:
        InputError: no such device, model, sentences or site, or a text too long for the memory.
        AttnlabError: the corpus is no longer the one of the training.
    """
    device = usable_device(settings.device)
    model, texts = calibrated_texts(source, settings)
    model.move_to(device)
    has_loss = isinstance(texts.texts[0], tuple) or not model.model.config.is_encoder_decoder
    check(model, has_loss)
    parts = calibrated_parts(model, texts, settings, with_loss=has_loss)
    return Opened(model, texts, parts, _sites(model, parts, settings), settings, has_loss)


def _sites(model: Model, parts: Parts, settings: BudgetSettings) -> tuple[str, ...]:
    """The sites that are asked for; raises InputError where a text is too long for the memory."""
    sites = sites_of(model.model, parts.test, settings.sites)
    for part in parts:
        sites = sites_of(model.model, part, sites)
        heads = most_heads(model.model, sites)
        part.check_memory(heads, memory=settings.memory, device=model.model.device)
    return sites
