"""The file of matrices that an analysis leaves, as a source and as input of exact fits."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from zoo import random_models
from zoo.random_models import PAIRS, tokenizer

from attnlab.core.errors import InputError
from attnlab.questions.analyze.analysis import analyze
from attnlab.questions.approximate.approximation import approximate
from attnlab.reading.keeping import KeptMatrices, load_kept_matrices
from attnlab.reading.matrix_files import load_arrays
from attnlab.results.result import Result


@pytest.fixture(scope="module")
def original() -> Result:
    model = random_models.small_marian(), tokenizer()
    return analyze(model, sentences=PAIRS[:3], labels=False, fit_sentences=3, structure_sentences=0)


@pytest.fixture
def file(original: Result, tmp_path: Path) -> Path:
    original.matrices.write(tmp_path / "matrices.safetensors")
    return tmp_path / "matrices.safetensors"


def test_heads_and_fits_are_those_of_the_model(original: Result, file: Path) -> None:
    found = analyze(file, fit_sentences=3, structure_sentences=0)
    pd.testing.assert_frame_equal(found.heads, original.heads, rtol=1e-4, atol=1e-5)
    pd.testing.assert_frame_equal(found.fits, original.fits, rtol=1e-6, atol=1e-6)
    assert found.heads["mass_on_punctuation"].notna().all(), "what tokens are is in the file"
    assert found.matrices.tokens == original.matrices.tokens
    assert found.matrices.kinds == original.matrices.kinds
    assert found.about["Layers"] == original.about["Layers"]
    few = {"fit_sentences": 0, "structure_sentences": 0}
    cross = analyze(file, sites=["cross"], **few)
    assert set(cross.heads["site"]) == {"cross"}
    assert len(analyze(file, array="1.encoder.0", sites=["encoder"], **few).heads) == 3


def test_fits_name_sentence_site_layer_and_head(file: Path) -> None:
    arrays, _, _ = load_arrays(file)
    found = approximate(file, families=("band",))
    assert found.table["matrix"].iloc[0] == "0.encoder.0.0"
    first = found.table.loc[0, ["sentence", "site", "layer", "head"]]
    assert first.tolist() == [0, "encoder", 0, 0]
    one = approximate(arrays["2.cross.0"], families=("band",)).table
    mine = found.table[found.table["matrix"].str.startswith("2.cross.0.")]
    assert mine["l1"].tolist() == one["l1"].tolist()
    assert found.table["member"].notna().sum() == found.table["matrix"].nunique()
    pd.testing.assert_frame_equal(found.bits, approximate(arrays, families=("band",)).bits)


def test_what_does_not_fit_together_is_refused(file: Path) -> None:
    kept = load_kept_matrices(file)
    first = next(iter(kept.matrices))
    for matrices in (
        {**kept.matrices, first: kept.matrices[first][:, 1:]},
        {**kept.matrices, first: kept.matrices[first][1:]},
        {**kept.matrices, (99, "encoder", 0): torch.eye(5)[None]},
        {**kept.matrices, (0, "middle", 0): torch.eye(5)[None]},
    ):
        replace(kept, matrices=matrices).write(file)
        with pytest.raises(
            InputError, match=r"as the matrices of an analysis \(.*\); .* \(option array\)"
        ):
            analyze(file)
    KeptMatrices().write(file)
    with pytest.raises(InputError, match="holds no matrices that were asked for"):
        analyze(file)


def test_a_site_that_is_not_in_the_file(file: Path, original: Result) -> None:
    encoder = {k: m for k, m in original.matrices.matrices.items() if k[1] == "encoder"}
    replace(original.matrices, matrices=encoder).write(file)
    with pytest.raises(InputError, match="asked for; its sites are: encoder"):
        analyze(file, sites=["cross"])
