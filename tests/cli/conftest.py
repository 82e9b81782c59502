"""What tests of several commands start from."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.cli.app import main

Command: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def attnlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the program with these words; returns exit status, standard output and standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["attnlab", *map(str, words)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        return (status, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder-decoder of random weights and its tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    random_models.marian().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file of sentence pairs for that model."""
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join("\t".join(pair) for pair in PAIRS), encoding="utf-8")
    return file
