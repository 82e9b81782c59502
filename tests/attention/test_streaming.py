"""A streaming cache holds first and latest keys alone, or sums, and generates what the full cache does."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache
from zoo.bridged import SIZES, SPECS, TYPES, ids, in_double, model, put_in, stands_at

from attnlab.attention import cache_bytes, make, streaming_cache, use
from attnlab.attention.registry import parse
from attnlab.core.errors import InputError
from attnlab.models.configuration import LanguageConfig
from attnlab.models.model import LanguageModel

pytestmark = pytest.mark.grid

ROWS, TOKENS, NEW = 3, 9, 30
REAL = torch.ones(ROWS, TOKENS, dtype=torch.long)
REAL[1, :3] = 0
REAL[2, :1] = 0
PLAIN: dict[str, Any] = {
    "max_new_tokens": NEW,
    "min_new_tokens": NEW,
    "do_sample": False,
    "pad_token_id": 0,
    "return_dict_in_generate": True,
    "output_logits": True,
}
# Of two layers, whose heads differ in the first one: how many first and recent keys each layer keeps.
PLANS: dict[str, tuple[dict[str, str], list[tuple[int, int]]]] = {
    "bands": ({"decoder": "band(window=3)"}, [(0, 4), (0, 4)]),
    "ends": ({"decoder": "sigma(window=4, num_pos=2, columns=first)"}, [(2, 5), (2, 5)]),
    "heads": (
        {
            "decoder.0.0": "keys(offsets=(-6, 0), first=1)",
            "decoder.0.1": "longformer(window=2, dilation=2, global_tokens=(0, 3))",
            "decoder.0.2": "fixed(pattern='previous')",
            "decoder.0.3": "static(offsets=(-3, -1), weights=(1, 2))",
            "decoder.1": "none",
        },
        [(4, 7), (0, 1)],
    ),
}
MODELS = ["gpt2", "llama", "gemma3", "bert-decoder", "marian", "bart", "attnlab", "language"]


def small(name: str) -> Any:
    if name == "language":
        sizes = {size: number for size, number in SIZES.items() if size != "encoder_layers"}
        return in_double(lambda: LanguageModel(LanguageConfig(vocab_size=TYPES, **sizes)))
    return model(name)


def planned(name: str, plan: str) -> tuple[dict[str, str], list[tuple[int, int]]]:
    """The plan for a model, which may have two heads, or scores that not every mechanism follows."""
    entries, kept = PLANS[plan]
    if plan != "heads":
        return entries, kept
    if name == "gemma3":  # behind a window of its own
        return {**entries, "decoder.0.2": "none", "decoder.0.3": "none"}, kept
    if name != "llama":
        entries = {at: entries[at] for at in ("decoder.0.0", "decoder.0.1", "decoder.1")}
    return entries, kept


def tokens_in(cache: Any) -> list[int]:
    own = getattr(cache, "self_attention_cache", cache)
    return [layer.keys.shape[-2] for layer in own.layers]


def assert_same(found: Any, expected: Any) -> None:
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(
        torch.stack(found.logits), torch.stack(expected.logits), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", MODELS)
def test_a_streaming_cache_generates_what_the_full_cache_does(name: str, plan: str) -> None:
    random = small(name)
    entries, kept = planned(name, plan)
    padded = name != "language"  # which continues prompts of one length
    prompt = {"input_ids": ids(ROWS, TOKENS, 3)} | ({"attention_mask": REAL} if padded else {})
    put_in(random, entries)
    expected = random.generate(**prompt, **PLAIN)
    full = expected.past_key_values
    cache = streaming_cache(random)
    assert_same(random.generate(**prompt, **PLAIN, past_key_values=cache), expected)
    in_front = 3 if padded and not random.config.is_encoder_decoder else 0
    assert tokens_in(cache) == [first + in_front + recent - 1 for first, recent in kept]
    assert cache_bytes(cache) < cache_bytes(full)


SUMS: dict[str, dict[str, str]] = {
    "elu": {"decoder": "linear"},
    "taylor": {"decoder": "linear(feature='taylor')"},
    "beside a band": {"decoder.0": "linear", "decoder.1": "band(window=3)"},
}
SUMMED = [name for name in MODELS if name != "gemma3"]  # whose windows linear attention has not


@pytest.mark.parametrize("plan", SUMS)
@pytest.mark.parametrize("name", SUMMED)
def test_sums_over_keys_generate_what_the_keys_do(name: str, plan: str) -> None:
    random = small(name)
    padded = name != "language"
    prompt = {"input_ids": ids(ROWS, TOKENS, 3)} | ({"attention_mask": REAL} if padded else {})
    put_in(random, SUMS[plan])
    expected = random.generate(**prompt, **PLAIN)
    cache = streaming_cache(random)
    assert_same(random.generate(**prompt, **PLAIN, past_key_values=cache), expected)
    assert cache_bytes(cache) < cache_bytes(expected.past_key_values)


def test_beams_take_their_sums_along() -> None:
    random = model("llama")
    put_in(random, SUMS["elu"])
    given = {"input_ids": ids(ROWS, TOKENS, 3), "attention_mask": REAL, "num_beams": 3}
    expected = random.generate(**given, **PLAIN).sequences
    found = random.generate(**given, **PLAIN, past_key_values=streaming_cache(random)).sequences
    assert torch.equal(found, expected)


def test_what_sums_cannot_say_is_refused() -> None:
    random = model("llama")
    with use(random, "linear(feature='favor')"), pytest.raises(InputError, match=r"'linear\("):
        streaming_cache(random)
    mixed = {"decoder": "linear", "decoder.1.0": "linear(feature='taylor')"}
    with use(random, mixed), pytest.raises(InputError, match="linear attention in all heads"):
        streaming_cache(random)
    for name in ("llama", "language"):
        random = small(name)
        put_in(random, "linear")
        cache = streaming_cache(random)
        with pytest.raises(InputError, match="leaves no weights to show"):
            random(ids(1, 8), past_key_values=cache, output_attentions=True)


@pytest.mark.parametrize("sums", [False, True], ids=["keys", "sums"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_chunks_of_any_length_meet_the_keys_they_need(name: str, sums: bool) -> None:
    random = model(name)
    put_in(random, SUMS["elu"] if sums else planned(name, "heads")[0])
    whole = {"input_ids": ids(ROWS, 24, 3), "attention_mask": torch.ones(ROWS, 24).long()}
    whole["attention_mask"][:, :TOKENS] = REAL
    real = whole["attention_mask"].bool()
    with torch.no_grad():
        expected = random(**whole, use_cache=False).logits
        for sizes in ([2, 3, 1, 11, 4, 1, 2], [1] * 24, [24]):
            cache, first, pieces = streaming_cache(random), 0, []
            for size in sizes:
                now = {
                    "input_ids": whole["input_ids"][:, first : first + size],
                    "attention_mask": whole["attention_mask"][:, : first + size],
                }
                first += size
                pieces.append(random(**now, past_key_values=cache).logits)
            found = torch.cat(pieces, 1)
            torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-10)
            cache.reset()
            assert cache.get_seq_length() == 0


def test_beams_take_their_keys_along() -> None:
    random = model("llama")
    put_in(random, PLANS["ends"][0])
    given = {"input_ids": ids(ROWS, TOKENS, 3), "attention_mask": REAL, "num_beams": 3}
    expected = random.generate(**given, **PLAIN).sequences
    found = random.generate(**given, **PLAIN, past_key_values=streaming_cache(random)).sequences
    assert torch.equal(found, expected)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if stands_at(spec, "decoder")])
def test_what_a_mechanism_says_it_attends_to_is_what_it_attends_to(spec: str) -> None:
    """Of 30 tokens, some behind padding: every weight is at a first key or a recent one, and no fewer do."""
    mechanism = make(spec, causal=True, heads=2, vocabulary=TYPES)
    kept = mechanism.first_and_recent()
    if kept is None:
        assert parse(spec).name not in {"band", "longformer", "static", "none"}
        return
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 3, 2, 30, 4, generator=generator, dtype=torch.float64)
    real = torch.arange(30) >= torch.tensor([0, 1, 7])[:, None]
    seen = mechanism.implied_matrix(query, key, real) != 0
    back = torch.arange(30)[:, None] - torch.arange(30)
    is_first = (real.cumsum(-1) <= kept[0]) & real
    assert not bool((seen & ~is_first[:, None, None] & (back >= kept[1])).any())
    reached = (seen & ~is_first[:, None, None]) * (back + 1)
    assert int(reached.max()) == (kept[1] if spec != "none" else 0)
    assert seen[:, 0, -1][is_first].all()


def test_what_a_streaming_cache_cannot_serve_is_refused_by_layer() -> None:
    random = model("llama")
    with pytest.raises(InputError, match="LlamaForCausalLM has no mechanisms in a decoder"):
        streaming_cache(random)
    put_in(
        random, {"decoder.0": "band(window=2)", "decoder.1.2": "topk(k=2)", "decoder.1.0": "none"}
    )
    with pytest.raises(InputError, match=r"decoder\.1 has 'full\(?.*may attend to any earlier key"):
        streaming_cache(random)
    random = model("gpt2")
    put_in(random, "sigma(window=2, columns='random')")
    with pytest.raises(InputError, match=r"decoder\.0 has 'sigma\(window=2, .*may attend to any"):
        streaming_cache(random)
    random = model("t5")
    put_in(random, {"decoder": "band(window=2)"})
    with pytest.raises(InputError, match=r"decoder\.0 counts relative positions"):
        streaming_cache(random)
    random = model("bert")
    put_in(random, "band(window=2)")
    with pytest.raises(InputError, match="no mechanisms in a decoder"):
        streaming_cache(random)


@pytest.mark.parametrize(
    ("plan", "numbers"),
    [
        # 2 layers, keys and values, 6 tokens, 16 numbers
        (PLANS["ends"][0], 2 * 2 * 6 * 16),
        # 2 layers, 2 heads, 8 features, 8 numbers and the sum of features
        (SUMS["elu"], 2 * 2 * 8 * 9),
    ],
    ids=["keys", "sums"],
)
@pytest.mark.parametrize("name", ["gpt2", "attnlab"])
def test_the_size_stays_the_same_however_long_the_text(
    name: str, plan: dict[str, str], numbers: int
) -> None:
    random = model(name)
    put_in(random, plan)
    sizes = []
    for new in (20, 40):
        cache = streaming_cache(random)
        random.generate(
            ids(1, 5),
            **PLAIN | {"max_new_tokens": new, "min_new_tokens": new},
            past_key_values=cache,
        )
        own = getattr(cache, "self_attention_cache", cache)
        sizes.append(cache_bytes(own))
    assert sizes == [numbers * 8] * 2


@pytest.mark.parametrize(
    "other", ["band(window=4)", "sigma(window=3, num_pos=1, columns=first)", "full"]
)
@pytest.mark.parametrize("name", ["llama", "marian", "language"])
def test_a_cache_is_refused_under_another_plan(name: str, other: str) -> None:
    random = small(name)
    with use(random, {"decoder": "band(window=3)"}):
        used, empty = streaming_cache(random), streaming_cache(random)
        random.generate(ids(1, 8), **PLAIN, past_key_values=used)
    with use(random, {"decoder": "band(window=3)", "decoder.1": other}):
        for cache in (used, empty):
            with pytest.raises(InputError, match="serves the model with the mechanisms"):
                random.generate(ids(1, 8), **PLAIN, past_key_values=cache)


def test_a_model_that_does_not_know_of_the_gap_is_refused() -> None:
    random = model("llama")
    installed = put_in(random, "band(window=2)")
    used, empty = streaming_cache(random), streaming_cache(random)
    random(ids(1, 8), past_key_values=used)
    installed.remove()
    for cache in (used, empty):
        with pytest.raises(InputError, match="serves the model with the mechanisms"):
            random(ids(1, 1), past_key_values=cache)


def test_tokens_that_are_taken_back_are_refused() -> None:
    random = model("llama")
    put_in(random, "band(window=3)")
    with pytest.raises(InputError, match="cannot take tokens back"):
        random.generate(
            ids(1, 8), **PLAIN, prompt_lookup_num_tokens=2, past_key_values=streaming_cache(random)
        )


@pytest.mark.slow
def test_bytes_of_512_generated_tokens_against_the_full_cache() -> None:
    """The figure of docs/guides/swap_attention.md: two layers, two key-value heads of 4, float64."""
    random = model("llama")
    put_in(random, "sigma(window=(31, 0), num_pos=4, columns=first)")
    new = {"max_new_tokens": 512, "min_new_tokens": 512}
    streaming, full = streaming_cache(random), DynamicCache()
    random.generate(ids(1, 8), **PLAIN | new, past_key_values=streaming)
    part: Tensor = torch.zeros(1, 2, 8 + 512 - 1, 4, dtype=torch.float64)
    for layer in range(2):
        full.update(part, part, layer)
    assert (cache_bytes(streaming), cache_bytes(full)) == (
        2 * 2 * 2 * (4 + 31) * 4 * 8,
        2 * 2 * 2 * 519 * 4 * 8,
    )
