"""`attnlab plan` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json, run_once
from typer.testing import CliRunner

from attnlab.attention.plan import load_plan
from attnlab.cli.app import app
from attnlab.studies.planning import planning
from attnlab.studies.planning.columns import SCORES

QUICK = (
    "--sentences",
    4,
    "--validation",
    4,
    "--calibration",
    8,
    "--families",
    "none,band,ends",
    "--sites",
    "encoder",
)


def run(*words: object):
    return CliRunner().invoke(app, ["plan", *map(str, words)], catch_exceptions=False)


def test_writes_a_plan_tables_and_a_figure(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out, tables = tmp_path / "plan.json", tmp_path / "tables"
    monkeypatch.setattr(planning, "plan", run_once(planning.plan))
    done = run(small_run, "--budget", 3, "--out", out, "--tables", tables, *QUICK)
    assert done.exit_code == 0, done.output
    assert {path.name for path in tables.iterdir()} == {
        "plan_heads.csv", "plan_scores.csv", "plan.svg", "plan.png", "plan.md", "result.json",
        "report.html",
    }  # fmt: skip
    heads = pd.read_csv(tables / "plan_heads.csv", keep_default_na=False)
    written = load_plan(out).as_dict()
    addresses = [f"{row.site}.{row.layer}.{row.head}" for row in heads.itertuples()]
    assert written == dict(zip(addresses, heads["mechanism"], strict=True))
    assert {f"Wrote {out}.", f"Wrote {tables}."} <= set(done.stderr.splitlines())
    shown = done.stdout.splitlines()
    assert max(map(len, shown)) <= 80
    assert "…" not in done.stdout
    scores = pd.read_csv(tables / "plan_scores.csv").set_index("plan")
    line = next(line for line in shown if line.split()[:2] == ["3", "searched"])
    assert line.split()[:4] == [
        "3", "searched",
        f"{scores.at['searched', 'keys_per_row']:.2f}", f"{scores.at['searched', 'error']:.3f}",
    ]  # fmt: skip
    assert {"BLEU gain of", "searched over this"} <= {line[-18:].strip() for line in shown}
    assert any(line.startswith("error: |X - H|") for line in shown)
    assert "a plan may use up to 2% more keys" in " ".join(done.stdout.split())
    assert SCORES["error_bound"].heading == "error bound (validation)"
    assert "best by BLEU on these sentences" in " ".join(done.stdout.split())
    found = read_json(run(small_run, "--budget", 3, "--json", *QUICK).stdout)
    assert [row["plan"] for row in found["scores"]] == scores.index.tolist()
    assert load_plan(out).tokenizer is None, "no family with token ids"
    assert "corpus checksum" in (tables / "plan.md").read_text(encoding="utf-8")


def test_without_bleu_the_gain_is_that_of_the_loss(small_run: Path) -> None:
    done = run(small_run, "--budget", 3, "--no-bleu", *QUICK)
    assert done.exit_code == 0, done.output
    assert "BLEU" not in done.stdout
    line = next(line for line in done.stdout.splitlines() if " band " in line and "[" in line)
    gain, low, high = line.replace("[", "").replace("]", "").replace(",", "").split()[-3:]
    assert float(low) <= float(gain) <= float(high)
    assert "best by loss on these sentences" in " ".join(done.stdout.split())
