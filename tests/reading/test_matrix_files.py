import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attnlab.core.errors import InputError
from attnlab.reading.matrix_files import load_matrices, load_matrix_source, prepared


def weights(*shape: int) -> np.ndarray:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)).softmax(-1).numpy()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (2, 3, 5, 7)])
def test_all_three_kinds_of_file_give_the_same(
    tmp_path: Path, shape: tuple[int, ...], dtype: type
) -> None:
    H = weights(*shape).astype(dtype)
    np.save(tmp_path / "a.npy", H)
    np.savez_compressed(tmp_path / "a.npz", heads=H)
    save_file({"heads": torch.from_numpy(H)}, tmp_path / "a.safetensors")
    expected = torch.from_numpy(H.astype(np.float64))
    for name in ("a.npy", "a.npz", "a.safetensors"):
        torch.testing.assert_close(load_matrices(tmp_path / name), expected, rtol=0, atol=0)


def test_bfloat16_and_whole_numbers_are_read(tmp_path: Path) -> None:
    save_file({"x": torch.eye(3, dtype=torch.bfloat16)}, tmp_path / "a.safetensors")
    np.save(tmp_path / "a.npy", np.eye(3, dtype=bool))
    for name in ("a.safetensors", "a.npy"):
        torch.testing.assert_close(
            load_matrices(tmp_path / name), torch.eye(3, dtype=torch.float64)
        )


def test_one_of_several_arrays_must_be_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=weights(5, 5), two=weights(7, 7))
    with pytest.raises(
        InputError, match=r"2 arrays \(one, two\); name one of them \(option array\)"
    ):
        load_matrices(tmp_path / "a.npz")
    assert load_matrices(tmp_path / "a.npz", array="two").shape == (7, 7)
    with pytest.raises(InputError, match="no array 'three'; it has: one, two"):
        load_matrices(tmp_path / "a.npz", array="three")


def write_bad_file(path: Path) -> None:
    """The file that belongs to its name."""
    array = {
        "pickled.npy": np.array([{"a": 1}], dtype=object),
        "vector.npy": weights(5),
        "empty.npy": np.zeros((0, 5, 5)),
        "complex.npy": np.eye(3) * 1j,
        "text.npy": np.array([["a", "b"]]),
    }.get(path.name)
    if array is not None:
        np.save(path, array, allow_pickle=True)
    elif path.name == "pickled.npz":
        np.savez(path, x=np.array([None], dtype=object))
    elif path.name == "nothing.npz":
        with zipfile.ZipFile(path, "w"):
            pass
    else:
        path.write_bytes(b"" if path.name.startswith("blank") else b"not what it says it is")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pickled.npy", "Python objects .* never loaded"),
        ("pickled.npz", "Python objects .* never loaded"),
        ("vector.npy", "1 dimension"),
        ("empty.npy", r"empty array of shape \(0, 5, 5\)"),
        ("complex.npy", "complex128; attention weights are real"),
        ("text.npy", "attention weights are real"),
        ("nothing.npz", "holds no array"),
        ("blank.npz", "damaged or no .npz file"),
        ("wrong.npz", "cannot be read"),
        ("blank.npy", "damaged or no .npy file"),
        ("wrong.npy", "cannot be read"),
        ("wrong.safetensors", "damaged or no .safetensors file"),
        ("heads.pkl", r"none of the files that can be read: \.npy, \.npz, \.safetensors"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, name: str, message: str) -> None:
    write_bad_file(tmp_path / name)
    with pytest.raises(InputError, match=message):
        load_matrices(tmp_path / name)


@pytest.mark.parametrize("part", ["contents", "method"])
def test_a_damaged_compressed_file_is_one_sentence(tmp_path: Path, part: str) -> None:
    path = tmp_path / "heads.npz"
    np.savez_compressed(path, heads=weights(7, 11))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    if part == "contents":
        middle = directory // 2
        content[middle : middle + 40] = b"\xff" * 40
    else:
        content[directory + 10] = content[8] = 99  # how the member is compressed
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged or no \.npz file\.$"):
        load_matrices(path)


def test_what_has_no_weight_above_the_diagonal_is_causal(tmp_path: Path) -> None:
    back = np.tril(weights(3, 4, 4))
    ahead = back.copy()
    ahead[1, 2, 3] = 0.1
    for H, site, causal in (
        (back, None, True), (back[:, :2, :2], "decoder", True), (back, "cross", False), (ahead, None, False),
        (back[:, :3], None, False), (back[:, :1, :1], None, False),
    ):  # fmt: skip
        np.save(tmp_path / "a.npy", H)
        assert load_matrix_source(tmp_path / "a.npy", sites=site and [site]).causal is causal


@pytest.mark.parametrize("normalize", ["none", "rows"])
@pytest.mark.parametrize("value", [1e31, 1e308])
def test_entries_whose_sums_are_no_numbers_are_refused(value: float, normalize: str) -> None:
    matrices = torch.full((2, 3, 3), 1e30, dtype=torch.float64)
    assert prepared(matrices, normalize)[0].isfinite().all()
    matrices[1, 2, 0] = value
    expected = (
        r"Matrix 1 has an entry that is too large \(1e\+3.*\) at row 2, column 0; .* 1e\+30 at most"
    )
    with pytest.raises(InputError, match=expected):
        prepared(matrices, normalize)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*gone\.npy"):
        load_matrices(tmp_path / "gone.npy")


def test_rows_are_normalized_or_warned_about() -> None:
    H = torch.from_numpy(weights(2, 5, 5)).double()
    for given, normalize, expected in ((H, "none", H), (H / 2, "none", H / 2), (H / 2, "rows", H)):
        matrices, note = prepared(given, normalize)
        torch.testing.assert_close(matrices, expected)
        assert (note is None) == (normalize == "rows" or given is H)
    _, note = prepared(H / 2, "none")
    assert (note.lowest, note.highest) == (pytest.approx(0.5), pytest.approx(0.5))
    with pytest.raises(InputError, match="choose from: rows, none"):
        prepared(H, "columns")
