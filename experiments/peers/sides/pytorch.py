"""Plain transformers and plain torch, in the environment of attnlab."""

from pathlib import Path

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from experiments.peers.inputs import BAND, band_inputs, by_length
from experiments.peers.serving import Describe, Prepare, Work, serve
from experiments.peers.sides.loading import batches_of, by_sentence, load_ids, load_model, padded


def capture(*, batched: bool) -> Prepare:
    """All weights as the model returns them, of each sentence or of one batch."""

    def prepare(folder: Path) -> Work:
        model = load_model(folder / "gpt2")
        batches = batches_of(load_ids(folder), batched=batched)

        @torch.inference_mode()
        def work() -> Describe:
            found = [model(padded(batch), output_attentions=True).attentions for batch in batches]
            return lambda: by_sentence(batches, found)

        return work

    return prepare


def band_by_mask(tokens: int) -> Work:
    """Fused attention over all pairs with a mask of the band."""
    query, key, value = map(torch.from_numpy, band_inputs(tokens))
    position = torch.arange(tokens)
    near = (position[:, None] - position).abs() <= BAND

    @torch.inference_mode()
    def work() -> Describe:
        output = scaled_dot_product_attention(query, key, value, attn_mask=near)
        return lambda: {"output": output.numpy()}

    return work


def band_by_flex(tokens: int) -> Work:
    """FlexAttention, compiled, with a mask of blocks."""
    query, key, value = map(torch.from_numpy, band_inputs(tokens))
    mask = create_block_mask(
        lambda _, __, row, column: (row - column).abs() <= BAND, 1, 1, tokens, tokens, device="cpu"
    )
    attend = torch.compile(flex_attention)

    @torch.inference_mode()
    def work() -> Describe:
        output = attend(query, key, value, block_mask=mask)
        return lambda: {"output": output.numpy()}

    return work


if __name__ == "__main__":
    serve(
        {"one_by_one": capture(batched=False), "batch": capture(batched=True)}
        | by_length("mask", band_by_mask)
        | by_length("flex", band_by_flex)
    )
