import math

import pandas as pd
import pytest
import torch

from attnlab.errors import InputError
from attnlab.matrices.band import fit_band
from attnlab.matrices.references import top_entries
from attnlab.matrices.sigma import fit_sigma
from attnlab.studies.approximation import COLUMNS, Settings, approximate, svd_rank
from attnlab.studies.approximation_options import (
    chosen_format,
    read_error_nnz,
    read_settings,
    read_window,
)


def attention(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(2).softmax(-1)


ALL = ("diagonal", "band", "rare_columns", "sink", "union")


def test_a_row_for_every_matrix_and_family_in_the_order_of_the_file() -> None:
    H = attention(2, 6, 7, 7)
    table = approximate(H, Settings(families=ALL)).table
    assert list(table.columns) == COLUMNS
    assert list(table["family"][:9]) == ["zero", "uniform", "top", "svd", *ALL]
    assert list(table["matrix"].unique()) == [f"{i}.{j}" for i in range(2) for j in range(6)]
    assert len(table) == 12 * 9
    assert (table.loc[table["family"] == "zero", "relative"] == 1).all()


@pytest.mark.parametrize("values", ["binary", "free", "stochastic"])
def test_numbers_are_those_of_the_fits(values: str) -> None:
    H = attention(3, 7, 5)
    settings = Settings(
        window=(2, 1), num_pos=1, values=values, dropout=0.3, error_nnz=4, error_bound=0.2
    )
    table = approximate(H, settings).table
    options = {"values": values, "dropout": 0.3, "error_nnz": 4, "error_bound": 0.2}
    for family, fit in {
        "band": fit_band(H, window=(2, 1), **options),
        "union": fit_sigma(H, window=(2, 1), num_pos=1, **options),
    }.items():
        rows = table[table["family"] == family]
        for name in ("l1", "mean_error", "relative", "frobenius"):
            assert rows[name].tolist() == pytest.approx(getattr(fit, name).tolist(), abs=1e-12)
        assert rows["nnz"].tolist() == (fit.approximation != 0).sum((-2, -1)).tolist()
        assert rows["window_left"].tolist() == [2] * 3
        assert rows["window_right"].tolist() == [1] * 3


def test_no_fit_is_nearer_than_top() -> None:
    table = approximate(attention(5, 9, 9), Settings(families=ALL, error_nnz=9)).table
    wide = table.pivot_table(index="matrix", columns="family", values="l1")
    assert (wide["top"].to_numpy()[:, None] <= wide[list(ALL)].to_numpy() + 1e-12).all()


def test_top_and_svd_have_the_budget_of_the_largest_fit() -> None:
    H = attention(2, 9, 9)
    table = approximate(H, Settings(window=(1, 1), families=("band",))).table
    band, top = (table[table["family"] == name] for name in ("band", "top"))
    assert top["nnz"].tolist() == band["nnz"].tolist() == [25, 25]
    assert top["l1"].tolist() == pytest.approx((H - top_entries(H, 25)).sum((-2, -1)).tolist())
    assert svd_rank(25, 9, 9) == 1
    assert svd_rank(60, 9, 9) == 3
    assert svd_rank(0, 9, 9) == 1


def test_divergence_only_between_distributions() -> None:
    H = attention(2, 5, 5)
    settings = Settings(window=(4, 4), values="stochastic", families=("band",))
    table = approximate(H, settings).table.set_index("family")
    assert table.loc["band", "kl"].tolist() == pytest.approx([0, 0], abs=1e-12)
    expected = [math.log(5) - float(-(h * h.log()).sum() / 5) for h in H]
    assert table.loc["uniform", "kl"].tolist() == pytest.approx(expected)
    assert table.loc[["zero", "top", "svd"], "kl"].isna().all()
    unscaled = approximate(H * 0.9, settings).table
    assert unscaled["kl"].isna().all()


def test_options_that_a_family_does_not_have_are_empty() -> None:
    table = approximate(attention(5, 5), Settings(families=ALL)).table.set_index("family")
    assert list(table.loc["union", "matrix"]) == ["0"]
    has = table[["num_pos", "dropout", "window_left", "error_bound"]].notna()
    assert has.loc["rare_columns"].tolist() == [True, False, True, False]
    assert has.loc["sink"].tolist() == [False] * 4
    assert has.loc["band"].tolist() == [False, True, True, False]
    assert not has.loc["svd"].any()


def test_causal_fits_look_back_only() -> None:
    H = attention(2, 5, 5).tril()
    table = approximate(H, Settings(causal=True, families=ALL)).table
    assert set(table["window_right"].dropna()) == {0}
    uniform = table[table["family"] == "uniform"]
    assert uniform["nnz"].tolist() == [15, 15]


def test_members_are_told_in_words() -> None:
    shifted = torch.eye(9, dtype=torch.float64).roll(-1, 0)
    members = approximate(shifted, Settings(families=ALL, num_pos=1)).members
    assert members["diagonal"] == ["offset +1"]
    assert members["band"] == ["51 entries at offsets -3..3"]
    assert members["sink"] == ["column 0"]
    assert members["union"] == ["diagonal"]
    assert members["rare_columns"] == ["rows 6-8 to 7"]
    assert approximate(torch.eye(5), Settings()).members["rare_columns"] == ["identity"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "fre"}, "choose from: binary, free, stochastic"),
        ({"families": ("band", "bond")}, "no family 'bond'; choose from: diagonal"),
        ({"families": ()}, "at least one family"),
        ({"num_pos": -1}, "0 or more, not -1"),
        ({"dropout": -0.5}, "between 0 and 1, not -0.5"),
        ({"error_bound": -1.0}, "0 or more, not -1.0"),
        ({"window": (-1, 2)}, "from 0 up"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**options)


def test_options_are_read() -> None:
    assert read_window("3") == (3, 3)
    assert read_window("0,2") == (0, 2)
    assert [read_error_nnz(text, 16) for text in ("0", "5", "n", "2n")] == [0, 5, 16, 32]
    assert chosen_format("csv") == "csv"
    settings = read_settings(
        5,
        window="1",
        num_pos=2,
        values="free",
        dropout=0.0,
        error_nnz="n",
        error_bound=0.1,
        causal=False,
        families=" band , union,",
    )
    assert settings == Settings(
        window=(1, 1), error_nnz=5, error_bound=0.1, families=("band", "union")
    )


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_window, "-1", "number from 0 up or LEFT,RIGHT"),
        (read_window, "1,2,3", "not '1,2,3'"),
        (read_window, "two", "not 'two'"),
        (lambda text: read_error_nnz(text, 5), "-2", "not '-2'"),
        (lambda text: read_error_nnz(text, 5), "", "not ''"),
        (lambda text: read_error_nnz(text, 5), "n2", "not 'n2'"),
        (chosen_format, "xml", "choose from: table, csv, json"),
    ],
)
def test_unreadable_options_are_refused(read, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


def test_seconds_and_types_are_numbers() -> None:
    table = approximate(attention(3, 5, 5), Settings()).table
    assert (table["seconds"] > 0).all()
    assert pd.api.types.is_integer_dtype(table["nnz"])
    assert table["l1"].notna().all()
