"""What would need more memory than there is, is refused before a model or a file is read."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from zoo.random_models import ALL, SENTENCES, tokenizer

from attnlab import limits
from attnlab.errors import InputError
from attnlab.extraction.batches import BYTES_A_WEIGHT, encode
from attnlab.extraction.capture import capture
from attnlab.extraction.matrix_files import load_matrices
from attnlab.extraction.reading import Reading

TOKENIZER = tokenizer()


@pytest.mark.parametrize("name", ["distilbert", "gpt2"])
def test_a_long_text_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model = ALL[name]()
    monkeypatch.setattr(Reading, "feed", lambda *_, **__: pytest.fail("read"))
    lengths = [len(one.source) for one in encode(model, TOKENIZER, SENTENCES).sentences]
    heads = model.config.num_attention_heads
    wanted = BYTES_A_WEIGHT * heads * max(lengths) ** 2
    longest = lengths.index(max(lengths)) + 1
    with pytest.raises(InputError) as refused:
        capture(model, TOKENIZER, SENTENCES, memory=(wanted - 1) / 1e9)
    message = str(refused.value)
    assert message.startswith(f"Text {longest}, of {max(lengths)} tokens, with {heads} heads at")
    assert message.endswith("raise the limit with --memory GB (in Python: memory).")
    monkeypatch.setattr(limits, "free_bytes", lambda _: wanted - 1)
    with pytest.raises(InputError, match="are free; shorten or split it"):
        capture(model, TOKENIZER, SENTENCES)


def test_matrices_that_are_too_large_to_keep_are_not_held_either() -> None:
    few = capture(ALL["distilbert"](), TOKENIZER, SENTENCES, keep_matrices=2, keep_bytes=100)
    assert few.kept.left_out == {0, 1}
    assert not few.kept.matrices


def test_one_member_is_read_and_the_size_of_the_others_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = np.eye(3, dtype=np.float32), np.zeros((90, 90), dtype=np.float32)
    np.savez_compressed(tmp_path / "a.npz", small=small, large=large)
    np.save(tmp_path / "large.npy", large)
    save_file(
        {"small": torch.from_numpy(small), "large": torch.from_numpy(large)},
        tmp_path / "a.safetensors",
    )
    monkeypatch.setattr(limits, "free_bytes", lambda _: 24 * 8099)
    for name in ("a.npz", "a.safetensors"):
        assert torch.equal(load_matrices(tmp_path / name, array="small"), torch.eye(3).double())
        with pytest.raises(InputError, match=r"array of shape \(90, 90\) in .* of memory, and"):
            load_matrices(tmp_path / name, array="large")
    with pytest.raises(InputError, match=r"array of shape \(90, 90\)"):
        load_matrices(tmp_path / "large.npy")


def test_a_member_that_declares_less_than_it_unpacks_to(tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.eye(3))
    content = (tmp_path / "small.npy").read_bytes() + b"\0" * 2**22
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("heads.npy", content)
    assert torch.equal(load_matrices(tmp_path / "a.npz"), torch.eye(3).double())


def test_an_array_that_declares_terabytes(tmp_path: Path) -> None:
    np.save(tmp_path / "heads.npy", np.eye(3))
    content = (tmp_path / "heads.npy").read_bytes().replace(b"(3, 3), }      ", b"(3333333, 99999)")
    content = content.replace(b"(3333333, 99999)", b"(999999, 99999)}")
    (tmp_path / "heads.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"shape \(999999, 99999\).* needs 2,400\.0 GB of memory"):
        load_matrices(tmp_path / "heads.npy")
