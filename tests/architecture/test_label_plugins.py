"""A label that another distribution registers through an entry point is counted by `attnlab analyze`."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
from zoo import random_models
from zoo.random_models import SENTENCES, tokenizer

ROOT = Path(__file__).resolve().parents[2]
LABEL = '''"""A toy label: heads with most of their weight on the first token."""

from attnlab.functions.conditions import ratio_condition
from attnlab.functions.counts import REPORTED
from attnlab.functions.intervals import count_ratio
from attnlab.functions.label import HeadLabel
from attnlab.functions.thresholds import Rule
from attnlab.functions.verdict import verdicts_of

RULE = Rule(0.01, 2, "rows")


def count(view):
    rows = view.facts.scope.rows
    mass = (view.layer.wide[..., 0] * rows[:, None]).sum(-1).double()
    return count_ratio(mass, rows.sum(-1)[:, None].expand_as(mass).double(), view.facts.scope.groups)


def decide(counts, seed):
    found = ratio_condition("mean_mass_on_first", counts, RULE.threshold, seed=seed)
    rows = counts.by_half().denominator[REPORTED].long()
    return verdicts_of(
        "toy first", RULE, [""] * len(rows), [found], denominator=rows, counted=rows
    )


FIRST = HeadLabel(name="toy first", family="rare_columns", count=count, decide=decide)
'''


def analyze(folder: Path, module: str, code: str) -> subprocess.CompletedProcess[str]:
    """Runs `attnlab analyze --labels` beside an installed distribution that registers `FIRST`."""
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    notes = folder / "toys-1.0.dist-info"
    notes.mkdir()
    metadata = "Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n"
    (notes / "METADATA").write_text(metadata, encoding="utf-8")
    points = f"[attnlab.labels]\nfirst = {module}:FIRST\n"
    (notes / "entry_points.txt").write_text(points, encoding="utf-8")
    random_models.bert().save_pretrained(folder / "bert")
    tokenizer().save_pretrained(folder / "bert")
    (folder / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    words = [
        "analyze", "bert", "--text", "text", "--labels", "--keep-matrices", "0",
        "--fit-sentences", "0", "--structure-sentences", "0", "--out", "out",
    ]  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "attnlab", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        cwd=folder,
    )


def test_a_label_of_another_distribution_is_counted_and_decided(tmp_path: Path) -> None:
    done = analyze(tmp_path, "toy_label", LABEL)
    assert done.returncode == 0, done.stderr
    controls = pd.read_csv(tmp_path / "out" / "controls.csv")
    mine = controls[(controls["label"] == "toy first") & (controls["keys"] == "all")]
    assert len(mine) == 6
    assert "holds" in set(mine["status"])
    assert mine[["untrained_value", "shuffled_value"]].notna().all(axis=None)
    labels = pd.read_csv(tmp_path / "out" / "labels.csv")
    assert "toy first" in set(labels["label"])


def test_what_is_no_label_is_refused(tmp_path: Path) -> None:
    done = analyze(tmp_path, "toy_label", "FIRST = 1\n")
    assert done.returncode == 2
    assert "'first', registered under attnlab.labels, is no HeadLabel" in done.stderr
