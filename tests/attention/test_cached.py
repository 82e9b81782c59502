"""Decoding with a cache gives what one pass gives, for every mechanism, site and family."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import EncoderDecoderCache, StaticCache
from zoo.bridged import (
    DECODERS,
    KINDS,
    PAIRS,
    SPECS,
    by_token,
    ids,
    model,
    needs_scores,
    put_in,
    stands_at,
)

from attnlab.attention.bridge.calls import CallRecord
from attnlab.attention.registry import MECHANISMS, parse
from attnlab.core.errors import AttnlabError, InputError

pytestmark = pytest.mark.grid

SOURCE, TARGET, ROWS = 9, 8, 3
CHUNKS = ([1] * TARGET, [3, 1, 1, 3])
CLOSE = {"rtol": 0, "atol": 1e-10}
# Of one row each: no padding, padding in front, padding behind.
REAL = torch.ones(ROWS, TARGET, dtype=torch.long)
REAL[1, :3] = 0
REAL[2, 5:] = 0
REAL_SOURCE = torch.ones(ROWS, SOURCE, dtype=torch.long)
REAL_SOURCE[0, :2] = 0
REAL_SOURCE[1, 4:] = 0
QUICK = ("full", "band(window=1)", "sigma(window=1, columns='first')", "fixed(pattern='previous')")


def sites_for(name: str, spec: str) -> tuple[str, ...]:
    """The sites of a family at which the mechanism can decode with a cache."""
    there = ("decoder",) if name in DECODERS else ("encoder", "decoder", "cross")
    if name == "t5" and needs_scores(spec):
        there = ("cross",)  # T5 adds relative positions everywhere else
    if name == "attnlab" and not MECHANISMS[parse(spec).name].traits.cached:
        there = ("encoder",)  # its own decoder refuses, see tests/models
    if by_token(spec):
        there = tuple(site for site in there if site != "decoder")
    return tuple(site for site in there if stands_at(spec, site))


ALL_OPTIONS = ("llama", "marian", "attnlab")
CASES = [
    (name, spec)
    for name in (*DECODERS, *PAIRS)
    for spec in (SPECS if name in ALL_OPTIONS else KINDS)
    if sites_for(name, spec)
]


def test_a_module_that_layers_share_has_no_place_in_the_cache() -> None:
    shared = torch.nn.Linear(2, 2)
    for layer in (-1, None):
        shared.layer_idx = layer
        assert CallRecord().start_of(shared) == 0


def test_every_mechanism_is_in_the_list() -> None:
    assert {parse(spec).name for spec in SPECS} == set(MECHANISMS)


def given(name: str) -> dict[str, Tensor]:
    """Inputs of one whole pass."""
    target = ids(ROWS, TARGET, 3)
    if name in DECODERS:
        return {"input_ids": target, "attention_mask": REAL}
    return {
        "input_ids": ids(ROWS, SOURCE, 4),
        "attention_mask": REAL_SOURCE,
        "decoder_input_ids": target,
        "decoder_attention_mask": REAL,
    }


def in_chunks(random: Any, whole: dict[str, Tensor], sizes: list[int], cache: Any = None) -> Tensor:
    """Logits of the tokens fed in chunks, each behind the kept keys and values of those before."""
    first, pieces, encoded = 0, [], None
    side = "decoder_" if "decoder_input_ids" in whole else ""
    if side:
        encoded = random.get_encoder()(whole["input_ids"], attention_mask=whole["attention_mask"])
    for size in sizes:
        last = first + size
        now = {
            f"{side}input_ids": whole[f"{side}input_ids"][:, first:last],
            f"{side}attention_mask": whole[f"{side}attention_mask"][:, :last],
        }
        if side:
            now |= {"attention_mask": whole["attention_mask"], "encoder_outputs": encoded}
        out = random(**now, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        pieces.append(out.logits)
        first = last
    return torch.cat(pieces, 1)


def static_cache(random: Any, pair: bool) -> Any:
    config = random.config.get_text_config(decoder=True)
    own = StaticCache(config=config, max_cache_len=TARGET + 3)
    return (
        EncoderDecoderCache(own, StaticCache(config=config, max_cache_len=SOURCE)) if pair else own
    )


@pytest.mark.parametrize(("name", "spec"), CASES)
def test_chunks_behind_a_cache_give_what_one_pass_gives(name: str, spec: str) -> None:
    random, whole = model(name), given(name)
    with torch.no_grad():
        plain = random(**whole, use_cache=False).logits[REAL.bool()]
        put_in(random, dict.fromkeys(sites_for(name, spec), spec))
        expected = random(**whole, use_cache=False).logits[REAL.bool()]
        if spec != "full":
            assert float((expected - plain).abs().max()) > 1e-6
        for sizes in CHUNKS:
            found = in_chunks(random, whole, sizes)[REAL.bool()]
            torch.testing.assert_close(found, expected, **CLOSE)
        if name not in ("bert-decoder", "attnlab"):  # these make no static cache
            found = in_chunks(random, whole, CHUNKS[1], static_cache(random, name in PAIRS))
            torch.testing.assert_close(found[REAL.bool()], expected, **CLOSE)


@pytest.mark.parametrize("name", [*DECODERS, *PAIRS])
@pytest.mark.parametrize("spec", [s for s in SPECS if by_token(s) and stands_at(s, "decoder")])
def test_mechanisms_that_choose_by_token_refuse_a_cache_of_keys(name: str, spec: str) -> None:
    random = model(name)
    put_in(random, {"decoder": spec})
    with pytest.raises((AttnlabError, InputError), match="use_cache=False"):
        in_chunks(random, given(name), [1] * TARGET)


@pytest.mark.parametrize(
    ("name", "spec", "beams"),
    [
        pytest.param(name, spec, beams, marks=() if spec in QUICK else pytest.mark.slow)
        for name, spec in CASES
        for beams in (1, 3)
        # Beams are put in another order in each family's cache, and in each mechanism's of two families.
        if spec in KINDS and (beams == 1 or spec in QUICK or name in ("llama", "marian"))
    ],
)
def test_generation_with_a_cache_equals_generation_without(
    name: str, spec: str, beams: int
) -> None:
    random = model(name)
    put_in(random, dict.fromkeys(sites_for(name, spec), spec))
    whole = given(name)
    if name in DECODERS:  # prompts end where generation starts
        whole = {key: tensor[:2, 1:6] for key, tensor in whole.items()}
    prompt = {key: whole[key] for key in ("input_ids", "attention_mask")}
    plain = {
        "max_new_tokens": 4,
        "min_new_tokens": 4,
        "do_sample": False,
        "num_beams": beams,
        "pad_token_id": 0,
    }
    without = random.generate(**prompt, **plain, use_cache=False)
    assert torch.equal(random.generate(**prompt, **plain, use_cache=True), without)
    if beams == 1 and name not in ("bert-decoder", "attnlab"):
        static = random.generate(**prompt, **plain, cache_implementation="static")
        assert torch.equal(static, without)
