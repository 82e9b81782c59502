"""Matrices of a file as a source: heads, fits and figures without a model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from planted_layers import stochastic

import attnlab
from attnlab.core.errors import InputError
from attnlab.reading.reading_notes import RowsNotNormalized


def saved(path: Path, weights) -> Path:
    np.save(path, weights.numpy() if hasattr(weights, "numpy") else weights)
    return path


def test_heads_of_a_file_are_those_of_its_matrices(tmp_path: Path) -> None:
    weights = stochastic(5, 7, 11)
    found = attnlab.analyze(saved(tmp_path / "heads.npy", weights), sites=["cross"])
    assert found.heads["head"].tolist() == list(range(5))
    assert set(found.heads["site"]) == {"cross"}
    entropy = -(weights * weights.log()).sum(-1).mean(-1)
    np.testing.assert_allclose(found.heads["entropy_nats"], entropy, rtol=1e-12)
    np.testing.assert_allclose(found.heads["confidence"], weights.amax(-1).mean(-1), rtol=1e-12)
    assert found.heads["mass_on_special"].isna().all(), "nothing is known of its tokens"
    band = found.fits[found.fits["window"] == 0]
    outside = weights.sum((1, 2)) - weights.diagonal(dim1=1, dim2=2).sum(-1)
    np.testing.assert_allclose(band["l1"], outside, rtol=1e-12)
    assert found.matrices.tokens[0, "cross"][1] == [str(n) for n in range(11)]
    assert "5 heads x 7 query x 11 key" in found.about["Matrices"]


def test_dimensions_are_layers_sentences_and_heads(tmp_path: Path) -> None:
    weights = np.stack([stochastic(3, 5, 5, seed=seed) for seed in range(14)])
    file = saved(tmp_path / "heads.npy", weights.reshape(2, 7, 3, 5, 5))
    found = attnlab.analyze(file, keep_matrices=2, fit_sentences=4)
    assert set(zip(found.heads["site"], found.heads["layer"], strict=True)) == {
        ("unknown", 0), ("unknown", 1),
    }  # fmt: skip
    assert set(found.heads["sentences"]) == {7}
    np.testing.assert_array_equal(
        found.matrices.matrices[1, "unknown", 1], weights[7 + 1].astype(np.float32)
    )
    assert set(found.fits["sentences"]) == {4}
    one = attnlab.analyze(saved(tmp_path / "one.npy", weights[0, 0]))
    assert len(one.heads) == 1


def test_a_file_without_weights_above_the_diagonal_is_causal(tmp_path: Path) -> None:
    causal = attnlab.analyze(saved(tmp_path / "c.npy", stochastic(2, 7, 7, causal=True)))
    assert causal.about["Causal"].startswith("yes")
    full = attnlab.analyze(saved(tmp_path / "f.npy", stochastic(2, 7, 7)))
    assert full.about["Causal"] == "no"
    two = attnlab.analyze(saved(tmp_path / "two.npy", stochastic(2, 2, 2, causal=True)))
    assert two.about["Causal"].startswith("yes")
    one = attnlab.analyze(saved(tmp_path / "one.npy", np.ones((2, 1, 1))))
    assert one.about["Causal"] == "no", "a single token has none behind it"


def test_rows_that_do_not_sum_to_one_are_a_warning_or_normalised(tmp_path: Path) -> None:
    weights = stochastic(2, 7, 7)
    file = saved(tmp_path / "half.npy", weights / 2)
    found = attnlab.analyze(file)
    assert any(isinstance(note, RowsNotNormalized) for note in found.notes)
    whole = attnlab.analyze(file, normalize="rows")
    np.testing.assert_allclose(whole.heads["confidence"], 2 * found.heads["confidence"], rtol=1e-12)
    assert not any(isinstance(note, RowsNotNormalized) for note in whole.notes)


def test_files_that_cannot_be_analyzed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*none\.npz"):
        attnlab.analyze(tmp_path / "none.npz")
    six = saved(tmp_path / "six.npy", np.ones((1, 1, 1, 1, 2, 2)) / 2)
    with pytest.raises(
        InputError,
        match=r"in .* has 6 dimensions, and what can be read has 2 to 5; axes are: layers",
    ):
        attnlab.analyze(six)
    with pytest.raises(InputError, match="are of one site; name one"):
        attnlab.analyze(saved(tmp_path / "two.npy", np.eye(3)), sites=["encoder", "cross"])
    np.savez(tmp_path / "two.npz", a=np.eye(3), b=np.eye(3))
    with pytest.raises(InputError, match=r"name one of them \(option array\)"):
        attnlab.analyze(tmp_path / "two.npz")
    assert len(attnlab.analyze(tmp_path / "two.npz", array="b").heads) == 1


def test_the_folder_of_the_published_matrices(shared_data: Path, tmp_path: Path) -> None:
    found = attnlab.analyze(shared_data / "thesis" / "heads.npz", sites=["encoder"])
    assert len(found.heads) == 8
    page = (found.save(tmp_path) / "report.html").read_text(encoding="utf-8")
    assert "encoder.0.7" in page
    assert "on special tokens" not in page, "columns without a single number are left out"
    assert (tmp_path / "figures" / "heads_sentence0_encoder_layer0.svg").is_file()


def test_a_head_without_any_weight_keeps_its_row_and_stops_nothing(tmp_path: Path) -> None:
    H = torch.rand(3, 6, 6, dtype=torch.float64).softmax(-1)
    H[1] = 0
    np.save(tmp_path / "H.npy", H.numpy())
    found = attnlab.analyze(tmp_path / "H.npy")
    assert found.summary["structure"].eq("").tolist() == [False, True, False]
    page = found.save(tmp_path / "out") / "report.html"
    assert "unknown.0.1" in page.read_text(encoding="utf-8")
