"""Documents of a run that hold something else are refused in words of what they hold, not of Python."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from attnlab.core.errors import _MOST_REPEATED, AttnlabError, InputError, reason
from attnlab.evaluation.sources import model_and_texts
from attnlab.models.run import load
from attnlab.models.run_folder import REPLACED

PYTHONS = re.compile(
    r"object|attribute|iterable|NoneType|unhashable|subscript|instances|index|class"
)


@pytest.mark.parametrize("value", [[], None, 0, "x"], ids=str)
@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "settings.json", "token_counts.json", "tokenizer.json",
     "tokenizer_config.json"],
)  # fmt: skip
def test_a_document_that_is_no_table(copied_run: Path, name: str, value: Any) -> None:
    (copied_run / name).write_text(json.dumps(value))
    with pytest.raises(InputError) as refused:
        model_and_texts(copied_run, sentences=("Maria sleeps.",))
    assert not PYTHONS.search(str(refused.value))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("config.json", "dtype", 0),
        ("config.json", "dtype", []),
        ("config.json", "dtype", "x"),
        ("config.json", "dtype", "nn"),
        ("generation_config.json", "early_stopping", []),
        ("generation_config.json", "num_return_sequences", "x"),
        ("generation_config.json", "pad_token_id", {}),
        ("tokenizer_config.json", "model_max_length", []),
        ("tokenizer_config.json", "bos_token", 0),
    ],
)
def test_an_entry_of_another_kind(copied_run: Path, name: str, key: str, value: Any) -> None:
    path = copied_run / name
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError, match=name) as refused:
        load(copied_run)
    assert not PYTHONS.search(str(refused.value))


def test_no_refusal_advises_to_load_python_objects() -> None:
    told = type("UnpicklingError", (Exception,), {})(
        "Weights only load failed; set weights_only=False"
    )
    assert "weights_only" not in reason(told)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_only_longer_reasons_than_are_repeated_are_cut(more: int) -> None:
    words = "x" * (_MOST_REPEATED + more)
    assert reason(ValueError(words)) == (words if more <= 0 else f"{words[:-1]}...")


def test_a_run_that_replaces_another_says_where_that_is(copied_run: Path) -> None:
    (copied_run / "model.safetensors").unlink()
    (copied_run / REPLACED).mkdir()
    with pytest.raises(
        AttnlabError, match=f"kept in {re.escape(str(copied_run / REPLACED))} until"
    ):
        load(copied_run)


def test_a_flipped_bit_in_the_weights_is_noticed(copied_run: Path) -> None:
    path = copied_run / "model.safetensors"
    content = bytearray(path.read_bytes())
    load(copied_run)
    # The lowest bit of a number in the middle: it stays finite, and nearly the same.
    content[-(len(content) // 8) * 4] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors are not those that were written"):
        load(copied_run)


def test_weights_that_another_program_wrote_have_no_checksum(copied_run: Path) -> None:
    load(copied_run).model.save_pretrained(copied_run)
    load(copied_run)
