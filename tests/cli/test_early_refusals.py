"""What can be refused at once is refused before any library that takes seconds to load."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.results import own_questions

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
BEGUN = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))
from attnlab.cli.app import main
from attnlab.cli.commands import questions
def begun(**_):
    sys.exit("progress is shown")
questions.progress_bars = begun
sys.argv = ["attnlab", *sys.argv[1:]]
main()
"""
RECORD = '{"format": 1, "settings": {}, "corpus": {}}'
# Commands with a file that they would write over.
COMMANDS = {
    "analyze run": "run/analysis/report.html",
    "analyze run --labels": "run/analysis/report.html",
    "analyze some/model": "analysis/report.html",
    "analyze run --out tables": "tables/labels.csv",
    "compare run --budget 7 --out compared": "compared/summary.csv",
    "importance run": "run/importance/tables.md",
    "compare run": "run/comparison/report.html",
    "detect run --out found": "found/detectors.csv",
    "importance run --out important": "important/cumulative.csv",
    "plan run --budget 9 --budget 5 --out plans": "plans/plan_5.json",
    "plan run --budget 9 --out planned": "planned/summary.csv",
    "prune run": "run/pruning/curve.csv",
    "prune run --out pruned": "pruned/gates.csv",
    "approximate heads.npy --out fits": "fits/approximation.csv",
    "demo run": "run/settings.json",
    "train run": "run/settings.json",
    "score run --out test.txt": "test.txt",
}
# What a question cannot be asked without.
WORDS = {
    "across": ("run",), "claim": ("0.0:first",), "inspect": ("a",), "neighbours": ("a",),
    "rollout": ("a",),
}  # fmt: skip
# Commands that write a folder of results.
WRITERS = (
    "prune run",
    "analyze run",
    "compare run --budget 5",
    "importance run",
    "plan run --budget 9",
    "approximate heads.npy",
)
# Every question, of a source that it can be asked about.
ASKED = {
    name: (name, "run" if "model" in question.sources else "heads.npy", *WORDS.get(name, ()))
    for name, question in own_questions().items()
}
OTHERS = {
    **{" ".join((*words, "--overwrite --out file")): "file is a file" for words in ASKED.values()},
    **{
        " ".join((*words, "--out /proc/out")): "Could not write to /proc/out: "
        for words in ASKED.values()
    },
    **{" ".join((name, "nothere", *more)): "nothere" for name, (_, _, *more) in ASKED.items()},
    **{
        " ".join(
            (name, "heads.npy", *more)
        ): "heads.npy names a file of matrices, and a model is wanted"
        for name, (_, _, *more) in ASKED.items()
        if own_questions()[name].sources == ("model",)
    },
    "analyze run --overwrite --out file/inside/it": "file is a file",
    "analyze nothere --out new": "There is no folder 'nothere'",
    "compare some/where/nothere --budget 7": "is no name of a model on the hub",
    "analyze nothere.npz --out new": "There is no file nothere.npz; give matrices",
    "approximate outer": "outer is a folder; give a file of matrices",
    "translate resul Hello.": "resul is not a run directory (no settings.json). Did you mean result?",
    "score zzz": "zzz is not a run directory (no settings.json). Make one with: attnlab train zzz",
    **{
        f"{command} {place}{more}": told
        for command, more in (
            ("score", ""),
            ("generate", " The"),
            ("translate", " Hello."),
        )
        for place, told in (
            (
                "outer/model",
                "outer/model is not a run directory but holds a transformers model, which ",
            ),
            (
                "outer",
                "outer is not a run directory but holds other files; name a run directory that ",
            ),
            (
                "result",
                "result is not a run directory but holds results; name a run directory that ",
            ),
            (
                "trained/analysis",
                (
                    "trained/analysis is not a run directory but holds results; name a run directory that "
                    "attnlab train has made, such as trained."
                ),
            ),
        )
    },
    "report result/report.html": "result/report.html is a file; give result.",
    "report file": "file is a file; give the folder of a result.",
    "importance run --bleu yes": "bleu must be among zero, mean, uniform, first, or none, not 'yes'",
    "compare rnu": "check the path, or the network. Did you mean run?",
    "train new --attention plan.json": "There is no plan file plan.json; write one with",
    "train new --attention plan=file.json": "file.json is no attention plan (it is not JSON",
    "compare run --out new --plan file.json": "file.json is no attention plan",
    **{
        f"{command} --text blank.txt": "blank.txt is empty; give a file with a sentence on each line."
        for command in (
            "analyze run",
            "importance run",
            "compare run",
            "plan run",
            "prune outer/model --calibration-text file",
        )
    },
    "plan outer/model --text file --calibration-text empty.tsv": "empty.tsv is empty; give a file with a",
    **{
        f"{command} outer/model --text file": "so at least 3 different ones are needed, not 1; give "
        "more, or a file of training sentences (--calibration-text)"
        for command in ("compare", "plan", "prune")
    },
    "train new --corpus empty.tsv": "empty.tsv is empty; a corpus needs at least one sentence",
    "report nothere": "There is no folder nothere; name one that",
    "report run": "run holds no result.json, from which a page is made",
    "table nothere.csv": "There is no file nothere.csv; commands write",
    "mechanisms --threads 0": "threads must be at least 1",
    "approximate heads.npy --overwrite": "--overwrite replaces what --out names, and nothing",
    "plan run --budget 9 --overwrite": "--overwrite replaces what --out names, and nothing",
    "score run --overwrite": "--overwrite replaces what --out names, and nothing",
    "neighbours run cat --overwrite": "--overwrite replaces what --out names, and nothing",
    "train file": "file exists and is not a run directory",
    "demo file --overwrite": "file exists and is not a run directory",
    **{f"{command} --out run --overwrite": "run is a run, which the " for command in WRITERS},
    "score run --out run/settings.json --overwrite": "is among the files of the run in ",
    **{
        f"{command} --out run/checkpoints/{inner}": "is among the files of the run in "
        for command in WRITERS
        for inner in (".", "checkpoint-1", "checkpoint-1/new")
    },
    "train run/checkpoints/new": "is among the files of the run in ",
    "prune run --save --overwrite": "penalty_0.3 is no pruned run",
    "train run --overwrite": "run holds results of its model",
    "demo run --overwrite": "run holds results of its model",
    "train absent --resume": "not a run directory",
    "score absent": "not a run directory",
    "score run --out run --overwrite": "run is a folder",
    "translate absent Hello.": "not a run directory",
    "translate run Hello. --beams 0": "beams must be at least 1 and at most 1000, not 0",
    "score run --split all": "--split must be one of train, validation, test, not 'all'",
    **{
        f"{command} outer": "settings.json); give outer/model."
        for command in ("analyze", "across run", "across run run --seeds")
    },
    "analyze run --out new --text nothere.txt": "There is no file nothere.txt; give one with a sentence",
    "analyze run --out new --treebank nothere.conllu": "There is no file nothere.conllu; name a CoNLL-U",
    "importance run --out new --corpus nothere.tsv": "There is no file or folder nothere.tsv; give a",
    "compare run --budget 5 --calibration-text nothere.txt": "There is no file nothere.txt",
    "train new --corpus nothere.tsv": "There is no file or folder nothere.tsv; give a .tsv",
    "train new --heads 17": "--heads must be at least 1 and at most 16",
    "train new --model gru": "--model must be one of transformer, recurrent, not 'gru'",
    "translate file Hello.": "file is a file; name a run directory",
    "table run": "run is a folder; name a table in it.",
    "train new --dim 30 --heads 4": "4 heads do not divide a model of size 30",
    "prune run --out new --penalty -1": "--penalty must be",
    "compare run --out new --budget 0": "--budget must be",
    "importance run --out new --sentences 2": "must be at least 4, not 2",
    "analyze run --out new --sites nowhere": "nowhere",
    "approximate heads.npy --out new --window -1": "window",
    "analyze run --out new --normalize rows": "normalize is for files of matrices; leave it out",
    "analyze run --out new --array a": "array is for files of matrices; leave it out",
    "corpora --pair en-it": "--pair and --document are of one corpus; name it",
    "table t.csv --caption C": "--caption is of LaTeX tables; leave it out with --format text",
    "table t.csv --format csv --json": "--json and --format csv are two forms of one table",
    "approximate heads.npy --format latex --json": "--json and --format latex are two forms",
    "score run --out /proc/out.txt": "Could not write to /proc: ",
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
    for words, existing in COMMANDS.items():
        (folder / existing).parent.mkdir(parents=True, exist_ok=True)
        (folder / existing).write_text(RECORD)
        if (asked := own_questions().get(words.split()[0])) is not None:
            results = folder / existing
            results.with_name("result.json").write_text(json.dumps({"result": asked.what}))
    for words, told in refusals(folder, list(COMMANDS)).items():
        assert "--overwrite" in told, words
        assert (folder / COMMANDS[words]).read_text() == RECORD


def test_progress_is_shown_before_anything_heavy_is_loaded(folder: Path) -> None:
    for words in (["rollout", "run", "A sentence."], ["analyze", "run"]):
        command = [sys.executable, "-c", BEGUN, *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.stderr == "progress is shown\n", words


def test_what_overwrite_does_not_allow_is_refused_as_early(folder: Path) -> None:
    for name, text in (
        ("file", "mine"),
        ("file.json", "mine"),
        ("empty.tsv", ""),
        ("blank.txt", "\n \n"),
    ):
        (folder / name).write_text(text)
    (folder / "outer" / "model").mkdir(parents=True)
    (folder / "outer" / "model" / "config.json").write_text("{}")
    for name in ("result/result.json", "result/report.html", "trained/analysis/result.json"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("{}")
    (folder / "trained" / "settings.json").write_text(RECORD)
    mine = folder / "run" / "pruning" / "models" / "penalty_0.3" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for words, told in refusals(folder, list(OTHERS)).items():
        assert OTHERS[words] in told, words
    assert mine.read_text() == (folder / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "new", "--seed", str(2**32)], "seed must be at least 0 and at most 4294967295"),
        (["train", "new", "--seed", "9" * 400], "seed must be at least 0 and at most 4294967295"),
        (["train", "new", "--limit", "9" * 400], "limit must be at most 1000000000, not 9"),
        (["train", "new", "--weight-decay", "nan"], "a finite number of 64 bits, not nan"),
        (["analyze", "run", "--text", "~nobody-of-that-name/x"], "There is no user whose home"),
        (["analyze", "~nobody-of-that-name"], "There is no user whose home"),
        (["train", "new", "--corpus", "~nobody-of-that-name/x"], "There is no user whose home"),
        (
            ["analyze", "run", "--out", "x" * 300],
            "cannot be used: File name too long; name another",
        ),
        (["analyze", "x" * 300], "cannot be used: File name too long; name another"),
        (
            ["train", "new", "--corpus", "x" * 300],
            "cannot be used: File name too long; name another",
        ),
        *(
            (
                [command, "run", "--text", "x.txt", "--corpus", "embedded"],
                "text and corpus both bring sentences; leave one of them out",
            )
            for command in ("analyze", "importance")
        ),
        (["analyze", "run", "--out", ""], "A path is empty; write . for the folder"),
        (["analyze", "run", "--out="], "A path is empty; write . for the folder"),
        (["analyze", ""], "A path is empty; write . for the folder"),
        (["mechanisms", "b\udcff"], r"The argument 'b\udcff' has \udcff, half a character"),
    ],
)
def test_words_that_nothing_can_use_are_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, InputError), found.output
    assert message in str(found.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["embed", "study run random_search --out"])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("run", "run is a run, which the"),
        ("run/checkpoints/new", "is among the files of the run in "),
    ],
)
def test_nothing_else_is_written_among_the_files_of_a_run(
    command: str, out: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = CliRunner().invoke(app, [*command.split(), out])
    assert message in str(found.exception)
    assert [path.name for path in (folder / "run").iterdir()] == ["settings.json"]


def test_a_path_begins_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = CliRunner().invoke(app, ["table", "~/none.csv"])
    assert f"There is no file {tmp_path}/none.csv" in str(found.exception)


def test_the_tables_of_a_folder_are_named(tmp_path: Path) -> None:
    for name in ("importance.csv", "cumulative.csv"):
        (tmp_path / name).write_text("a\n1\n")
    found = CliRunner().invoke(app, ["table", str(tmp_path)])
    assert str(found.exception) == (
        f"{tmp_path} is a folder; name a table in it: cumulative.csv, importance.csv."
    )
