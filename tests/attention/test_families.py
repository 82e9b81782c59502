"""Families whose own attention says more than padding and causality: windows, caps, sinks, shared layers."""

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from zoo.bridged import GROUPED, SCORING, ids, in_double, model, put_in

from attnlab.attention.bridge.installing import install, use
from attnlab.core.errors import InputError

TOKENS = 11
FAMILIES = SCORING
CAUSAL = tuple(name for name in FAMILIES if name != "modernbert")
REAL = torch.ones(3, TOKENS, dtype=torch.long)
REAL[1, :3] = 0
REAL[2, 6:] = 0
CLOSE = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(autouse=True)
def softmax_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their eager attention takes the softmax in 32 bits, whatever the model's; here as the scores are."""
    plain = torch.nn.functional.softmax

    def softmax(scores: Tensor, *args: Any, **options: Any) -> Tensor:
        if scores.dtype == torch.float64:
            options.pop("dtype", None)
        return plain(scores, *args, **options)

    monkeypatch.setattr(torch.nn.functional, "softmax", softmax)


def output(of: Any, **more: Any) -> Tensor:
    with torch.no_grad():
        out = of(input_ids=ids(3, TOKENS, 3), attention_mask=REAL, **more)
    return out[0][REAL.bool()]


@pytest.mark.parametrize("name", FAMILIES)
def test_full_attention_is_the_models_own(name: str) -> None:
    random = model(name)
    own = output(random)
    with use(random, "full"):
        torch.testing.assert_close(output(random), own, **CLOSE)
    assert torch.equal(output(random), own)


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_the_models_own(name: str) -> None:
    random = model(name)
    given = {"input_ids": ids(3, TOKENS, 3), "attention_mask": REAL, "output_attentions": True}
    with torch.no_grad():
        own = random(**given).attentions
        with use(random, "full"):
            found = random(**given).attentions
    for mine, theirs in zip(found, own, strict=True):
        rows = REAL.bool()[:, None, :, None].expand_as(theirs)
        torch.testing.assert_close(mine[rows], theirs[rows], **CLOSE)


def banded(offset: Tensor) -> Tensor:
    """The band (2, 1), by hand."""
    return (offset >= -2) & (offset <= 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_band_is_cut_by_the_models_own_window(name: str) -> None:
    """The band within the model, and the model's own attention with the band in its masks."""
    random = model(name)
    plain = output(random)
    with use(random, "band(window=(2, 1))"):
        found = output(random)
    offset = torch.arange(TOKENS) - torch.arange(TOKENS)[:, None]
    hooks = []
    for part in random.modules():
        if hasattr(part, "is_causal"):

            def cut(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                mask = kwargs["attention_mask"]
                mask = torch.zeros(3, 1, TOKENS, TOKENS).double() if mask is None else mask
                kwargs["attention_mask"] = mask.masked_fill(
                    ~banded(offset), torch.finfo(torch.float64).min
                )
                return args, kwargs

            hooks.append(part.register_forward_pre_hook(cut, with_kwargs=True))
    expected = output(random)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(found, expected, **CLOSE)
    assert float((found - plain).abs().max()) > 1e-3


SPECS = [
    "full",
    "band(window=1)",
    "band(window=6)",
    "longformer(window=1, global_tokens=[1])",
    "sigma(window=1, columns='first')",
    "sigma(window=1, columns='random', extra=1)",
    "topk(k=2)",
]


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("spec", SPECS)
def test_chunks_behind_a_sliding_cache_give_what_one_pass_gives(name: str, spec: str) -> None:
    random = model(name)
    put_in(random, spec)
    given, real = ids(3, TOKENS, 3), REAL.bool()
    with torch.no_grad():
        expected = random(input_ids=given, attention_mask=REAL, use_cache=False).logits[real]
        for sizes in ([1] * TOKENS, [6, 1, 1, 3]):
            first, pieces, cache = 0, [], None
            for size in sizes:
                last = first + size
                out = random(
                    input_ids=given[:, first:last],
                    attention_mask=REAL[:, :last],
                    past_key_values=cache,
                    use_cache=True,
                )
                cache, first = out.past_key_values, last
                pieces.append(out.logits)
            torch.testing.assert_close(torch.cat(pieces, 1)[real], expected, **CLOSE)


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize(
    "spec", ["full", "longformer(window=1)", "sigma(window=1, columns='first')"]
)
def test_generation_in_a_window_equals_generation_without_a_cache(name: str, spec: str) -> None:
    random = model(name)
    put_in(random, spec)
    given = {"input_ids": ids(2, 6, 3), "attention_mask": REAL[:2, :6]}
    plain = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    without = random.generate(**given, **plain, use_cache=False)
    assert torch.equal(random.generate(**given, **plain), without)
    static = random.generate(**given, **plain, cache_implementation="static")
    assert torch.equal(static, without)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "spec", ["linear", "scatterbrain(window=1)", "fixed(pattern='previous')", "linformer(k=3)"]
)
def test_mechanisms_without_scores_are_refused_with_what_to_choose(name: str, spec: str) -> None:
    random = model(name)
    own = output(random)
    message = rf"This model (hides|caps|has) .*'{spec.partition('(')[0]}' has no .* choose"
    if spec.startswith("linformer") and name in CAUSAL:
        message = "no causal form"
    with pytest.raises(InputError, match=message):
        install(random, spec)
    assert torch.equal(output(random), own)


def test_a_window_longer_than_any_text_hides_nothing() -> None:
    config = hf.MistralConfig(**GROUPED, sliding_window=64)
    random = in_double(lambda: hf.MistralForCausalLM(config))
    with use(random, "linear"):
        assert bool(output(random).isfinite().all())


@pytest.mark.parametrize("spec", ["none", {"decoder.1": "none", "decoder.0.1": "none"}])
@pytest.mark.parametrize("name", CAUSAL)
def test_no_attention_is_the_models_own_with_the_output_of_the_heads_zero(
    name: str, spec: Any
) -> None:
    random = model(name)
    with use(random, spec):
        found = output(random)
    without = {0: [1], 1: [0, 1, 2, 3]} if isinstance(spec, dict) else {0: range(4), 1: range(4)}
    for layer, block in enumerate(random.model.layers):
        weight = block.self_attn.o_proj.weight
        with torch.no_grad():
            weight.unflatten(1, (4, -1))[:, list(without[layer])] = 0
    torch.testing.assert_close(found, output(random), **CLOSE)
