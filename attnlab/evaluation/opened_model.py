"""How a question on mechanisms in place of heads begins: its model, and the texts of its three parts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from attnlab.core import Note, usable_device
from attnlab.corpora import notes_on_tables
from attnlab.evaluation.budget_settings import BudgetSettings
from attnlab.evaluation.evaluator import Evaluator, evaluator_of
from attnlab.evaluation.parts import Parts, calibrated_parts, observe_part
from attnlab.evaluation.shared_settings import ENOUGH_FOR_INTERVALS, FewForIntervals
from attnlab.evaluation.sources import Texts, calibrated_texts, notes_on_texts
from attnlab.models import Model, Source
from attnlab.reading import Observed, Sentences, most_heads, sites_of


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
