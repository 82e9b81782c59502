"""Parameters and work of models: the published table, and PyTorch's own counter of operations."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
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
    MixtralConfig,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    PreTrainedConfig,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
)
from zoo.random_models import tokenizer

import attnlab
from attnlab import plot
from attnlab.core.errors import InputError
from attnlab.models.opening import skeleton_of
from attnlab.questions.size.model_figure import blocks_of
from attnlab.results.result import Result

LARGE = BertConfig(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
)
XL = GPT2Config(n_embd=1600, n_layer=48, n_head=25)
# By model, its class and millions of parameters (thesis, table 1).
PUBLISHED: dict[str, tuple[PreTrainedConfig, type, float]] = {
    "GPT-1": (OpenAIGPTConfig(), OpenAIGPTLMHeadModel, 116.5),
    "BERT-large": (LARGE, BertModel, 335),
    "GPT-2 XL": (XL, GPT2LMHeadModel, 1558),
    "BERT-base": (BertConfig(), BertModel, 109),
    "DistilBERT": (DistilBertConfig(), DistilBertModel, 66),
}
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 60}
FAMILIES: dict[str, tuple[type, PreTrainedConfig]] = {
    # One layer's weights, passed by three.
    "albert": (AlbertForMaskedLM, AlbertConfig(**SMALL, intermediate_size=48, embedding_size=16)),
    "distilbert": (
        DistilBertModel,
        DistilBertConfig(dim=32, n_layers=3, n_heads=4, hidden_dim=48, vocab_size=60),
    ),
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_embd=32, n_layer=3, n_head=4, vocab_size=60)),
    "llama": (
        LlamaForCausalLM,
        LlamaConfig(**SMALL, intermediate_size=48, num_key_value_heads=2, tie_word_embeddings=False),
    ),
    "bart": (
        BartForConditionalGeneration,
        BartConfig(
            d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=60,
        ),
    ),
    "t5": (
        T5ForConditionalGeneration,
        T5Config(d_model=32, d_kv=8, num_layers=3, num_heads=4, d_ff=48, vocab_size=60),
    ),
}  # fmt: skip


def written(folder: Path, config: PreTrainedConfig, kind: type | None = None) -> Path:
    config.architectures = None if kind is None else [kind.__name__]
    config.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_configurations_are_the_published_ones(name: str, tmp_path: Path) -> None:
    config, kind, millions = PUBLISHED[name]
    found = attnlab.size(written(tmp_path, config, kind))
    count = found.details["parameters"]
    assert found.size["parameters"].sum() == count
    digits = 1 if millions == 116.5 else 0
    assert round(count / 1e6, digits) == millions


@pytest.mark.parametrize("name", FAMILIES)
def test_work_is_what_pytorch_counts(name: str, tmp_path: Path) -> None:
    """Of a pass over a text of 24 tokens, all pairs scored; of pairs of sentences on both sides."""
    kind, config = FAMILIES[name]
    config._attn_implementation = "eager"
    with torch.random.fork_rng():
        model = kind(config)
    ids = torch.zeros(1, 24, dtype=torch.long)
    more = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=False, **more)
    found = attnlab.size(written(tmp_path, config, kind), tokens=24)
    assert found.size["work"].sum() == counter.get_total_flops() // 2
    by_kind = counter.get_flop_counts()["Global"]
    products = sum(count for kind, count in by_kind.items() if "bmm" in str(kind)) // 2
    between = found.size.set_index("part").loc["scores and mixing"]
    assert (between["work"], between["parameters"]) == (products, 0)


def test_weights_of_a_model_need_not_be_there_and_are_not_read(small_run: Path) -> None:
    config = LlamaConfig(**SMALL, intermediate_size=48)
    model = (LlamaForCausalLM(config), tokenizer())
    found = attnlab.size(model)
    assert found.details["parameters"] == sum(one.numel() for one in model[0].parameters())
    run = attnlab.size(small_run)
    assert run.details["parameters"] == attnlab.load(small_run).model.num_parameters()


def test_cross_attention_of_own_models_is_attention(small_run: Path) -> None:
    model = attnlab.load(small_run).model
    attending = [m for path, m in model.named_modules() if path.endswith((".attention", ".cross"))]
    counted = sum(one.numel() for module in attending for one in module.parameters())
    found = attnlab.size(small_run).size.set_index("part")
    assert found.loc["attention", "parameters"] == counted


@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_hold_every_parameter_once(name: str, tmp_path: Path) -> None:
    kind, config = FAMILIES[name]
    model = skeleton_of(written(tmp_path, config, kind))
    boxes, stacks = blocks_of(model)
    assert sum(part.parameters for part in [*boxes, *stacks]) == model.num_parameters()
    depths = {
        "albert": ["1 layer of 4 heads, passed 3 times"],
        "bart": ["2 layers of 4 heads", "3 layers of 4 heads"],
    }
    # The first layer of each stack of T5 has the relative positions of all.
    depths["t5"] = ["3 layers of 4 heads, the first drawn"] * 2
    assert [stack.layers for stack in stacks] == depths.get(name, ["3 layers of 4 heads"])
    assert [("cross-attention" in {box.name for box in stack.boxes}) for stack in stacks] == (
        [False, True] if config.is_encoder_decoder else [False]
    )


def test_what_a_model_reads_before_its_layers_stands_below_them(tmp_path: Path) -> None:
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16, image_size=32
    )  # fmt: skip
    axes = plot.model(written(tmp_path, config, ViTModel)).axes[0]
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert heights["input"] < heights["encoder: 2 layers of 4 heads"] < heights["other"]


def test_a_model_is_drawn_with_the_shapes_of_its_matrices(
    tmp_path: Path, as_users_call_it: None
) -> None:
    figure = plot.model(written(tmp_path, BertConfig(), BertModel))
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {
        "BertModel: 109,482,240 parameters",
        "encoder: 12 layers of 12 heads",
        "85,054,464",
    } <= texts
    assert {"4 of 768 x 768", "3,072 x 768, 768 x 3,072", "2,362,368"} <= texts
    assert "30,522 x 768, 512 x 768, 2 x 768" in texts
    with pytest.raises(InputError):
        plot.model(5)


def test_stacks_stand_side_by_side_in_the_figure(tmp_path: Path) -> None:
    kind, config = FAMILIES["bart"]
    axes = plot.model(written(tmp_path, config, kind)).axes[0]
    frames = [frame for frame in axes.patches if not frame.get_fill()]
    assert len(frames) == 2
    first, second = (frame.get_bbox() for frame in frames)
    assert 0 < first.x0 < first.x1 < second.x0 < second.x1 < axes.get_xlim()[1]


def sizes(tmp_path: Path, **options: Any) -> Result:
    return attnlab.size(written(tmp_path, *reversed(FAMILIES["llama"])), **options)


def test_the_crossing_is_the_first_length_at_which_attention_is_most(tmp_path: Path) -> None:
    found = sizes(tmp_path, mechanisms=["band(window=4)"])
    start = found.details["crossings"]["full"]
    for tokens, most in ((start - 1, False), (start, True)):
        work = sizes(tmp_path, tokens=tokens).size.set_index("part")["work"]
        assert bool(2 * work["scores and mixing"] > work.sum()) is most
    assert found.details["crossings"]["band(window=4)"] is None
    assert "band(window=4) at no length" in next(iter(found.contents().answers))
    full = found.growth[found.growth["mechanism"] == "full"]
    assert full["work_share"].is_monotonic_increasing
    assert math.isclose(full["between_tokens"].iloc[-1] / full["between_tokens"].iloc[0], 4.0**14)


def test_a_mechanism_that_is_named_twice_is_counted_once(tmp_path: Path) -> None:
    found = sizes(tmp_path, mechanisms=["none", "full", "none"])
    assert found.growth["mechanism"].unique().tolist() == ["full", "none"]
    assert not found.growth.duplicated(["mechanism", "text_length"]).any()


def test_of_experts_those_that_a_token_passes_are_work(tmp_path: Path) -> None:
    config = MixtralConfig(
        **SMALL, intermediate_size=48, num_key_value_heads=2, num_local_experts=4,
        num_experts_per_tok=2,
    )  # fmt: skip
    found = attnlab.size(written(tmp_path, config), tokens=1)
    row = found.size.set_index("part").loc["feed-forward"]
    experts, router = 3 * 4 * 3 * 32 * 48, 3 * 4 * 32
    assert row["parameters"] == experts + router
    assert row["work"] == experts // 2 + router


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no such model"}')
    with pytest.raises(InputError, match="restore the file"):
        attnlab.size(tmp_path)
    with pytest.raises(InputError, match="bandd"):
        sizes(tmp_path, mechanisms=["bandd(window=4)"])
    with pytest.raises(InputError, match="at least 1"):
        sizes(tmp_path, tokens=0)
