"""Cross-attention counts queries among real tokens: padding in front of a target sentence changes nothing."""

import pytest
import torch
from torch import Tensor
from zoo.bridged import SPECS, ids, model, put_in, stands_at

CLOSE = {"rtol": 0, "atol": 1e-10}
FRONT, TOKENS = (0, 3, 2), 8
CROSS = [spec for spec in SPECS if stands_at(spec, "cross")]
MIXED = {"cross.0.0": "band(window=1)", "cross.0.1": "topk(k=2)", "cross.1": "full"}


def given() -> dict[str, Tensor]:
    """Three sentence pairs with padding in front of the targets, and of one source."""
    source, target = ids(3, 9, 3), ids(3, TOKENS, 4)
    real_source = torch.ones_like(source)
    real_source[1, :2] = 0
    real = (torch.arange(TOKENS) >= torch.tensor(FRONT)[:, None]).long()
    return {
        "input_ids": source,
        "attention_mask": real_source,
        "decoder_input_ids": target,
        "decoder_attention_mask": real,
    }


def alone(batch: dict[str, Tensor], row: int) -> dict[str, Tensor]:
    """One sentence pair without its padding."""
    source = batch["attention_mask"][row].bool()
    target = batch["decoder_attention_mask"][row].bool()
    return {
        "input_ids": batch["input_ids"][row : row + 1, source],
        "decoder_input_ids": batch["decoder_input_ids"][row : row + 1, target],
    }


@pytest.mark.parametrize("spec", [*CROSS, "perhead"])
@torch.no_grad()
def test_padding_in_front_of_a_target_changes_nothing(spec: str) -> None:
    pair = model("t5")
    put_in(pair, MIXED if spec == "perhead" else {"cross": spec})
    batch = given()
    found = pair(**batch, use_cache=False, output_attentions=True)
    for row, front in enumerate(FRONT):
        expected = pair(**alone(batch, row), use_cache=False, output_attentions=True)
        torch.testing.assert_close(found.logits[row, front:], expected.logits[0], **CLOSE)
        keys = batch["attention_mask"][row].bool()
        for one, other in zip(found.cross_attentions, expected.cross_attentions, strict=True):
            torch.testing.assert_close(one[row, :, front:, keys], other[0], **CLOSE)


@pytest.mark.parametrize("spec", ["band(window=1)", "sigma(window=1, columns='first')"])
@torch.no_grad()
def test_cached_decoding_behind_padding_is_uncached_decoding(spec: str) -> None:
    pair = model("t5")
    put_in(pair, {"cross": spec})
    batch = given()
    expected = pair(**batch, use_cache=False).logits
    cache, steps = None, []
    for start, end in ((0, 1), (1, 5), (5, 6), (6, TOKENS)):
        step = batch | {
            "decoder_input_ids": batch["decoder_input_ids"][:, start:end],
            "decoder_attention_mask": batch["decoder_attention_mask"][:, :end],
        }
        out = pair(**step, past_key_values=cache, use_cache=True)
        cache, steps = out.past_key_values, [*steps, out.logits]
    real = batch["decoder_attention_mask"].bool()
    torch.testing.assert_close(torch.cat(steps, 1)[real], expected[real], **CLOSE)


def test_gradients_reach_every_real_query() -> None:
    pair = model("t5")
    put_in(pair, {"cross": "band(window=1)"})
    batch = given()
    logits = pair(**batch, use_cache=False).logits
    logits[1, FRONT[1] :].square().sum().backward()
    found = pair.get_input_embeddings().weight.grad.clone()
    pair.zero_grad()
    pair(**alone(batch, 1), use_cache=False).logits.square().sum().backward()
    torch.testing.assert_close(found, pair.get_input_embeddings().weight.grad, rtol=0, atol=1e-8)
