"""One forward pass of any model over a batch of sentences."""

from collections.abc import Mapping
from typing import Any

from attnlab.addresses import Side
from attnlab.extraction.batches import Axis


def forward(model: Any, axes: Mapping[Side, Axis], *, with_weights: bool) -> Any:
    """The outputs of all layers; the part that scores a vocabulary is left out.

    Args:
        model: a transformers model.
        axes: the batch; without a target an encoder-decoder runs its encoder alone.
        with_weights: whether attention weights are among the outputs.
    """
    source = axes["source"]
    given: dict[str, Any] = {"input_ids": source.ids, "attention_mask": source.real.long()}
    if with_weights:
        given |= {"output_attentions": True, "return_dict": True}
    if not model.config.is_encoder_decoder:
        return model.base_model(**given)
    if "target" not in axes:
        return model.get_encoder()(**given)
    target = axes["target"]
    return model.base_model(
        **given,
        decoder_input_ids=target.ids,
        decoder_attention_mask=target.real.long(),
        use_cache=False,
    )
