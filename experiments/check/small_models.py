"""Small random models of every text architecture that the installed transformers offers."""

from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto
from transformers.pytorch_utils import Conv1D

# The first mapping that has an architecture says which of its classes is built.
MAPPINGS = ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM", "MODEL_FOR_MASKED_LM", "MODEL_FOR_CAUSAL_LM")
MOST_PARAMETERS = 20_000_000
# Parts of a configuration that read no text.
OTHERS = (
    "vision",
    "audio",
    "image",
    "video",
    "speech",
    "acoustic",
    "codec",
    "vq",
    "depth",
    "backbone",
)
LAYERS, HEADS, DIM, WINDOW = 6, 4, 64, 5
SIZES: dict[str, Any] = {
    "vocab_size": 131, "hidden_size": DIM, "d_model": DIM, "num_hidden_layers": LAYERS,
    "num_layers": LAYERS, "num_decoder_layers": LAYERS, "encoder_layers": 2, "decoder_layers": 2,
    "num_encoder_layers": 2, "num_attention_heads": HEADS, "num_heads": HEADS,
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "num_key_value_heads": 2,
    "num_encoder_attention_heads": HEADS, "num_decoder_attention_heads": HEADS, "head_dim": DIM // HEADS,
    "d_kv": DIM // HEADS, "d_ff": 96, "intermediate_size": 96, "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96, "ffn_dim": 96, "max_position_embeddings": 128, "n_positions": 128,
    "sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 2, "window_size": WINDOW,
    "local_attention": 2 * WINDOW, "attention_chunk_size": 8, "attention_window": 8,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1,
    "shared_expert_intermediate_size": 32, "expert_ffn_hidden_size": 32, "embedding_size": 32,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "src_vocab_size": 131, "tgt_vocab_size": 131,
    "vocab_size_per_layer_input": 131, "hidden_size_per_layer_input": 8, "ffn_hidden_size": 96,
    "word_embed_proj_dim": DIM, "lru_width": DIM, "attention_window_size": WINDOW, "block_size": 8,
    "first_k_dense_replace": 1, "rotary_dim": 8, "num_kv_heads": 2, "n_head": HEADS, "n_layer": LAYERS,
    "n_embd": DIM, "decoder_start_token_id": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "mamba_chunk_size": 8, "chunk_size": 8, "mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16,
    "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_expand": 2, "mamba_num_heads": 8, "mamba_head_dim": 16,
    "ssm_state_size": 16, "state_size": 16, "n_groups": 1,
    "sep_token_id": 2, "cls_token_id": 1, "mask_token_id": 3,
}  # fmt: skip
# Where sizes hang together in a way of their own; the last of these that builds a model is taken.
FEWER: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"head_dim", "d_kv"}),
    frozenset({"head_dim", "num_key_value_heads", "num_kv_heads", "rotary_dim"}),
    frozenset({"head_dim", "num_key_value_heads", "num_hidden_layers", "num_layers", "n_layer"}),
    frozenset({"head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "rotary_dim"}),
    frozenset(
        {"qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "q_lora_rank", "kv_lora_rank"}
    ),
    frozenset({"head_dim", "embedding_size", "num_attention_heads", "num_heads", "n_head"}),
)
# The last two layers share keys and values with earlier ones of their types.
_SHARED = {"num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 3}
# What no general rule would guess.
OWN: dict[str, dict[str, Any]] = {
    "longformer": {"attention_window": [8] * LAYERS},
    "led": {"attention_window": [8, 8]},
    "gpt_neo": {"attention_types": [[["global", "local"], 3]], "num_layers": 6},
    "xlnet": {"n_layer": 2, "d_head": 16, "d_inner": 96},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 64, "true_hidden_size": 64},
    "bamba": {"attn_layer_indices": [1, 4]},
    "gemma3n_text": _SHARED,
    "gemma4_text": _SHARED,
    "gemma4_unified_text": _SHARED,
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 3},
    "luke": {"entity_vocab_size": 7, "entity_emb_size": 8},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "reformer": {"axial_pos_embds": False},
    "squeezebert": {"embedding_size": DIM},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}


def architectures() -> Iterator[str]:
    """Names of all that score tokens, in order."""
    names: set[str] = set()
    for mapping in MAPPINGS:
        names |= set(getattr(modeling_auto, f"{mapping}_MAPPING_NAMES"))
    yield from sorted(names)


def class_of(name: str) -> type:
    """The class of the model that scores tokens."""
    for mapping in MAPPINGS:
        found = getattr(modeling_auto, f"{mapping}_MAPPING_NAMES").get(name)
        if found is not None:
            return getattr(transformers, found[0] if isinstance(found, tuple) else found)
    raise KeyError(name)


def reads_other(config_class: type) -> bool:
    """Whether a part of it reads something else than text."""
    parts = getattr(config_class, "sub_configs", {})
    return any(word in part for part in parts for word in OTHERS)


def small_config(config_class: Any, left_out: frozenset[str] = frozenset(), **own: Any) -> Any:
    """The configuration with all sizes small."""
    default = config_class()
    known = {*default.to_dict(), *getattr(default, "attribute_map", {})}
    given = {
        name: value
        for name, value in SIZES.items()
        if name in known and name not in left_out and _fits(getattr(default, name, None), value)
    }
    # Of two names for one size the longer one is asked for.
    mapped = getattr(default, "attribute_map", {})
    given = {name: value for name, value in given.items() if mapped.get(name) not in given}
    if "kv_lora_rank" in given:
        # Latent attention has a key for each query head.
        given["num_key_value_heads"] = HEADS
    for name, part in getattr(config_class, "sub_configs", {}).items():
        if hasattr(part, "to_dict"):
            given[name] = small_config(part, left_out)
    return config_class(**{**given, **own})


def _fits(default: Any, value: Any) -> bool:
    """Whether a value is of the kind of the one that it stands for; None stands for whole numbers."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    listed = isinstance(default, list) and isinstance(value, list)
    return default is None or isinstance(default, int) or listed


def small_model(name: str, seed: int = 0) -> Any:
    """A small model with random weights large enough for every token to matter.

    Raises:
        ValueError: it cannot be built small, or reads more than text.
    """
    kind, config_class = class_of(name), CONFIG_MAPPING[name]
    if reads_other(config_class):
        msg = "reads more than text"
        raise ValueError(msg)
    first = ""
    for left_out in FEWER:
        try:
            config = small_config(config_class, left_out, **OWN.get(name, {}))
            with torch.device("meta"):
                parameters = sum(one.numel() for one in kind(config).parameters())
            if parameters > MOST_PARAMETERS:
                first = first or f"has {parameters:,} parameters at the least"
                continue
            torch.manual_seed(seed)
            model = kind(config)
            scatter(model)
            runs(model)
        except Exception as error:  # noqa: BLE001 - whatever a configuration that does not fit brings about
            lines = str(error).strip().splitlines() or [""]
            first = first or f"{type(error).__name__}: {lines[-1].strip()}"
        else:
            return model
    raise ValueError(first)


@torch.no_grad()
def runs(model: Any) -> None:
    """One pass, which sizes that do not fit each other stop."""
    ids = torch.arange(5, 13)[None]
    mask = torch.ones_like(ids)
    model(
        input_ids=ids,
        attention_mask=mask,
        **({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}),
    )


@torch.no_grad()
def scatter(model: nn.Module) -> None:
    """Draws the weights of linear layers and embeddings so that states stay as large as they come."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.normal_(std=module.in_features**-0.5)
        elif isinstance(module, Conv1D):
            module.weight.normal_(std=module.weight.shape[0] ** -0.5)
        elif isinstance(module, nn.Embedding):
            # Padding too, which is no zero in trained models.
            module.weight.normal_()
