"""`attnlab compare` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json
from typer.testing import CliRunner
from zoo.random_models import PAIRS

from attnlab.cli import app as program
from attnlab.cli.app import app


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The options that name held-out and training sentences."""
    folder = tmp_path_factory.mktemp("texts")
    for name, pairs in (("held_out", PAIRS[:3]), ("training", PAIRS[3:])):
        lines = "\n".join("\t".join(pair) for pair in pairs)
        (folder / name).write_text(lines, encoding="utf-8")
    return ["--text", folder / "held_out", "--calibration-text", folder / "training"]


def run(*words: object):
    return CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)


def test_writes_tables_and_a_figure_for_each_site(
    model: Path, texts: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "out"
    budgets = [word for budget in (5, 7, 9, 11) for word in ("--budget", budget)]
    done = run(model, *budgets, *texts, "--sites", "decoder,cross", "--out", out)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {
        "mechanisms_by_head.csv", "summary.csv", "tables.md", "result.json", "report.html", "figures",
    }  # fmt: skip
    drawn = (path.name for path in (out / "figures").iterdir())
    assert sorted(drawn) == [
        f"{kind}_{site}.{form}"
        for kind in ("mechanisms", "pareto")
        for site in ("cross", "decoder")
        for form in ("png", "svg")
    ]
    summary = pd.read_csv(out / "summary.csv")
    explained = (out / "tables.md").read_text(encoding="utf-8")
    for column in {*summary, *pd.read_csv(out / "mechanisms_by_head.csv")}:
        known = f"`{column}`" in explained or column.endswith(("_low", "_high"))
        assert known or column in {"site", "layer", "head", "mechanism"}, column
    assert list(summary["site"].unique()) == ["decoder", "cross"]
    assert set(pd.read_csv(out / "mechanisms_by_head.csv")["site"]) == {"decoder", "cross"}
    assert f"Wrote {out}." in done.stderr.splitlines()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    shown = summary[(summary["site"] == "cross") & (summary["mechanism"] == "band")]
    line = next(
        line for line in done.stdout.split("cross:")[1].splitlines() if line.startswith("band")
    )
    first = shown.iloc[0]
    figures = [f"{first[name]:.3f}" for name in ("mass_fraction", "output_error")]
    assert line.split()[2:5] == [*figures, f"{first['visible_keys']:.2f}"]
    assert "Note: decoder: bigbird is left out" in " ".join(done.stderr.split())


def test_files_that_are_there_are_replaced_only_when_asked(
    model: Path, texts: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    (tmp_path / "mechanisms_by_head.csv").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mechanisms_cross.svg").write_text("older")
    words = [model, "--budget", 5, *texts, "--sites", "encoder", "--out", tmp_path]
    monkeypatch.setattr("sys.argv", ["attnlab", "compare", *map(str, words)])
    with pytest.raises(SystemExit, match="2"):
        program.main()
    assert (
        "already holds mechanisms_by_head.csv, figures/mechanisms_cross.svg, which the comparison"
        in capsys.readouterr().err
    )
    assert (tmp_path / "mechanisms_by_head.csv").read_text() == "mine"
    done = run(*words, "--overwrite", "--json")
    assert read_json(done.stdout)["summary"][0]["site"] == "encoder"
    assert len(pd.read_csv(tmp_path / "mechanisms_by_head.csv")) == 15 * 2 * 3
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "figures" / "mechanisms_cross.svg").exists(), (
        "a figure of another comparison"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "4"], "--budget must be at least 5, not 4."),
        (["--budget", "5", "--sites", "middle"], "There is no site 'middle'; choose from: encoder"),
        (
            ["--budget", "5", "--batch-size", "0"],
            "--batch-size must be at least 1 and at most 100000, not 0.",
        ),
        (["--budget", "5", "--calibration", "0"], "calibration must be at least 1, not 0."),
        (["--budget", "5", "-n", "0"], "sentences must be at least 1, not 0."),
        (["--budget", "5", "--device", "abacus"], "Device 'abacus' cannot be used here"),
        (["--budget", "5"], "brings no sentences; add text, a file with a sentence on each line."),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    words: list[str], message: str, model: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr("sys.argv", ["attnlab", "compare", str(model), *words])
    with pytest.raises(SystemExit, match="2"):
        program.main()
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
