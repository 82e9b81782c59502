"""Files of arrays of which the header declares what is too large or no numbers: nothing of them is read."""

import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from zoo import random_models

from attnlab.attention.bridge.saved import _read
from attnlab.core import limits
from attnlab.core.arrays import read_tensors
from attnlab.core.errors import InputError
from attnlab.models.embeddings import load_embeddings
from attnlab.models.loaded import Model
from attnlab.models.safe_loading import check_checksum
from attnlab.reading.audio import read_audio_file
from attnlab.reading.keeping import load_kept_matrices
from attnlab.reading.matrix_files import load_matrices


def heard(path: Path) -> object:
    return read_audio_file(path, Model(random_models.whisper(), random_models.whisper_tokenizer()))


NUMPY_READERS = {"a.npy": load_matrices, "a.npz": load_matrices, "audio.npy": heard}
DECLARED = {
    "strings": ("|S1000000000", (50, 1), r"an array of \|S1000000000; .* are real numbers"),
    "letters": ("<U100000000", (), r"an array of <U100000000; .* are real numbers"),
    "records": ([("a", "<f8")], (5, 5), "are real numbers"),
    "objects": ("|O", (2, 2), "Python objects .*never loaded"),
    "complex": ("<c16", (5, 5), "an array of complex128"),
    "many": ("<f8", (100_000, 10_000_000), r"shape \(100000, 10000000\) in .* needs .* GB of memory"),
    "more than 64 bits": ("<f4", (2**62, 2**62), "needs .* GB of memory"),
}  # fmt: skip


@pytest.mark.parametrize("reader", NUMPY_READERS)
@pytest.mark.parametrize("kind", DECLARED)
def test_headers_of_numpy_are_enough_to_refuse(reader: str, kind: str, tmp_path: Path) -> None:
    descr, shape, message = DECLARED[kind]
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with (tmp_path / "header").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    content = (tmp_path / "header").read_bytes()
    if reader.endswith(".npz"):
        with zipfile.ZipFile(tmp_path / reader, "w") as archive:
            archive.writestr("a.npy", content)
    else:
        (tmp_path / reader).write_bytes(content)
    with pytest.raises(InputError, match=message):
        NUMPY_READERS[reader](tmp_path / reader)


TENSOR_READERS: dict[str, Callable[[Path], object]] = {
    "embeddings": load_embeddings,
    "arrays": lambda path: read_tensors(path, ["vectors"]),
    "matrices": load_matrices,
    "kept matrices": load_kept_matrices,
    "plan": _read,
    "weights": check_checksum,
}


@pytest.mark.parametrize("reader", TENSOR_READERS)
def test_tensors_beyond_the_free_memory_are_not_read(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file with holes, which takes no room on the disk."""
    size = 2**34
    header = json.dumps({
        "__metadata__": {"words": '["a", "b"]', "format": "attnlab matrices 1", "sha256": "0"},
        "vectors": {"dtype": "F16", "shape": [2, size // 4], "data_offsets": [0, size]},
    }).encode()  # fmt: skip
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(path, 8 + len(header) + size)
    monkeypatch.setattr(limits, "free_bytes", lambda _="cpu": 2**33)
    with pytest.raises(InputError, match=r"needs [0-9,.]+ GB of memory, and 8\.6 GB are free"):
        TENSOR_READERS[reader](path)


def test_vectors_of_many_dimensions_are_refused_unread(tmp_path: Path) -> None:
    header = json.dumps({
        "__metadata__": {"words": '["a", "b"]'},
        "vectors": {"dtype": "F16", "shape": [2, 2**21], "data_offsets": [0, 2**23]},
    }).encode()  # fmt: skip
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(2**23))
    with pytest.raises(
        InputError, match=r"its vectors are F16 of shape \(2, 2097152\), not a matrix"
    ):
        load_embeddings(path)


def test_the_limit_of_a_process_counts_as_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = limits.free_bytes("cpu")
    used = limits.resource.getrusage(limits.resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (10**12, 10**12))
    assert abs(limits.free_bytes("cpu") - unlimited) < unlimited / 2
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (used, used))
    assert limits.free_bytes("cpu") == 0
