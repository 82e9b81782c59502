"""A model that accelerate spread over shards is read, and takes a plan, as the whole model does."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from accelerate import dispatch_model
from zoo import bridged, random_models
from zoo.bridged import ids, put_in

import attnlab
from attnlab.attention import use

TEXTS = ["the cat sees a dog", "a dog", "the old cat sleeps near the dog"]
# Of two layers. Weights on disk are on 'meta' between calls, those of the first modules in the second map.
SHARDS = {
    "two": {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk"},
    "first": {"model.embed_tokens": "disk", "model.layers.0": "disk", "model.layers.1": "cpu"},
}
REST = {"model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk"}


def llama() -> Any:
    return random_models.llama().eval()


def spread(model: Any, shards: str, folder: Path) -> Any:
    """The model in two shards, one of them on disk."""
    places = SHARDS[shards] | REST
    return dispatch_model(model, places, main_device="cpu", offload_dir=folder, force_hooks=True)


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("shards", SHARDS)
def test_capture_finds_the_same(shards: str, rows: int | None, tmp_path: Path) -> None:
    tokenizer = random_models.tokenizer()
    found, expected = (
        attnlab.capture((model, tokenizer), TEXTS, rows=rows, keep_matrices=2)
        for model in (spread(llama(), shards, tmp_path), llama())
    )
    pd.testing.assert_frame_equal(found.statistics.heads(), expected.statistics.heads())
    assert list(found.kept.matrices) == list(expected.kept.matrices)
    for address, matrix in expected.kept.matrices.items():
        torch.testing.assert_close(found.kept.matrices[address], matrix)


@pytest.mark.slow
@pytest.mark.parametrize("shards", SHARDS)
def test_analyze_finds_the_same(shards: str, tmp_path: Path) -> None:
    tokenizer = random_models.tokenizer()
    found, expected = (
        attnlab.analyze((model, tokenizer), sentences=TEXTS).table
        for model in (spread(llama(), shards, tmp_path), llama())
    )
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("shards", SHARDS)
@torch.no_grad()
def test_an_installed_plan_computes_the_same(shards: str, tmp_path: Path) -> None:
    plan = {
        "decoder.0": "sigma(window=1)",
        "decoder.1": "band(window=2)",
        "decoder.1.0": "sigma(window=0)",
    }
    results = []
    for model in (spread(bridged.model("llama"), shards, tmp_path), bridged.model("llama")):
        plain = model(ids(2, 9)).logits
        installed = put_in(model, plan)
        results.append(model(ids(2, 9), use_cache=False).logits)
        assert not torch.allclose(results[-1], plain)
        installed.remove()
        torch.testing.assert_close(model(ids(2, 9)).logits, plain)
        with use(model, "band(window=2)"):
            results.append(model.generate(ids(2, 9), max_new_tokens=4, do_sample=False))
    torch.testing.assert_close(results[:2], results[2:])
