"""What commands publish says nothing of the machine, its user, or passwords in addresses."""

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_run import SETTINGS, small_settings
from zoo.analyzed import ANALYZED
from zoo.random_models import marian, tokenizer

from attnlab.attention.plan import plan_of, write_plan
from attnlab.cli.app import main
from attnlab.core import write_json
from attnlab.models.run import labelled
from attnlab.models.run_folder import LOCAL
from attnlab.questions.align.question import AlignmentSettings
from attnlab.questions.importance.question import ImportanceSettings
from attnlab.results.provenance import call_in_words, call_of
from attnlab.results.question import questions

PASSWORD = "hunter2"
# A file in a folder of this name can be read, and its name is an address with a password.
ADDRESS = f"https://me:{PASSWORD}@host/pairs.tsv"
# HOME stands for an absolute path; how each question is asked briefly.
ASKED = {
    "across": f"HOME/run HOME/model --seeds HOME/run --text {ADDRESS} --pattern first -n 4",
    "align": "HOME/run --pairs HOME/pairs.tsv --quick --links HOME/out/links.jsonl",
    "align with heads": "HOME/run --pairs HOME/pairs.tsv --heads HOME/out/align/heads.json "
    "--links HOME/out/links.pharaoh",
    "analyze": f"HOME/run --text {ADDRESS} --no-labels --fit-sentences 0 --keep-matrices 2 -n 4",
    "approximate": "HOME/matrices.npy",
    "check": "HOME/model --tokens 12",
    "claim": f"HOME/run encoder.0.0:first --text {ADDRESS} -n 4",
    "compare": f"HOME/run --text {ADDRESS} --budget 2 --mechanisms band --quick -n 4",
    "compare plans": "HOME/run --text HOME/pairs.tsv --calibration-text HOME/pairs.tsv --mechanisms band "
    "--budget 2 --quick -n 4 --plan HOME/plan.json --against plan.json",
    "detect": "HOME/run -n 4",
    "importance": "HOME/run --text HOME/pairs.tsv --replacements zero --bleu none -n 9",
    "inspect": "HOME/run 'the dog sleeps'",
    "neighbours": "HOME/vectors.txt dog",
    "plan": "HOME/run --budget 2 --families none,band -n 4",
    "prune": "HOME/run --penalty 1 --steps 1 --no-random --quick -n 4",
    "rollout": "HOME/run 'the dog sleeps'",
    "size": "HOME/model",
}


def attnlab(*words: object) -> int:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["attnlab", *map(str, words)])
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
    return 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a user, in which the command line trained a run of a corpus there."""
    home = tmp_path_factory.mktemp("alices_home")
    address = home / Path(ADDRESS)
    address.parent.mkdir(parents=True)
    rows = "".join(f"the dog sees {n} cats\til cane vede {n} gatti\n" for n in range(60))
    for path in (address, home / "pairs.tsv"):
        path.write_text(rows, encoding="utf-8")
    (home / "vectors.txt").write_text("2 3\ndog 1 0 0\ncat 1 1 0\n", encoding="utf-8")
    np.save(home / "matrices.npy", np.eye(5, dtype=np.float32)[None, None])
    write_plan(home / "plan.json", plan_of({"decoder": "band(window=3)"}))
    for name, model in (("model", marian()), ("decoder", ANALYZED["mistral"]())):
        model.save_pretrained(home / name)
        tokenizer().save_pretrained(home / name)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(home)
        patched.setenv("HOME", str(home))
        settings = {**SETTINGS, "corpus": {"max_tokens": 40}}
        settings["optimizer"] = SETTINGS["optimizer"] | {"epochs": 1}
        lines = [
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(one)}\n" for key, one in keys.items())
            for name, keys in settings.items()
        ]
        (home / "settings.toml").write_text("".join(lines))
        words = ["--corpus", ADDRESS, "--settings", home / "settings.toml"]
        assert attnlab("train", home / "run", *words) == 0
        yield home


def private_files(folder: Path, home: Path) -> list[str]:
    """Files in a folder that hold the path of the home, or the password; local ones are no matter."""
    secrets = [str(home).encode(), home.name.encode(), PASSWORD.encode()]
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != LOCAL]
    assert paths
    return [str(path) for path in paths if any(one in path.read_bytes() for one in secrets)]


def test_every_question_is_here() -> None:
    assert set(questions()) == {name.split()[0] for name in ASKED}


def test_texts_that_were_handed_in_are_told_by_their_number() -> None:
    pair = ("a secret", "another secret")
    for settings in (
        ImportanceSettings(sentences=[pair] * 4, calibration=[pair]),
        AlignmentSettings(pairs=[pair]),
    ):
        call = call_of("asked", "nowhere", settings)
        given = ({"sentences": 4, "calibration": 1}, {"pairs": 1})
        assert {name: told["count"] for name, told in call["options"].items()} in given
        written = call_in_words(call, {"date": "", "device": "", "threads": 1})["Repeat with"]
        assert "secret" not in json.dumps(call) + written
        assert "=<1 values" in written


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_a_result_names_no_path(name: str, home: Path) -> None:
    folder = home / "out" / name.replace(" ", "_")
    words = shlex.split(ASKED[name].replace("HOME", str(home)))
    assert attnlab(name.split(maxsplit=1)[0], *words, "--out", folder) == 0
    assert attnlab("report", folder) == 0
    assert private_files(home / "out", home) == []


def test_a_run_names_paths_in_one_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = home / "run"
    assert private_files(run, home) == []
    assert str(home) in (run / LOCAL).read_text()
    state = json.loads(next(run.glob("checkpoints/*/trainer_state.json")).read_text())
    assert state["best_model_checkpoint"] == f"checkpoint-{state['best_global_step']}"
    # From another folder, in which nothing of this name is.
    monkeypatch.chdir(run / "checkpoints")
    assert attnlab("train", run, "--resume", "--epochs", 2) == 0
    assert attnlab("score", run) == 0
    assert private_files(run, home) == []


def test_settings_of_a_run_hold_labels(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("a 1\n")
    for start, label in (
        (tmp_path / "words", "./words"),
        ("runs/words", "runs/words"),
        ("skipgram", "skipgram"),
        (None, None),
    ):
        chosen = {"start": None if start is None else str(start)}
        settings = small_settings(corpus={"name": f"{tmp_path}/pairs.tsv"}, embeddings=chosen)
        shown = labelled(settings)
        assert (shown.corpus.name, shown.embeddings.start) == ("pairs.tsv", label)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_an_export_names_no_path_and_can_be_read_as_any_file(home: Path, mask: int) -> None:
    path = home / "decoder" / "tokenizer_config.json"
    more = {"vocab_file": str(home / "vocab.json"), "name_or_path": str(home / "decoder")}
    write_json(path, json.loads(path.read_text()) | more | {"source_address": ADDRESS})
    folder = home / f"exported_{mask}"
    before = os.umask(mask)
    try:
        assert attnlab("export", home / "plan.json", home / "decoder", "--out", folder) == 0
    finally:
        os.umask(before)
    assert private_files(folder, home) == []
    modes = {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()}
    assert modes == {0o666 & ~mask}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask


def test_an_export_names_no_path_in_parts_of_its_configuration(home: Path) -> None:
    tokens = {"pad_token": "/pad", "more_special_tokens": ["/home/token", "~"]}
    kept = {
        "id2label": {"0": "/m/09x0r", "1": "../odd"},
        "task": {"name": "tiny", "tries": [1, None]},
    }
    places = [str(home / "a"), {"from": ADDRESS, "more": [[f"file://{home}/b"]]}]
    for name, more in (
        ("config.json", kept | {"calibration": {"of": places}}),
        ("tokenizer_config.json", tokens | {"read_from": places}),
    ):
        path = home / "decoder" / name
        write_json(path, json.loads(path.read_text()) | more)
    folder = home / "exported_parts"
    assert attnlab("export", home / "plan.json", home / "decoder", "--out", folder) == 0
    assert private_files(folder, home) == []
    config, tokenizer_config = (
        json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer_config.json")
    )
    labels = ["a", {"from": "https://host/pairs.tsv", "more": [["b"]]}]
    assert config["calibration"] == {"of": labels}
    assert tokenizer_config["read_from"] == labels
    assert {name: config[name] for name in kept} == kept
    assert {name: tokenizer_config[name] for name in tokens} == tokens


@pytest.mark.slow
def test_embeddings_name_no_path(home: Path) -> None:
    words = ["--corpus", home / "pairs.tsv", "--dim", 16, "--vocabulary", 100]
    assert attnlab("embed", home / "vectors", *words) == 0
    assert private_files(home / "vectors", home) == []
