"""On a terminal every command shows something before it loads libraries that take seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.cli.commands import COMMANDS
from attnlab.results import own_questions

# Runs each command on a terminal, up to its end or to the first library that is slow to load.
ON_TERMINAL = """
import json, os, pty, sys
# What forks need not import anew.
import rich.progress
import attnlab.cli.commands.questions
from attnlab.cli.app import main
from attnlab.results import own_questions
own_questions()

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name in {"datasets", "matplotlib", "numpy", "pandas", "scipy", "torch", "transformers"}:
            os.write(2, b"[libraries]")
            os._exit(0)

def shown(words):
    process, terminal = pty.fork()
    if not process:
        sys.meta_path.insert(0, Stop())
        sys.argv = ["attnlab", *words]
        if sys.argv[-1] == "2>file":
            os.dup2(os.open(sys.argv.pop()[2:], os.O_WRONLY | os.O_CREAT), 2)
        try:
            main()
        finally:
            os._exit(0)
    told = b""
    try:
        while part := os.read(terminal, 65536):
            told += part
    except OSError:  # the other end is closed
        pass
    os.waitpid(process, 0)
    return told.decode()

print(json.dumps([shown(words) for words in json.loads(sys.argv[1])]))
"""
WORDS = {
    "across": ["run"], "claim": ["0.0:first"], "inspect": ["a"], "neighbours": ["a"], "rollout": ["a"],
}  # fmt: skip
# That load libraries; of a question any source that it can be asked about.
LOADING = {
    **{
        name: ["run" if "model" in question.sources else "heads.npy", *WORDS.get(name, [])]
        for name, question in own_questions().items()
    },
    "demo": ["new"],
    "train": ["new"],
    "translate": ["run", "a"],
    "generate": ["language", "a"],
    "score": ["run"],
    "embed": ["new"],
    "show": ["run", "a"],
    "export": ["plan.json", "run", "--out", "new"],
    "corpora": ["embedded"],
    "mechanisms": [],
    "doctor": [],
    "table": ["table.csv"],
    "report": ["result"],
    "study": ["run", "random_search"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that are looked at before libraries are loaded."""
    pairs = dict.fromkeys(("train", "validation", "test"), 1)
    run = {"format": 1, "corpus": {"name": "embedded", "checksum": "", "pairs": pairs}}
    files = {
        "run/settings.json": {**run, "settings": {}},
        "language/settings.json": {**run, "settings": {"model": {"task": "language-model"}}},
        "result/result.json": {"result": "comparison"},
        "plan.json": {},
        "heads.npy": {},
        "table.csv": {},
    }
    for name, record in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(record))
    return tmp_path


def shown(folder: Path, commands: list[list[str]]) -> list[str]:
    """What each command shows up to the first slow library, which it names in brackets."""
    done = subprocess.run(
        [sys.executable, "-c", ON_TERMINAL, json.dumps(commands)],
        capture_output=True, text=True, cwd=folder, check=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return list(json.loads(done.stdout))


@pytest.mark.slow
def test_something_is_shown_before_libraries_are_loaded(folder: Path) -> None:
    assert set(LOADING) == {*own_questions(), *(entry.name for entry in COMMANDS), "study"}
    told = shown(folder, [[name, *words] for name, words in LOADING.items()])
    for name, text in zip(LOADING, told, strict=True):
        before, libraries, _ = text.partition("[libraries]")
        assert libraries, f"{name}: {text}"
        assert before.strip(), name


def test_nothing_is_shown_where_nobody_looks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, redirected = shown(folder, [["mechanisms", "--quiet"], ["mechanisms", "2>file"]])
    assert quiet == redirected + (folder / "file").read_text() == "[libraries]"
    monkeypatch.setenv("_ATTNLAB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "attnlab study run ")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert shown(folder, [[]]) == ["[libraries]"]
