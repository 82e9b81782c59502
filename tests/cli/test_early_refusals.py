"""What can be refused at once is refused before any library that takes seconds to load."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("datasets", "matplotlib", "numpy", "pandas", "safetensors", "torch", "transformers")
# Runs commands in a process in which every import of a heavy library raises ImportError.
BLOCKED = f"""
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys({HEAVY!r}))
from attnlab.cli.app import main
ends = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["attnlab", *words]
    told, status = io.StringIO(), 0
    with contextlib.redirect_stderr(told):
        try:
            main()
        except SystemExit as end:
            status = end.code
    ends.append([status, told.getvalue()])
print(json.dumps(ends))
"""
RECORD = '{"format": 1, "settings": {}, "corpus": {}}'
# Commands with a file that they would write over.
COMMANDS = {
    "analyze run": "run/analysis/report.html",
    "analyze run --labels": "run/analysis/report.html",
    "analyze some/model": "analysis/report.html",
    "analyze run --out tables": "tables/labels.csv",
    "compare run --budget 7 --out compared": "compared/summary.csv",
    "importance run": "run/importance/importance.md",
    "importance run --out important": "important/cumulative.csv",
    "plan run --budget 9 --out plan.json": "plan.json",
    "plan run --budget 9 --budget 5 --out plan.json": "plan_5.json",
    "plan run --budget 9 --tables planned": "planned/plan_scores.csv",
    "prune run": "run/pruning/curve.csv",
    "prune run --out pruned": "pruned/models/penalty_1/config.json",
    "approximate heads.npy --out fits": "fits/approximation.csv",
    "demo run": "run/settings.json",
    "train run": "run/settings.json",
    "score run --out test.txt": "test.txt",
}
OTHERS = {
    "analyze run --overwrite --out file": "file is a file",
    "analyze run --overwrite --out file/inside/it": "file is a file",
    "compare run --budget 7 --overwrite --out file": "file is a file",
    "importance run --overwrite --out file": "file is a file",
    "plan run --budget 0": "budgets must be at least 1, not 0",
    "plan run --budget 3 --families bands": "families must be among none, band",
    "plan run --budget 9 --overwrite --tables file": "file is a file",
    "plan run --budget 9 --overwrite --out run": "run is a folder",
    "prune run --overwrite --out file": "file is a file",
    "approximate heads.npy --overwrite --out file": "file is a file",
    "analyze nothere --out new": "There is no folder 'nothere'",
    "compare some/where/nothere --budget 7": "is no name of a model on the hub",
    "analyze nothere.npz --out new": "There is no file nothere.npz; give matrices",
    "approximate nothere.npy": "There is no file nothere.npy; give matrices",
    "plan nothere --budget 9": "not a run directory",
    "prune nothere": "not a run directory",
    "substitute nothere": "not a run directory",
    "train new --attention plan.json": "There is no plan file plan.json; write one with",
    "train new --attention plan=file.json": "file.json is no attention plan: it is not JSON",
    "substitute run --out new --plan file.json": "file.json is no attention plan",
    "train new --corpus empty.tsv": "empty.tsv is empty; a corpus needs at least one sentence",
    "table nothere.csv": "There is no file nothere.csv; commands write",
    "mechanisms --threads 0": "threads must be at least 1",
    "train file": "file exists and is not a run directory",
    "demo file --overwrite": "file exists and is not a run directory",
    "prune run --out run --overwrite": "is a run, which pruning leaves",
    "prune run --save --overwrite": "penalty_0.3 is no pruned run",
    "train run --overwrite": "run holds results of its model",
    "demo run --overwrite": "run holds results of its model",
    "train absent --resume": "not a run directory",
    "score absent": "not a run directory",
    "score run --out run --overwrite": "run is a folder",
    "translate absent Hello.": "not a run directory",
    "train new --heads 17": "must be at least 1 and at most 16",
    "train new --dim 30 --heads 4": "4 heads do not divide a model of size 30",
    "prune run --out new --penalty -1": "penalties",
    "compare run --out new --budget 3": "budgets",
    "importance run --out new --sentences 2": "needs at least",
    "analyze run --out new --sites nowhere": "nowhere",
    "approximate heads.npy --out new --window -1": "window",
}


def refusals(folder: Path, commands: list[str]) -> dict[str, str]:
    """Standard error of every command, which exits with 2 after one sentence."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, json.dumps([words.split() for words in commands])],
        capture_output=True,
        text=True,
        cwd=folder,
        # Nothing is asked of the hub.
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        check=True,
    )
    told = dict(zip(commands, json.loads(done.stdout), strict=True))
    assert {
        words: end for words, end in told.items() if end[0] != 2 or end[1].count("\n") != 1
    } == {}
    return {words: text for words, (_, text) in told.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text(RECORD)
    return tmp_path


def test_results_are_refused_before_anything_heavy_is_loaded(folder: Path) -> None:
    for existing in COMMANDS.values():
        (folder / existing).parent.mkdir(parents=True, exist_ok=True)
        (folder / existing).write_text(RECORD)
    for words, told in refusals(folder, list(COMMANDS)).items():
        assert "--overwrite" in told, words
        assert (folder / COMMANDS[words]).read_text() == RECORD


def test_what_overwrite_does_not_allow_is_refused_as_early(folder: Path) -> None:
    for name, text in (("file", "mine"), ("file.json", "mine"), ("empty.tsv", "")):
        (folder / name).write_text(text)
    mine = folder / "run" / "pruning" / "models" / "penalty_0.3" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for words, told in refusals(folder, list(OTHERS)).items():
        assert OTHERS[words] in told, words
    assert mine.read_text() == (folder / "file").read_text() == "mine"
