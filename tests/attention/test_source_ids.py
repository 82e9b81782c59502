"""Cross-attention that chooses keys by token is told the ids behind the encoder output in use."""

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from zoo.bridged import SMALL, ids, in_double, model, put_in

from attnlab.core.errors import AttnlabError

SPEC = "sigma(window=0, num_pos=2, columns=frequency)"
EXACT = {"rtol": 0, "atol": 0}


def given(seed: int, tokens: int, rows: int = 3) -> dict[str, Tensor]:
    source = ids(rows, tokens, seed)
    return {
        "input_ids": source,
        "attention_mask": torch.ones_like(source),
        "decoder_input_ids": ids(rows, 4, seed + 10),
    }


def decoded(pair: Any, batch: dict[str, Tensor], encoded: Any) -> Tensor:
    rest = {name: tensor for name, tensor in batch.items() if name != "input_ids"}
    return pair(**rest, encoder_outputs=encoded, use_cache=False).logits


def encode(pair: Any, batch: dict[str, Tensor], **options: Any) -> Any:
    return pair.get_encoder()(batch["input_ids"], batch["attention_mask"], **options)


@pytest.mark.parametrize("name", ["marian", "bart", "t5", "attnlab"])
@pytest.mark.parametrize("widths", [(7, 7), (7, 9)])
@torch.no_grad()
def test_texts_encoded_first_and_decoded_later_keep_their_ids(
    name: str, widths: tuple[int, int]
) -> None:
    pair = model(name)
    put_in(pair, {"cross": SPEC})
    batches = [given(seed, width) for seed, width in enumerate(widths)]
    expected = [pair(**batch, use_cache=False).logits for batch in batches]
    encoded = [encode(pair, batch) for batch in batches]
    for batch, memory, logits in zip(batches, encoded, expected, strict=True):
        torch.testing.assert_close(decoded(pair, batch, memory), logits, **EXACT)


@torch.no_grad()
def test_a_tuple_of_tensors_and_a_decoder_alone_keep_them_too() -> None:
    pair = model("marian")
    put_in(pair, {"cross": SPEC})
    batch, other = given(0, 7), given(1, 7)
    expected = pair(**batch, use_cache=False).logits
    memory = encode(pair, batch, return_dict=False)
    encode(pair, other)
    torch.testing.assert_close(decoded(pair, batch, memory), expected, **EXACT)
    hidden = pair.get_decoder()(
        input_ids=batch["decoder_input_ids"],
        encoder_hidden_states=memory[0],
        encoder_attention_mask=batch["attention_mask"],
    )[0]
    torch.testing.assert_close(pair.lm_head(hidden) + pair.final_logits_bias, expected, **EXACT)


@torch.no_grad()
def test_an_encoder_output_of_unknown_ids_is_refused() -> None:
    pair = model("marian")
    put_in(pair, {"cross": SPEC})
    batch = given(0, 7)
    memory = encode(pair, batch, return_dict=False)[0]
    with pytest.raises(AttnlabError, match="encoder_outputs as its own encoder returned them"):
        decoded(pair, batch, (memory + 1,))
    with pytest.raises(AttnlabError, match="encoder_outputs as its own encoder returned them"):
        pair.get_decoder()(batch["decoder_input_ids"], encoder_hidden_states=memory + 1)


@torch.no_grad()
def test_beams_repeat_the_ids_of_their_sentence() -> None:
    pair = model("t5")
    put_in(pair, {"cross": SPEC})
    batch = given(0, 7)
    batch.pop("decoder_input_ids")
    plain: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 5, "do_sample": False}
    together = pair.generate(**batch, **plain)
    for row in range(3):
        alone = pair.generate(**{name: x[row : row + 1] for name, x in batch.items()}, **plain)
        assert torch.equal(together[row, : alone.shape[1]], alone[0])


@torch.no_grad()
def test_a_memory_projected_on_its_way_keeps_its_ids() -> None:
    def build() -> hf.PreTrainedModel:
        wide = hf.BertConfig(**SMALL | {"hidden_size": 24})
        config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(wide, hf.BertConfig(**SMALL))
        return hf.EncoderDecoderModel(config)

    pair = in_double(build)
    put_in(pair, {"cross": SPEC})
    batches = [given(0, 7), given(1, 9)]
    expected = [pair(**batch, use_cache=False).logits for batch in batches]
    encoded = [encode(pair, batch) for batch in batches]
    for batch, memory, logits in zip(batches, encoded, expected, strict=True):
        torch.testing.assert_close(decoded(pair, batch, memory), logits, **EXACT)


def test_layers_computed_again_for_their_gradients_have_the_ids() -> None:
    pair = model("t5")
    put_in(pair, {"cross": SPEC})
    batch = given(0, 7)
    found = []
    for again in (False, True):
        if again:
            pair.activation_checkpointing_enable({"use_reentrant": False})
        pair.train().zero_grad()
        torch.manual_seed(0)
        for part in pair.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        pair(**batch, use_cache=False).logits.square().sum().backward()
        found.append(pair.get_input_embeddings().weight.grad.clone())
    torch.testing.assert_close(found[0], found[1])


@torch.no_grad()
def test_a_decoder_without_an_encoder_does_not_take_its_own_ids_for_the_source() -> None:
    decoder = in_double(
        lambda: hf.BertLMHeadModel(
            hf.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True)
        )
    )
    put_in(decoder, {"cross": SPEC})
    target = ids(2, 5)
    memory = torch.randn(2, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(AttnlabError, match="needs the ids of all keys"):
        decoder(target, encoder_hidden_states=memory)
