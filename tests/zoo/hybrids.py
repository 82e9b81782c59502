"""Tiny random models of the families where only some layers have attention."""

from collections.abc import Callable
from typing import Any, NamedTuple

import transformers as hf
from zoo.random_models import IDS, TYPES

# Heads are 16 wide; the third and the sixth of six layers attend, unless a family says where.
LAYERS = 6
WITH = (2, 5)
SIZES: dict[str, Any] = {
    "vocab_size": TYPES, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": LAYERS,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, **IDS,
}  # fmt: skip
MAMBA: dict[str, Any] = {
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_expand": 2,
    "mamba_chunk_size": 8,
}  # fmt: skip
DELTA: dict[str, Any] = {
    "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}  # fmt: skip
EXPERTS: dict[str, Any] = {
    "num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}  # fmt: skip

LATENT: dict[str, Any] = {
    **SIZES, "num_key_value_heads": 2, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "num_local_experts": 2, "moe_intermediate_size": 16,
}  # fmt: skip


def types(other: str, attending: str = "full_attention") -> list[str]:
    return [attending if layer in WITH else other for layer in range(LAYERS)]


class Hybrid(NamedTuple):
    """A family.

    Attributes:
        build: makes the model.
        layers: those with attention, by hand.
        replaced: whether mechanisms can be put in.
    """

    build: Callable[[], Any]
    layers: tuple[int, ...] = WITH
    replaced: bool = True


def qwen3_5_with_images() -> Any:
    text = {**SIZES, **DELTA, "layer_types": types("linear_attention")}
    vision = {
        "hidden_size": 16,
        "depth": 2,
        "num_heads": 2,
        "intermediate_size": 16,
        "out_hidden_size": 32,
    }
    config = hf.Qwen3_5Config(text_config=text, vision_config=vision)
    return hf.Qwen3_5ForConditionalGeneration(config)


HYBRIDS: dict[str, Hybrid] = {
    "bamba": Hybrid(
        lambda: hf.BambaForCausalLM(hf.BambaConfig(**SIZES, **MAMBA, attn_layer_indices=[*WITH]))
    ),
    "granitemoehybrid": Hybrid(
        lambda: hf.GraniteMoeHybridForCausalLM(
            hf.GraniteMoeHybridConfig(
                **SIZES, **MAMBA, layer_types=types("mamba", "attention"), num_local_experts=2,
                num_experts_per_tok=1, shared_intermediate_size=16,
            )
        )
    ),
    "jamba": Hybrid(
        lambda: hf.JambaForCausalLM(
            hf.JambaConfig(
                **SIZES, attn_layer_period=3, attn_layer_offset=2, num_experts=2, num_experts_per_tok=1,
                use_mamba_kernels=False, mamba_d_state=8,
            )
        )
    ),
    "lfm2": Hybrid(
        lambda: hf.Lfm2ForCausalLM(hf.Lfm2Config(**SIZES, layer_types=types("conv")))
    ),
    "lfm2_moe": Hybrid(
        lambda: hf.Lfm2MoeForCausalLM(
            hf.Lfm2MoeConfig(**SIZES, layer_types=types("conv"), num_experts=2, num_experts_per_tok=1,
                             moe_intermediate_size=16)
        )
    ),
    "lfm3": Hybrid(
        lambda: hf.Lfm3ForCausalLM(
            hf.Lfm3Config(**SIZES, layer_types=["conv", "conv", "full_attention", "conv", "conv",
                                                "sliding_attention"], sliding_window=4)
        )
    ),
    "nemotron_h": Hybrid(
        lambda: hf.NemotronHForCausalLM(
            hf.NemotronHConfig(
                **{k: v for k, v in SIZES.items() if k != "num_hidden_layers"},
                layers_block_type=["mamba", "mlp", "attention", "mamba", "moe", "attention"],
                head_dim=16, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=8, n_groups=1,
                n_routed_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, chunk_size=8,
                moe_shared_expert_intermediate_size=16,
            )
        )
    ),
    "olmo_hybrid": Hybrid(
        lambda: hf.OlmoHybridForCausalLM(
            hf.OlmoHybridConfig(**SIZES, **DELTA, layer_types=types("linear_attention"))
        )
    ),
    "qwen3_5": Hybrid(
        lambda: hf.Qwen3_5ForCausalLM(
            hf.Qwen3_5TextConfig(**SIZES, **DELTA, layer_types=types("linear_attention"))
        )
    ),
    "qwen3_5 with images": Hybrid(qwen3_5_with_images),
    "qwen3_5_moe": Hybrid(
        lambda: hf.Qwen3_5MoeForCausalLM(
            hf.Qwen3_5MoeTextConfig(
                **SIZES, **DELTA, **EXPERTS, layer_types=types("linear_attention")
            )
        )
    ),
    "qwen3_next": Hybrid(
        lambda: hf.Qwen3NextForCausalLM(
            hf.Qwen3NextConfig(**SIZES, **DELTA, **EXPERTS, layer_types=types("linear_attention"))
        )
    ),
    "recurrent_gemma": Hybrid(
        lambda: hf.RecurrentGemmaForCausalLM(
            hf.RecurrentGemmaConfig(
                **SIZES, head_dim=16, lru_width=32, attention_window_size=4,
                block_types=["recurrent", "recurrent", "attention"],
            )
        )
    ),
    "zamba": Hybrid(
        lambda: hf.ZambaForCausalLM(
            hf.ZambaConfig(
                **{**SIZES, "num_key_value_heads": 2}, attn_layer_period=3, attn_layer_offset=2,
                n_mamba_heads=2, mamba_d_state=8, use_mamba_kernels=False, attention_hidden_size=64,
            )
        )
    ),
    "zamba2": Hybrid(
        lambda: hf.Zamba2ForCausalLM(
            hf.Zamba2Config(
                **{**SIZES, "num_key_value_heads": 2}, layers_block_type=types("mamba", "hybrid"),
                mamba_d_state=8, mamba_headdim=16, n_mamba_heads=4, mamba_ngroups=1, chunk_size=8,
                num_mem_blocks=2,
            )
        )
    ),
    "bailing_hybrid": Hybrid(
        lambda: hf.BailingHybridForCausalLM(
            hf.BailingHybridConfig(
                **LATENT, head_dim=16, num_mtp_layers=0, layer_group_size=3, n_group=1, topk_group=1,
                num_experts_per_tok=1,
            )
        ),
        replaced=False,
    ),
    "kimi_linear": Hybrid(
        lambda: hf.KimiLinearForCausalLM(
            hf.KimiLinearConfig(
                **LATENT, layer_types=types("linear_attention"), linear_head_dim=16, linear_num_heads=2,
                num_experts_per_tok=1,
            )
        ),
        replaced=False,
    ),
    "qwen4_exp": Hybrid(
        lambda: hf.Qwen4ExpForCausalLM(
            hf.Qwen4ExpTextConfig(
                **SIZES, **DELTA, **EXPERTS, layer_types=types("linear_attention", "indexed_attention"),
                hc_count=2, hc_lowrank=8, indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16,
                indexer_budget=16, indexer_compress_ratio=1,
            )
        ),
    ),
}  # fmt: skip
