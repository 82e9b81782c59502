"""`attnlab substitute` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json, run_once
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.studies.substitution import substitution

QUICK = ("-n", "6", "--calibration", "10", "--mechanisms", "band,top-k", "--no-bleu")


def test_writes_what_it_names_and_explains_every_column(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(substitution, "substitute", run_once(substitution.substitute))
    words = ["substitute", str(small_run), "--out", str(out), *QUICK]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    names = {"substitutions.csv", "prediction.csv", "substitution.md"}
    assert {path.name for path in out.iterdir()} == {
        *names, "substitution.svg", "substitution.png", "result.json", "report.html",
    }  # fmt: skip
    explained = (out / "substitution.md").read_text(encoding="utf-8")
    for name in ("substitutions", "prediction"):
        for column in pd.read_csv(out / f"{name}.csv").columns:
            assert f"- `{column}`:" in explained
    answer = "Without retraining, band at 5 keys per row in place of 6 heads costs +"
    assert answer in " ".join(done.output.split())
    lines = done.stdout.splitlines()
    assert any(line.startswith("top-k (oracle)") for line in lines)
    assert any(line.startswith("oracle: chosen from the full matrix") for line in lines)
    assert "Oracles (top-k) are left out here" in " ".join(done.stdout.split())
    assert "change of loss (nats per token)" in done.stdout
    assert "BLEU" not in done.stdout, "none was asked for"
    assert "bigbird" not in done.output, "notes name mechanisms that were asked for"
    assert "mathdefault" not in (out / "substitution.svg").read_text(encoding="utf-8")
    again = CliRunner().invoke(app, words)
    assert "--overwrite" in str(again.exception)
    found = read_json(CliRunner().invoke(app, [*words, "--overwrite", "--json"]).stdout)
    assert len(found["substitutions"]) == len(pd.read_csv(out / "substitutions.csv"))
