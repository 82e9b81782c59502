"""attnlab's mechanisms inside random transformers models, in and out again."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from torch import Tensor, nn

from attnlab.attention.bridge.installing import install, use
from attnlab.attention.bridge.saved import install_written
from attnlab.attention.bridge.sites import attention_modules, mechanism_of
from attnlab.attention.mechanism import Mechanism
from attnlab.attention.registry import make
from attnlab.core.errors import AttnlabError, InputError
from attnlab.models.configuration import TranslationConfig
from attnlab.models.model import TranslationModel

SMALL = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
PAIR = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 39,
    "forced_eos_token_id": None,
}
MODELS: dict[str, Any] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SMALL, num_hidden_layers=2)),
    "bert-decoder": lambda: hf.BertLMHeadModel(
        hf.BertConfig(**SMALL, num_hidden_layers=2, is_decoder=True)
    ),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=40, dim=16, n_heads=2, n_layers=2, hidden_dim=24)
    ),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**PAIR)),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**PAIR)),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=40,
            d_model=16,
            d_kv=8,
            num_heads=2,
            num_layers=2,
            d_ff=24,
            decoder_start_token_id=0,
        )
    ),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=40, n_embd=16, n_head=2, n_layer=2, n_positions=32)
    ),
    "llama": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(
            **SMALL | {"num_attention_heads": 4}, num_hidden_layers=2, num_key_value_heads=2
        )
    ),
}
PAIRS = ("marian", "bart", "t5")
LENGTHS = torch.tensor([11, 7, 3])
VISIBLE = torch.arange(11) < LENGTHS[:, None]


def model(name: str) -> hf.PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MODELS[name]().eval()


def inputs(name: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 39, (3, 11), generator=generator).masked_fill(~VISIBLE, 0)
    given = {"input_ids": ids, "attention_mask": VISIBLE.long()}
    if name in PAIRS:
        given["decoder_input_ids"] = torch.randint(2, 39, (3, 5), generator=generator)
    return given


def output(name: str, of: hf.PreTrainedModel, **more: Tensor) -> Tensor:
    with torch.no_grad():
        out = of(**inputs(name) | more)
    logits = out[0]
    return logits if name in PAIRS else logits[VISIBLE]


@pytest.mark.parametrize("name", MODELS)
def test_full_attention_changes_nothing_and_leaves_no_trace(name: str) -> None:
    random = model(name)
    before, keys = output(name, random), list(random.state_dict())
    with use(random, "full"):
        torch.testing.assert_close(output(name, random), before, rtol=0, atol=1e-6)
    assert torch.equal(output(name, random), before)
    assert list(random.state_dict()) == keys


@pytest.mark.parametrize("name", MODELS)
def test_sites_and_layers_are_found(name: str) -> None:
    modules = attention_modules(model(name))
    sites = [(at.site, at.layer) for at in modules]
    expected = {site: [0, 1] for site in ("encoder", "decoder", "cross")}
    if name in ("bert", "distilbert"):
        expected = {"encoder": [0, 1]}
    if name in ("llama", "gpt2", "bert-decoder"):
        expected = {"decoder": [0, 1]}
    assert {site: [n for other, n in sites if other == site] for site, _ in sites} == expected
    assert {at.heads for at in modules} == {4 if name == "llama" else 2}


@pytest.mark.parametrize("name", MODELS)
def test_a_wide_band_is_full_attention_and_a_narrow_one_is_not(name: str) -> None:
    random = model(name)
    before = output(name, random)
    with use(random, "band(window=11)"):
        torch.testing.assert_close(output(name, random), before, rtol=0, atol=1e-6)
    with use(random, "band(window=1)"):
        narrow = output(name, random)
    assert float((narrow - before).abs().max()) > 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_returned_attentions_are_the_matrices_that_were_applied(name: str) -> None:
    random = model(name)
    with use(random, "band(window=1)"), torch.no_grad():
        out = random(**inputs(name), output_attentions=True)
    parts = {key: out[key] for key in out if key.endswith("attentions") and len(out[key])}
    assert parts
    for matrices in parts.values():
        assert len(matrices) == 2
        for matrix in matrices:
            offset = torch.arange(matrix.shape[-1]) - torch.arange(matrix.shape[-2])[:, None]
            assert not bool(matrix[..., offset.abs() > 1].any())
            sums = matrix.sum(-1)
            assert bool(((sums - 1).abs() < 1e-5).logical_or(sums == 0).all())


@pytest.mark.parametrize("name", ["marian", "t5", "bart", "llama", "gpt2"])
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_with_a_cache_equals_generation_without(name: str, beams: int) -> None:
    random = model(name)
    given = inputs(name)
    if name in PAIRS:
        given.pop("decoder_input_ids")
    else:
        given = {key: tensor.flip(1) for key, tensor in given.items()}  # padding in front
    plain = {
        "max_new_tokens": 6,
        "do_sample": False,
        "num_beams": beams,
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    before = random.generate(**given, **plain)
    with use(random, "full"):
        assert torch.equal(random.generate(**given, **plain), before)
    with use(random, {"decoder": "band(window=2)"}):
        cached = random.generate(**given, **plain)
        assert torch.equal(random.generate(**given, **plain, use_cache=False), cached)
    assert torch.equal(random.generate(**given, **plain), before)


def test_two_models_swapped_in_either_order_come_back_bit_identical() -> None:
    models = {name: model(name) for name in ("bert", "marian")}
    before = {name: output(name, of) for name, of in models.items()}
    for first, second in (("bert", "marian"), ("marian", "bert")):
        one = install(models[first], "band(window=1)")
        two = install(models[second], "linear" if second == "bert" else "topk(k=2)")
        changed = {name: output(name, of) for name, of in models.items()}
        one.remove()
        assert torch.equal(output(first, models[first]), before[first])
        assert torch.equal(output(second, models[second]), changed[second])
        two.remove()
        for name, of in models.items():
            assert torch.equal(output(name, of), before[name])
            assert not torch.equal(changed[name], before[name])


def test_an_error_inside_gives_the_model_back() -> None:
    random = model("bert")
    before = output("bert", random)
    with pytest.raises(RuntimeError, match="inside"), use(random, "topk(k=1)"):
        raise RuntimeError("inside")
    assert torch.equal(output("bert", random), before)


@pytest.mark.parametrize("name", ["marian", "bert"])
def test_each_head_follows_the_plan(name: str) -> None:
    random = model(name)
    with use(random, {"encoder.1.0": "fixed(pattern='previous')"}), torch.no_grad():
        out = random(**inputs(name), output_attentions=True)
    matrices = out["encoder_attentions" if name == "marian" else "attentions"]
    previous = torch.zeros(11, 11)
    previous[0, 0] = 1
    previous[torch.arange(1, 11), torch.arange(10)] = 1
    assert torch.equal(matrices[1][0, 0], previous)
    assert not torch.equal(matrices[1][0, 1], previous)
    assert not torch.equal(matrices[0][0, 0], previous)


def test_padding_is_not_seen() -> None:
    random = model("bert")
    for spec in (
        "band(window=3)",
        "linear",
        "bigbird(block=2, random=1)",
        "linformer(k=4)",
        "sigma(window=1, columns='first')",
    ):
        with torch.random.fork_rng(), use(random, spec):
            torch.manual_seed(0)
            out = output("bert", random)
            changed = inputs("bert")["input_ids"].masked_fill(~VISIBLE, 17)
            assert torch.equal(output("bert", random, input_ids=changed), out)


def test_sigma_learns_by_the_ids_that_the_encoder_reads() -> None:
    random = model("marian")
    spec = "sigma(window=1, num_pos=2)"
    with use(random, {"encoder": spec, "cross": spec}) as installed:
        for at in installed.modules:
            if at.site != "decoder":
                mechanism_of(at.module).load_tables(torch.arange(40.0).expand(2, -1))
        with torch.no_grad():
            out = random(**inputs("marian"), output_attentions=True)
        ids = inputs("marian")["input_ids"][0]
        rarest = ids.argsort(descending=True, stable=True)[:2]
        for matrix in (out.encoder_attentions[0][0], out.cross_attentions[1][0]):
            assert bool((matrix[:, :, rarest] > 0).all())
            assert int((matrix > 0).sum(-1).max()) <= 5
        given = {key: inputs("marian")[key] for key in ("input_ids", "attention_mask")}
        assert random.generate(**given, num_beams=2, max_new_tokens=3).shape[0] == 3
    decoder = use(random, {"decoder": spec})
    with decoder as installed:
        for at in installed.modules:
            if at.site == "decoder":
                mechanism_of(at.module).load_tables(torch.arange(40.0).expand(2, -1))
        with pytest.raises(AttnlabError, match="use_cache=False"):
            random.generate(**given, max_new_tokens=3, use_cache=True)
        assert random.generate(**given, max_new_tokens=3).shape[0] == 3


def test_learned_mechanisms_train_and_are_written_and_read(tmp_path: Path) -> None:
    random = model("bert")
    installed = install(
        random, {"encoder.0": "linformer(k=3)", "encoder.1.1": "linformer(k=3, share='kv')"}
    )
    trained = {name for name, _ in random.named_parameters() if "attnlab" in name}
    assert len(trained) == 3
    random(**inputs("bert")).last_hidden_state.square().sum().backward()
    assert all(
        bool((part.grad != 0).any()) for name, part in random.named_parameters() if name in trained
    )
    with torch.no_grad():
        for name, part in random.named_parameters():
            if name in trained:
                part.add_(0.5)
    expected = output("bert", random)
    installed.write(tmp_path)
    installed.remove()
    again = install_written(random, tmp_path)
    assert torch.equal(output("bert", random), expected)
    again.remove()
    assert trained.isdisjoint(dict(random.named_parameters()))


SHARED = "linformer(k=3, share='layers')"


def projections(random: hf.PreTrainedModel) -> list[nn.Parameter]:
    return [part.key_projection for part in random.modules() if hasattr(part, "key_projection")]


def test_layers_share_one_linformer_projection_that_trains_once() -> None:
    random = model("bert")
    with use(random, SHARED):
        first, second = projections(random)
        assert first is second
        assert sum("attnlab" in name for name, _ in random.named_parameters()) == 1
        random(**inputs("bert")).last_hidden_state.square().sum().backward()
        shared, start = first.grad.clone(), first.detach().clone()
        torch.optim.SGD(random.parameters(), lr=0.1).step()
        torch.testing.assert_close(first.detach(), start - 0.1 * shared)
    apart = model("bert")
    with use(apart, "linformer(k=3, share='kv')"):
        for own in projections(apart):
            own.data.copy_(start)
        apart(**inputs("bert")).last_hidden_state.square().sum().backward()
        one, other = (own.grad for own in projections(apart))
    torch.testing.assert_close(shared, one + other)


def test_a_shared_projection_is_written_and_read(tmp_path: Path) -> None:
    random = model("bert")
    installed = install(random, SHARED)
    with torch.no_grad():
        projections(random)[0].add_(0.5)
    expected = output("bert", random)
    installed.write(tmp_path)
    random.save_pretrained(tmp_path / "whole")
    written = load_file(tmp_path / "whole" / "model.safetensors")
    assert sum("attnlab" in name for name in written) == 1
    installed.remove()
    again = install_written(random, tmp_path)
    first, second = projections(random)
    assert first is second
    assert torch.equal(output("bert", random), expected)
    again.remove()


def test_unlike_shared_projections_are_refused_and_leave_the_model_as_it_was() -> None:
    random = model("bert")
    before, keys = output("bert", random), list(random.state_dict())
    unlike = {"encoder.0": SHARED, "encoder.1": "linformer(k=4, share='layers')"}
    with pytest.raises(InputError, match="cannot share one projection"):
        install(random, unlike)
    assert list(random.state_dict()) == keys
    assert torch.equal(output("bert", random), before)


def test_dropout_follows_the_model() -> None:
    random = model("bert")
    with use(random, "band(window=3)") as installed:
        output("bert", random)
        assert {part.dropout for part in random.modules() if isinstance(part, Mechanism)} == {0.0}
        random.train()
        with torch.random.fork_rng():
            random(**inputs("bert"))
        assert mechanism_of(installed.modules[0].module).dropout == pytest.approx(0.1)
        random.eval()


@pytest.mark.parametrize("name", ["big_bird", "longformer", "deberta", "led", "falcon", "alibi"])
def test_models_that_hard_code_their_attention_are_refused(name: str) -> None:
    small = {
        "vocab_size": 40,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    hard: dict[str, Any] = {
        "big_bird": lambda: hf.BigBirdModel(hf.BigBirdConfig(**small)),
        "longformer": lambda: hf.LongformerModel(hf.LongformerConfig(**small, attention_window=4)),
        "deberta": lambda: hf.DebertaModel(hf.DebertaConfig(**small)),
        "falcon": lambda: hf.FalconForCausalLM(hf.FalconConfig(**small)),
        "alibi": lambda: hf.FalconForCausalLM(hf.FalconConfig(**small, alibi=True)),
        "led": lambda: hf.LEDModel(
            hf.LEDConfig(
                vocab_size=40,
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=24,
                decoder_ffn_dim=24,
                attention_window=4,
            )
        ),
    }
    with torch.random.fork_rng():
        refused = hard[name]()
    before = refused.config._attn_implementation
    with pytest.raises(InputError, match="not through transformers' AttentionInterface"):
        install(refused, "band(window=3)")
    assert refused.config._attn_implementation == before


def test_what_cannot_be_is_refused_and_leaves_the_model_as_it_was() -> None:
    random = model("marian")
    before = output("marian", random)
    for planned, message in (
        ("linformer(k=3)", "no causal form"),
        ({"encoder.2": "full"}, "encoder has attention in layers 0, 1 with 2 heads"),
        ({"encoder": "band"}, "needs the option 'window'"),
    ):
        with pytest.raises(InputError, match=message):
            install(random, planned)
        assert torch.equal(output("marian", random), before)
    with use(random, "full"), pytest.raises(InputError, match="take those out first"):
        install(random, "full")


def test_relative_positions_of_which_some_are_zero_are_added() -> None:
    random = model("t5")
    for name, table in random.named_parameters():
        if "relative_attention_bias" in name:
            table.data[::2] = 0.0
    random.requires_grad_(False)
    before = output("t5", random)
    with use(random, "full"):
        torch.testing.assert_close(output("t5", random), before, rtol=0, atol=1e-5)


def test_relative_positions_need_scores() -> None:
    random = model("t5")
    before = output("t5", random)
    with pytest.raises(InputError, match="adds relative positions.* 'linear' has no scores"):
        install(random, {"encoder": "linear"})
    assert torch.equal(output("t5", random), before)
    with use(random, {"cross": "linear"}):  # T5 adds zeros there
        assert bool(output("t5", random).isfinite().all())


class Mean(Mechanism):
    """A user's own mechanism: the mean of all real values."""

    name = "mean"

    def forward(self, query, key, value, visible=None, **context):
        return self.implied_matrix(query, key, visible) @ value

    def implied_matrix(self, query, key, visible=None, **context):
        weights = torch.ones(*query.shape[:-1], key.shape[-2], dtype=key.dtype)
        weights = weights if visible is None else weights * visible[:, None, None]
        return weights / weights.sum(-1, keepdim=True).clamp(min=1)


def test_a_users_mechanism_stands_in_a_model() -> None:
    random = model("bert")
    with use(random, Mean()), torch.no_grad():
        out = random(**inputs("bert"), output_attentions=True)
    expected = VISIBLE / VISIBLE.sum(-1, keepdim=True)
    torch.testing.assert_close(
        out.attentions[1], expected[:, None, None].expand(3, 2, 11, 11).float()
    )


def test_the_same_name_serves_a_model_in_half_precision() -> None:
    random = model("bert").to(torch.bfloat16)
    with use(random, {"encoder": "linformer(k=3)", "encoder.0.0": "linear"}):
        assert bool(output("bert", random).isfinite().all())


def test_attention_modules_are_told_from_others() -> None:
    class Odd(hf.PreTrainedModel):
        config_class = hf.BertConfig

        def __init__(self) -> None:
            super().__init__(hf.BertConfig(**SMALL))
            self.layer = nn.Linear(2, 2)

    with pytest.raises(InputError, match="Odd computes its attention inside"):
        attention_modules(Odd())


def test_make_returns_what_it_is_handed() -> None:
    own = Mean()
    assert make(own) is own


def translation_model() -> TranslationModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {
            "dim": 16,
            "heads": 2,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "feed_forward": 24,
        }
        config = TranslationConfig(vocab_size=40, **sizes)
        return TranslationModel(config).eval()


def test_attnlabs_own_model_is_swapped_alike(tmp_path: Path) -> None:
    random = translation_model()
    given = inputs("marian")

    def output_of(**more: bool):
        with torch.no_grad():
            return random(**given, **more)

    before, keys = output_of().logits, list(random.state_dict())
    plan = {
        "encoder.0": "band(window=1)",
        "encoder.1.0": "linformer(k=3)",
        "decoder": "topk(k=2)",
        "cross.1": "topk(k=1)",
    }
    installed = install(random, plan)
    assert {(p.site, p.layer) for p in installed.modules} == {
        (s, n) for s in ("encoder", "decoder", "cross") for n in (0, 1)
    }
    out = output_of(output_attentions=True)
    assert not torch.equal(out.logits, before)
    assert int((out.cross_attentions[1] > 0).sum(-1).max()) == 1
    assert int((out.decoder_attentions[0] > 0).sum(-1).max()) == 2
    installed.write(tmp_path)
    installed.remove()
    assert torch.equal(output_of().logits, before)
    assert list(random.state_dict()) == keys
    again = install_written(random, tmp_path)
    assert torch.equal(output_of().logits, out.logits)
    again.remove()
