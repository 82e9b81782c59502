"""Models with whole numbers as weights, outputs as tuples, quantized, or with patterns that never end."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from zoo import random_models

import attnlab
from attnlab.core.errors import InputError, NothingUsableError
from attnlab.models.loaded import Model
from attnlab.models.opening import load_transformers
from attnlab.reading.sentences import read_sentences
from attnlab.reading.text_tokens import tokens_of

PARAMETER = "embeddings.word_embeddings.weight"


def put(folder: Path, form: str, prefix: str, tensors: dict[str, torch.Tensor]) -> None:
    """Writes tensors as one of the files of weights that transformers reads."""
    named = {f"{prefix}{name}": one for name, one in tensors.items()}
    (folder / "model.safetensors").unlink()
    if form == "pytorch_model.bin":
        torch.save(named, folder / form)
    elif form == "model.safetensors":
        save_file(named, folder / form, {"format": "pt"})
    else:
        save_file(named, folder / "a.safetensors", {"format": "pt"})
        index = {"metadata": {}, "weight_map": dict.fromkeys(named, "a.safetensors")}
        (folder / form).write_text(json.dumps(index))


@pytest.mark.parametrize(
    "form", ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"]
)
@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("kind", [torch.int64, torch.int8, torch.uint8, torch.bool])
def test_whole_numbers_for_a_weight_are_refused_and_those_of_a_buffer_read(
    form: str, prefix: str, kind: torch.dtype, tmp_path: Path
) -> None:
    random_models.bert().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    positions = {"embeddings.position_ids": torch.arange(37)[None].to(kind)}
    put(tmp_path, form, prefix, tensors | positions)
    found = load_transformers(tmp_path, scores=False, tokenizes=False).model.state_dict()
    assert torch.equal(found[PARAMETER], tensors[PARAMETER])
    (tmp_path / "model.safetensors").touch()
    put(tmp_path, form, prefix, tensors | {PARAMETER: tensors[PARAMETER].round().to(kind)})
    with pytest.raises(
        InputError, match=f"holds whole numbers for {prefix}{PARAMETER}; save weights"
    ):
        load_transformers(tmp_path, scores=False, tokenizes=False)


@pytest.mark.parametrize("build", [random_models.bert, random_models.marian, random_models.gpt2])
def test_models_that_return_tuples_are_read_by_name(build: Any, tmp_path: Path) -> None:
    made = build()
    made.save_pretrained(tmp_path)
    random_models.tokenizer().save_pretrained(tmp_path)
    pairs = random_models.PAIRS
    texts = pairs if made.config.is_encoder_decoder else [source for source, _ in pairs]
    expected = attnlab.capture(tmp_path, texts)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "return_dict": False}))
    assert attnlab.capture(tmp_path, texts).coverage == expected.coverage


@pytest.mark.parametrize("empty", ["", "  ", "</s>"])
def test_pairs_without_a_word_on_one_side_are_empty(empty: str) -> None:
    model = Model(random_models.marian(), random_models.tokenizer())
    for pair in (("the cat", empty), (empty, "il gatto")):
        with pytest.raises(
            NothingUsableError, match=r"None of the 1 sentences can be used \(empty: 1\)"
        ):
            read_sentences(model, [pair])
    read = read_sentences(model, [("the cat", empty), ("a dog", "il cane")])
    assert [one.number for one in read.usable] == [1]
    assert [one.count for one in read.dropped] == [1]


def test_a_quantized_model_says_what_to_install(tmp_path: Path) -> None:
    random_models.bert().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": quantized}))
    expected = (
        r"is quantized and cannot be loaded here \(.*bitsandbytes.*\); install .* model\.dequantize"
    )
    with pytest.raises(InputError, match=expected):
        load_transformers(tmp_path, scores=False, tokenizes=False)


def test_a_pattern_that_matches_in_too_many_ways_is_a_sentence(tmp_path: Path) -> None:
    tokenizer = random_models.tokenizer()
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": "x"}
    tokenizer._tokenizer = type(tokenizer.backend_tokenizer).from_str(json.dumps(backend))
    assert len(tokens_of(tokenizer, ["the cat"])) == 1
    with pytest.raises(InputError, match=re.escape("The tokenizer cannot read the texts (")):
        tokens_of(tokenizer, ["the cat", "a" * 40])
