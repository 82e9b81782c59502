"""A run's model loads whole or is refused, naming what is wrong with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from damaged import named, threes
from grids import first
from safetensors.torch import load_file, save_file
from small_run import small_settings
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.models.run import load
from attnlab.models.training import train

KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "tied": {},
    "separate": {
        # Texts of 13 and 14 tokens fill all positions, which are no multiple of what batches are padded to.
        "corpus": {"max_tokens": 14},
        "tokenizer": {"shared": False, "kind": "word"},
        "model": {"norm": "pre", "positions": "learned", "tie_word_embeddings": False},
    },
    "mechanisms": {
        "model": {
            "attention": {
                "encoder": "longformer(window=2, global_tokens=[0])",
                "decoder": "linear(features=6)",
                "cross": "sigma(window=2, num_pos=3, columns=frequency)",
            },
            "global_projections": True,
        }
    },
}

BROKEN = (torch.nan, torch.inf, -torch.inf)


@pytest.fixture(scope="module", params=first(KINDS, but={"separate"}))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loading") / request.param
    sections = {name: dict(keys) for name, keys in KINDS[request.param].items()}
    train(folder, small_settings(**sections, optimizer={"epochs": 1}))
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("checkpoints")
    return Path(shutil.copytree(trained, tmp_path / "run", ignore=ignored))


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def put(folder: Path, kept: dict[str, torch.Tensor]) -> None:
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def told(folder: Path) -> str:
    with pytest.raises(InputError, match=r"^The model in .* is damaged \(.*\); put its files") as e:
        load(folder)
    return str(e.value)


def test_a_whole_run_is_loaded(copied: Path, untouched_randomness: None) -> None:
    found = load(copied).model.state_dict()
    for name, tensor in tensors(copied).items():
        assert torch.equal(found[name], tensor), name


def test_each_missing_tensor_is_named(copied: Path, untouched_randomness: None) -> None:
    whole = tensors(copied)
    for names in threes(whole):
        put(copied, {other: tensor for other, tensor in whole.items() if other not in names})
        assert f"({named(names, 'missing')})" in told(copied)


def test_each_tensor_with_numbers_that_are_not_finite_is_named(copied: Path) -> None:
    whole = tensors(copied)
    parameters = dict(load(copied).model.named_parameters(remove_duplicate=False))
    for names in threes(name for name, tensor in whole.items() if tensor.is_floating_point()):
        broken = {name: whole[name].clone() for name in names}
        for (name, tensor), value in zip(broken.items(), BROKEN, strict=False):
            tensor.view(-1)[-1] = value if name in parameters else torch.nan
        put(copied, whole | broken)
        assert f"({named(names, 'not finite')})" in told(copied)


def test_of_many_tensors_the_first_and_the_count_are_named(copied: Path) -> None:
    whole = tensors(copied)
    kept = {name: tensor for name, tensor in whole.items() if name.startswith("decoder")}
    put(copied, kept)
    first = sorted(set(whole) - set(kept))
    count = len(first)
    shown = f"{', '.join(first[:3])} and {count - 3} more"
    assert f"({count} tensors are missing: {shown})" in told(copied)


def test_a_tensor_that_no_model_has_is_named(copied: Path) -> None:
    put(copied, tensors(copied) | {"encoder.more": torch.zeros(3)})
    assert "1 tensor is not part of the model that config.json describes: encoder.more" in told(
        copied
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("encoder_layers", 2),
        ("decoder_layers", 2),
        ("vocab_size", 150),
        ("vocab_size", 250),
        ("source_vocab_size", 77),
        ("dim", 32),
        ("dim", "wide"),
        ("heads", 4),
        ("heads", 3),
        ("feed_forward", 25),
        ("norm", {"post": "pre", "pre": "post"}),
        ("positions", {"sinusoidal": "learned", "learned": "sinusoidal"}),
        ("tie_word_embeddings", {True: False, False: True}),
    ],
)
def test_a_configuration_that_disagrees_is_refused(copied: Path, key: str, value: Any) -> None:
    path = copied / "config.json"
    config = json.loads(path.read_text())
    config[key] = value[config[key]] if isinstance(value, dict) else value
    path.write_text(json.dumps(config))
    told(copied)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("config.json", "model_type", "marian"),
        *(
            (name, key, value)
            for name in ("config.json", "generation_config.json")
            for key, value in (
                ("pad_token_id", 4),
                ("eos_token_id", 2),
                ("decoder_start_token_id", 0),
            )
        ),
    ],
)
def test_other_special_tokens_or_another_kind_of_model_are_refused(
    copied: Path, name: str, key: str, value: Any
) -> None:
    path = copied / name
    config = json.loads(path.read_text())
    assert config[key] != value
    path.write_text(json.dumps(config | {key: value}))
    message = told(copied)
    assert f"{key} " in message
    assert name in message


def test_tokenizers_with_another_end_token_are_refused(copied: Path) -> None:
    path = next(copied.glob("**/tokenizer_config.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token": "<s>"}))
    assert "eos_token_id is 3 in config.json and 2 in the rest of the run" in told(copied)


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    "damage",
    [truncated, lambda _: b"", lambda _: b"\x00" * 999, lambda c: b"x" * 50 + c[50:]],
)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_files_that_are_no_files_of_a_model_are_refused(
    copied: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    (copied / name).write_bytes(damage((copied / name).read_bytes()))
    told(copied)


def test_every_command_refuses_a_model_that_is_not_whole(small_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_run, tmp_path / "run"))
    whole = tensors(folder)
    del whole["encoder.layers.0.attention.query.weight"]
    put(folder, whole)
    (tmp_path / "text").write_text("Maria sleeps.\n")
    for words in (
        ["translate", str(folder), "Maria sleeps."],
        ["score", str(folder)],
        ["analyze", str(folder)],
        ["importance", str(folder)],
        ["prune", str(folder), "--out", str(tmp_path / "pruning")],
        ["compare", str(folder), "--budget", "9"],
    ):
        result = CliRunner().invoke(app, words)
        assert isinstance(result.exception, InputError), (words, result.output)
        missing = "1 tensor is missing: encoder.layers.0.attention.query.weight)"
        assert missing in str(result.exception), words
