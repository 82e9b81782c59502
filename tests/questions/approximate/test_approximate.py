import math

import pandas as pd
import pytest
import torch

from attnlab.core.errors import InputError
from attnlab.matrices.bands import fit_band
from attnlab.matrices.distances import _DISTANCES
from attnlab.matrices.families import CODED
from attnlab.matrices.labels import label_heads
from attnlab.matrices.references import top_entries
from attnlab.matrices.sigma_sets import fit_sigma
from attnlab.matrices.supports import band_dimension
from attnlab.questions.approximate.approximation import approximate, svd_rank
from attnlab.questions.approximate.question import (
    ADDRESS,
    APPROXIMATION,
    ApproximationSettings,
    count_in,
    window_in,
)
from attnlab.results import family_words
from attnlab.results.export import declared_columns


def attention(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(2).softmax(-1)


ALL = ("diagonal", "band", "rare_columns", "column", "column_band", "additive", "union")
STOCHASTIC = tuple(name for name in ALL if name != "additive")


def test_a_row_for_every_matrix_and_family_in_the_order_of_the_file() -> None:
    H = attention(2, 6, 7, 7)
    found = approximate(H, error_nnz=0, families=ALL)
    table = found.table
    assert list(table.columns) == [name for name in APPROXIMATION if name not in ADDRESS]
    references = ["zero", "uniform", "mean_by_offset", "svd", "top"]
    assert list(table["family"][: 5 + len(ALL)]) == [*references, *ALL]
    assert list(table["matrix"].unique()) == [f"H.{i}.{j}" for i in range(2) for j in range(6)]
    assert len(table) == 12 * (5 + len(ALL))
    assert (table.loc[table["family"] == "zero", "relative"] == 1).all()
    assert found.bits["family"].tolist() == [*CODED] * 12
    assert found.bits["matrix"].unique().tolist() == table["matrix"].unique().tolist()


@pytest.mark.parametrize("values", ["binary", "free", "stochastic"])
def test_numbers_are_those_of_the_fits(values: str) -> None:
    H = attention(3, 7, 5)
    settings = {
        "window": (2, 1), "num_pos": 1, "values": values, "dropout": 0.3, "error_nnz": 4, "error_bound": 0.2,
        "families": STOCHASTIC,
    }  # fmt: skip
    table = approximate(H, **settings).table
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


def test_numbers_on_the_terminal_stand_below_their_family() -> None:
    found = approximate(attention(3, 6, 6), error_nnz=2, families=("union", "band", "diagonal"))
    shown = next(iter(found.terminal()))
    table = found.approximation[found.approximation["family"] != "svd"]
    families = list(dict.fromkeys(table["family"]))
    words = {"mean_by_offset": "by offset"}
    assert shown.headings[1:] == tuple(words.get(one, family_words(one)) for one in families)
    l1, relative = APPROXIMATION["l1"], APPROXIMATION["relative"]
    rows = {row[0]: row[1:] for row in shown.rows}
    for index, family in enumerate(families):
        own = table[table["family"] == family]
        for name, value in zip(own["matrix"], own["l1"], strict=True):
            assert rows[name][index] == l1.shown(value)
        assert rows[f"mean {l1.narrow}"][index] == l1.shown(own["l1"].mean())
        assert rows[relative.narrow][index] == relative.shown(own["relative"].mean())


def test_a_distance_that_is_added_is_explained_by_its_docstring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def largest_entry(H: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """The largest |h - x|.

        Not shown.
        """
        return (H - X).abs().amax((-2, -1))

    monkeypatch.setitem(_DISTANCES, "largest_entry", largest_entry)
    assert "`largest_entry`: The largest |h - x|.\n" in APPROXIMATION.explained(
        ["l1", "largest_entry"]
    )
    assert "largest_entry" not in APPROXIMATION.explained()
    frame = pd.DataFrame({"l1": [1.0], "largest_entry": [0.5], "unknown": [0.5]})
    _, added, plain = declared_columns(frame, APPROXIMATION.file, [APPROXIMATION])
    assert (added.heading, added.meaning) == ("largest entry", "The largest |h - x|.")
    assert (plain.heading, plain.meaning) == ("unknown", "")


def test_no_fit_is_nearer_than_top() -> None:
    table = approximate(attention(5, 9, 9), families=ALL, error_nnz=9).table
    wide = table.pivot_table(index="matrix", columns="family", values="l1")
    assert (wide["top"].to_numpy()[:, None] <= wide[list(ALL)].to_numpy() + 1e-12).all()


def test_top_and_svd_have_the_budget_of_the_largest_fit() -> None:
    H = attention(2, 9, 9)
    table = approximate(H, error_nnz=0, window=(1, 1), dropout=0.0, families=("band",)).table
    band, top = (table[table["family"] == name] for name in ("band", "top"))
    assert top["nnz"].tolist() == band["nnz"].tolist() == [25, 25]
    assert top["l1"].tolist() == pytest.approx((H - top_entries(H, 25)).sum((-2, -1)).tolist())
    assert svd_rank(25, 9, 9) == 1
    assert svd_rank(60, 9, 9) == 3
    assert svd_rank(0, 9, 9) == 1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(9, 9), (9, 6), (6, 9)])
def test_all_families_have_one_budget(shape: tuple[int, int], causal: bool) -> None:
    H = attention(4, *shape)
    rows = shape[0]
    for budget, error_nnz in [(1, 0), (1, rows), (3, 4)]:
        settings = {
            "budget": budget,
            "error_nnz": error_nnz,
            "causal": causal,
            "families": ("band", "additive", "union"),
        }
        table = approximate(H, **settings).table
        fits = table[table["max_entries"].notna()]
        assert set(fits["family"]) == {"band", "additive", "union"}
        assert (fits["max_entries"] <= budget * rows + error_nnz).all()
        assert (fits["nnz"] <= fits["max_entries"]).all()
        band = fits.loc[fits["family"] == "band", "max_entries"]
        inside = int(band_dimension(torch.tensor(shape), 3, causal=causal))
        assert (band == min(budget * rows, inside) + error_nnz).all()


def test_distance_says_band_where_description_length_says_what_it_is() -> None:
    """At one budget the band still contains the diagonal: it is never farther away, yet not chosen."""
    shifted = 0.9 * torch.eye(12, dtype=torch.float64).roll(-1, 0) + 0.1 * attention(3, 12, 12)
    table = approximate(shifted, error_nnz=0).table.set_index("family")
    assert (table.loc["band", "l1"].to_numpy() <= table.loc["diagonal", "l1"].to_numpy()).all()
    assert (table["structure"] == "diagonal").all()
    assert (table["structure_margin_bits_per_row"] > 0).all()
    assert not table["structure_runner_up"].isin(["diagonal"]).any()


def test_bits_are_those_of_the_labels() -> None:
    H = attention(3, 8, 8)
    table = approximate(H, error_nnz=0, families=ALL).table
    for number, one in enumerate(H):
        found = label_heads(one[None])
        mine = table[table["matrix"] == f"H.{number}"].set_index("family")
        for family, name in {"diffuse": "uniform"}.items() | {(f, f) for f in CODED[1:]}:
            expected = float(found.bits_per_row[CODED.index(family)])
            assert float(mine.loc[name, "bits_per_row"]) == pytest.approx(expected)
        assert mine["structure"].unique() == [CODED[int(found.chosen)]]
        assert mine["structure_runner_up"].unique() == [CODED[int(found.runner_up)]]
        assert mine["structure_margin_bits_per_row"].iloc[0] == pytest.approx(float(found.margin))
        assert mine.loc[["zero", "svd", "top", "union", "additive"], "bits_per_row"].isna().all()


def test_the_mean_by_offset_is_that_of_the_diagonals() -> None:
    H = attention(1, 5, 4)
    table = approximate(H, error_nnz=0).table.set_index("family")
    expected = 0.0
    for offset in range(-4, 4):
        diagonal = H[0].diagonal(offset)
        expected += float((diagonal - diagonal.mean()).abs().sum())
    assert table.loc["mean_by_offset", "l1"] == pytest.approx(expected)


def test_divergence_only_between_distributions() -> None:
    H = attention(2, 5, 5)
    settings = {
        "error_nnz": 0,
        "window": (4, 4),
        "values": "stochastic",
        "dropout": 0.0,
        "families": ("band",),
    }
    table = approximate(H, **settings).table.set_index("family")
    assert table.loc["band", "kl"].tolist() == pytest.approx([0, 0], abs=1e-12)
    expected = [math.log(5) - float(-(h * h.log()).sum() / 5) for h in H]
    assert table.loc["uniform", "kl"].tolist() == pytest.approx(expected)
    assert table.loc[["zero", "top", "svd"], "kl"].isna().all()
    unscaled = approximate(H * 0.9, **settings).table
    assert unscaled["kl"].isna().all()


@pytest.mark.parametrize(
    "none", [torch.zeros(0, 3, 3), {"a": torch.eye(2), "b": torch.zeros(0, 2, 2)}]
)
def test_an_array_without_matrices_is_refused(none: object) -> None:
    with pytest.raises(InputError, match="There are no matrices in what was given"):
        approximate(none)


def test_an_array_of_numpy_may_be_turned_round() -> None:
    H = attention(4, 5, 5).numpy()[::-1, ::-1]
    expected = approximate(torch.tensor(H.copy()), families=["band"]).table
    found = approximate(H, families=["band"]).table
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), expected.drop(columns="seconds"))


def test_options_that_a_family_does_not_have_are_empty() -> None:
    table = approximate(attention(5, 5), error_nnz=0, families=ALL).table.set_index("family")
    assert table.loc["union", "matrix"] == "H.0"
    has = table[["num_pos", "dropout", "window_left", "error_bound"]].notna()
    assert has.loc["rare_columns"].tolist() == [True, False, True, False]
    assert has.loc["column"].tolist() == [False] * 4
    assert has.loc["column_band"].tolist() == [False, False, True, False]
    assert has.loc["band"].tolist() == [False, False, True, False]
    assert has.loc["additive"].tolist() == [True, False, True, False]
    whole = approximate(attention(5, 5), error_nnz=0, dropout=0.0).table.set_index("family")
    assert whole.loc["band", "dropout"] == 0
    assert not has.loc["svd"].any()


def test_causal_fits_look_back_only() -> None:
    H = attention(2, 5, 5).tril()
    table = approximate(H, error_nnz=0, causal=True, families=ALL).table
    assert set(table["window_right"].dropna()) == {0}
    uniform = table[table["family"] == "uniform"]
    assert uniform["nnz"].tolist() == [15, 15]


def test_members_are_told_in_words() -> None:
    shifted = torch.eye(9, dtype=torch.float64).roll(-1, 0)
    table = approximate(shifted, error_nnz=0, families=ALL, num_pos=1).table
    members = table.groupby("family", sort=False)["member"].agg(list)
    assert members["diagonal"] == ["offset +1"]
    assert members["band"] == ["9 entries at offsets -3..3"]
    assert members["additive"] == ["column 0"]
    assert members["column"] == ["column 0"]
    assert members["column_band"] == ["column 0 + offsets -3..3"]
    assert members["union"] == ["diagonal"]
    assert members["rare_columns"] == ["rows 6-8 to 7"]
    assert pd.isna(members["svd"]).all(), "a reference has none"
    identity = approximate(torch.eye(5), error_nnz=0).table.set_index("family")
    assert identity.at["rare_columns", "member"] == "identity"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "fre"}, "choose from: binary, free, stochastic"),
        ({"families": ()}, "at least one family"),
        ({"values": "binary", "families": ALL}, "additive has free values only; leave it out"),
        ({"window": (-1, 2)}, "window must be at least 0, not -1"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        approximate(attention(3, 5, 5), **options)


def test_texts_are_read() -> None:
    assert window_in("3") == (3, 3)
    assert window_in("0,2") == (0, 2)
    entries = {
        text: ApproximationSettings(error_nnz=count_in(text)).error_entries(16)
        for text in ("0", "5", "n", "2n")
    }
    assert list(entries.values()) == [0, 5, 16, 32]


def test_the_default_families_have_the_values() -> None:
    assert ApproximationSettings().fitted == ("diagonal", "band", "rare_columns", "additive")
    assert ApproximationSettings(values="binary").fitted == ("diagonal", "band", "rare_columns")


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (window_in, "-1", "number from 0 up or LEFT,RIGHT"),
        (window_in, "1,2,3", "not '1,2,3'"),
        (window_in, "two", "not 'two'"),
        (lambda text: ApproximationSettings(error_nnz=text), "-2", "not '-2'"),
        (lambda text: ApproximationSettings(error_nnz=text), "", "not ''"),
        (lambda text: ApproximationSettings(error_nnz=text), "n2", "not 'n2'"),
    ],
)
def test_unreadable_options_are_refused(read, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


def test_seconds_and_types_are_numbers() -> None:
    table = approximate(attention(3, 5, 5), error_nnz=0).table
    assert (table["seconds"] > 0).all()
    assert pd.api.types.is_integer_dtype(table["nnz"])
    assert table["l1"].notna().all()


def test_arrays_are_fitted_as_tensors_are() -> None:
    H = attention(2, 5, 5)
    given, array = (
        approximate(one).approximation.drop(columns="seconds") for one in (H, H.numpy())
    )
    pd.testing.assert_frame_equal(given, array)
