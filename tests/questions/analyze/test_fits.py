"""Band distances and reference points of captured matrices, against loops."""

import pandas as pd
import pytest
import torch
from planted_layers import layer, stochastic

import attnlab.matrices.batched as in_pieces
from attnlab.matrices.additive import fit_additive
from attnlab.matrices.bands import fit_band
from attnlab.matrices.diagonal import fit_diagonal
from attnlab.matrices.rare_columns import fit_rare_columns
from attnlab.questions.analyze.fits import (
    RELATIVE,
    HeadFits,
    OffsetProfiles,
    mean_fits,
    summarise,
)

LENGTHS = [5, 7, 3, 4]


def planted(site: str = "encoder"):
    words = [["word"] * n for n in LENGTHS]
    keys = [["word"] * (n + 2) for n in LENGTHS] if site == "cross" else words
    matrices = [
        stochastic(2, len(q), len(k), causal=site == "decoder", seed=n)
        for n, (q, k) in enumerate(zip(words, keys, strict=True))
    ]
    return matrices, layer(matrices, words, keys, site=site)


def fits_of(*layers, sentences: int = 99):
    profiles = OffsetProfiles()
    for one in layers:
        profiles.update(one)
    fits = HeadFits(profiles, sentences)
    for one in layers:
        fits.update(one)
    return fits.fits()


def offset_mean(matrices, head, offset):
    entries = [
        m[head, i, i + offset].item()
        for m in matrices
        for i in range(m.shape[1])
        if 0 <= i + offset < m.shape[2]
    ]
    return sum(entries) / len(entries) if entries else 0.0


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_every_distance_equals_loops(site: str) -> None:
    matrices, one = planted(site)
    table = fits_of(one).set_index(["head", "sentence", "approximation", "window"])["l1"]
    for number, matrix in enumerate(matrices):
        others = [m for n, m in enumerate(matrices) if n % 2 != number % 2]
        queries, keys = matrix.shape[1:]
        for head in range(2):
            band = dict.fromkeys(range(11), 0.0)
            uniform = mean = total = 0.0
            for i in range(queries):
                visible = i + 1 if site == "decoder" else keys
                for j in range(keys):
                    weight = matrix[head, i, j].item()
                    total += weight
                    for window in band:
                        band[window] += weight if abs(j - i) > window else 0.0
                    uniform += abs(weight - (1 / visible if j < visible else 0.0))
                    mean += abs(weight - offset_mean(others, head, j - i))
            found = table[head, number]
            for window in band:
                assert found["band", window] == pytest.approx(band[window], abs=1e-12)
            by_name = found.droplevel("window")
            assert by_name["zero"] == pytest.approx(total)
            assert by_name["uniform"] == pytest.approx(uniform)
            assert by_name["mean_by_offset"] == pytest.approx(mean)


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_heads_that_are_fitted_some_at_a_time_are_fitted_the_same(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, one = planted(site)
    at_once = fits_of(one)
    monkeypatch.setattr(in_pieces, "CPU_ENTRIES", 1)
    pd.testing.assert_frame_equal(fits_of(one), at_once, check_exact=True)


def test_the_mean_by_offset_never_knows_the_sentence_itself() -> None:
    """With one sentence there are no others, so there is nothing to compare with."""
    _, one = planted()
    alone = layer([stochastic(2, 5, 5)], [["word"] * 5])
    assert "mean_by_offset" not in set(fits_of(alone)["approximation"])
    assert "mean_by_offset" in set(fits_of(one)["approximation"])


def test_quotients_sizes_and_levels() -> None:
    _, one = planted("cross")
    table = fits_of(one)
    zero = table[table["approximation"] == "zero"]
    assert (zero["relative"] == 1).all()
    torch.testing.assert_close(
        torch.tensor((table["mean_error"] * table["query_count"] * table["key_count"]).to_numpy()),
        torch.tensor(table["l1"].to_numpy()),
    )
    assert dict(zip(table["approximation"], table["level"], strict=True)) == {
        "band": "oracle",
        **dict.fromkeys(
            ["diagonal_alone", "diagonal", "kept_band", "rare_columns", "union", "additive", "top"],
            "oracle",
        ),
        "zero": "none",
        "uniform": "none",
        "mean_by_offset": "static",
    }
    assert set(zip(table["query_count"], table["key_count"], strict=True)) == {
        (n, n + 2) for n in LENGTHS
    }


def test_the_profile_of_two_batches_is_that_of_one() -> None:
    matrices, whole = planted()
    words = [["word"] * n for n in LENGTHS]
    halves = [
        layer(matrices[:2], words[:2]),
        layer(matrices[2:], words[2:], first=2),
    ]
    one, two = fits_of(whole), fits_of(*halves)
    torch.testing.assert_close(torch.tensor(two["l1"]), torch.tensor(one["l1"]))


def test_only_the_wanted_sentences_are_measured() -> None:
    _, one = planted()
    assert set(fits_of(one, sentences=2)["sentence"]) == {0, 1}
    assert fits_of(one, sentences=0).empty


def test_a_column_of_a_band_says_how_far_it_reaches() -> None:
    meanings = {column.name: column.meaning for column in RELATIVE}
    assert "farther than 1 token away" in meanings["band_1"]
    assert "farther than 2 tokens away" in meanings["band_2"]


def test_the_summary_is_a_mean_over_sentences() -> None:
    _, one = planted()
    table = fits_of(one)
    summary = summarise(table)
    assert list(summary["head"]) == [0, 1]
    chosen = table[(table["head"] == 1) & (table["window"] == 2)]
    assert summary["band_2"][1] == pytest.approx(chosen["relative"].mean())
    assert (summary["zero"] == 1).all()


def test_the_summary_keeps_heads_and_approximations_whose_matrices_hold_no_weight() -> None:
    _, one = planted()
    table = fits_of(one)
    summary = summarise(table.assign(relative=float("nan")))
    assert list(summary["head"]) == [0, 1]
    assert list(summary) == list(summarise(table))
    assert summary[["zero", "band_0", "band_2"]].isna().all(axis=None)


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_families_are_fitted_at_one_budget(site: str) -> None:
    """Each as for the matrix alone: two entries per row, one of them for E of at most 0.5."""
    matrices, one = planted(site)
    table = fits_of(one).set_index(["head", "sentence", "approximation"])
    causal = site == "decoder"
    for number, matrix in enumerate(matrices):
        rows = matrix.shape[1]
        for head, H in enumerate(matrix):
            found = table.loc[head, number]
            shared = {"window": 3, "causal": causal, "error_nnz": rows, "error_bound": 0.5}
            alone = {
                "diagonal": fit_diagonal(H, **shared),
                "kept_band": fit_band(H, keep=rows, **shared),
                "rare_columns": fit_rare_columns(H, num_pos=2, **shared),
                "additive": fit_additive(H, num_pos=2, budget=2 * rows, **shared),
            }
            for name, fit in alone.items():
                assert found.loc[name, "l1"] == pytest.approx(float(fit.l1), abs=1e-9)
                assert found.loc[name, "max_entries"] == int(fit.budget) <= 2 * rows
                assert found.loc["top", "l1"] <= found.loc[name, "l1"] + 1e-9
            nearest = min(
                float(alone[name].l1) for name in ("diagonal", "kept_band", "rare_columns")
            )
            assert found.loc["union", "l1"] == pytest.approx(nearest, abs=1e-9)
            top = H.flatten().sort(descending=True).values[: int(found.loc["top", "max_entries"])]
            assert found.loc["top", "l1"] == pytest.approx(float(H.sum() - top.sum()), abs=1e-9)


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_means_are_over_sentences_and_equal_weights_are_measured_too(site: str) -> None:
    matrices, one = planted(site)
    fits = fits_of(one)
    means = mean_fits(fits)
    assert set(means["sentences"]) == {len(LENGTHS)}
    pd.testing.assert_frame_equal(summarise(means), summarise(fits))
    for window in (0, 2):
        beyond = []
        for matrix in matrices:
            queries, keys = matrix.shape[1:]
            far = 0.0
            for i in range(queries):
                visible = i + 1 if site == "decoder" else keys
                far += sum(abs(j - i) > window for j in range(visible)) / visible
            beyond.append(far / queries)
        bands = means[(means["approximation"] == "band") & (means["window"] == window)]
        assert bands["equal_weights"].tolist() == pytest.approx([sum(beyond) / len(beyond)] * 2)
    assert means.loc[means["window"].isna(), "equal_weights"].isna().all()
