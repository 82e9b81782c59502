"""What commands say where a part that they need is not installed."""

import sys
from pathlib import Path

import pytest

from attnlab.core import OPTIONAL, InputError, check_installed


@pytest.mark.parametrize("part", OPTIONAL, ids=lambda part: part.name)
def test_a_missing_part_is_told_with_its_extra(part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, part.name, None)
    with pytest.raises(InputError) as told:
        check_installed(*(one.name for one in OPTIONAL))
    assert str(told.value) == (
        f"{part.name} is missing, which is needed for {part.purpose}; install it with: "
        f"pip install 'attnlab[{part.extra}]'"
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("datasets", "train there"),
        ("accelerate", "train there"),
        ("sacrebleu", "demo there"),
        ("datasets", "embed there"),
        ("datasets", "corpora embedded"),
        ("datasets", "analyze MODEL --corpus embedded --out there"),
        ("conllu", "analyze MODEL --treebank TEXT --out there"),
        ("sacrebleu", "importance MODEL --text TEXT --out there"),
        ("sacrebleu", "compare MODEL --text TEXT --calibration-text OTHER --out there"),
    ],
)
def test_commands_refuse_before_they_work(
    attnlab, part: str, words: str, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text.parent)
    monkeypatch.setitem(sys.modules, part, None)
    Path("other").write_text(
        "the dog sleeps\til cane dorme\na dog runs\tun cane corre\n", encoding="utf-8"
    )
    paths = {"MODEL": model, "TEXT": text, "OTHER": Path("other")}
    status, out, err = attnlab(*(paths.get(word, word) for word in words.split()))
    assert (status, out) == (2, "")
    extra = "treebanks" if part == "conllu" else "train"
    assert err.splitlines()[-1].startswith(f"Error: {part} is missing, ")
    assert err.endswith(f"; install it with: pip install 'attnlab[{extra}]'\n")
    assert not Path("there").exists()
