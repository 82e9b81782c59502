"""Tiny random models of the families that transformers offers: those analyzed, those refused."""

from collections.abc import Callable
from typing import Any

import transformers as hf
from zoo.random_models import IDS, TYPES

SIZES: dict[str, Any] = {
    "vocab_size": TYPES, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 11, "max_position_embeddings": 40,
}  # fmt: skip
LEFT = dict(SIZES, num_key_value_heads=1, **IDS)
PAIR: dict[str, Any] = {
    "vocab_size": TYPES, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 11,
    "decoder_ffn_dim": 11, "max_position_embeddings": 40, "decoder_start_token_id": 2, **IDS,
}  # fmt: skip
BOTH = dict(SIZES, pad_token_id=0)
WIDE = dict(LEFT, hidden_size=24, head_dim=8)

# Families whose attention is that of another here in other words: of a Llama, a BERT, a BART.
TWINS = {
    "gemma", "qwen2", "qwen3", "mixtral", "cohere", "stablelm", "granite", "starcoder2",
    "roberta", "xlm_r", "camembert", "electra", "ernie", "esm", "biogpt",
    "mbart", "m2m100", "pegasus", "blenderbot", "blenderbot_small", "plbart", "umt5",
}  # fmt: skip

ANALYZED: dict[str, Callable[[], Any]] = {
    "albert": lambda: hf.AlbertModel(hf.AlbertConfig(**BOTH, embedding_size=7)),
    "falcon": lambda: hf.FalconForCausalLM(
        hf.FalconConfig(
            vocab_size=TYPES,
            hidden_size=12,
            num_hidden_layers=2,
            num_attention_heads=3,
            alibi=False,
            **IDS,
        )
    ),
    "falcon-alibi": lambda: hf.FalconForCausalLM(
        hf.FalconConfig(
            vocab_size=TYPES,
            hidden_size=12,
            num_hidden_layers=2,
            num_attention_heads=3,
            alibi=True,
            **IDS,
        )
    ),
    "gpt_oss": lambda: hf.GptOssForCausalLM(
        hf.GptOssConfig(
            **dict(WIDE, intermediate_size=16),
            num_local_experts=2,
            num_experts_per_tok=1,
            sliding_window=4,
        )
    ),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**WIDE)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**WIDE, sliding_window=4)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**WIDE, sliding_window=4)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**LEFT, sliding_window=4)),
    "mixtral": lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(**dict(LEFT, hidden_size=24, intermediate_size=16), num_local_experts=2)
    ),
    "qwen2": lambda: hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**LEFT, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    ),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**WIDE)),
    "phi": lambda: hf.PhiForCausalLM(
        hf.PhiConfig(**dict(LEFT, num_key_value_heads=3, hidden_size=24))
    ),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**LEFT)),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**LEFT)),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**LEFT)),
    "stablelm": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**dict(LEFT, hidden_size=24))),
    "granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(**LEFT)),
    "starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**LEFT)),
    "modernbert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(
            **dict(BOTH, hidden_size=24),
            local_attention=4,
            global_attn_every_n_layers=2,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
        )
    ),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(**dict(SIZES, hidden_size=24), **IDS)
    ),
    "gptj": lambda: hf.GPTJForCausalLM(
        hf.GPTJConfig(
            vocab_size=TYPES, n_embd=24, n_layer=2, n_head=3, n_positions=40, rotary_dim=4, **IDS
        )
    ),
    "gpt_neo": lambda: hf.GPTNeoForCausalLM(
        hf.GPTNeoConfig(
            vocab_size=TYPES,
            hidden_size=12,
            num_layers=2,
            num_heads=3,
            attention_types=[[["global", "local"], 1]],
            window_size=4,
            max_position_embeddings=40,
            **IDS,
        )
    ),
    "gpt_bigcode": lambda: hf.GPTBigCodeForCausalLM(
        hf.GPTBigCodeConfig(vocab_size=TYPES, n_embd=12, n_layer=2, n_head=3, n_positions=40, **IDS)
    ),
    "opt": lambda: hf.OPTForCausalLM(
        hf.OPTConfig(
            vocab_size=TYPES,
            hidden_size=12,
            num_hidden_layers=2,
            num_attention_heads=3,
            ffn_dim=11,
            max_position_embeddings=40,
            word_embed_proj_dim=12,
            **IDS,
        )
    ),
    "bloom": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(vocab_size=TYPES, hidden_size=12, n_layer=2, n_head=3, **IDS)
    ),
    "mpt": lambda: hf.MptForCausalLM(
        hf.MptConfig(vocab_size=TYPES, d_model=12, n_layers=2, n_heads=3, max_seq_len=40)
    ),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**BOTH)),
    "xlm_r": lambda: hf.XLMRobertaModel(hf.XLMRobertaConfig(**BOTH)),
    "xlm_r_xl": lambda: hf.XLMRobertaXLModel(hf.XLMRobertaXLConfig(**BOTH)),
    "camembert": lambda: hf.CamembertModel(hf.CamembertConfig(**BOTH)),
    "electra": lambda: hf.ElectraModel(hf.ElectraConfig(**BOTH, embedding_size=7)),
    "mpnet": lambda: hf.MPNetModel(hf.MPNetConfig(**BOTH)),
    "deberta": lambda: hf.DebertaModel(
        hf.DebertaConfig(**BOTH, relative_attention=True, pos_att_type=["c2p", "p2c"])
    ),
    "deberta_v2": lambda: hf.DebertaV2Model(
        hf.DebertaV2Config(**BOTH, relative_attention=True, pos_att_type=["c2p", "p2c"])
    ),
    "mobilebert": lambda: hf.MobileBertModel(
        hf.MobileBertConfig(**BOTH, embedding_size=8, intra_bottleneck_size=12, true_hidden_size=12)
    ),
    "layoutlm": lambda: hf.LayoutLMModel(hf.LayoutLMConfig(**BOTH)),
    "roformer": lambda: hf.RoFormerModel(hf.RoFormerConfig(**dict(BOTH, hidden_size=12))),
    "xlnet": lambda: hf.XLNetModel(
        hf.XLNetConfig(vocab_size=TYPES, d_model=12, n_layer=2, n_head=3, d_inner=11)
    ),
    "xlm": lambda: hf.XLMModel(
        hf.XLMConfig(
            vocab_size=TYPES,
            emb_dim=12,
            n_layers=2,
            n_heads=3,
            max_position_embeddings=40,
            pad_index=0,
        )
    ),
    "flaubert": lambda: hf.FlaubertModel(
        hf.FlaubertConfig(
            vocab_size=TYPES,
            emb_dim=12,
            n_layers=2,
            n_heads=3,
            max_position_embeddings=40,
            pad_index=0,
        )
    ),
    "esm": lambda: hf.EsmModel(hf.EsmConfig(**BOTH)),
    "ctrl": lambda: hf.CTRLModel(
        hf.CTRLConfig(vocab_size=TYPES, n_embd=12, n_layer=2, n_head=3, dff=11, n_positions=40)
    ),
    "openai_gpt": lambda: hf.OpenAIGPTModel(
        hf.OpenAIGPTConfig(vocab_size=TYPES, n_embd=12, n_layer=2, n_head=3, n_positions=40)
    ),
    "biogpt": lambda: hf.BioGptForCausalLM(hf.BioGptConfig(**SIZES, **IDS)),
    "xglm": lambda: hf.XGLMForCausalLM(
        hf.XGLMConfig(
            vocab_size=TYPES,
            d_model=12,
            num_layers=2,
            attention_heads=3,
            ffn_dim=11,
            max_position_embeddings=40,
            **IDS,
        )
    ),
    "codegen": lambda: hf.CodeGenForCausalLM(
        hf.CodeGenConfig(
            vocab_size=TYPES, n_embd=32, n_layer=2, n_head=4, n_positions=40, rotary_dim=4, **IDS
        )
    ),
    "persimmon": lambda: hf.PersimmonForCausalLM(
        hf.PersimmonConfig(**dict(SIZES, hidden_size=24), **IDS)
    ),
    "deepseek_v3": lambda: hf.DeepseekV3ForCausalLM(
        hf.DeepseekV3Config(
            **dict(SIZES, hidden_size=24),
            q_lora_rank=8,
            kv_lora_rank=8,
            qk_rope_head_dim=4,
            qk_nope_head_dim=4,
            v_head_dim=5,
            first_k_dense_replace=2,
            num_key_value_heads=3,
            **IDS,
        )
    ),
    "bert_decoder": lambda: hf.BertLMHeadModel(hf.BertConfig(**BOTH, is_decoder=True)),
    "rembert": lambda: hf.RemBertModel(hf.RemBertConfig(**BOTH, input_embedding_size=8)),
    "ernie": lambda: hf.ErnieModel(hf.ErnieConfig(**BOTH)),
    "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**PAIR)),
    "m2m100": lambda: hf.M2M100ForConditionalGeneration(hf.M2M100Config(**PAIR)),
    "nllb_moe": lambda: hf.NllbMoeForConditionalGeneration(
        hf.NllbMoeConfig(**PAIR, num_experts=2, encoder_sparse_step=2, decoder_sparse_step=2)
    ),
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**PAIR)),
    "blenderbot": lambda: hf.BlenderbotForConditionalGeneration(hf.BlenderbotConfig(**PAIR)),
    "blenderbot_small": lambda: hf.BlenderbotSmallForConditionalGeneration(
        hf.BlenderbotSmallConfig(**PAIR)
    ),
    "plbart": lambda: hf.PLBartForConditionalGeneration(hf.PLBartConfig(**PAIR)),
    "fsmt": lambda: hf.FSMTForConditionalGeneration(
        hf.FSMTConfig(
            langs=["en", "de"],
            src_vocab_size=TYPES,
            tgt_vocab_size=TYPES,
            d_model=12,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=3,
            decoder_attention_heads=3,
            encoder_ffn_dim=11,
            decoder_ffn_dim=11,
            max_position_embeddings=40,
            decoder_start_token_id=2,
            **IDS,
        )
    ),
    "mt5": lambda: hf.MT5ForConditionalGeneration(
        hf.MT5Config(
            vocab_size=TYPES,
            d_model=12,
            d_kv=4,
            d_ff=11,
            num_layers=2,
            num_heads=3,
            decoder_start_token_id=0,
            **IDS,
        )
    ),
    "umt5": lambda: hf.UMT5ForConditionalGeneration(
        hf.UMT5Config(
            vocab_size=TYPES,
            d_model=12,
            d_kv=4,
            d_ff=11,
            num_layers=2,
            num_heads=3,
            decoder_start_token_id=0,
            **IDS,
        )
    ),
    "switch": lambda: hf.SwitchTransformersForConditionalGeneration(
        hf.SwitchTransformersConfig(
            vocab_size=TYPES,
            d_model=12,
            d_kv=4,
            d_ff=11,
            num_layers=2,
            num_heads=3,
            num_experts=2,
            decoder_start_token_id=0,
            **IDS,
        )
    ),
    "bert2bert": lambda: hf.EncoderDecoderModel(
        hf.EncoderDecoderConfig.from_encoder_decoder_configs(
            hf.BertConfig(**BOTH), hf.BertConfig(**BOTH), decoder_start_token_id=2, pad_token_id=0
        )
    ),
}

# Their heads are read, and cannot be ablated.
READ: dict[str, Callable[[], Any]] = {
    "prophetnet": lambda: hf.ProphetNetForConditionalGeneration(
        hf.ProphetNetConfig(
            vocab_size=TYPES,
            hidden_size=12,
            num_encoder_layers=2,
            num_decoder_layers=2,
            num_encoder_attention_heads=3,
            num_decoder_attention_heads=3,
            encoder_ffn_dim=11,
            decoder_ffn_dim=11,
            max_position_embeddings=40,
            decoder_start_token_id=2,
            **IDS,
        )
    ),
}

REFUSED: dict[str, Callable[[], Any]] = {
    "convbert": lambda: hf.ConvBertModel(hf.ConvBertConfig(**BOTH, initializer_range=0.5)),
    "nystromformer": lambda: hf.NystromformerModel(
        hf.NystromformerConfig(**BOTH, segment_means_seq_len=40, num_landmarks=40)
    ),
    "squeezebert": lambda: hf.SqueezeBertModel(
        hf.SqueezeBertConfig(
            **dict(BOTH, hidden_size=16, num_attention_heads=4, intermediate_size=16),
            embedding_size=16,
        )
    ),
    "funnel": lambda: hf.FunnelModel(
        hf.FunnelConfig(
            vocab_size=TYPES, d_model=12, n_head=3, d_head=4, d_inner=11, block_sizes=[1, 1]
        )
    ),
    "big_bird": lambda: hf.BigBirdModel(hf.BigBirdConfig(**BOTH)),
    "longformer": lambda: hf.LongformerModel(
        hf.LongformerConfig(**BOTH, attention_window=4, sep_token_id=2)
    ),
    "fnet": lambda: hf.FNetModel(
        hf.FNetConfig(vocab_size=TYPES, hidden_size=12, num_hidden_layers=2, intermediate_size=11)
    ),
    "mamba": lambda: hf.MambaForCausalLM(
        hf.MambaConfig(vocab_size=TYPES, hidden_size=12, num_hidden_layers=2, state_size=4)
    ),
    "pegasus_x": lambda: hf.PegasusXForConditionalGeneration(
        hf.PegasusXConfig(**PAIR, num_global_tokens=2, block_size=4)
    ),
    "led": lambda: hf.LEDForConditionalGeneration(
        hf.LEDConfig(
            vocab_size=TYPES,
            d_model=12,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=3,
            decoder_attention_heads=3,
            encoder_ffn_dim=11,
            decoder_ffn_dim=11,
            attention_window=4,
            decoder_start_token_id=2,
            **IDS,
        )
    ),
    "longt5": lambda: hf.LongT5ForConditionalGeneration(
        hf.LongT5Config(
            vocab_size=TYPES,
            d_model=12,
            d_kv=4,
            d_ff=11,
            num_layers=2,
            num_heads=3,
            local_radius=3,
            decoder_start_token_id=0,
            **IDS,
        )
    ),
}
