"""Runs sentences through a model and hands each layer's attention weights on, one layer at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from attnlab.addresses import SITES, Side, Site, sides_of
from attnlab.attention.bridge.installing import mechanisms_in
from attnlab.attention.mechanism import Mechanism
from attnlab.errors import InputError
from attnlab.extraction.batches import Axis, Encoding, Sentence, Text, batches, encode
from attnlab.extraction.keeping import KeptMatrices, MatrixKeeper
from attnlab.extraction.statistics import HeadStatistics
from attnlab.extraction.taps import Plumbing, attentions_of, find, opened, ready_to_show
from attnlab.extraction.weights import TOLERANCES, LayerWeights, checked
from attnlab.representations import OneLine

Progress = Callable[[int, int], None]


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
        dropped: how many were not, by reason.
        layers: number of layers, by site.
        streamed: False when all layers of a batch had to be held at once.
    """

    sentences: int
    dropped: dict[str, int]
    layers: dict[Site, int]
    streamed: bool

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(
            self.sentences + other.sentences,
            self.dropped,
            self.layers,
            self.streamed and other.streamed,
        )


@dataclass(frozen=True, repr=False)
class Capture(OneLine):
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
    model: Any,
    tokenizer: Any,
    sentences: Sequence[Text],
    *,
    sites: Sequence[str] | None = None,
    batch_size: int = 32,
    share: tuple[int, int] = (0, 1),
    keep_matrices: int = 0,
    keep_bytes: int = 64 * 2**20,
    keep_dtype: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> Capture:
    """Statistics of every head of `model` over `sentences`, and the matrices of the first few.

    Args:
        model: a transformers model; it is used where it stands, in eval mode, and left as it was.
        tokenizer: its tokenizer, or an object with tokenizers `.source` and `.target`.
        sentences: texts, or pairs (source, target) for the decoder of an encoder-decoder.
        sites: which attention to look at; None for all that the sentences allow.
        batch_size: most sentences in one forward pass.
        share: (index, count): this call takes every count-th batch, so that several processes
            split the work and the sum of their captures is what one would have found.
        keep_matrices: how many of the first sentences to keep whole, within `keep_bytes`.
        keep_bytes: most bytes of kept matrices; sentences that would go over it are not kept.
        keep_dtype: `torch.float32`, or `torch.float16`, which keeps the arg-max but not row sums.
        progress: called with (sentences done, sentences in all) after each batch.

    Raises:
        InputError: sentences that cannot be used, or a site that the model or the sentences lack.
        AttnlabError: a layer whose weights are no attention weights.
    """
    statistics = HeadStatistics()
    keeper = MatrixKeeper(keep_matrices, keep_bytes, keep_dtype)
    coverage = stream(
        model,
        tokenizer,
        sentences,
        [statistics, keeper],
        sites=sites,
        batch_size=batch_size,
        share=share,
        progress=progress,
    )
    return Capture(coverage, statistics, keeper.kept())


def stream(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[Text],
    consumers: Sequence[Consumer],
    *,
    sites: Sequence[str] | None = None,
    batch_size: int = 32,
    share: tuple[int, int] = (0, 1),
    progress: Progress | None = None,
) -> Coverage:
    """Feeds every layer's weights over `sentences` to `consumers`; arguments as in `capture`.

    Each layer's weights are checked, handed to every consumer, and let go before the next layer
    is computed. Memory does not depend on the number of sentences or layers.

    Raises:
        InputError: sentences that cannot be used, or a site that the model or the sentences lack.
        AttnlabError: a layer whose weights are no attention weights.
    """
    encoding = encode(model, tokenizer, sentences)
    with ready_to_show(model), torch.inference_mode():
        plumbing = _plumbing(model, encoding)
        wanted = _wanted(sites, plumbing, model, encoding)
        _refuse_other_than_probabilities(model, wanted)
        _refuse_weights_that_read_padding(model, encoding, plumbing)
        course = _Course(model, encoding, plumbing, wanted, consumers)
        work = list(batches(encoding.sentences, size=batch_size, weights_a_cell=plumbing.heads))[
            share[0] :: share[1]
        ]
        total, done = sum(map(len, work)), 0
        for batch in work:
            course.run(batch)
            done += len(batch)
            if progress is not None:
                progress(done, total)
    layers = {site: plumbing.layers[site] for site in wanted}
    return Coverage(total, encoding.dropped, layers, bool(plumbing.taps))


def _call(model: Any, axes: dict[Side, Axis]) -> Any:
    """The model's outputs with weights; the part that scores a vocabulary is left out."""
    source = axes["source"]
    given: dict[str, Any] = {
        "input_ids": source.ids,
        "attention_mask": source.real.long(),
        "output_attentions": True,
        "return_dict": True,
    }
    body = model.base_model
    if not model.config.is_encoder_decoder:
        return body(**given)
    if "target" not in axes:
        return model.get_encoder()(**given)
    target = axes["target"]
    return body(
        **given,
        decoder_input_ids=target.ids,
        decoder_attention_mask=target.real.long(),
        use_cache=False,
    )


def _plumbing(model: Any, encoding: Encoding) -> Plumbing:
    """Taps found on a few tokens; source and target differ in length to tell the sites apart."""
    first = encoding.sentences[0]
    target = None if first.target is None else (first.target * 5)[:5]
    probe = Sentence(0, (first.source * 3)[:3], target)
    axes = encoding.axes([probe], model.device)
    return find(model, lambda: _call(model, axes))


def _wanted(
    sites: Sequence[str] | None, plumbing: Plumbing, model: Any, encoding: Encoding
) -> tuple[Site, ...]:
    if sites is None:
        return tuple(site for site in SITES if site in plumbing.layers)
    for site in sites:
        if site not in plumbing.layers:
            lacking = model.config.is_encoder_decoder and encoding.sentences[0].target is None
            reason = (
                "the sentences have no translations" if lacking else "the model has no such site"
            )
            msg = (
                f"Site '{site}' cannot be analyzed, since {reason}; "
                f"choose from: {', '.join(plumbing.layers)}."
            )
            raise InputError(msg)
    return tuple(site for site in SITES if site in sites)


def _refuse_other_than_probabilities(model: Any, wanted: Sequence[Site]) -> None:
    """Raises where rows of the matrix that a mechanism applies are no distributions over keys."""
    others = {
        place.site: part.name
        for place, mechanism in mechanisms_in(model)
        for part in mechanism.modules()
        if isinstance(part, Mechanism) and not part.traits.stochastic and place.site in wanted
    }
    if others:
        site, name = next(iter(others.items()))
        rest = ", ".join(site for site in wanted if site not in others)
        msg = (
            f"The matrix that '{name}' applies in the {site} has entries of either sign and is no "
            "probability over keys, so its heads cannot be analyzed; "
            f"{f'choose other sites: {rest}' if rest else 'analyze a model with another mechanism'}."
        )
        raise InputError(msg)


def _refuse_weights_that_read_padding(model: Any, encoding: Encoding, plumbing: Plumbing) -> None:
    """Raises where the weights of a short sentence change beside a longer one in the batch.

    Convolutions over tokens (ConvBERT) and landmarks (Nystromformer) do that.
    """
    first = encoding.sentences[0]
    short = Sentence(0, first.source[:3], first.target and first.target[:5])
    long = Sentence(1, first.source[:3] * 3, first.target and first.target[:5] * 3)

    def weights(sentences: list[Sentence]) -> dict[Site, tuple[Tensor, ...]]:
        outputs = _call(model, encoding.axes(sentences, model.device))
        return attentions_of(outputs, causal="decoder" in plumbing.layers)

    beside, again = weights([short, long]), weights([short])
    for site, layers in weights([short]).items():
        for alone, padded, repeated in zip(layers, beside[site], again[site], strict=True):
            queries, keys = alone.shape[2:]
            change = (padded[:1, :, :queries, :keys] - alone).abs().amax().item()
            # Weights that change by themselves, as with dropout that is active, are refused later on.
            if change > TOLERANCES.get(alone.dtype, 1e-4) and torch.equal(alone, repeated):
                msg = (
                    f"The attention weights of {type(model).__name__} depend on the padding of the "
                    f"batch (by up to {change:.2g} in the {site}), so its heads cannot be analyzed."
                )
                raise InputError(msg)


@dataclass(frozen=True)
class _Course:
    """One batch after another through the model, its weights to the consumers."""

    model: Any
    encoding: Encoding
    plumbing: Plumbing
    sites: tuple[Site, ...]
    consumers: Sequence[Consumer]

    def run(self, batch: tuple[Sentence, ...]) -> None:
        axes = self.encoding.axes(batch, self.model.device)

        def receive(site: Site, layer: int, weights: Tensor) -> None:
            if site in self.sites:
                self._hand_on(batch, axes, site, layer, weights)

        if self.plumbing.taps:
            with opened(self.plumbing.taps, receive):
                _call(self.model, axes)
            return
        outputs = _call(self.model, axes)
        shown = attentions_of(outputs, causal="decoder" in self.plumbing.layers)
        for site, layers in shown.items():
            for layer, weights in enumerate(layers):
                receive(site, layer, weights)

    def _hand_on(
        self,
        batch: tuple[Sentence, ...],
        axes: dict[Side, Axis],
        site: Site,
        layer: int,
        weights: Tensor,
    ) -> None:
        queries, keys = sides_of(site, axes)
        vocabularies = {side: getattr(self.encoding, side) for side in axes}
        seen = checked(
            LayerWeights(
                site=site,
                layer=layer,
                weights=weights,
                queries=queries,
                keys=keys,
                causal=site in self.plumbing.causal,
                sentences=tuple(sentence.number for sentence in batch),
                vocabularies=sides_of(site, vocabularies),
                has_sink=self.plumbing.has_sink(site, layer),
            )
        )
        for consumer in self.consumers:
            consumer.update(seen)
