"""Tiny random models of many families in float64, and every mechanism that can be put into them."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor

from attnlab.attention.bridge.installing import Installed, install
from attnlab.attention.bridge.sites import mechanism_of
from attnlab.attention.mechanisms.sigma import SigmaAttention
from attnlab.attention.mechanisms.sigma_static import SigmaStaticAttention
from attnlab.attention.registry import make
from attnlab.core.errors import InputError
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel

TYPES = 40
SMALL: dict[str, Any] = {
    "vocab_size": TYPES,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 39,
}
GROUPED = SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2}
PAIR: dict[str, Any] = {
    "vocab_size": TYPES,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 39,
    "forced_eos_token_id": None,
}
SIZES: dict[str, Any] = {
    "dim": 16,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "feed_forward": 24,
}
ENCODERS: dict[str, Any] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SMALL)),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=TYPES, dim=16, n_heads=2, n_layers=2, hidden_dim=24)
    ),
}
DECODERS: dict[str, Any] = {
    "bert-decoder": lambda: hf.BertLMHeadModel(hf.BertConfig(**SMALL, is_decoder=True)),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=TYPES,
            n_embd=16,
            n_head=2,
            n_layer=2,
            n_positions=64,
            bos_token_id=1,
            eos_token_id=39,
        )
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)),
}
PAIRS: dict[str, Any] = {
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**PAIR)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**PAIR)),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=TYPES,
            d_model=16,
            d_kv=8,
            num_heads=2,
            num_layers=2,
            d_ff=24,
            decoder_start_token_id=0,
            eos_token_id=39,
        )
    ),
    "attnlab": lambda: TranslationModel(TranslationConfig(vocab_size=TYPES, **SIZES)),
}
ROPE = {"head_dim": 4, "sliding_window": 4}
# Their own attention says more than padding and causality: windows, caps, sinks.
SCORING: dict[str, Any] = {
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=4)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**GROUPED, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    ),
    "gemma2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**GROUPED, **ROPE, attn_logit_softcapping=2.0, query_pre_attn_scalar=4)
    ),
    "gemma3": lambda: hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(**GROUPED, **ROPE, layer_types=["sliding_attention", "full_attention"])
    ),
    "gpt-oss": lambda: hf.GptOssForCausalLM(
        hf.GptOssConfig(**GROUPED, **ROPE, num_local_experts=2, num_experts_per_tok=1)
    ),
    "modernbert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(
            **SMALL,
            local_attention=4,
            global_attn_every_n_layers=2,
            cls_token_id=1,
            sep_token_id=2,
        )
    ),
}
FAMILIES: dict[str, Any] = ENCODERS | DECODERS | PAIRS

SPECS = [
    "full",
    "band(window=1)",
    "band(window=(2, 0))",
    "longformer(window=1)",
    "bigbird(block=1, random=1)",
    "sigma(window=1)",
    "sigma(window=1, columns='frequency')",
    "sigma(window=1, columns='first')",
    "sigma(window=(0, 1), columns='random', extra=2)",
    "sigma(window=1, num_pos=0, extra=2, entries='offsets')",
    "linear",
    "linear(feature='taylor')",
    "linear(feature='favor', features=8)",
    "linformer(k=3, max_length=64)",
    "linformer(k=3, max_length=64, share='layers')",
    "scatterbrain(window=1, features=8)",
    *(
        f"fixed(pattern='{pattern}')"
        for pattern in ("self", "previous", "next", "left", "right", "start", "end")
    ),
    "topk(k=2)",
    "graph(edges=((0, 0), (1, 0), (1, 2), (2, 2), (3, 1), (5, 4)))",
    "keys(offsets=(-2, 0), first=1)",
    "keys(first=1, last=1)",
    "keys(offsets=(-1,), tokens=(5, 9, 30), reach=3)",
    "static(offsets=(-2, 0), weights=(0.5, 0.25))",
    "static(offsets=(-1, 3), weights=(0.5, 2.0))",
    "gaussian(offset=-1)",
    "synthesizer(max_length=64)",
    "sigma_static(window=1, max_length=64)",
    "none",
]

# One of each mechanism, two where it may choose keys by token id or by place, one that looks ahead: what a
# family of models can treat in its own way. All of SPECS stand in a few families.
KINDS = [
    "full",
    "band(window=1)",
    "longformer(window=1)",
    "bigbird(block=1, random=1)",
    "sigma(window=1)",
    "sigma(window=1, columns='first')",
    "linear",
    "linformer(k=3, max_length=64)",
    "scatterbrain(window=1, features=8)",
    "fixed(pattern='previous')",
    "fixed(pattern='next')",
    "topk(k=2)",
    "graph(edges=((0, 0), (1, 0), (1, 2), (2, 2), (3, 1), (5, 4)))",
    "keys(offsets=(-2, 0), first=1)",
    "keys(offsets=(-1,), tokens=(5, 9, 30), reach=3)",
    "static(offsets=(-2, 0), weights=(0.5, 0.25))",
    "gaussian(offset=-1)",
    "synthesizer(max_length=64)",
    "sigma_static(window=1, max_length=64)",
    "none",
]


def in_double(build: Callable[[], Any]) -> Any:
    """The model in float64 and eval mode, with weights large enough for uneven attention."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = build()
        for path, parameter in built.named_parameters():
            # Marian does not save its positions, which follow from the configuration.
            if "embed_positions" not in path and (parameter.ndim >= 2 or "sinks" in path):
                parameter.data.normal_(std=0.4)
    return built.double().eval()


def model(name: str) -> hf.PreTrainedModel:
    """A model of `FAMILIES` or `SCORING`, ready to be compared."""
    built = in_double((FAMILIES | SCORING)[name])
    if name in SCORING:
        built.set_attn_implementation("eager")
    if name == "gpt-oss":
        built.set_experts_implementation("eager")  # the fused one has no float64
    return built


def stands_at(spec: str, site: str) -> bool:
    """Whether the mechanism has a form for the site."""
    try:
        make(spec, causal=site == "decoder", cross=site == "cross", heads=1, vocabulary=1)
    except InputError:
        return False
    return True


def needs_scores(spec: str) -> bool:
    """Whether the mechanism lacks scores that relative positions could be added to."""
    return not make(spec, heads=1, vocabulary=1).traits.takes_scores


def learned(installed: Installed) -> Installed:
    """The same mechanisms with tables instead of what calibration would learn."""
    generator = torch.Generator().manual_seed(7)
    for at in installed.modules:
        for part in mechanism_of(at.module).modules():
            if isinstance(part, SigmaAttention):
                heads = max((len(table) for table in part.buffers()), default=1)
                part.load_tables(
                    torch.rand(heads, TYPES, generator=generator),
                    torch.tensor([[-2, 3]]).expand(heads, -1),
                )
            if isinstance(part, SigmaStaticAttention):
                part.load_counts(torch.rand(TYPES, generator=generator))
    return installed


def put_in(random: hf.PreTrainedModel, planned: Any) -> Installed:
    """`install` with random projections from a seed, and tables filled in."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return learned(install(random, planned))


def ids(rows: int, tokens: int, seed: int = 1) -> Tensor:
    """Random token ids without padding or special ones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, 39, (rows, tokens), generator=generator)


def by_token(spec: str) -> bool:
    """Whether the mechanism chooses keys by token id."""
    return bool(getattr(make(spec, heads=1, vocabulary=1), "uses_tokens", False))
