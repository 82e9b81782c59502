"""Queries, keys and values of an encoder's heads, taken while the model reads sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.attention.bridge import mechanism_of, use
from attnlab.attention.full import FullAttention
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.specification import Full
from attnlab.attention.traits import Place
from attnlab.errors import InputError
from attnlab.heads.batches import batches, encode

BATCH = 32


@dataclass(frozen=True)
class Observed:
    """What one encoder layer attended with, for one batch, in float64.

    Attributes:
        layer: from 0.
        query: queries of real and padding tokens alike.
        key: keys.
        value: values.
        visible: True at real tokens.
        token_ids: ids of the tokens.
        weights: full attention, 0 in the rows of padding.
    """

    layer: int
    query: Float[Tensor, "batch head token dim"]
    key: Float[Tensor, "batch head token dim"]
    value: Float[Tensor, "batch head token value_dim"]
    visible: Bool[Tensor, "batch token"]
    token_ids: Int[Tensor, "batch token"]
    weights: Float[Tensor, "batch head token token"]


def observe(model: Any, tokenizer: Any, sentences: Sequence[str]) -> Iterator[Observed]:
    """Every encoder layer of every batch, the layers of a batch one after another.

    Raises:
        InputError: the model has no encoder, or attends otherwise than by plain full attention.
    """
    plan = getattr(model, "attention_plan", None)
    if plan is not None and any(entry != Full() for entry in plan.entries.values()):
        msg = "Mechanisms are compared with full attention: give a run that was trained with it."
        raise InputError(msg)
    encoding = encode(model, tokenizer, list(sentences))
    with use(model.eval(), {"encoder": _Observer()}) as installed:
        body = model.get_encoder() if model.config.is_encoder_decoder else model
        observers = [
            (place.layer, mechanism_of(place.module))
            for place in installed.places
            if place.site == "encoder"
        ]
        for batch in batches(encoding.sentences, size=BATCH, weights_a_cell=16):
            axis = encoding.source.axis([sentence.source for sentence in batch], model.device)
            with torch.no_grad():
                body(input_ids=axis.ids, attention_mask=axis.real.long())
            for layer, observer in observers:
                if isinstance(observer, _Observer):
                    yield observer.observed(layer, axis.real, axis.ids)


class _Observer(Mechanism):
    """Full attention that keeps the queries, keys and values it was last given."""

    name: ClassVar[str] = "observer"

    def __init__(self) -> None:
        super().__init__()
        self.full = FullAttention(Full(), Place())
        self.seen: tuple[Tensor, Tensor, Tensor] | None = None

    def observed(self, layer: int, visible: Tensor, token_ids: Tensor) -> Observed:
        """What was seen last, with the weights of full attention."""
        if self.seen is None:
            msg = f"Encoder layer {layer} was not used by the model; its heads cannot be compared."
            raise InputError(msg)
        query, key, value = (part.double() for part in self.seen)
        weights = self.full.implied_matrix(query, key, visible) * visible[:, None, :, None]
        return Observed(layer, query, key, value, visible, token_ids, weights)

    def forward(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        value: Float[Tensor, "batch head key value_dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
        token_ids: Int[Tensor, "batch key"] | None = None,  # noqa: ARG002 - known from the batch
        bias: Float[Tensor, "#batch #head query key"] | None = None,
    ) -> Float[Tensor, "batch head query value_dim"]:
        """Values mixed by full attention."""
        if bias is not None:
            msg = (
                "This model adds relative positions to its scores, which not every mechanism can; "
                "its heads cannot be compared."
            )
            raise InputError(msg)
        self.seen = (query, key, value)
        return self.full(query, key, value, visible, first_query=first_query)

    def implied_matrix(
        self,
        query: Float[Tensor, "batch head query dim"],
        key: Float[Tensor, "batch head key dim"],
        visible: Bool[Tensor, "batch key"] | None = None,
        *,
        first_query: int = 0,
        token_ids: Int[Tensor, "batch key"] | None = None,  # noqa: ARG002 - full attention
        bias: Float[Tensor, "#batch #head query key"] | None = None,
    ) -> Float[Tensor, "batch head query key"]:
        """Full attention weights."""
        return self.full.implied_matrix(query, key, visible, first_query=first_query, bias=bias)
