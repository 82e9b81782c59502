"""`attnlab compare` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner
from zoo.random_models import PAIRS

from attnlab.cli import app as program
from attnlab.cli.app import app


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The options that name held-out and training sentences, and few mechanisms."""
    folder = tmp_path_factory.mktemp("texts")
    for name, pairs in (("held_out", PAIRS[:3]), ("training", PAIRS[3:])):
        lines = "\n".join("\t".join(pair) for pair in pairs)
        (folder / name).write_text(lines, encoding="utf-8")
    few = ["--mechanisms", "band,top-k,longformer"]
    return ["--text", folder / "held_out", "--calibration-text", folder / "training", *few]


def run(*words: object):
    return CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)


@pytest.mark.slow
def test_writes_tables_and_a_figure_for_each_site(
    model: Path, texts: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "out"
    budgets = [word for budget in (5, 9) for word in ("--budget", budget)]
    done = run(model, *budgets, *texts, "--sites", "decoder,cross", "--out", out)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {
        "mechanisms_by_head.csv", "summary.csv", "tables.md", "result.json", "report.html", "figures",
    }  # fmt: skip
    drawn = (path.name for path in (out / "figures").iterdir())
    assert sorted(drawn) == [
        f"{kind}_{sites}.{form}"
        for kind in ("mechanisms", "pareto")
        for sites in ("all", "cross", "decoder")
        for form in ("png", "svg")
    ]
    summary = pd.read_csv(out / "summary.csv")
    explained = (out / "tables.md").read_text(encoding="utf-8")
    for column in {*summary, *pd.read_csv(out / "mechanisms_by_head.csv")}:
        assert f"`{column}`" in explained, column
    assert set(summary["sites"]) == {"all", "decoder", "cross"}
    assert set(pd.read_csv(out / "mechanisms_by_head.csv")["site"]) == {"decoder", "cross"}
    assert f"Wrote {out}." in done.stderr.splitlines()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.stdout
    band = summary[(summary["sites"] == "all") & (summary["mechanism"] == "band")].iloc[0]
    line = next(line for line in done.stdout.splitlines() if line.startswith("band "))
    assert line.split()[:4] == [
        "band", "5", f"{band['visible_keys']:.2f}", f"{band['loss_change']:+.3f}",
    ]  # fmt: skip
    answer = "At 5 keys per row, band changes the loss by"
    assert answer in " ".join(done.stdout.split())
    assert "Note: cross: longformer is left out" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--budget", "5", "--batch-size", "0"],
            "--batch-size must be at least 1 and at most 100000, not 0.",
        ),
        (["--budget", "5", "--device", "abacus"], "Device 'abacus' cannot be used here"),
        (
            ["--budget", "5"],
            "brings no sentences; add --text, a file with a sentence on each line.",
        ),
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


def test_a_run_is_told_what_its_loss_becomes_in_one_sentence(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    few = ["-n", "6", "--calibration", "10", "--validation", "5", "--mechanisms", "band,top-k"]
    done = run(small_run, *few, "--quick", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    answer = "At 5 keys per row, band changes the loss by +"
    assert answer in " ".join(done.stdout.split())
    lines = done.stdout.splitlines()
    first = next(line for line in lines if line.startswith(("full", "top-k", "band")))
    assert first.startswith("full"), "what the others are compared with stands above them"
    assert any(line.startswith("top-k (oracle)") for line in lines)
    assert "BLEU" not in done.stdout, "none was asked for"
    assert "bigbird" not in done.output, "notes name mechanisms that were asked for"
    assert "mathdefault" not in (tmp_path / "out/figures/mechanisms_all.svg").read_text("utf-8")
