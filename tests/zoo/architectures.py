"""Small random models of many architectures, with their attention modules named by hand."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    T5Config,
    T5ForConditionalGeneration,
)

from attnlab.ablation.projections import Layer, Projection, find_projections
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel

TYPES = 23
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2, 0], [11, 12, 13, 2, 0, 0, 0], [7, 7, 21, 15, 16, 17, 2]])
TARGET = torch.tensor([[1, 9, 8, 7, 2], [1, 14, 2, 0, 0], [1, 15, 16, 20, 2]])


class Case(NamedTuple):
    """A model in float64 and eval mode, its attention modules and their output projections."""

    model: nn.Module
    attentions: dict[Layer, nn.Module]
    outputs: dict[Layer, nn.Module]

    def run(self, source: Tensor = SOURCE, target: Tensor = TARGET, **options: Any) -> Any:
        given = {"input_ids": source, "attention_mask": (source != 0).long(), **options}
        if self.model.config.is_encoder_decoder:
            given |= {
                "decoder_input_ids": target,
                "decoder_attention_mask": (target != 0).long(),
                "use_cache": False,
            }
        return self.model(**given)

    def result(self) -> Tensor:
        """The model's last states or logits at real tokens."""
        with torch.no_grad():
            found = self.run()
        states = found.logits if "logits" in found else found.last_hidden_state
        ids = TARGET if states.shape[1] == TARGET.shape[1] else SOURCE
        return states[ids != 0]

    def projections(self) -> dict[Layer, Projection]:
        return find_projections(
            self.model,
            {layer: (module, 0) for layer, module in self.attentions.items()},
            lambda: self.run(output_attentions=True),
        )


def ready(build: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build()
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower():
                parameter.data.normal_(std=0.4)
    if hasattr(model, "set_attn_implementation") and not isinstance(model, TranslationModel):
        model.set_attn_implementation("eager")
    return model.double().eval()


def bert() -> Case:
    config = BertConfig(
        vocab_size=TYPES, hidden_size=15, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=11, max_position_embeddings=17,
    )  # fmt: skip
    model = ready(lambda: BertModel(config))
    layers = enumerate(model.encoder.layer)
    parts = {
        ("encoder", n): (layer.attention.self, layer.attention.output.dense) for n, layer in layers
    }
    return case(model, parts)


def distilbert() -> Case:
    config = DistilBertConfig(
        vocab_size=TYPES, dim=15, n_layers=2, n_heads=3, hidden_dim=11, max_position_embeddings=17
    )
    model = ready(lambda: DistilBertModel(config))
    layers = enumerate(model.transformer.layer)
    return case(
        model, {("encoder", n): (layer.attention, layer.attention.out_lin) for n, layer in layers}
    )


def two_stacks(model: nn.Module) -> Case:
    body = model.model
    parts = {}
    for n, layer in enumerate(body.encoder.layers):
        parts["encoder", n] = (layer.self_attn, layer.self_attn.out_proj)
    for n, layer in enumerate(body.decoder.layers):
        parts["decoder", n] = (layer.self_attn, layer.self_attn.out_proj)
        parts["cross", n] = (layer.encoder_attn, layer.encoder_attn.out_proj)
    return case(model, parts)


SIZES: dict[str, Any] = {
    "vocab_size": TYPES, "d_model": 15, "encoder_layers": 2, "decoder_layers": 1,
    "encoder_attention_heads": 3, "decoder_attention_heads": 5, "encoder_ffn_dim": 11,
    "decoder_ffn_dim": 7, "max_position_embeddings": 19, "decoder_start_token_id": 1,
    "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip


def marian() -> Case:
    return two_stacks(ready(lambda: MarianMTModel(MarianConfig(**SIZES))))


def bart() -> Case:
    return two_stacks(ready(lambda: BartForConditionalGeneration(BartConfig(**SIZES))))


def t5() -> Case:
    config = T5Config(
        vocab_size=TYPES, d_model=15, d_kv=7, d_ff=11, num_layers=2, num_heads=3,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=2,
    )  # fmt: skip
    model = ready(lambda: T5ForConditionalGeneration(config))
    parts = {}
    for n, block in enumerate(model.encoder.block):
        parts["encoder", n] = (block.layer[0].SelfAttention, block.layer[0].SelfAttention.o)
    for n, block in enumerate(model.decoder.block):
        parts["decoder", n] = (block.layer[0].SelfAttention, block.layer[0].SelfAttention.o)
        parts["cross", n] = (block.layer[1].EncDecAttention, block.layer[1].EncDecAttention.o)
    return case(model, parts)


def llama() -> Case:
    config = LlamaConfig(
        vocab_size=TYPES, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=11, max_position_embeddings=17,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = ready(lambda: LlamaForCausalLM(config))
    layers = enumerate(model.model.layers)
    return case(
        model, {("decoder", n): (layer.self_attn, layer.self_attn.o_proj) for n, layer in layers}
    )


def gpt2() -> Case:
    config = GPT2Config(vocab_size=TYPES, n_embd=15, n_layer=2, n_head=3, n_positions=17)
    model = ready(lambda: GPT2LMHeadModel(config))
    layers = enumerate(model.transformer.h)
    return case(model, {("decoder", n): (layer.attn, layer.attn.c_proj) for n, layer in layers})


def own(**options: Any) -> Case:
    config = TranslationConfig(
        vocab_size=TYPES, dim=15, heads=3, encoder_layers=2, decoder_layers=2, feed_forward=11,
        **options,
    )  # fmt: skip
    model = ready(lambda: TranslationModel(config))
    parts = {}
    for n, layer in enumerate(model.encoder.layers):
        parts["encoder", n] = (layer.attention, layer.attention.output)
    for n, layer in enumerate(model.decoder.layers):
        parts["decoder", n] = (layer.attention, layer.attention.output)
        parts["cross", n] = (layer.cross, layer.cross.output)
    return case(model, parts)


def case(model: nn.Module, parts: dict[Layer, tuple[nn.Module, nn.Module]]) -> Case:
    attentions = {layer: attention for layer, (attention, _) in parts.items()}
    return Case(model, attentions, {layer: output for layer, (_, output) in parts.items()})


CASES = {
    "attnlab": own, "bert": bert, "distilbert": distilbert, "marian": marian, "bart": bart,
    "t5": t5, "llama": llama, "gpt2": gpt2,
}  # fmt: skip


def columns(projection: nn.Module, heads: int, head: int) -> Tensor:
    """The part of a projection's weights that reads one head, as a view."""
    weight = projection.weight if isinstance(projection, nn.Linear) else projection.weight.T
    return weight.unflatten(1, (heads, -1))[:, head]
