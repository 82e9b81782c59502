"""How a transformers model is called with a batch of sentences."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

from attnlab.core import Side
from attnlab.models import OwnModel
from attnlab.reading.vocabulary import Axis

# What `generate` is told beside a length, whatever a model has in its own options.
GREEDY: dict[str, Any] = {
    "num_beams": 1, "do_sample": False, "max_new_tokens": None, "return_dict_in_generate": False
}  # fmt: skip


def inputs_of(model: Any, axes: Mapping[Side, Axis]) -> dict[str, Any]:
    """Keyword arguments with which a transformers model reads a batch.

    Args:
        model: a transformers model.
        axes: the batch; without a target an encoder-decoder has nothing for its decoder to read.
    """
    source = axes["source"]
    given: dict[str, Any] = {"input_ids": source.ids, "attention_mask": source.real.long()}
    if source.types is not None:
        given["token_type_ids"] = source.types
    if source.features is not None:
        given = {"input_features": source.features.to(model.dtype)}
    if source.outputs is not None:
        given = {name: value for name, value in given.items() if name == "attention_mask"}
        given["encoder_outputs"] = source.outputs
    if model.config.is_encoder_decoder and "target" in axes:
        target = axes["target"]
        given |= {
            "decoder_input_ids": target.ids,
            "decoder_attention_mask": target.real.long(),
        }
    return given


def encoded(model: Any, axes: Mapping[Side, Axis], *, text: bool = False) -> Mapping[Side, Axis]:
    """The batch with what the encoder of an encoder-decoder makes of it, without weights.

    Args:
        model: a transformers model.
        axes: the batch.
        text: whether of text too; of audio weights are never wanted, which would be large.
    """
    source = axes["source"]
    if source.outputs is not None or (source.features is None and not text):
        return axes
    outputs = model.get_encoder()(**inputs_of(model, {"source": source}))
    return {**axes, "source": replace(source, outputs=outputs)}


def without_cache(model: Any) -> dict[str, bool]:
    """The argument that turns off the cache of decoding, where a model takes it."""
    takes = signature(model.forward).parameters
    return {"use_cache": False} if "use_cache" in takes or "kwargs" in takes else {}


def forward(model: Any, axes: Mapping[Side, Axis], *, with_weights: bool) -> Any:
    """The outputs of all layers; the part that scores a vocabulary is left out.

    Args:
        model: a transformers model.
        axes: the batch; without a target an encoder-decoder runs its encoder alone.
        with_weights: whether attention weights are among the outputs.
    """
    given = inputs_of(model, encoded(model, axes))
    if with_weights:
        given |= {"output_attentions": True, "return_dict": True}
    if model.config.is_encoder_decoder and "target" not in axes:
        return model.get_encoder()(**given)
    # These have no base model apart from it.
    if isinstance(model, OwnModel):
        given["score_vocabulary"] = False
    if not model.config.is_encoder_decoder:
        if not with_weights:
            given |= without_cache(model.base_model)
        return model.base_model(**given)
    return model.base_model(**given, use_cache=False)
