import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from attnlab.cli import app as program
from attnlab.cli.app import app
from attnlab.labels.label_columns import NO_STRUCTURE_MEANS
from attnlab.matrices.families import CODED

pytestmark = pytest.mark.usefixtures("no_page")

COLUMNS = (
    "matrix,head,family,values,window_left,window_right,num_pos,dropout,error_nnz,error_bound,max_entries,"
    "member,nnz,l1,mean_error,relative,frobenius,kl,bits_per_row,structure,structure_margin_bits_per_row,"
    "structure_runner_up,seconds"
)


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    H = torch.randn(3, 7, 7, generator=generator).mul(2).softmax(-1)
    np.savez(tmp_path / "heads.npz", heads=H.numpy())
    return tmp_path / "heads.npz"


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["approximate", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_thesis_heads_come_out_exactly(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "thesis" / "heads.npz"
    options = ["--window", "3", "--num-pos", "2", "--values", "free", "--dropout", "0"]
    options += ["--error-nnz", "0", "--families", "band,union"]
    result = CliRunner().invoke(app, ["approximate", str(file), *options, "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "Rows do not sum to 1 (from 0.229 to 1.111)" in result.stderr
    table = pd.read_csv(tmp_path / "approximation.csv")
    expected = [2.40, 2.23, 7.44, 6.06, 2.48, 1.15, 2.86, 4.57]
    for family in ("band", "union"):
        found = table.loc[table["family"] == family, "l1"]
        assert found.tolist() == pytest.approx(expected, abs=0.005)
    for number in expected:
        assert f"{number:.2f}" in result.stdout


def test_file_and_csv_have_the_same_rows(heads: Path, tmp_path: Path) -> None:
    printed = run(heads, "--format", "csv", "--out", tmp_path / "out")
    assert printed.splitlines()[0] == COLUMNS
    written = (tmp_path / "out" / "approximation.csv").read_text(encoding="utf-8")
    assert written == printed
    assert len(pd.read_csv(io.StringIO(printed))) == 3 * 9


def test_a_table_that_is_there_is_replaced_only_when_asked(heads: Path, tmp_path: Path) -> None:
    (tmp_path / "approximation.csv").write_text("mine")
    words = ["approximate", str(heads), "--out", str(tmp_path)]
    for more in ([], ["--overwrite"]):
        refused = CliRunner().invoke(app, [*words, *more])
        assert "approximation.csv and no result.json of attnlab" in str(refused.exception)
    (tmp_path / "result.json").write_text('{"result": "approximation"}')
    refused = CliRunner().invoke(app, words)
    assert "already holds approximation.csv" in str(refused.exception)
    assert (tmp_path / "approximation.csv").read_text() == "mine"
    run(heads, "--out", tmp_path, "--overwrite")
    assert len(pd.read_csv(tmp_path / "approximation.csv")) == 3 * 9


def test_json_is_a_list_of_rows(heads: Path) -> None:
    rows = json.loads(run(heads, "--json", "--families", "band"))["approximation"]
    assert len(rows) == 3 * 6
    assert rows[5]["family"] == "band"
    assert rows[0]["window_left"] is None


def test_table_shows_distances_and_members(heads: Path) -> None:
    shown = run(heads, "--families", "diagonal,rare_columns", "--error-nnz", "n")
    for word in (
        "zero", "uniform", "by offset", "top", "offset", "rows", "mean l1", "non-zeros",
        "structure", "margin", "next",
    ):  # fmt: skip
        assert word in shown


def test_the_family_that_comes_next_stands_in_the_table(tmp_path: Path) -> None:
    """Peaks at random keys: no family needs fewer bits, and the next was not fitted."""
    H = np.random.default_rng(0).random((12, 12)) ** 4
    np.save(tmp_path / "peaks.npy", H / H.sum(-1, keepdims=True))
    shown = run(tmp_path / "peaks.npy", "--families", "diagonal")
    title, *lines = shown[shown.index("description length") :].splitlines()
    row = next(line for line in lines if line.startswith("H.0 "))
    _, structure, runner_up, margin, *bits = row.split()
    assert (title, structure, runner_up) == ("description length, bits per row", "none", "column")
    assert len(bits) == len(CODED)
    first, second = sorted(map(float, bits))[:2]
    assert (bits[CODED.index("diffuse")], bits[CODED.index("column")]) == (
        f"{first:.2f}",
        f"{second:.2f}",
    )
    assert second - first == pytest.approx(float(margin), abs=0.011)
    assert "diffuse" not in shown
    words = " ".join(shown.split())
    assert f"none: {NO_STRUCTURE_MEANS}." in words
    assert "zero: no weights at all; uniform: equal weights; by offset:" in words


def test_nothing_is_cut_in_a_narrow_terminal(heads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    families = "diagonal,band,rare_columns,column,additive,union"
    shown = run(heads, "--families", families, "--num-pos", "3", "--window", "2")
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.replace("│", " ").split())
    for word in (
        "uniform", "diagonal", "columns", "additive", "union", "relative", "non-zeros", "entries",
        "structure", "bits per row decide",
    ):  # fmt: skip
        assert word in words
    assert "an entry where the matrix itself is exactly 0" in words


def test_zeros_of_dropout_are_no_non_zeros(tmp_path: Path) -> None:
    H = np.full((1, 5, 5), 0.2)
    H[0, 1, 1] = H[0, 2, 3] = 0
    np.save(tmp_path / "dropped.npy", H)
    table = pd.read_csv(
        io.StringIO(
            run(
                tmp_path / "dropped.npy",
                *["--window", "1", "--dropout", "0", "--error-nnz", "0", "--format", "csv"],
            )
        )
    )
    assert table.set_index("family")["nnz"]["band"] == 13 - 2


def test_the_help_says_what_is_done_where_nothing_is_given() -> None:
    said = " ".join(run("--help").replace("│", " ").split())
    for option, left_out in (
        ("--dropout", "its largest entries are used, as many as the budget allows"),
        ("--families", "those that can have the values"),
    ):
        assert option in said
        assert left_out in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "window: 3 back, 3 ahead; entries: at most 1 a row, free; sparse error: at most n, up to 0.5"),
        (["--window", "2,1", "--budget", "3"], "window: 2 back, 1 ahead; entries: at most 3 a row"),
        (["--causal"], "window: 3 back, 0 ahead"),
        (["--dropout", "0"], "entries: of a band all but a share of 0, free"),
        (["--error-nnz", "0"], "sparse error: none"),
        (["--error-bound", "0"], "sparse error: none"),
    ],
)  # fmt: skip
def test_the_room_that_fits_had_is_said(options: list[str], said: str, tmp_path: Path) -> None:
    np.save(tmp_path / "even.npy", np.full((5, 5), 0.2))
    shown = " ".join(run(tmp_path / "even.npy", *options).split())
    assert "l1 distance, 1 matrix of 5 x 5" in shown
    assert said in shown


def test_long_tables_are_cut(tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", np.full((30, 5, 5), 0.2))
    assert "6 more matrices; --out DIR writes them all" in run(tmp_path / "many.npy")


def test_options_change_the_fit(heads: Path) -> None:
    def total(*words: str, sparse: str = "0") -> float:
        options = ["--format", "csv", "--error-nnz", sparse, *words]
        table = pd.read_csv(io.StringIO(run(heads, *options)))
        return float(table.loc[table["family"] == "band", "l1"].sum())

    whole = ["--window", "1", "--dropout", "0"]
    plain = total(*whole)
    assert total("--window", "1,2", "--dropout", "0") < plain
    assert total(*whole, "--causal") > plain
    assert total("--window", "1", "--dropout", "0.5") > plain
    assert total("--window", "1") > total("--window", "1", "--budget", "2") > plain
    assert total("--window", "1", "--budget", "3") == pytest.approx(plain)
    assert total(*whole, "--error-bound", "0.1", sparse="3") < plain
    assert total(*whole, "--values", "stochastic") == pytest.approx(2 * plain)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--values", "any"], "choose from: binary, free, stochastic"),
        (["--window", "x"], "window must be a number from 0 up or LEFT,RIGHT"),
        (["--format", "xml"], "choose from: text, csv, markdown, latex"),
        (["--array", "tails"], "no array 'tails'; it has: heads"),
        (["--values", "binary", "--families", "additive"], "additive has free values only"),
    ],
)
def test_bad_options_are_one_sentence(
    heads: Path, words: list[str], message: str, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["attnlab", "approximate", str(heads), *words])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert error.count("\n") == 1
    assert message in error


def test_negative_entries_are_named(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    H = np.full((2, 5, 5), 0.2)
    H[1, 3, 2] = -0.2
    np.save(tmp_path / "bad.npy", H)
    monkeypatch.setattr("sys.argv", ["attnlab", "approximate", str(tmp_path / "bad.npy")])
    with pytest.raises(SystemExit):
        program.main()
    assert (
        "Matrix 1 has an entry that is negative (-0.2) at row 3, column 2"
        in capsys.readouterr().err
    )
