"""What would need more memory than there is, is refused before a model or a file is read."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from zoo.random_models import ALL, SENTENCES, tokenizer

from attnlab.core import limits
from attnlab.core.errors import InputError
from attnlab.models.loaded import Model
from attnlab.reading.capture import capture
from attnlab.reading.keeping import load_kept_matrices
from attnlab.reading.matrix_files import (
    load_arrays,
    load_kept_source,
    load_matrices,
    load_matrix_source,
)
from attnlab.reading.passes import Reading
from attnlab.reading.reading_notes import KeptInPart
from attnlab.reading.sentences import BYTES_A_WEIGHT, read_sentences

TOKENIZER = tokenizer()


@pytest.mark.parametrize("name", ["distilbert", "gpt2"])
def test_a_long_text_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    model = ALL[name]()
    monkeypatch.setattr(Reading, "feed", lambda *_, **__: pytest.fail("read"))
    lengths = [len(one.source) for one in read_sentences(Model(model, TOKENIZER), SENTENCES).usable]
    heads = model.config.num_attention_heads
    wanted = BYTES_A_WEIGHT * heads * max(lengths) ** 2
    longest = lengths.index(max(lengths)) + 1
    with pytest.raises(InputError) as refused:
        capture((model, TOKENIZER), SENTENCES, memory=(wanted - 1) / 1e9)
    message = str(refused.value)
    assert message.startswith(f"Text {longest}, of {max(lengths)} tokens, with {heads} heads at")
    assert message.endswith("raise the limit (memory, in GB).")
    monkeypatch.setattr(limits, "free_bytes", lambda _: wanted - 1)
    with pytest.raises(InputError, match="are free; shorten or split it"):
        capture((model, TOKENIZER), SENTENCES)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_as_many_rows_of_one_layer_are_kept_as_fit(rows: int) -> None:
    source, asked = (ALL["distilbert"](), TOKENIZER), {"layers": [1], "keep_matrices": 1}
    (whole,) = capture(source, SENTENCES, **asked).kept.matrices.values()
    heads, _, keys = whole.shape
    size = heads * keys * torch.float16.itemsize
    for more in (0, size - 1):
        kept = capture(source, SENTENCES, **asked, keep_bytes=rows * size + more).kept
        (matrix,) = kept.matrices.values()
        assert matrix.shape == (heads, rows, keys)


@pytest.mark.parametrize("share", [0.5, 0.3, 0.01])
def test_of_matrices_that_are_too_large_the_first_rows_of_the_smallest_are_kept(
    share: float, tmp_path: Path
) -> None:
    model = ALL["distilbert"]()
    whole = capture((model, TOKENIZER), SENTENCES, keep_matrices=2).kept
    sizes = [sum(m.nbytes for k, m in whole.matrices.items() if k[0] == n) for n in range(2)]
    smallest = sizes.index(min(sizes))
    most = int(share * min(sizes))
    kept = capture((model, TOKENIZER), SENTENCES, keep_matrices=2, keep_bytes=most).kept
    assert kept.left_out == {1 - smallest}
    queries, keys = whole.tokens[smallest, "encoder"]
    rows = len(kept.tokens[smallest, "encoder"][0])
    assert rows == max(1, int(len(queries) * share / 0.5))
    assert kept.tokens == {(smallest, "encoder"): (queries[:rows], keys)}
    assert kept.all_queries == ({(smallest, "encoder"): len(queries)} if share < 0.5 else {})
    used = sum(matrix.nbytes for matrix in kept.matrices.values())
    assert used <= most or rows == 1
    for key, matrix in kept.matrices.items():
        torch.testing.assert_close(matrix, whole.matrices[key][:, :rows].half(), atol=0, rtol=0)
    kept.write(tmp_path / "matrices.safetensors")
    back = load_kept_matrices(tmp_path / "matrices.safetensors")
    source = load_kept_source(tmp_path / "matrices.safetensors", normalize="rows")
    assert source is not None
    cut = [KeptInPart(smallest, "encoder", rows, len(queries))] if share < 0.5 else []
    assert [note for note in source.notes if isinstance(note, KeptInPart)] == cut
    assert (back.tokens, back.kinds, back.all_queries) == (
        kept.tokens, kept.kinds, kept.all_queries,
    )  # fmt: skip


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
    monkeypatch.setattr(limits, "free_bytes", lambda _: 26 * 8099)
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
    with pytest.raises(InputError, match=r"shape \(999999, 99999\).* needs 2,600\.0 GB of memory"):
        load_matrices(tmp_path / "heads.npy")


@pytest.mark.parametrize(
    ("load", "bytes_needed"),
    [(load_matrix_source, 176 * 10_000), (load_arrays, 326 * 10_000)],
)
def test_zeros_that_take_little_room_on_the_disk_are_counted_as_what_is_made_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: Callable[[Path], object],
    bytes_needed: int,
) -> None:
    np.savez_compressed(tmp_path / "a.npz", np.zeros((1, 100, 100)))
    assert (tmp_path / "a.npz").stat().st_size < 1000
    monkeypatch.setattr(limits, "free_bytes", lambda _: bytes_needed)
    load(tmp_path / "a.npz")
    monkeypatch.setattr(limits, "free_bytes", lambda _: bytes_needed - 1)
    with pytest.raises(InputError, match=r"shape \(1, 100, 100\) in .* of memory, and"):
        load(tmp_path / "a.npz")


def test_an_analysis_counts_one_layer_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 1, 1, 50, 50)))
    monkeypatch.setattr(limits, "free_bytes", lambda _: (4 * 26 + 150) * 2500)
    load_matrix_source(tmp_path / "a.npy")
