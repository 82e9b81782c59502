"""What commands say where a part that they need is not installed."""

import sys
from pathlib import Path

import pytest

from attnlab.core import OPTIONAL, InputError, check_installed


@pytest.mark.parametrize("part", OPTIONAL, ids=lambda part: part.name)
def test_a_missing_part_says_how_to_install_it(part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, part.name, None)
    with pytest.raises(InputError) as told:
        check_installed(*(one.name for one in OPTIONAL))
    assert str(told.value) == (
        f"{part.name} is missing, which is needed for {part.purpose}; install it with: "
        f"pip install {part.name}"
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("conllu", "analyze MODEL --treebank TEXT --out there"),
        ("gensim", "embed there"),
        ("gensim", "train there --embeddings skipgram --size 300"),
    ],
)
def test_commands_refuse_before_they_work(
    attnlab,
    part: str,
    words: str,
    model: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(text.parent)
    monkeypatch.setitem(sys.modules, part, None)
    paths = {"MODEL": model, "TEXT": text}
    status, out, err = attnlab(*(paths.get(word, word) for word in words.split()))
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"Error: {part} is missing, ")
    assert err.endswith(f"; install it with: pip install {part}\n")
    assert not Path("there").exists()
