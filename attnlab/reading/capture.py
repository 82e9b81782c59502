"""The public door to extraction: statistics of every head of a model, and a few whole matrices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from attnlab.core import BATCH_SIZE, InputError, ShortRepr, Side, Site, sides_of
from attnlab.models import Model, Source, model_of
from attnlab.reading.audio import Audio, read_audio
from attnlab.reading.hooks import AttentionSites, attentions_of, opened, probe, ready_to_show
from attnlab.reading.keeping import KeptMatrices, MatrixKeeper
from attnlab.reading.sentences import (
    Axis,
    Progress,
    Sentence,
    Sentences,
    SentencesDropped,
    Text,
    encoded,
    forward,
    read_sentences,
)
from attnlab.reading.statistics import HeadStatistics
from attnlab.reading.weights import LayerWeights, checked


@runtime_checkable
class Consumer(Protocol):
    """Something that reduces weights to what it wants to know, and keeps no matrix it need not."""

    def update(self, layer: LayerWeights) -> None:
        """Takes one layer's weights for one batch."""


@dataclass(frozen=True)
class Coverage:
    """What a pass through a model covered; shares of the same sentences add up.

    Attributes:
        sentences: how many sentences were read.
        dropped: how many were not, and why.
        layers: number of layers, by site.
        streamed: False when all layers of a batch had to be held at once.
    """

    sentences: int
    dropped: tuple[SentencesDropped, ...]
    layers: dict[Site, int]
    streamed: bool

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(
            self.sentences + other.sentences,
            self.dropped,
            self.layers,
            self.streamed and other.streamed,
        )


@dataclass(frozen=True)
class Reading:
    """A model that is ready to read its sentences as often as needed, made by `prepare`.

    Attributes:
        loaded: the model with its tokenizer.
        sentences: what it reads.
        attention_sites: where the weights of its layers come by.
        sites: which of them are handed on.
    """

    loaded: Model
    sentences: Sentences
    attention_sites: AttentionSites
    sites: tuple[Site, ...]

    @property
    def model(self) -> Any:
        """The transformers model."""
        return self.loaded.model

    def first(self, count: int) -> "Reading":
        """The same model on the first `count` texts."""
        return replace(self, sentences=self.sentences.first(count))

    def of_texts(self, texts: Sequence[Text]) -> "Reading":
        """The same model on other texts of the same kind.

        Raises:
            InputError: no text that the model can take.
        """
        return replace(self, sentences=read_sentences(self.loaded, texts))

    def by(self, twin: Any) -> "Reading":
        """The same sentences read by another model of the same class and configuration."""
        moved = self.attention_sites.moved(self.model, twin)
        return replace(self, loaded=replace(self.loaded, model=twin), attention_sites=moved)

    def feed(
        self,
        consumers: Sequence[Consumer],
        *,
        batch_size: int = BATCH_SIZE,
        share: tuple[int, int] = (0, 1),
        progress: Progress | None = None,
    ) -> Coverage:
        """Feeds every layer's weights over the sentences to `consumers`; arguments as in `capture`.

        Each layer's weights are checked, handed to every consumer, and let go before the next layer
        is computed. Memory does not depend on the number of sentences or layers.

        Raises:
            AttnlabError: a layer whose weights are no attention weights.
        """
        read = 0
        with ready_to_show(self.model), torch.inference_mode():
            for batch in self.sentences.batches(
                batch_size, self.attention_sites.heads, share=share, progress=progress
            ):
                self._read(batch, consumers)
                read += len(batch)
        layers = {site: self.attention_sites.layers[site] for site in self.sites}
        return Coverage(read, self.sentences.dropped, layers, bool(self.attention_sites.hooks))

    def _read(self, batch: tuple[Sentence, ...], consumers: Sequence[Consumer]) -> None:
        axes = self.sentences.axes(batch, self.model.device)
        hooks = self.attention_sites.hooks
        read: Mapping[Side, Axis] = axes
        if "target" in axes and "encoder" not in self.sites:
            read = encoded(self.model, axes, text=True)
            hooks = tuple(hook for hook in hooks if hook.site != "encoder")

        def receive(site: Site, layer: int, weights: Tensor) -> None:
            if site in self.sites:
                described = self._described(batch, axes, site, layer, weights)
                for consumer in consumers:
                    consumer.update(described)

        if hooks:
            with opened(hooks, receive):
                forward(self.model, read, with_weights=True)
            return
        outputs = forward(self.model, read, with_weights=True)
        shown = attentions_of(outputs, causal="decoder" in self.attention_sites.layers)
        for site, layers in shown.items():
            for layer, weights in enumerate(layers):
                receive(site, layer, weights)

    def _described(
        self,
        batch: tuple[Sentence, ...],
        axes: dict[Side, Axis],
        site: Site,
        layer: int,
        weights: Tensor,
    ) -> LayerWeights:
        queries, keys = sides_of(site, axes)
        vocabularies = {side: getattr(self.sentences, side) for side in axes}
        return checked(
            LayerWeights(
                site=site,
                layer=layer,
                weights=weights,
                queries=queries,
                keys=keys,
                causal=site in self.attention_sites.causal,
                sentences=tuple(sentence.number for sentence in batch),
                vocabularies=sides_of(site, vocabularies),
                has_sink=self.attention_sites.has_sink(site, layer),
            )
        )


# Texts, or audio with transcripts.
Read = Sequence[Text | tuple[Audio, str]]


def _sentences(model: Model, given: Read) -> Sentences:
    heard = [isinstance(one, tuple) and isinstance(one[0], Audio) for one in given]
    if any(heard) and not all(heard):
        msg = "Either all that is read is audio with a transcript or nothing is; hand in one kind at a time."
        raise InputError(msg)
    if any(heard):
        return read_audio(model, cast("Sequence[tuple[Audio, str]]", given))
    return read_sentences(model, cast("Sequence[Text]", given))


def prepare(
    source: Source,
    sentences: Sentences | Read,
    sites: Sequence[str] | None = None,
    *,
    memory: float | None = None,
) -> Reading:
    """The model ready to read the sentences; arguments as in `capture`.

    Raises:
        InputError: sentences that cannot be used, a site that the model or the sentences lack, or a text
            whose weights need more memory than there is.
    """
    model = model_of(source, scores=False)
    if not isinstance(sentences, Sentences):
        sentences = _sentences(model, sentences)
    found, wanted = probe(model.model, sentences, sites)
    layers = 1 if found.hooks else sum(found.layers.values())
    sentences.check_memory(found.heads * layers, memory=memory, device=model.model.device)
    return Reading(model, sentences, found, wanted)


@dataclass(frozen=True, repr=False)
class Capture(ShortRepr):
    """Statistics of every head over the sentences, and the matrices that were kept.

    Captures of shares of the same sentences add up to the capture of all of them.
    """

    coverage: Coverage
    statistics: HeadStatistics
    kept: KeptMatrices = field(default_factory=KeptMatrices)

    def __add__(self, other: "Capture") -> "Capture":
        return Capture(
            self.coverage + other.coverage,
            self.statistics + other.statistics,
            self.kept + other.kept,
        )


def capture(
    source: Source,
    sentences: Read,
    *,
    sites: Sequence[str] | None = None,
    batch_size: int = BATCH_SIZE,
    share: tuple[int, int] = (0, 1),
    keep_matrices: int = 0,
    keep_bytes: int = 64 * 2**20,
    keep_dtype: torch.dtype = torch.float32,
    progress: Progress | None = None,
    memory: float | None = None,
) -> Capture:
    """Statistics of every head of a model over `sentences`, and the matrices of the first few.

    Args:
        source: a run or its folder, a transformers folder, the name of a model on the hub, what
            `attnlab.load` returned, or a pair (model, tokenizer; or an object with tokenizers `.source` and
            `.target`). The model is used where it stands, in eval mode, and left as it was.
        sentences: texts, or pairs (source, target) for the decoder of an encoder-decoder; for Whisper pairs
            (audio, transcript), see `attnlab.reading.audio_of`. Its own encoder's weights are not read.
        sites: which attention to look at; None for all that the sentences allow.
        batch_size: most sentences in one forward pass.
        share: (index, count): this call takes every count-th batch, so that several processes
            split the work and the sum of their captures is what one would have found.
        keep_matrices: how many of the first sentences to keep whole, within `keep_bytes`.
        keep_bytes: most bytes of kept matrices; sentences that would go over it are not kept.
        keep_dtype: `torch.float32`, or `torch.float16`, which keeps the arg-max but not row sums.
        progress: called with (sentences done, sentences in all) after each batch.
        memory: the most that the weights of one text may take, in GB; None: what is free.

    Raises:
        InputError: sentences that cannot be used, a site that the model or the sentences lack, or a text
            whose weights need more memory.
        AttnlabError: a layer whose weights are no attention weights.
    """
    statistics = HeadStatistics()
    keeper = MatrixKeeper(keep_matrices, keep_bytes, keep_dtype)
    reading = prepare(source, sentences, sites, memory=memory)
    coverage = reading.feed(
        [statistics, keeper], batch_size=batch_size, share=share, progress=progress
    )
    return Capture(coverage, statistics, keeper.kept())
