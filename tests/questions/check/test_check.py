"""What a check finds: nothing in models as they are made, and every fault that is planted."""

import functools
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from answered import Answered
from grids import first
from transformers import masking_utils
from transformers.models.bert import modeling_bert
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from zoo import random_models
from zoo.analyzed import ANALYZED, WIDE
from zoo.random_models import seeded, tokenizer

import attnlab
from attnlab.attention import use
from attnlab.core.errors import InputError
from attnlab.questions.check.expectations import Expected
from attnlab.questions.check.moved_rows import _entering, changes_by_layer, layers_of
from attnlab.questions.check.probing import DOUBLE, computing_in, probe_of
from attnlab.questions.check.question import WiderThanTokens
from attnlab.questions.check.view import mismatches
from attnlab.results.result import Result

SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64, "initializer_range": 0.2,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 1, "head_dim": 16}


def mistral() -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=5))


def llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED))


def gpt2() -> Any:
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=40, n_embd=32, n_layer=3, n_head=2, n_positions=64, initializer_range=0.2
        )
    )


def bert() -> Any:
    return hf.BertModel(hf.BertConfig(**SIZES))


def gemma3() -> Any:
    config = hf.Gemma3TextConfig(**GROUPED, sliding_window=4)
    config.layer_types = ["sliding_attention", "full_attention", "sliding_attention"]
    return hf.Gemma3ForCausalLM(config)


HEALTHY: dict[str, Callable[[], Any]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "mistral": mistral,
    "gemma3": gemma3,
    "t5": random_models.t5,
    "bart": random_models.bart,
    "marian": random_models.marian,
    "modernbert": ANALYZED["modernbert"],
    "albert": ANALYZED["albert"],
    "gpt_neo": ANALYZED["gpt_neo"],
    "xlnet": ANALYZED["xlnet"],
}
ONE_KERNEL = {"gpt_neo", "xlnet"}
FLEX = {"bert", "llama", "mistral", "gemma3", "modernbert", "albert"}
DECODERS = {"gpt2", "llama", "mistral", "gemma3", "gpt_neo"}


def outcome(found: Result, name: str) -> Any:
    rows = found.properties.set_index("property")
    return rows.loc[name, "outcome"]


# The others are looked at where faults are planted in them, here and in `test_planted_faults.py`.
@pytest.mark.parametrize(
    "name", first(HEALTHY, but={"gpt2", "llama", "gemma3", "bert", "marian", "albert"})
)
def test_models_as_they_are_made_are_all_right(name: str, untouched_randomness: None) -> None:
    model = seeded(HEALTHY[name])
    found = attnlab.check(model)
    assert mismatches(found) == []
    rows = found.properties
    assert (rows["property"] == "keys read").sum() == len(rows[rows["layer"].notna()])
    checked = {"keys read", "causality", "padding on the right"}
    checked |= {"eager against SDPA"} - ({"eager against SDPA"} if name in ONE_KERNEL else set())
    checked |= {"eager against flex"} if name in FLEX else set()
    checked |= {"cache", "padding on the left"} if name in DECODERS else set()
    assert checked <= set(rows[rows["outcome"] == "ok"]["property"])
    attnlab.assert_attends(model)


def test_a_window_of_one_key_is_that_of_the_query_itself() -> None:
    model = seeded(lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=1)))
    rows = attnlab.check(model).properties
    read = rows[rows["property"] == "keys read"]
    assert len(read) == model.config.num_hidden_layers
    assert set(read["outcome"]) == {"ok"}
    assert set(read["expected"]) == set(read["found"]) == {"itself"}


def test_layers_that_read_nothing_but_should_are_a_mismatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def own_value(module: Any, query: Any, key: Any, value: Any, *args: Any, **given: Any) -> Any:
        return value.repeat_interleave(2, 1).transpose(1, 2), None

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", own_value)
    model = seeded(llama)
    model.set_attn_implementation("eager")
    found = attnlab.check(model)
    assert any(
        "reads itself, and its configuration says itself, all before" in s
        for s in mismatches(found)
    )


def test_cross_attention_whose_output_is_still_zero_reads_nothing() -> None:
    model = seeded(random_models.bart)
    for layer in model.get_decoder().layers:
        for parameter in layer.encoder_attn.out_proj.parameters():
            parameter.data.zero_()
    told = mismatches(attnlab.check(model))
    layers = range(model.config.decoder_layers)
    assert told == [
        f"cross.{layer} reads nothing, and its configuration says all." for layer in layers
    ]


def test_what_stands_around_the_base_model_is_not_run() -> None:
    class Wrapped(hf.GPT2LMHeadModel):
        def forward(self, *args: Any, **given: Any) -> Any:
            raise AssertionError

    model = seeded(lambda: Wrapped(gpt2().config))
    assert not mismatches(attnlab.check(model))
    assert "`forward` of `model.base_model`" in str(attnlab.check.__doc__)
    module = torch.nn.Sequential(gpt2())
    with pytest.raises(InputError, match="Sequential is no model of transformers; give the one"):
        attnlab.check(module)


@pytest.mark.parametrize("width", [0, -1])
def test_a_window_without_a_key_is_refused(width: int) -> None:
    config = hf.MistralConfig(**GROUPED, sliding_window=width)
    model = seeded(lambda: hf.MistralForCausalLM(config))
    with pytest.raises(
        InputError, match="sliding_window .* is below 1, so that its layers read no key"
    ):
        attnlab.check(model)
    unused = hf.Qwen2Config(**SIZES, num_key_value_heads=1, sliding_window=width)
    attnlab.assert_attends(seeded(lambda: hf.Qwen2ForCausalLM(unused)))


@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma3", "bert", "bart"])
def test_rows_that_move_are_those_with_a_weight(name: str) -> None:
    model = seeded(HEALTHY[name]).eval()
    model.set_attn_implementation("eager")
    with torch.no_grad(), computing_in(model, torch.float64):
        probe = probe_of(model, 12, seed=0)
        layers = layers_of(probe, causal=name != "bert")
        positions = {at.length: torch.arange(12) for at in layers}
        changes = changes_by_layer(probe, layers, positions, seed=1)
        outputs = probe.call(probe.ids[None], output_attentions=True)
    names = {site: f"{site}_attentions" for site in ("encoder", "decoder", "cross")}
    assert len(layers) == model.config.num_hidden_layers + 2 * getattr(
        model.config, "decoder_layers", 0
    )
    for at, change in zip(layers, changes, strict=True):
        shown = outputs[names[at.site]] if name == "bart" else outputs.attentions
        weights = shown[at.layer][0].amax(0).T[:12]
        moved = change > DOUBLE.moved
        assert not (moved & (weights == 0)).any()
        assert moved[weights > 1e-4].all()


def test_a_model_of_other_precision_in_training_is_left_as_it_was() -> None:
    model = seeded(HEALTHY["mistral"]).train().to(torch.bfloat16)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    kernel = model.config._attn_implementation
    attnlab.check(model)
    assert model.training
    assert model.config._attn_implementation == kernel
    after = model.state_dict()
    assert {key: tensor.dtype for key, tensor in after.items()} == {
        key: tensor.dtype for key, tensor in before.items()
    }
    assert all(torch.equal(tensor, before[key]) for key, tensor in after.items())


def test_a_mask_that_shows_one_token_ahead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = modeling_gpt2.create_causal_mask

    def ahead(*args: Any, **kwargs: Any) -> Any:
        return right(*args, **kwargs, or_mask_function=lambda b, h, query, key: key == query + 1)

    model = seeded(gpt2)
    monkeypatch.setattr(modeling_gpt2, "create_causal_mask", ahead)
    found = attnlab.check(model)
    rows = found.properties
    assert set(rows.loc[rows["property"] == "keys read", "found"]) == {
        "itself, all before, 1 after"
    }
    assert set(rows.loc[rows["property"] == "keys read", "outcome"]) == {"mismatch"}
    assert outcome(found, "causality") == "mismatch"
    assert outcome(found, "cache") == "mismatch"
    with pytest.raises(
        AssertionError, match=r"decoder\.0 reads itself, all before, 1 after, and its .* more"
    ):
        attnlab.assert_attends(model)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_window_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    right = modeling_mistral.create_sliding_window_causal_mask

    def other(config: Any, *args: Any, **kwargs: Any) -> Any:
        config = deepcopy(config)
        config.sliding_window += by
        return right(config, *args, **kwargs)

    model = seeded(mistral)
    monkeypatch.setattr(modeling_mistral, "create_sliding_window_causal_mask", other)
    found = attnlab.check(model)
    rows = found.properties[found.properties["property"] == "keys read"]
    assert set(rows["expected"]) == {"itself, 4 before"}
    assert set(rows["found"]) == {f"itself, {4 + by} before"}
    assert set(rows["outcome"]) == {"mismatch"}
    assert outcome(found, "causality") == "ok"


def test_a_layer_that_reads_with_the_mask_of_another_is_found() -> None:
    model = seeded(gemma3)
    wide, narrow = (model.model.layers[layer].self_attn for layer in (1, 2))
    seen = []

    def keep(_: Any, args: Any, kwargs: Any) -> None:
        seen.append(kwargs["attention_mask"])

    def take(_: Any, args: Any, kwargs: Any) -> Any:
        return args, kwargs | {"attention_mask": seen[-1]}

    wide.register_forward_pre_hook(keep, with_kwargs=True)
    narrow.register_forward_pre_hook(take, with_kwargs=True)
    rows = attnlab.check(model).properties.set_index("layer")
    assert rows.loc[[0, 1, 2], "outcome"].tolist() == ["ok", "ok", "mismatch"]
    assert rows.loc[2, "found"] == "itself, all before"


def test_a_decoder_that_loses_positions_under_left_padding_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = modeling_gpt2.GPT2Model.forward

    def forward(
        self: Any, input_ids: Any = None, attention_mask: Any = None, past_key_values: Any = None,
        use_cache: Any = None, output_attentions: Any = None, return_dict: Any = None,
    ) -> Any:  # fmt: skip
        return right(
            self, input_ids=input_ids, attention_mask=attention_mask, past_key_values=past_key_values,
            use_cache=use_cache, output_attentions=output_attentions, return_dict=return_dict,
        )  # fmt: skip

    model = seeded(gpt2)
    assert outcome(attnlab.check(model), "padding on the left") == "ok"
    monkeypatch.setattr(modeling_gpt2.GPT2Model, "forward", forward)
    found = attnlab.check(model)
    assert len(mismatches(found)) == 1
    assert outcome(found, "padding on the left") == "mismatch"


def test_an_encoder_that_ignores_its_padding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = modeling_bert.BertModel.forward

    @functools.wraps(right)
    def forward(self: Any, input_ids: Any = None, attention_mask: Any = None, **given: Any) -> Any:
        return right(self, input_ids=input_ids, **given)

    model = seeded(bert)
    monkeypatch.setattr(modeling_bert.BertModel, "forward", forward)
    found = attnlab.check(model)
    assert outcome(found, "padding on the right") == "mismatch"
    assert [line.partition(":")[0] for line in mismatches(found)] == ["Padding on the right"]


def test_a_cache_that_forgets_where_it_is_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = modeling_llama.LlamaRotaryEmbedding.forward

    @functools.wraps(right)
    def forward(self: Any, states: Any, position_ids: Any, **given: Any) -> Any:
        return right(self, states, position_ids - position_ids[:, :1], **given)

    model = seeded(llama)
    monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", forward)
    found = attnlab.check(model)
    assert [line.partition(":")[0] for line in mismatches(found)] == ["Cache", "Cache, two halves"]


def test_packing_that_is_not_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = seeded(llama)
    assert outcome(attnlab.check(model), "packing") == "ok"
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda _: None)
    assert outcome(attnlab.check(model), "packing") == "mismatch"


@pytest.mark.parametrize(
    ("kernel", "told"),
    [("sdpa", "Eager against sdpa"), ("flex_attention", "Eager against flex")],
)
def test_a_kernel_that_computes_something_else_is_found(
    kernel: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = seeded(llama)
    right = modeling_llama.ALL_ATTENTION_FUNCTIONS[kernel]

    def other(*args: Any, scaling: float, **kwargs: Any) -> Any:
        return right(*args, scaling=2 * scaling, **kwargs)

    monkeypatch.setitem(modeling_llama.ALL_ATTENTION_FUNCTIONS, kernel, other)
    found = attnlab.check(model)
    assert [line.partition(":")[0] for line in mismatches(found)] == [told]


@pytest.mark.parametrize("by", [0, 1])
def test_a_wide_window_is_looked_beyond(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    right = modeling_mistral.create_sliding_window_causal_mask

    def other(config: Any, *args: Any, **kwargs: Any) -> Any:
        config = deepcopy(config)
        config.sliding_window += by
        return right(config, *args, **kwargs)

    sizes = GROUPED | {"num_hidden_layers": 1, "max_position_embeddings": 512}
    model = seeded(lambda: hf.MistralForCausalLM(hf.MistralConfig(**sizes, sliding_window=100)))
    monkeypatch.setattr(modeling_mistral, "create_sliding_window_causal_mask", other)
    row = attnlab.check(model).properties.iloc[0]
    assert row["expected"] == "itself, 99 before"
    assert row["found"] == f"itself, {99 + by} before"
    assert row["outcome"] == ("mismatch" if by else "ok")


@pytest.mark.parametrize("window", [5, 8])
def test_windows_of_gemma_3_that_reaches_both_ways_count_the_query(window: int) -> None:
    kinds = ["sliding_attention", "full_attention"]
    config = hf.Gemma3TextConfig(
        **WIDE, sliding_window=window, layer_types=kinds, use_bidirectional_attention=True
    )
    found = attnlab.check(seeded(lambda: hf.Gemma3ForCausalLM(config)))
    assert mismatches(found) == []
    (narrow,) = found.properties.query("property == 'keys read' and layer == 0")["found"]
    # Its configuration makes half of the window, and one, of what it is given.
    assert narrow == f"itself, {window // 2} before, {window // 2} after"


def test_a_window_wider_than_the_text_is_no_finding() -> None:
    model = seeded(mistral)
    found = attnlab.check(model, tokens=8)
    assert mismatches(found) == []
    assert outcome(found, "causality") == "ok"
    model = seeded(lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=3000)))
    found = attnlab.check(model)
    layers = found.properties[found.properties["property"] == "keys read"]
    assert set(layers["outcome"]) == {"not applicable"}
    assert found.notes == (WiderThanTokens(24, 2999),)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_keys_of_an_installed_mechanism_are_told_and_no_mismatch(name: str) -> None:
    model = seeded(HEALTHY[name])
    site = "encoder" if name == "bert" else "decoder"
    with use(model, {f"{site}.0": "band(window=2)"}):
        rows = attnlab.check(model).properties
    rows = rows[rows["property"] == "keys read"].set_index("layer")
    assert "mismatch" not in set(rows["outcome"])
    assert "all" not in rows.loc[0, "found"]
    assert "all" in rows.loc[1, "found"]


def test_what_can_be_done_with_each_layer() -> None:
    found = attnlab.check(seeded(random_models.marian)).abilities
    assert found[["site", "layer"]].to_numpy().tolist() == [
        [site, layer]
        for site, layers in (("encoder", 2), ("decoder", 3), ("cross", 3))
        for layer in range(layers)
    ]
    assert found[["captured", "ablated", "replaced"]].to_numpy().all()
    # ALBERT's layers share a module and are ablated alone all the same; Falcon attends by itself.
    albert = attnlab.check(seeded(ANALYZED["albert"])).abilities
    assert albert[["captured", "ablated", "replaced"]].to_numpy().all()
    checked = attnlab.check(seeded(ANALYZED["falcon"]))
    *_, layers = checked.terminal()
    assert "reason" not in layers.headings
    assert "computes its attention inside its own modules" in (layers.caption or "")
    falcon = checked.abilities
    assert falcon["captured"].all()
    assert not falcon["replaced"].any()


def test_layers_that_are_alike_share_a_row_with_the_largest_change() -> None:
    layers = pd.DataFrame({"layer": [0, 1, 2, 4], "change": [1e-4, 3e-2, 2e-3, np.nan]}).assign(
        property="keys read",
        site="decoder",
        expected="itself, all before",
        outcome="ok",
        distance=23,
    )
    layers["found"] = ["all before"] * 2 + ["itself"] + ["all before"]
    packing = {"property": "packing", "expected": "", "found": "", "outcome": "not applicable"}
    properties = pd.concat([layers, pd.DataFrame([packing])], ignore_index=True)
    abilities = pd.DataFrame(columns=["site", "layer", "captured", "reason"])
    shown, *_ = Result(
        "check", "Check", {"properties": properties, "abilities": abilities}
    ).terminal()
    told = [(row[0], row[-1]) for row in shown.rows]
    assert told == [("decoder.0-1, 4", "0.03"), ("decoder.2", "0.002"), ("packing", "")]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mistral", ""),
        ("modernbert", "Some layers of ModernBertModel have windows of their own"),
        ("bert", "BertModel has no sliding_window"),
        ("bart", "an encoder-decoder has none"),
    ],
)
def test_layers_that_can_be_exported_are_told_from_others(name: str, told: str) -> None:
    found = attnlab.check(seeded(HEALTHY[name])).abilities
    assert set(found["exported"]) == {not told}
    assert all(told in reason for reason in found["reason"])


def test_expected_pairs_equal_loops() -> None:
    keys, queries = torch.arange(2, 6), torch.arange(9)
    for causal in (False, True):
        for window in (None, 0, 2):
            for chunk in (None, 3):
                found = Expected(causal, window=window, chunk=chunk).pairs(keys, queries)
                for row, key in enumerate(keys.tolist()):
                    for query in queries.tolist():
                        read = (
                            (not causal or key <= query)
                            and (window is None or abs(query - key) <= window)
                            and (chunk is None or key // chunk == query // chunk)
                        )
                        assert bool(found[row, query]) == read


def test_a_pair_is_taken() -> None:
    assert mismatches(attnlab.check((seeded(bert), tokenizer()), tokens=12)) == []


def test_the_page_says_that_all_is_as_it_should_be(answer: Callable[[str, str], Answered]) -> None:
    page = (answer("check", "marian").folder / "report.html").read_text("utf-8")
    assert "are as the configuration says" in page


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_more_tokens_than_positions_are_refused(name: str) -> None:
    model = seeded({"bert": bert, "gpt2": gpt2}[name])
    positions = model.config.max_position_embeddings
    with pytest.raises(
        InputError, match=rf"tokens must be at most \d+, not {positions}: the model"
    ):
        attnlab.check(model, tokens=positions)


def test_a_recurrent_encoder_has_no_layers_to_check(recurrent_run: Path) -> None:
    assert mismatches(attnlab.check(recurrent_run)) == []


def test_models_that_read_no_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="reads input_features, not tokens"):
        attnlab.check(random_models.whisper())


@pytest.mark.parametrize("where", ["first", "second", "hidden_states"])
def test_states_that_enter_a_layer_are_told_from_masks(where: str) -> None:
    states, mask = torch.zeros(2, 3, 4), torch.zeros(2, 1, 3, 3)
    args, at = {"first": ((states, mask), 0), "second": ((None, states), 1)}.get(where, ((), where))
    named = {"attention_mask": mask} | ({} if args else {"hidden_states": states})
    found, one = _entering(args, named)
    assert found == at
    assert one is states
    assert _entering((), {"input_ids": torch.zeros(2, 3)}) == (None, None)


def refused_sites(model: Any) -> Any:
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
    pair = {"d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "decoder_start_token_id": 2}
    pair |= {
        f"{side}_{name}": 3
        for side in ("encoder", "decoder")
        for name in ("attention_heads", "ffn_dim")
    }
    sizes = {"vocab_size": random_models.TYPES, **ids}
    alone = sizes | {
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 8,
    }
    blocks = {"block_size": 2, "num_random_blocks": 1}
    return {
        "longformer": lambda: hf.LongformerModel(
            hf.LongformerConfig(**alone, attention_window=[8, 8])
        ),
        "led": lambda: hf.LEDModel(hf.LEDConfig(**sizes, **pair, attention_window=[4, 4])),
        "big_bird": lambda: hf.BigBirdModel(hf.BigBirdConfig(**alone, **blocks)),
        "big_bird, full": lambda: hf.BigBirdModel(
            hf.BigBirdConfig(**alone, **blocks, attention_type="original_full")
        ),
        "bigbird_pegasus": lambda: hf.BigBirdPegasusModel(
            hf.BigBirdPegasusConfig(**sizes, **pair, **blocks)
        ),
        "convbert": ANALYZED.get("convbert")
        or (
            lambda: hf.ConvBertModel(
                hf.ConvBertConfig(**alone | {"num_attention_heads": 4}, embedding_size=12)
            )
        ),
    }[model]()


@pytest.mark.parametrize(
    ("name", "told", "sites"),
    [
        ("longformer", "weights in the encoder for", None),
        (
            "led",
            r"choose other sites: decoder, cross \(sites=\['decoder', 'cross'\]\)",
            ["decoder", "cross"],
        ),
        ("big_bird", 'attention_type="original_full"', None),
        ("big_bird, full", "", ["encoder"]),
        ("bigbird_pegasus", 'attention_type="original_full"', None),
        ("convbert", "depend on the padding", None),
    ],
)
def test_what_is_captured_is_what_capture_reads(
    name: str, told: str, sites: list[str] | None
) -> None:
    model = seeded(lambda: refused_sites(name)).eval()
    kinds = [getattr(part, "attention_type", None) for part in model.modules()]
    table = attnlab.check(model).abilities
    assert [getattr(part, "attention_type", None) for part in model.modules()] == kinds
    pair = model.config.is_encoder_decoder
    assert set(table["site"]) == ({"encoder", "decoder", "cross"} if pair else {"encoder"})
    assert set(table.loc[table["captured"], "site"]) == {*(sites or [])}
    texts: list[Any] = [("a dog runs .", "the cat runs .")] if pair else ["a dog runs ."]
    if told:
        with pytest.raises(InputError, match=told):
            attnlab.capture((model, tokenizer()), texts)
    if sites:
        read = attnlab.capture((model, tokenizer()), texts, sites=sites).coverage
        assert {*read.layers} == {*sites}


@pytest.mark.parametrize("name", ["doge", "llama", "gpt2", "bert", "gemma3", "bart"])
def test_layers_have_the_sites_in_which_they_are_checked(name: str) -> None:
    built = HEALTHY | {"doge": lambda: hf.DogeForCausalLM(hf.DogeConfig(**GROUPED))}
    found = attnlab.check(seeded(built[name]))
    assert {*found.abilities["site"]} == {*found.properties["site"]} - {""}


@pytest.mark.parametrize("sharper", [4, 16])
def test_sharp_weights_are_no_unread_keys(sharper: float) -> None:
    model = seeded(llama)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= sharper
    attnlab.assert_attends(model)


def test_unread_pairs_are_told_with_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    right = modeling_bert.create_bidirectional_mask
    monkeypatch.setattr(
        modeling_bert,
        "create_bidirectional_mask",
        lambda **given: right(**given, and_mask_function=lambda b, h, q, k: (k != 5) | (q == k)),
    )
    rows = attnlab.check(seeded(bert)).properties
    assert rows.loc[0, "found"] == "all, 23 pairs unread (key 5 of query 0)"
    assert rows.loc[0, "distance"] == 23
