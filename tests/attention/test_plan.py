"""Attention plans: addresses, files, and different mechanisms for the heads of a layer."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.ragged import ragged

from attnlab.attention.multihead import MultiHeadAttention
from attnlab.attention.plan import load_plan, plan_of, write_plan
from attnlab.attention.registry import make, parse
from attnlab.core.addresses import SITES
from attnlab.core.errors import InputError

PLAN = {"encoder": "band(window=2)", "encoder.1": "topk(k=2)", "encoder.1.0": "linear"}


def test_the_longest_address_decides() -> None:
    plan = plan_of(PLAN)
    assert plan.at("encoder", 0, 0) == parse("band(window=2)")
    assert plan.at("encoder", 1, 1) == parse("topk(k=2)")
    assert plan.at("encoder", 1, 0) == parse("linear")
    assert plan.at("decoder", 0, 0) == parse("full")


@given(
    st.dictionaries(
        st.sampled_from(
            [*SITES, *(f"{site}.{n}" for site in SITES for n in range(3)), "cross.1.2"]
        ),
        st.sampled_from(["full", "band(window=(3, 1))", "topk(k=2)", "fixed(pattern='next')"]),
    )
)
@settings(max_examples=30)
def test_a_file_gives_the_plan_back(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    write_plan(path, plan_of(entries))
    assert load_plan(path) == plan_of(entries)
    assert load_plan(path).as_dict() == entries


def test_a_file_says_whose_token_ids_the_plan_names(tmp_path: Path) -> None:
    blocks = plan_of({"encoder.0.1": "keys(tokens=(5, 9), reach=2)"}).for_tokenizer("abc")
    write_plan(tmp_path / "blocks.json", blocks)
    assert load_plan(tmp_path / "blocks.json").tokenizer == "abc"
    blocks.check_same_tokenizer("abc", "The plan")
    with pytest.raises(InputError, match=r"^The plan names token ids of another tokenizer; use it"):
        blocks.check_same_tokenizer("abd", "The plan")
    band = plan_of({"encoder": "band(window=3)"}).for_tokenizer("abc")
    write_plan(tmp_path / "band.json", band)
    assert "tokenizer" not in (tmp_path / "band.json").read_text(encoding="utf-8")
    load_plan(tmp_path / "band.json").check_same_tokenizer("abd", "The plan")


@pytest.mark.parametrize("address", ["encode", "encoder.x", "encoder.0.1.2", "encoder.-1", ""])
def test_addresses_that_do_not_read_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="names no attention"):
        plan_of({address: "full"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON"),
        ("[]", 'needs "format"'),
        ('{"format": "attnlab attention plan 2"}', '"mechanisms"'),
        ('{"format": "attnlab attention plan 1", "mechanisms": {}}', "attention plan 2"),
        ('{"format": "attnlab attention plan 2", "mechanisms": {"encoder": 3}}', "not 3"),
        (
            '{"format": "attnlab attention plan 2", "mechanisms": {}, "tokenizer": 3}',
            "checksum of a tokenizer, not 3",
        ),
        (
            '{"format": "attnlab attention plan 2", "mechanisms": {"encoder": "bund"}}',
            "choose from",
        ),
    ],
)
def test_files_that_are_no_plan_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_plan(path)


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_plan(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("encoder.2", "encoder has attention in layers 0, 1 with 4 heads each"),
        ("encoder.0.4", "encoder has attention in layers 0, 1 with 4 heads each"),
        ("cross", "no cross attention; it has: encoder"),
    ],
)
def test_addresses_outside_the_model_are_refused(address: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of({address: "full"}).check_within({"encoder": (0, 1)}, {"encoder": 4})


def test_each_head_is_what_its_own_mechanism_gives() -> None:
    plan = plan_of(
        {"encoder.0.0": "band(window=1)", "encoder.0.1": "linear", "encoder.0.2": "band(window=1)"}
    )
    query, key, value, visible = ragged(13, heads=4)
    mixed = plan.mechanism("encoder", 0, 4)
    out, matrix = mixed(query, key, value, visible), mixed.implied_matrix(query, key, visible)
    for head, spec in enumerate(["band(window=1)", "linear", "band(window=1)", "full"]):
        alone = (x[:, head : head + 1] for x in (query, key, value))
        torch.testing.assert_close(
            out[:, head : head + 1], make(spec)(*alone, visible), rtol=0, atol=1e-12
        )
    torch.testing.assert_close(out, matrix @ value, rtol=0, atol=1e-12)


def test_one_mechanism_for_all_heads_is_that_mechanism() -> None:
    assert plan_of({"encoder": "topk(k=2)"}).mechanism("encoder", 3, 4).name == "topk"
    decoder = plan_of({}).mechanism("decoder", 0, 4)
    assert decoder.causal
    assert plan_of({}).mechanism("cross", 0, 4).cross


def test_what_a_site_asks_for_is_checked_when_made() -> None:
    with pytest.raises(InputError, match="'bigbird' has no causal form"):
        plan_of({"decoder.0.1": "bigbird"}).mechanism("decoder", 0, 4)
    with pytest.raises(InputError, match="'longformer' has no cross form"):
        plan_of({"cross": "longformer(window=1)"}).mechanism("cross", 0, 4)


def test_a_mechanism_object_works_where_a_string_does() -> None:
    own = make("linformer(k=3, max_length=9)", heads=4)
    plan = plan_of({"encoder": own})
    layers = [plan.mechanism("encoder", layer, 4) for layer in range(2)]
    assert layers[0] is not own
    assert layers[0] is not layers[1]
    with pytest.raises(InputError, match="cannot be written to a file"):
        plan.as_dict()


def test_a_mechanism_object_that_sees_the_future_is_refused_in_a_decoder() -> None:
    with pytest.raises(InputError, match="made with causal=False"):
        plan_of({"decoder": make("full")}).mechanism("decoder", 0, 4)


def test_a_plan_trains() -> None:
    plan = plan_of({"encoder.0.0": "linformer(k=3, max_length=9)", "encoder.0.1": "band(window=1)"})
    layer = MultiHeadAttention(8, 4, plan.mechanism("encoder", 0, 4))
    tokens = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0))
    out, _ = layer(tokens, *layer.keys_and_values(tokens))
    out.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    assert any("key_projection" in name for name in gradients)
    for name, gradient in gradients.items():
        # A bias of the keys shifts all scores of a row alike, but for the projected keys.
        assert gradient is not None, name
        assert name == "key.bias" or bool((gradient != 0).any()), name
