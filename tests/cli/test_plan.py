"""`attnlab plan` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json, run_once
from typer.testing import CliRunner

from attnlab.attention.plan import load_plan
from attnlab.cli.app import app
from attnlab.questions.plan import planning

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
    out = tmp_path / "planned"
    monkeypatch.setattr(planning, "plan", run_once(planning.plan))
    done = run(small_run, "--budget", 3, "--out", out, *QUICK)
    assert done.exit_code == 0, done.output
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files == {
        "mechanisms.csv", "summary.csv", "plan_3.json", "figures/plan.svg", "figures/plan.png", "tables.md",
        "result.json", "report.html",
    }  # fmt: skip
    heads = pd.read_csv(out / "mechanisms.csv", keep_default_na=False)
    plan = load_plan(out / "plan_3.json")
    addresses = [f"{row.site}.{row.layer}.{row.head}" for row in heads.itertuples()]
    assert plan.as_dict() == dict(zip(addresses, heads["mechanism"], strict=True))
    assert {f"Wrote {out}.", f"Wrote {out / 'plan_3.json'}."} <= set(done.stderr.splitlines())
    shown = done.stdout.splitlines()
    assert max(map(len, shown)) <= 80
    assert "…" not in done.stdout
    summary = pd.read_csv(out / "summary.csv").set_index("mechanism")
    line = next(line for line in shown if line.startswith("searched"))
    own = summary.loc["searched"]
    assert line.split()[1] == f"{own['visible_keys']:.2f}"
    assert shown[0].startswith("At 3 keys per row")
    said = " ".join(done.stdout.split())
    assert "At 3 keys per row the searched plan changes the loss by" in said
    assert f"by family: {own['setting']} (none: left out)" in said
    found = read_json(run(small_run, "--budget", 3, "--json", *QUICK).stdout)
    assert [row["mechanism"] for row in found["summary"]] == summary.index.tolist()
    assert [row["mechanism"] for row in found["mechanisms"]] == heads["mechanism"].tolist()
    assert plan.tokenizer is None, "no family with token ids"


@pytest.mark.usefixtures("no_page")
def test_without_bleu_the_gain_is_that_of_the_loss(small_run: Path) -> None:
    done = run(small_run, "--budget", 3, "--quick", *QUICK)
    assert done.exit_code == 0, done.output
    assert "BLEU" not in done.stdout
    assert "the loss of the plan is lower by" in " ".join(done.stdout.split())
