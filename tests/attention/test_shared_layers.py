"""ALBERT's layers share attention modules: they are counted as layers, each with its mechanism."""

import copy
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import transformers as hf
from torch import Tensor
from zoo.bridged import KINDS, SMALL, ids, in_double, put_in
from zoo.random_models import SENTENCES, tokenizer

import attnlab
from attnlab.ablation.ablation import ablated
from attnlab.ablation.projections import projections_of
from attnlab.attention.bridge.installing import install, use
from attnlab.attention.bridge.saved import load_with_plan
from attnlab.attention.bridge.sites import attention_modules, mechanism_of
from attnlab.core.addresses import Head
from attnlab.core.errors import AttnlabError, InputError

TOKENS = 9
REAL = torch.ones(3, TOKENS, dtype=torch.long)
REAL[1, :3] = 0
REAL[2, 6:] = 0
# Hidden layers, groups, modules in a group.
ARRANGEMENTS = [(3, 1, 1), (5, 2, 1), (4, 2, 2), (2, 1, 3), (7, 3, 1), (2, 3, 1)]
CLOSE = {"rtol": 0, "atol": 1e-12}


def albert(hidden: int = 4, groups: int = 2, inner: int = 1) -> Any:
    sizes = SMALL | {"num_hidden_layers": hidden, "embedding_size": 8}
    config = hf.AlbertConfig(**sizes, num_hidden_groups=groups, inner_group_num=inner)
    random = in_double(lambda: hf.AlbertModel(config))
    random.set_attn_implementation("eager")
    return random


def output(of: Any, **more: Any) -> Any:
    with torch.no_grad():
        return of(input_ids=ids(3, TOKENS), attention_mask=REAL, **more)


def hidden(of: Any) -> Tensor:
    return output(of)[0][REAL.bool()]


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_modules_know_the_layers_that_call_them(arrangement: tuple[int, int, int]) -> None:
    random = albert(*arrangement)
    calls: list[str] = []
    for path, part in random.named_modules():
        if type(part).__name__ == "AlbertAttention":
            part.register_forward_pre_hook(lambda *_, path=path: calls.append(path))
    output(random)
    found = {at.path: at.layers for at in attention_modules(random)}
    assert {layer: path for path, layers in found.items() for layer in layers} == dict(
        enumerate(calls)
    )


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_full_attention_is_the_models_own(arrangement: tuple[int, int, int]) -> None:
    random = albert(*arrangement)
    own = output(random, output_attentions=True)
    rows = REAL.bool()
    with use(random, "full"):
        found = output(random, output_attentions=True)
    torch.testing.assert_close(found[0][rows], own[0][rows], **CLOSE)
    assert len(found.attentions) == len(own.attentions) == arrangement[0] * arrangement[2]
    for mine, theirs in zip(found.attentions, own.attentions, strict=True):
        real = rows[:, None, :, None].expand_as(theirs)
        torch.testing.assert_close(mine[real], theirs[real], **CLOSE)
    assert torch.equal(output(random)[0], own[0])


def test_all_layers_of_a_module_follow_the_plan() -> None:
    random = albert(4, 2)
    own = output(random, output_attentions=True).attentions
    plan = {
        "encoder.0": "band(window=0)",
        "encoder.1": "band(window=0)",
        "encoder.3.1": "topk(k=1)",
    }
    with use(random, plan | {"encoder.2.1": "topk(k=1)"}):
        found = output(random, output_attentions=True).attentions
    identity = torch.eye(TOKENS, dtype=torch.float64).expand(2, 2, -1, -1)
    real = REAL[0].bool()
    assert real.all()
    torch.testing.assert_close(found[0][0], identity[0], **CLOSE)
    torch.testing.assert_close(found[1][0], identity[0], **CLOSE)
    for layer in (2, 3):
        assert torch.equal((found[layer][0] > 0).sum(-1)[1], torch.ones(TOKENS, dtype=torch.long))
        assert bool((found[layer][0, 0] > 0).all())
    assert len(found) == len(own)


def unshared(random: Any) -> Any:
    """The model with a module for each layer, that compute the same."""
    config = copy.deepcopy(random.config)
    config.num_hidden_groups = config.num_hidden_layers
    apart = in_double(lambda: hf.AlbertModel(config))
    apart.set_attn_implementation("eager")
    groups, layers = random.config.num_hidden_groups, config.num_hidden_layers
    state = random.state_dict()
    start = "encoder.albert_layer_groups."
    for layer in range(layers):
        group = int(layer / (layers / groups))
        state |= {
            name.replace(f"{start}{group}.", f"{start}{layer}."): part
            for name, part in random.state_dict().items()
            if name.startswith(f"{start}{group}.")
        }
    apart.load_state_dict(state)
    return apart


APART = {
    "encoder.0": "band(window=1)",
    "encoder.1.0": "topk(k=1)",
    "encoder.2": "sigma(window=1, num_pos=2, columns='first')",
    "encoder.3.1": "band(window=0)",
    "encoder.4": "linear",
}


@pytest.mark.parametrize("arrangement", [(5, 2, 1), (5, 1, 1)])
@pytest.mark.parametrize("plan", [APART, {"encoder.1.1": "band(window=0)"}])
def test_layers_of_a_module_have_their_own_mechanisms(
    arrangement: tuple[int, int, int], plan: dict[str, str]
) -> None:
    random = albert(*arrangement)
    apart = unshared(random)
    own = hidden(random)
    assert torch.equal(hidden(apart), own)
    with use(random, plan), use(apart, plan):
        torch.testing.assert_close(hidden(random), hidden(apart), **CLOSE)
        found, expected = (output(of, output_attentions=True).attentions for of in (random, apart))
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs, **CLOSE)
    assert torch.equal(hidden(random), own)


def test_a_pass_that_broke_off_does_not_shift_the_next() -> None:
    random = hf.AlbertForMaskedLM(albert(4, 2).config).double().eval()
    with use(random, APART_OF_FOUR):
        whole, body = hidden(random), hidden(random.albert)
        layer = random.albert.encoder.albert_layer_groups[1]
        hook = layer.register_forward_pre_hook(_fail)
        for of in (random, random.albert):
            with pytest.raises(RuntimeError):
                output(of)
        hook.remove()
        assert torch.equal(hidden(random.albert), body)
        assert torch.equal(hidden(random), whole)


APART_OF_FOUR = {address: spec for address, spec in APART.items() if address != "encoder.4"}


def test_ablation_is_of_its_layer_after_a_pass_that_broke_off() -> None:
    random = albert(4, 2)
    apart = unshared(random)
    found, expected = (
        projections_of(of, partial(output, of, output_attentions=True)) for of in (random, apart)
    )
    head = [Head("encoder", 2, 1)]
    with ablated(found, head, "zero"), ablated(expected, head, "zero"):
        hook = random.encoder.albert_layer_groups[1].register_forward_pre_hook(_fail)
        with pytest.raises(RuntimeError):
            output(random)
        hook.remove()
        assert torch.equal(hidden(random), hidden(apart))


def test_a_copy_counts_its_own_calls() -> None:
    random = albert(4, 2)
    with use(random, APART_OF_FOUR):
        expected = hidden(random)
        again = copy.deepcopy(random)
        for _ in range(2):
            assert torch.equal(hidden(again), expected)
        assert torch.equal(hidden(random), expected)


def test_a_module_that_is_called_once_more_is_refused() -> None:
    random = albert(4, 2)
    with use(random, APART_OF_FOUR):
        output(random)
        states = torch.zeros(1, TOKENS, random.config.embedding_size, dtype=torch.float64)
        with pytest.raises(AttnlabError, match="shared by 2 layers .* call the whole model"):
            random.encoder(states)


def test_layers_are_told_apart_within_another_model() -> None:
    inner = albert(4, 2)
    outer = _within(inner)
    layers = [at.layers for at in attention_modules(outer) if at.site == "encoder"]
    assert layers == [(0, 1), (2, 3)]
    given = {"input_ids": ids(3, TOKENS), "attention_mask": REAL, "decoder_input_ids": ids(3, 4)}
    with torch.no_grad():
        own = outer(**given).encoder_last_hidden_state
        with use(outer, {"encoder.1": "band(window=0)"}):
            found = outer(**given).encoder_last_hidden_state
        with use(inner, {"encoder.1": "band(window=0)"}):
            expected = output(inner)[0]
    assert not torch.allclose(found, own)
    torch.testing.assert_close(found[REAL.bool()], expected[REAL.bool()], **CLOSE)


def _within(inner: Any) -> Any:
    """An encoder-decoder model whose encoder it is."""
    sizes = SMALL | {"is_decoder": True, "add_cross_attention": True}
    reader = in_double(lambda: hf.BertLMHeadModel(hf.BertConfig(**sizes)))
    return hf.EncoderDecoderModel(encoder=inner, decoder=reader).double().eval()


def _fail(*_: Any) -> None:
    raise RuntimeError


def test_a_layer_that_is_not_there_is_refused() -> None:
    random = albert(4, 2)
    before = hidden(random)
    with pytest.raises(InputError, match="layers 0 to 3 with 2 heads each"):
        install(random, APART)
    assert torch.equal(hidden(random), before)
    assert not any("attnlab" in name for name, _ in random.named_modules())


def test_different_mechanisms_of_a_module_come_back(tmp_path: Path) -> None:
    random = albert(4, 2)
    plan = APART_OF_FOUR | {"encoder.0": "linformer(k=3)", "encoder.1": "linformer(k=2)"}
    installed = install(random, plan)
    expected = hidden(random)
    random.save_pretrained(tmp_path)
    again = load_with_plan(tmp_path)
    assert torch.equal(hidden(again.model), expected)
    assert again.plan.as_dict() == installed.plan.as_dict()


@pytest.mark.parametrize("spec", [*KINDS, "linformer(k=3, share='layers')"])
def test_mechanisms_come_back_and_go_again(spec: str, tmp_path: Path) -> None:
    random = albert(4, 2)
    own = hidden(random)
    installed = put_in(random, spec)
    expected = hidden(random)
    assert spec == "full" or not torch.equal(expected, own)
    random.save_pretrained(tmp_path / "weights")
    installed.write(tmp_path / "beside")
    again = load_with_plan(tmp_path / "weights")
    assert torch.equal(hidden(again.model), expected)
    assert [at.layers for at in again.modules] == [(0, 1), (2, 3)]
    written = json.loads((tmp_path / "beside" / "attention_plan.json").read_text())
    assert written["mechanisms"] == installed.plan.as_dict()
    installed.remove()
    assert torch.equal(hidden(random), own)


def test_layers_of_a_module_have_one_mechanism_that_trains() -> None:
    random = albert(4, 2)
    installed = put_in(random, "linformer(k=3)")
    assert len(installed.modules) == 2
    out = random(input_ids=ids(3, TOKENS), attention_mask=REAL)[0]
    out.square().sum().backward()
    for at in installed.modules:
        gradients = [part.grad for part in mechanism_of(at.module).parameters()]
        assert gradients
        assert all(gradient is not None and bool(gradient.any()) for gradient in gradients)


WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()})
TEXTS = [
    " ".join(WORDS[(number * step) % len(WORDS)] for step in range(2, 9)) for number in range(40)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask",
    [
        lambda model: attnlab.importance(model, sentences=TEXTS[:12]),
        lambda model: attnlab.compare(
            model, 4, sentences=TEXTS[:12], calibration=TEXTS[12:24], validation=TEXTS[24:],
            per_head=True, quick=True,
        ),
        lambda model: attnlab.plan(
            model, 4, sentences=TEXTS[:12], calibration=TEXTS[12:24], validation=TEXTS[24:],
        ),
    ],
)  # fmt: skip
def test_questions_find_what_they_find_of_layers_apart(ask: Callable[[Any], Any]) -> None:
    words = tokenizer()
    sizes = SMALL | {"num_hidden_layers": 4, "embedding_size": 8, "vocab_size": len(words)}
    config = hf.AlbertConfig(**sizes, num_hidden_groups=2)
    random = in_double(lambda: hf.AlbertModel(config))
    found, expected = (ask((model, words)).tables for model in (random, unshared(random)))
    assert list(found) == list(expected)
    for name, table in found.items():
        own = table.drop(columns="time_ratio", errors="ignore")
        other = expected[name].drop(columns="time_ratio", errors="ignore")
        pd.testing.assert_frame_equal(own, other, rtol=1e-6, atol=1e-9)
