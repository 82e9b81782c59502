import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import attnlab
from attnlab.core.errors import InputError
from attnlab.reading.matrix_axes import AXES, AxesTaken, axes_of, layers_among
from attnlab.reading.matrix_files import (
    load_arrays,
    load_kept_source,
    load_matrices,
    load_matrix_source,
    prepared,
)


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
        InputError, match=r"2 arrays \(one, two\), .*; name one of them \(option arr"
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


SIZES = {"layers": 2, "texts": 3, "heads": 4, "query": 5, "key": 7}
TAKEN = {
    2: ("query", "key"),
    3: ("heads", "query", "key"),
    4: ("layers", "heads", "query", "key"),
    5: AXES,
}


def as_layers(path: Path, H: np.ndarray, names: list[str]) -> Path:
    """A file of one array for each layer, in the order of `names`."""
    arrays = dict(zip(names, H, strict=True))
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file({name: torch.from_numpy(one.copy()) for name, one in arrays.items()}, path)
    return path


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        *((axes, None) for axes in TAKEN.values()),
        *((axes, axes) for axes in (
            ("texts", "heads", "query", "key"), ("layers", "query", "key"), ("key", "heads", "query"),
            ("heads", "layers", "query", "key"), ("texts", "key", "layers", "query", "heads"),
        )),
    ],
)  # fmt: skip
def test_axes_are_those_of_the_rule_or_those_said(
    tmp_path: Path, axes: tuple[str, ...], said: tuple[str, ...] | None
) -> None:
    H = weights(*SIZES.values())
    for place, name in reversed([*enumerate(SIZES)]):
        H = H if name in axes else H[(slice(None),) * place + (0,)]
    left = [name for name in SIZES if name in axes]
    stored = H.transpose([left.index(name) for name in axes])
    np.save(tmp_path / "a.npy", stored)
    source = load_matrix_source(tmp_path / "a.npy", axes=said)
    whole = H.reshape([SIZES[name] if name in axes else 1 for name in SIZES])
    np.testing.assert_array_equal(source.matrices, whole)
    assert source.layers == tuple(range(len(whole)))
    assert source.notes == (AxesTaken(axes, stored.shape),)
    (words,) = list(map(str, source.notes))
    assert f"are taken for {', '.join(axes)} (option axes)" in words
    arrays, taken, _ = load_arrays(tmp_path / "a.npy", axes=said)
    np.testing.assert_array_equal(arrays[""], H)
    assert taken == source.notes[0]


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
@pytest.mark.parametrize(
    ("prefix", "site"),
    [("layer", "unknown"), ("layer_", "unknown"), ("layers.", "unknown"), ("arr_", "unknown"),
     ("decoder.", "decoder"), ("cross.", "cross")],
)  # fmt: skip
@pytest.mark.parametrize("texts", [1, 3])
def test_an_array_of_each_layer_is_that_layer(
    tmp_path: Path, ending: str, prefix: str, site: str, texts: int
) -> None:
    H = weights(12, texts, 2, 5, 5)[:, 0 if texts == 1 else slice(None)]
    numbers = [10, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 27]
    path = as_layers(tmp_path / f"a{ending}", H, [f"{prefix}{number}" for number in numbers])
    source = load_matrix_source(path)
    assert (source.layers, source.site) == (tuple(sorted(numbers)), site)
    for layer, matrices in zip(source.layers, source.matrices, strict=True):
        expected = H[numbers.index(layer)].reshape(texts, 2, 5, 5)
        np.testing.assert_array_equal(matrices, expected)
    arrays, taken, _ = load_arrays(path)
    assert [*arrays] == [f"{prefix}{number}" for number in sorted(numbers)]
    assert taken == source.notes[0]
    assert f"12 arrays {prefix}0 to {prefix}27 are taken for layers" in str(taken)
    one = load_matrix_source(path, array=f"{prefix}9")
    np.testing.assert_array_equal(one.matrices.flatten(), H[1].flatten())


def test_names_that_are_no_layers_are_told_apart() -> None:
    for names in (["a", "b"], ["layer0", "other"], ["layer1", "layer01"], ["encoder.0", "decoder.0"],
                  ["layer0", "layer_1"], ["arr_0"], []):  # fmt: skip
        assert layers_among(names) is None
    assert layers_among(["decoder.3"]) == {"decoder.3": 3}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (("texts", "heads", "query"), "query or key is missing"),
        (("heads", "heads", "query", "key"), "one is named twice"),
        (("batch", "query", "key"), "no axis 'batch'; .*from: layers, texts, heads, query, key"),
        (("query", "key"), "4 dimensions, and 2 are named"),
    ],
)
def test_axes_that_cannot_be_are_refused(
    tmp_path: Path, axes: tuple[str, ...], message: str
) -> None:
    np.save(tmp_path / "a.npy", weights(2, 3, 5, 5))
    for question in (attnlab.analyze, attnlab.approximate):
        with pytest.raises(InputError, match=message):
            question(tmp_path / "a.npy", axes=axes)
    with pytest.raises(InputError, match="6 dimensions, and what can be read has 2 to 5"):
        axes_of(6)


def test_layers_that_do_not_fit_each_other_or_what_is_said_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", layer0=weights(2, 5, 5), layer1=weights(3, 5, 5))
    with pytest.raises(
        InputError, match=r"layers layer0 and layer1 have the shapes \(2, 5, 5\) and"
    ):
        load_matrix_source(tmp_path / "a.npz")
    np.savez(tmp_path / "c.npz", layer0=weights(3, 5, 5), layer1=weights(1, 3, 5, 5))
    for load in (attnlab.load, attnlab.approximate):
        with pytest.raises(InputError, match="layer0 and layer1 have 3 and 4 dimensions; name one"):
            load(tmp_path / "c.npz")
    with pytest.raises(InputError, match="5 dimensions, and what can be read has 2 to 4"):
        axes_of(5, of_layer=True)
    with pytest.raises(InputError, match="so none of its axes is layers"):
        load_matrix_source(tmp_path / "a.npz", array="layer0", axes=("layers", "query", "key"))
    np.savez(tmp_path / "b.npz", **{"decoder.0": weights(2, 5, 5)})
    with pytest.raises(InputError, match="holds layers of decoder, and not of cross"):
        load_matrix_source(tmp_path / "b.npz", sites=["cross"])


def test_a_file_of_an_analysis_says_itself_what_it_holds(tmp_path: Path) -> None:
    H = np.tril(weights(2, 3, 5, 5)) + 1e-3 * np.tril(np.ones((5, 5)))
    path = as_layers(tmp_path / "a.npz", H / H.sum(-1, keepdims=True), ["decoder.3", "decoder.7"])
    found = attnlab.analyze(path, keep_matrices=1)
    assert set(found.heads["layer"]) == {3, 7}
    kept = found.save(tmp_path / "out") / "matrices.safetensors"
    again = load_kept_source(kept)
    assert [*again.kept.matrices] == [(0, "decoder", 3), (0, "decoder", 7)]
    for load in (load_kept_source, load_arrays):
        with pytest.raises(InputError, match="says itself what its matrices are; leave axes out"):
            load(kept, axes=AXES)
