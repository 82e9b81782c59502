"""Writing files: what was there before stays when something goes wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from attnlab.errors import AttnlabError
from attnlab.files import replacing, write_tensors


@pytest.mark.parametrize(
    "error", [SafetensorError("No space left (os error 28)"), OSError(28, "full")]
)
def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    target = tmp_path / "weights.safetensors"
    target.write_bytes(b"before")
    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(
        AttnlabError, match=r"Could not write .*weights.safetensors: .*unchanged\.$"
    ):
        write_tensors(target, {"a": torch.zeros(3)})
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert target.read_bytes() == b"before"


def test_other_errors_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())


def test_writing_text_needs_neither_torch_nor_safetensors() -> None:
    code = "import sys, attnlab.files; print({'torch', 'safetensors'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
