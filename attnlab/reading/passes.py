"""Passes of a model over its sentences that hand on the attention weights of every layer."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Literal, TypeGuard, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attnlab.attention import AttentionCall
from attnlab.core import (
    BATCH_SIZE,
    AttnlabError,
    Head,
    InputError,
    Note,
    Side,
    Site,
    input_device,
    layers_in_words,
    no_such_head,
    sides_of,
)
from attnlab.models import Model, Source, model_of
from attnlab.reading.audio import Audio, read_audio
from attnlab.reading.calling import encoded, forward
from attnlab.reading.contributions import (
    ValuePaths,
    contributed,
    moved_paths,
    noted_values,
    value_paths,
)
from attnlab.reading.coverage import Consumer, Coverage
from attnlab.reading.hooks import (
    EAGER,
    AttentionSites,
    attentions_of,
    opened,
    ready_to_show,
    watched,
)
from attnlab.reading.keeping import KeptMatrices, MatrixKeeper
from attnlab.reading.reading_notes import ContributionsRead
from attnlab.reading.sentences import (
    SHORTEN,
    WHOLE_LAYERS,
    Progress,
    Sentence,
    Sentences,
    read_sentences,
)
from attnlab.reading.site_probe import probe, probe_in, with_callers
from attnlab.reading.text_tokens import Text
from attnlab.reading.vocabulary import Axis
from attnlab.reading.weighing import ATTENTION, CONTRIBUTION
from attnlab.reading.weights import LayerWeights, Rows, checked


@dataclass(frozen=True)
class Selection:
    """Layers, heads and rows that are read of every text; None stands for all.

    Attributes:
        layers: the model's own numbers of layers, the same at all sites that have them.
        heads: numbers of heads, the same in all layers.
        rows: positions of queries, the same in all texts; or how many are drawn of each text.
        seed: of the draws.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    rows: tuple[int, ...] | int | None = None
    seed: int = 0

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.layers is None and self.heads is None and self.rows is None

    @property
    def draws(self) -> bool:
        """Whether each text has rows of its own."""
        return isinstance(self.rows, int)

    def has_layer(self, layer: int) -> bool:
        """Whether the layer of this number is read."""
        return self.layers is None or layer in self.layers

    def rows_of(self, sentence: Sentence, queries: int) -> Int[Tensor, " row"] | None:
        """Positions of the wanted rows of a text, in ascending order; None where they are all wanted.

        The same rows are drawn of a text whatever else is read, and in all layers.

        Args:
            sentence: the text.
            queries: how many it has.
        """
        if self.rows is None:
            return None
        if isinstance(self.rows, tuple):
            return torch.tensor(self.rows)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + sentence.number)
        return torch.randperm(queries, generator=generator)[: self.rows].sort().values

    def check(self, sites: AttentionSites, chosen: Sequence[Site], sentences: Sentences) -> None:
        """Raises InputError where a layer, a head or a row does not exist."""
        self._check_layers(sites, chosen)
        self._check_heads(sites, chosen)
        if not isinstance(self.rows, tuple) or not self.rows:
            return
        for sentence in sentences.usable:
            sides: dict[Side, int] = {"source": len(sentence.source)}
            if sentence.target is not None:
                sides["target"] = len(sentence.target)
            queries = min(sides_of(site, sides)[0] for site in chosen)
            if self.rows[-1] >= queries:
                msg = (
                    f"Row {self.rows[-1]} does not exist in text {sentence.number + 1}, which has "
                    f"{queries} rows (0 to {queries - 1}); choose others, or a number of rows to draw."
                )
                raise InputError(msg)

    def _check_layers(self, sites: AttentionSites, chosen: Sequence[Site]) -> None:
        numbers = {site: sorted(sites.layers[site]) for site in chosen}
        for layer in self.layers or ():
            if not any(layer in layers for layers in numbers.values()):
                listed = "; ".join(
                    f"{site}: {layers_in_words(layers)}" for site, layers in numbers.items()
                )
                msg = f"There is no attention in layer {layer} to read; choose from {listed}."
                raise InputError(msg)

    def _check_heads(self, sites: AttentionSites, chosen: Sequence[Site]) -> None:
        heads = sites.heads_at(chosen)
        for site, layer in dict.fromkeys(head[:2] for head in heads if self.has_layer(head.layer)):
            if self.heads and (last := Head(site, layer, self.heads[-1])) not in heads:
                raise no_such_head(last, heads)


EVERYTHING = Selection()


def selection_of(
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    rows: Sequence[int] | int | None,
    seed: int,
) -> Selection:
    """The chosen layers, heads and rows in ascending order, each once.

    Raises:
        InputError: something else than numbers from 0, or none of them.
    """
    drawn = int(rows) if _is_whole(rows) else None
    if drawn is not None and drawn < 1:
        msg = (
            f"At least 1 row is drawn of each text, not {drawn}; give another number (option rows)."
        )
        raise InputError(msg)
    return Selection(
        _numbers(layers, "layers"), _numbers(heads, "heads"), drawn or _numbers(rows, "rows"), seed
    )


def _is_whole(number: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python or of NumPy."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def _numbers(given: object, name: str) -> tuple[int, ...] | None:
    if given is None:
        return None
    numbers = list(given) if isinstance(given, Iterable) else []
    if not numbers or not all(_is_whole(number) and number >= 0 for number in numbers):
        msg = f"{name} must be numbers from 0, such as [0, 3], not {given!r}."
        raise InputError(msg)
    return tuple(sorted(set(map(int, numbers))))


@dataclass(frozen=True)
class Reading:
    """A model that is ready to read its sentences as often as needed, made by `prepare`.

    Attributes:
        loaded: the model with its tokenizer.
        sentences: what it reads.
        attention_sites: where the weights of its layers come by.
        sites: which of them are handed on.
        selection: which layers, heads and rows of these are.
        in_blocks: whether weights are computed for some rows at a time, beside the model's own fused
            attention, where every consumer can be handed them so.
        values: where the values of each layer go, if contributions are handed on instead of weights.
    """

    loaded: Model
    sentences: Sentences
    attention_sites: AttentionSites
    sites: tuple[Site, ...]
    selection: Selection = EVERYTHING
    in_blocks: bool = False
    values: ValuePaths = field(default_factory=dict)

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
        values = moved_paths(self.values, self.model, twin)
        loaded = replace(self.loaded, model=twin)
        return replace(self, loaded=loaded, attention_sites=moved, values=values)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on what is handed on where it is no attention weights."""
        normed = any(path.normed for path in self.values.values())
        return (ContributionsRead(normed),) if self.values else ()

    @property
    def facts(self) -> dict[str, str]:
        """Facts of a result on what is handed on where it is no attention weights."""
        return {"Read": "contributions of keys, not attention weights"} if self.values else {}

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
            AttnlabError: a layer whose weights are no attention weights, or a consumer that needs all rows
                where some are selected.
        """
        by_rows = all(getattr(consumer, "by_rows", False) for consumer in consumers)
        if self.selection.rows is not None and not by_rows:
            msg = "Some rows were selected for something that needs whole matrices; select no rows."
            raise AttnlabError(msg)
        blocks = self.in_blocks and by_rows
        calls = blocks or bool(self.values and self.attention_sites.callers)
        read = 0
        with (
            ready_to_show(self.model, self.attention_sites.watched_as if calls else EAGER),
            torch.inference_mode(),
        ):
            for sentences in self.sentences.batches(
                # Texts whose rows are drawn have no positions in common.
                1 if self.selection.draws else batch_size,
                self.attention_sites.heads,
                share=share,
                progress=progress,
            ):
                axes = self.sentences.axes(sentences, self.model.device)
                batch = _Batch(self, sentences, axes, consumers, blocks)
                if calls:
                    batch.read_calls()
                else:
                    batch.read()
                read += len(sentences)
        layers = {
            site: sum(map(self.selection.has_layer, self.attention_sites.layers[site]))
            for site in self.sites
        }
        return Coverage(read, self.sentences.dropped, layers, bool(self.attention_sites.hooks))

    def reads(self, site: Site, layer: int) -> bool:
        """Whether the weights of a layer are handed on."""
        return site in self.sites and self.selection.has_layer(layer)


class _AllReadError(Exception):
    """The last layer that is wanted was handed on, so that the rest of the model need not run."""


@dataclass
class _Batch:
    """Sentences that are read together, and who is handed the weights.

    Attributes:
        reading: the model.
        sentences: what it reads.
        axes: the same as it takes them.
        consumers: who is handed the weights.
        in_blocks: whether some rows at a time, where they are computed here.
        left: of how many layers weights are still to come.
        values: that mechanisms mixed last, where contributions are wanted.
    """

    reading: Reading
    sentences: tuple[Sentence, ...]
    axes: dict[Side, Axis]
    consumers: Sequence[Consumer]
    in_blocks: bool = False
    left: int = field(init=False)
    values: Mapping[nn.Module, Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        hooks = self.reading.attention_sites.hooks
        self.left = sum(self.reading.reads(hook.site, hook.layer) for hook in hooks)

    def read(self) -> None:
        """One forward pass, the weights of a layer whole."""
        model, attention_sites = self.reading.model, self.reading.attention_sites
        read: Mapping[Side, Axis] = self.axes
        hooks = attention_sites.hooks
        if "target" in self.axes and "encoder" not in self.reading.sites:
            read = encoded(model, self.axes, text=True)
            hooks = tuple(hook for hook in hooks if hook.site != "encoder")
        if hooks:
            with (
                suppress(_AllReadError),
                noted_values(self.reading.values.values()) as self.values,
                opened(hooks, self._take_weights),
            ):
                forward(model, read, with_weights=True)
            return
        self.take(forward(model, read, with_weights=True))

    def take(self, outputs: Any) -> None:
        """Hands on the weights among the outputs of a model."""
        numbers = self.reading.attention_sites.layers
        shown = attentions_of(outputs, causal="decoder" in numbers)
        with suppress(_AllReadError):
            for site in self.reading.sites:
                for layer, weights in zip(numbers[site], shown[site], strict=True):
                    self._take_weights(site, layer, weights)

    def read_calls(self) -> None:
        """One forward pass, the weights of a layer computed of its queries and keys."""
        with (
            suppress(_AllReadError),
            watched(self.reading.attention_sites, self._take_call),
        ):
            forward(self.reading.model, self.axes, with_weights=False)

    def _take_weights(self, site: Site, layer: int, weights: Tensor) -> None:
        if not self.reading.reads(site, layer):
            return
        selection = self.reading.selection
        path = self.reading.values.get((site, layer))
        norms = None if path is None else path.norms(self.values[path.mixer], weights.shape[1])
        if selection.heads is not None:
            weights = weights[:, list(selection.heads)]
        chosen = selection.rows_of(self.sentences[0], weights.shape[2])
        rows = None
        if chosen is not None:
            rows = Rows(sides_of(site, self.axes)[0], chosen.to(weights.device))
            weights = weights[:, :, rows.chosen]
        self._hand_on(site, layer, weights, rows, norms)
        self._count_layer()

    def _take_call(self, site: Site, layer: int, call: AttentionCall) -> None:
        if not self.reading.reads(site, layer):
            return
        selection = self.reading.selection
        path = self.reading.values.get((site, layer))
        norms = None if path is None else path.norms(call.value, call.query.shape[1])
        call = call.of_heads(selection.heads)
        queries = call.query.shape[2]
        chosen = selection.rows_of(self.sentences[0], queries)
        some = self.in_blocks or chosen is not None
        chosen = (torch.arange(queries) if chosen is None else chosen).to(call.query.device)
        rows = Rows(sides_of(site, self.axes)[0], chosen) if some else None
        for block in call.blocks(chosen) if self.in_blocks else (chosen,):
            self._hand_on(site, layer, call.weights(block), rows, norms)
            rows = rows and replace(rows, start=rows.start + len(block))
        self._count_layer()

    def _count_layer(self) -> None:
        """Raises `_AllReadError` after the last of the layers that are wanted.

        A model that accelerate spread over devices runs on, since it moves weights back where layers end.
        """
        self.left -= 1
        parts = getattr(self.reading.model, "hf_device_map", {})
        if self.left == 0 and len({*parts.values()}) < 2:
            raise _AllReadError

    def _hand_on(
        self, site: Site, layer: int, weights: Tensor, rows: Rows | None, norms: Tensor | None
    ) -> None:
        device, reading = weights.device, self.reading
        # A model that is spread over devices has its layers elsewhere than its inputs.
        queries, keys = (
            axis if axis.real.device == device else axis.to(device)
            for axis in sides_of(site, self.axes)
        )
        if rows is not None:
            rows = replace(rows, among=queries)
            queries = queries.at(rows.chosen[rows.start : rows.start + weights.shape[2]])
        vocabularies = {side: getattr(reading.sentences, side) for side in self.axes}
        described = checked(
            LayerWeights(
                site=site,
                layer=layer,
                weights=weights,
                queries=queries,
                keys=keys,
                causal=site in reading.attention_sites.causal,
                sentences=tuple(sentence.number for sentence in self.sentences),
                vocabularies=sides_of(site, vocabularies),
                has_sink=reading.attention_sites.has_sink(site, layer),
                rows=rows,
            )
        )
        if norms is not None:
            heads = self.reading.selection.heads
            described = contributed(described, norms if heads is None else norms[:, list(heads)])
        for consumer in self.consumers:
            consumer.update(described)


# Texts, or audio with transcripts.
Read = Sequence[Text | tuple[Audio, str]]


def sentences_of(model: Model, given: Read | str) -> Sentences:
    """Texts, or audio with transcripts, as the model reads them.

    Raises:
        InputError: what cannot be used, see `capture`.
    """
    if isinstance(given, str):
        given = [given]
    # Others are refused where they are read.
    listed = given if isinstance(given, Sequence) else ()
    heard = [isinstance(item, tuple) and isinstance(item[0], Audio) for item in listed if item]
    if any(heard) and not all(heard):
        msg = "Either all that is read is audio with a transcript or nothing is; hand in one kind at a time."
        raise InputError(msg)
    if any(heard):
        return read_audio(model, cast("Sequence[tuple[Audio, str]]", given))
    return read_sentences(model, cast("Sequence[Text]", given))


CAPTURE_ROWS = "capture some of its rows in Python (rows= of attnlab.capture)"


def prepare(
    source: Source,
    sentences: Sentences | Read,
    sites: Sequence[str] | None = None,
    *,
    memory: float | None = None,
    whole: str | Literal[False] = CAPTURE_ROWS,
    rows_do: bool = False,
    selection: Selection = EVERYTHING,
    weights: str = ATTENTION,
) -> Reading:
    """The model ready to read the sentences; arguments as in `capture`.

    Args:
        source: the model.
        sentences: what it reads.
        sites: which attention to look at.
        memory: the most that the weights of one text may take.
        whole: where something that is fed needs whole matrices, what to do so that nothing does, in words;
            False where nothing does, so that those of long texts are computed in blocks of rows, if the
            model allows it.
        rows_do: whether some rows will do instead of whole matrices where a text is too long for these, which
            the reading then says by `in_blocks`.
        selection: which layers, heads and rows are handed on.
        weights: what is handed on: `attention` weights, or the share of each key in the `contribution` of
            its row, see `attnlab.reading.contributions`.

    Raises:
        InputError: sentences that cannot be used, a site that the model or the sentences lack, a layer, head
            or row that there is not, a text whose weights need more memory than there is, or a model whose
            contributions cannot be read.
    """
    model = model_of(source, scores=False)
    if not isinstance(sentences, Sentences):
        sentences = sentences_of(model, sentences)
    attention, chosen = probe(model.model, sentences, sites)
    selection.check(attention, chosen, sentences)
    values: ValuePaths = {}
    if weights == CONTRIBUTION:
        attention, values = value_paths(model.model, sentences, attention, chosen)
    device = input_device(model.model.device)
    heads = attention.heads * (1 if attention.hooks else sum(map(len, attention.layers.values())))
    parts = not whole and (not selection.is_all or sentences.is_long(attention.heads))
    parts = parts or (rows_do and sentences.is_too_long(heads, memory=memory, device=device))
    if parts and attention.hooks and not attention.callers:
        attention = with_callers(model.model, sentences, attention)
    if parts and attention.callers:
        sentences.check_memory_of_blocks(
            attention.heads, biased=attention.biased, memory=memory, device=device
        )
    else:
        advice = WHOLE_LAYERS if parts else SHORTEN if whole is False else f"{SHORTEN}, or {whole}"
        sentences.check_memory(heads, memory=memory, device=device, advice=advice)
    in_blocks = bool(parts and attention.callers)
    return Reading(model, sentences, attention, chosen, selection, in_blocks, values)


# Of a longer text the layers are read one after another.
_MOST_AT_ONCE = 512


def matrices_of_text(
    model: Model, sentences: Sentences, most_bytes: int, weights: str = ATTENTION
) -> tuple[KeptMatrices, tuple[Note, ...]]:
    """The matrices of a text that is read alone, with notes, in a single forward pass where it is short.

    Without padding nothing has to be tried on a model first, as `prepare` does.

    Args:
        model: with its tokenizer.
        sentences: the text.
        most_bytes: of a text whose matrices take more, the first queries are kept.
        weights: as in `prepare`.

    Raises:
        InputError: the weights of no site can be read, or those of a long text need more memory.
        AttnlabError: a layer whose weights are no attention weights.
    """
    keeper = MatrixKeeper(1, most_bytes)
    if sentences.longest()[1] > _MOST_AT_ONCE or weights == CONTRIBUTION:
        reading = prepare(model, sentences, whole=False, weights=weights)
        reading.feed([keeper])
        return keeper.kept(), reading.notes
    with ready_to_show(model.model), torch.inference_mode():
        axes = encoded(model.model, sentences.axes(sentences.usable, model.model.device))
        attention, sites, outputs = probe_in(model.model, axes)
        reading = Reading(model, sentences, attention, sites)
        _Batch(reading, sentences.usable, dict(axes), [keeper]).take(outputs)
    return keeper.kept(), ()
