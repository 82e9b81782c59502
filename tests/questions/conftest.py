"""Answers that tests of questions share."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from answered import Answered, answered
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.core.files import write_tensors


@pytest.fixture(scope="session")
def sources(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], Path]:
    """By kind, the path of what questions are asked about."""
    folder = tmp_path_factory.mktemp("sources")

    def marian() -> Path:
        random_models.small_marian().save_pretrained(folder / "marian")
        tokenizer().save_pretrained(folder / "marian")
        lines = ("\t".join(pair) + "\n" for pair in PAIRS)
        (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
        return folder / "marian"

    def matrices() -> Path:
        made = torch.Generator().manual_seed(3)
        H = torch.rand(2, 3, 7, 7, generator=made, dtype=torch.float64).softmax(-1)
        write_tensors(folder / "matrices.safetensors", {"H": H})
        return folder / "matrices.safetensors"

    @cache
    def source(kind: str) -> Path:
        made = {"marian": marian, "matrices": matrices}
        if kind in made:
            return made[kind]()
        names = {"run": "small_run", "language": "language_run", "recurrent": "recurrent_run"}
        return request.getfixturevalue(names[kind])

    return source


@pytest.fixture(scope="session")
def answer(
    sources: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Answered]:
    """The answer to a question about a kind of model, asked when it is first needed."""

    @cache
    def of(question: str, kind: str) -> Answered:
        folder = tmp_path_factory.mktemp(f"{question}-{kind}")
        return answered(question, kind, sources(kind), folder)

    return of
