"""The program as a user meets it: help, version, errors of one sentence, training and translating."""

import io
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer.main
from rich.text import Text
from small_run import SETTINGS, write_pairs
from typer.core import TyperGroup

from attnlab.cli.app import app
from attnlab.cli.command_classes import Group
from attnlab.cli.command_options import parameter_name
from attnlab.cli.commands import train as train_command
from attnlab.core.options import option_fields
from attnlab.models.run import load, score_run, short_pairs
from attnlab.models.training_settings import SECTIONS, settings_from
from attnlab.results.result import Result


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    sections = (
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        for name, keys in SETTINGS.items()
    )
    path.write_text("\n".join(sections))
    assert tomllib.loads(path.read_text()) == SETTINGS
    return path


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(attnlab, word: str) -> None:
    status, out, _ = attnlab(word)
    assert status == 0
    assert re.fullmatch(r"attnlab \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["head-view", "RUN", "a"], "'head-view'; see: attnlab show --help"),
        (["RUN"], "see: attnlab analyze "),
        (["models"], "No such command 'models'; see: attnlab --help"),
        (["analize"], "Did you mean 'analyze'?"),
        (
            ["show", "RUN", "a", "dog", "runs"],
            "'runs' is more than 'show' takes; a text of several words",
        ),
        (["analyze", "RUN", "FILE"], "a file of sentences is given as --text "),
        (["plan", "RUN", "5"], "its options are told by: attnlab plan --help"),
    ],
)
def test_a_first_guess_is_told_what_to_type(
    attnlab, words: list[str], told: str, small_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file.txt").write_text("a dog", encoding="utf-8")
    given = {"RUN": small_run, "FILE": tmp_path / "file.txt"}
    status, out, err = attnlab(*(given.get(word, word) for word in words))
    assert (status, out) == (2, "")
    assert told in " ".join(err.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())


def test_a_command_that_cannot_be_made_keeps_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ImportError("a plug-in lacks a module")
    monkeypatch.setattr(TyperGroup, "get_command", Mock(side_effect=broken))
    with pytest.raises(ImportError, match="lacks a module"):
        Group(name="attnlab").resolve_command(Mock(), ["analyze"])
    assert not hasattr(broken, "message")


@pytest.mark.parametrize("words", [[], ["train"], ["study"], ["study", "run"]])
def test_help_is_a_word_too(attnlab, words: list[str]) -> None:
    assert attnlab("help", *words) == (0, *attnlab(*words, "--help")[1:])
    if words[:1] == ["study"]:
        assert attnlab("study", "help", *words[1:])[:2] == attnlab(*words, "--help")[:2]


@pytest.mark.parametrize(
    "command", ["translate", "generate", "inspect", "rollout", "neighbours", "show"]
)
def test_a_text_before_the_run_is_told_the_order(
    attnlab, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("settings.json", "config.json"):
        (tmp_path / name[:3]).mkdir()
        (tmp_path / name[:3] / name).write_text("{}")
        status, out, err = attnlab(command, "the dog's", name[:3])
        assert (status, out) == (2, "")
        assert f"exchange them: attnlab {command} {name[:3]} 'the dog'\"'\"'s'\n" in err
    # In the right order, and where the first is something, that is no reason.
    assert "exchange" not in attnlab(command, "set", "con")[2]
    assert "exchange" not in attnlab(command, "nothing", "here")[2]


@pytest.mark.parametrize(
    "command",
    ["demo", "train", "translate", "score", "analyze", "approximate", "corpora"],
)
def test_every_option_has_a_help_text(attnlab, command: str) -> None:
    import typer.main

    from attnlab.cli.app import app

    assert command in attnlab("--help")[1]
    for option in typer.main.get_command(app).commands[command].params:
        assert option.help or option.param_type_name == "argument", option.name
    assert attnlab(command, "--help")[0] == 0


def test_a_command_that_cannot_be_shared_is_refused_once(
    attnlab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert attnlab("mechanisms")[0] == 0, "a batch system's word, no launcher's"
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert attnlab("mechanisms")[0] == 2, "accelerate would take this for a launcher"
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    status, _, told = attnlab("mechanisms")
    assert (status, told) == (
        2,
        "Error: 'mechanisms' runs in one process; start it without torchrun or accelerate launch.\n",
    )
    monkeypatch.setenv("RANK", "1")
    assert attnlab("mechanisms") == (1, "", "")
    monkeypatch.setenv("WORLD_SIZE", "two")
    assert attnlab("mechanisms")[::2] == (
        2,
        "Error: The environment variable WORLD_SIZE is 'two' and no number; unset it.\n",
    )
    monkeypatch.setenv("WORLD_SIZE", "")
    assert attnlab("mechanisms")[0] == 0
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert attnlab("mechanisms")[0] == 2, "process 1 of 1"
    monkeypatch.setenv("RANK", "0")
    assert attnlab("mechanisms")[0] == 0


@pytest.mark.parametrize("words", [[], ["train"], ["approximate"], ["analyze"], ["study"]])
def test_switches_have_no_type_in_the_help(attnlab, words: list[str]) -> None:
    _, shown, _ = attnlab(*words, "--help")
    assert "--help" in shown
    assert "<bool>" not in shown
    assert attnlab(*words, "-h")[1] == shown
    assert "<str>" in shown or words in ([], ["study"]), "options that take a value keep their type"


def test_train_offers_every_setting_with_its_default(attnlab) -> None:
    import typer.main

    from attnlab.cli.app import app

    offered = {option.name for option in typer.main.get_command(app).commands["train"].params}
    for section, kind in SECTIONS.items():
        for field in option_fields(kind):
            assert parameter_name(field) in offered, f"{section}.{field.name}"


def test_typed_options_win_over_the_file(settings_file: Path) -> None:
    values = train_command._merged(
        tomllib.loads(settings_file.read_text()),
        {"heads": 4, "corpus": "x.tsv", "shared": False, "attention": ["cross=band(window=2)"]},
        layers=3,
        taken={},
    )
    settings = settings_from(values)
    assert settings.model.heads == 4
    assert settings.model.encoder_layers == settings.model.decoder_layers == 3
    assert settings.model.dim == SETTINGS["model"]["dim"]
    assert settings.model.attention == {"cross": "band(window=2)"}
    assert settings.corpus.name == "x.tsv"
    assert not settings.tokenizer.shared


def test_train_translate_score_and_resume(
    attnlab, settings_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    status, _, err = attnlab("train", folder, "--settings", settings_file, "--epochs", 1)
    assert status == 0, err
    assert re.search(r"dropped as too long: \d+ train, \d+ validation, \d+ test", err)
    assert f"attnlab analyze {folder}" in err.replace("\n", "")
    end = err[err.index("Test BLEU") :].splitlines()
    run = load(folder)
    pairs, scores = short_pairs(run, run.corpus().test), score_run(run, beams=1)[0]
    bleu = f"Test BLEU {scores['bleu']:.1f} (chrF {scores['chrf']:.1f})"
    assert end[0] == f"{bleu}, greedy, on {scores['sentences']} pairs, such as:"
    assert end[1].split(":")[1].strip() == pairs["source"][0]
    assert end[2].split(":")[1].strip() == pairs["target"][0]
    record = json.loads((folder / "settings.json").read_text())
    assert record["settings"]["optimizer"]["epochs"] == 1
    assert record["command"].startswith(f"attnlab train {folder.name} --settings")

    status, out, _ = attnlab("translate", folder, "Maria sleeps.", "--beams", 1)
    assert (status, out.count("\n")) == (0, 1)
    lines = tmp_path / "lines.txt"
    lines.write_text("Maria sleeps.\nI see her.\n")
    status, out, _ = attnlab("translate", folder, "--input", lines, "--beams", 2)
    assert (status, out.count("\n")) == (0, 2)
    lines.write_bytes(b"\xef\xbb\xbfMaria\x0b sleeps.\r\nI\xc2\x85 see her.\n")
    assert attnlab("translate", folder, "--input", lines, "--beams", 1)[1].count("\n") == 2
    piped = io.TextIOWrapper(io.BytesIO(b"I see her.\n"))
    monkeypatch.setattr(sys, "stdin", piped)
    assert attnlab("translate", folder)[1].count("\n") == 1
    piped = io.TextIOWrapper(io.BytesIO(b"I see her.\n\nMaria sleeps.\n"))
    monkeypatch.setattr(sys, "stdin", piped)
    assert attnlab("translate", folder, "-", "--beams", 1)[1].count("\n") == 3
    assert attnlab("translate", folder, "-", "--input", lines)[0] == 2

    written = tmp_path / "test.txt"
    status, out, _ = attnlab("score", folder, "--beams", 1, "--out", written)
    assert status == 0
    assert json.loads(out)["sentences"] == written.read_text().count("\n")

    status, _, err = attnlab("train", folder, "--resume", "--epochs", 2)
    assert status == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2


def test_settings_of_another_run_are_taken_and_what_is_overridden_is_told(
    attnlab, small_run: Path, tmp_path: Path
) -> None:
    words = ("--like", small_run, "--epochs", 1, "--seed", 5)
    status, _, err = attnlab("train", tmp_path / "run", *words)
    assert status == 0, err
    wanted, there = (
        json.loads((folder / "settings.json").read_text())["settings"]
        for folder in (tmp_path / "run", small_run)
    )
    there["optimizer"] |= {"epochs": 1, "seed": 5}
    assert wanted == there
    told = next(line for line in err.splitlines() if line.startswith("Settings of"))
    assert f"optimizer.batch_tokens {SETTINGS['optimizer']['batch_tokens']}" in told
    overridden = told.partition("; overridden: ")[2]
    assert overridden == "optimizer.epochs 1 instead of 2, optimizer.seed 5 instead of 0."
    status, _, err = attnlab("train", tmp_path / "other", "--like", tmp_path)
    assert (status, err.count("\n")) == (2, 1)
    status, _, err = attnlab("train", tmp_path / "run", "--resume", "--like", small_run)
    assert (status, "--like cannot be changed" in err) == (2, True)


def test_an_interrupted_training_says_how_to_go_on(
    attnlab, settings_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnlab.models.trainer import Interruption

    monkeypatch.setattr(
        Interruption, "on_train_begin", lambda self, *_, **__: setattr(self, "asked", True)
    )
    status, _, err = attnlab("train", tmp_path / "run", "--settings", settings_file)
    assert status == 130
    assert f"attnlab train {tmp_path / 'run'} --resume" in err


PAIRS = [(f"the cat number {n} sleeps", f"il gatto numero {n} dorme") for n in range(60)]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--corpus", "nosuch.tsv"], 2, "nosuch.tsv"),
        (["--corpus", "empty.tsv"], 2, "empty.tsv"),
        (["--corpus", "one.tsv"], 2, "one.tsv, line 1"),
        (["--corpus", "latin.tsv"], 2, "line 2"),
        (["--corpus", "uneven"], 2, "train"),
        (["--corpus", "pairs.tsv", "--max-tokens", "3"], 2, "raise --max-tokens"),
        (["--heads", "7"], 2, "7 heads do not divide"),
        (["--heads", "17"], 2, "heads must be at least 1 and at most 16, not 17"),
        (["--attention", "band(window=3)"], 2, "names no site"),
        (["--attention", "encoder=bund"], 2, "no mechanism 'bund'"),
        (["--settings", "absent.toml"], 2, "no settings file"),
        (["--settings", "bad.toml"], 2, "not a TOML file"),
        (["--settings", "unknown.toml"], 2, "no setting 'model.head'"),
        (["--resume"], 2, "not a run directory"),
        (["--resume", "--heads", "4"], 2, "--heads cannot be changed"),
        (["--epochs", "0"], 2, "epochs must be a number above 0"),
        (["--tokenizer", "char"], 2, "char"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    attnlab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    status: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "pairs.tsv", PAIRS)
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "one.tsv").write_text("only one column\n")
    (tmp_path / "latin.tsv").write_bytes(b"one\tuno\nwhy\tperch\xe9\n")
    (tmp_path / "uneven").mkdir()
    (tmp_path / "uneven" / "train.en").write_text("a\nb\n")
    (tmp_path / "uneven" / "train.it").write_text("a\n")
    (tmp_path / "bad.toml").write_text("[model\n")
    (tmp_path / "unknown.toml").write_text("[model]\nhead = 3\n")
    found, out, err = attnlab("train", "run", *words)
    assert found == status, err
    assert out == ""
    assert err.startswith("Error: ")
    assert message in err.replace("\n", " ")
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_refused(attnlab, small_run: Path) -> None:
    status, _, err = attnlab("train", small_run)
    assert (status, "--overwrite" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent", "text"], "not a run directory"),
        (["RUN", "text", "--input", "x"], "not both"),
        (["RUN", "--input", "absent.txt"], "absent.txt cannot be read"),
        (["RUN", "--input", "latin.txt"], "latin.txt, line 2, is not valid UTF-8"),
        (["RUN", "--input", "empty.txt"], "holds no sentence"),
        (["RUN", " "], "Sentence 1 is empty"),
        (["RUN", "word " * 99], "more than the limit of 40"),
        (["RUN", "text", "--beams", "0"], "beams must be at least 1 and at most 1000, not 0"),
    ],
)
def test_translate_refuses_bad_input(
    attnlab,
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"fine\nperch\xe9\n")
    (tmp_path / "empty.txt").write_text("")
    named = [small_run if word == "RUN" else word for word in words]
    status, out, err = attnlab("translate", *named)
    assert (status, out) == (2, "")
    assert message in err


def test_a_sentence_that_is_the_name_of_a_file_is_told(
    attnlab, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.txt").write_text("Maria sleeps.", encoding="utf-8")
    assert (
        "Note: pairs.txt is taken as the sentence"
        in attnlab("translate", small_run, "pairs.txt")[2]
    )
    assert "as the sentence" not in attnlab("translate", small_run, "Maria sleeps.")[2]


def test_blank_lines_stay_blank_and_unknown_tokens_are_counted(
    attnlab, small_run: Path, tmp_path: Path
) -> None:
    sentence = "the dog sleeps."
    alone = attnlab("translate", small_run, sentence, "--beams", "1")
    assert alone[::2] == (0, ""), alone
    path = tmp_path / "text.txt"
    path.write_text(f"\n{sentence}\n\n{sentence} \u4e16 a \u754c\n", encoding="utf-8")
    status, out, err = attnlab("translate", small_run, "--input", path, "--beams", "1")
    assert status == 0
    assert out.split("\n")[:3] == ["", alone[1].rstrip("\n"), ""]
    assert out.count("\n") == 4
    assert err == "Note: not in the run's vocabulary, read as unknown: \u4e16, \u754c.\n"


def test_debug_shows_the_traceback(attnlab, tmp_path: Path) -> None:
    for words in (["--debug", "score", tmp_path], ["score", tmp_path, "--debug"]):
        status, _, err = attnlab(*words)
        assert status == 2
        assert "Traceback" in err


def test_a_fault_of_the_program_is_one_sentence_too(
    attnlab, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        msg = "broken inside"
        raise RuntimeError(msg)

    monkeypatch.setattr("attnlab.models.load", broken)
    status, _, err = attnlab("score", small_run)
    assert status == 1
    assert "RuntimeError: broken inside" in err
    assert "--debug" in err
    assert "Traceback" not in err
    *_, err = attnlab("--debug", "score", small_run)
    assert "raise RuntimeError(msg)" in err, "where it was"


@pytest.mark.slow
def test_an_interrupted_demo_ends_and_says_how_to_go_on(
    attnlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnlab.models import training

    def stopped(folder: Path, *_: object, **__: object) -> training.Trained:
        return training.Trained(folder, [], {}, interrupted=True, parameters=1, kept_step=5)

    monkeypatch.setattr("attnlab.models.train", stopped)
    status, out, err = attnlab("demo", tmp_path / "demo")
    assert (status, out) == (130, "")
    assert "--resume" in err
    assert "replaced" not in err


@pytest.mark.slow
def test_demo_goes_on_with_a_training_that_was_interrupted(
    attnlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with --overwrite, which trains anew where no checkpoint is left."""
    from attnlab.cli.commands import demo as demo_command
    from attnlab.models.metrics import METRICS
    from attnlab.questions.analyze import analysis

    # What heads do takes most of the time, and is the same of the same weights.
    analyze, kept = analysis.analyze, []

    def once(*source: Any, **options: Any) -> Result:
        if not kept:
            kept.append(analyze(*source, **options))
        return kept[0]

    monkeypatch.setattr(analysis, "analyze", once)
    monkeypatch.setattr(demo_command, "DEMO_SETTINGS", SETTINGS)
    monkeypatch.setattr("attnlab.cli.output.busy_share", lambda: 0.754)
    folder = tmp_path / "demo"
    status, out, err = attnlab("demo", folder, "--quick")
    assert status == 0, err
    assert out.endswith(f"Report: {folder / 'analysis' / 'report.html'}\n")
    assert "longer now, as other processes have 75% of the processors" in err
    whole = demo_command.DemoSettings()
    assert not demo_command._is_begun(folder, whole)
    trained = (folder / "model.safetensors").read_bytes()
    first, *_ = (folder / METRICS).read_text().splitlines()
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name[11:]))
    for left, told in ((newest, "Going on with"), (newest.parent, "training anew")):
        (folder / METRICS).write_text(f"{first}\n")
        assert demo_command._is_begun(folder, whole)
        assert not demo_command._is_begun(folder, demo_command.DemoSettings(seed=1))
        shutil.rmtree(left)
        status, _, err = attnlab("demo", folder, "--quick", "--overwrite")
        assert status == 0, err
        assert told in err
        assert (folder / "model.safetensors").read_bytes() == trained
    (folder / METRICS).unlink()
    assert not demo_command._is_begun(folder, whole)


def test_no_help_text_loses_what_stands_in_brackets() -> None:
    def told(command: Any) -> Iterator[str]:
        yield command.help or ""
        yield from (getattr(option, "help", None) or "" for option in command.params)
        for one in getattr(command, "commands", {}).values():
            yield from told(one)

    texts = [*told(typer.main.get_command(app))]
    assert len(texts) > 100
    for text in texts:
        shown = Text.from_markup(text).plain
        assert re.findall(r"\[[^\]]*\]", shown) == re.findall(r"\[[^\]]*\]", text), text


def test_only_options_that_are_near_are_proposed(attnlab) -> None:
    near = {"--text y": "", "--token 9": "--tokens", "--output y": "--out", "--q": "-q"}
    for words, proposed in near.items():
        status, _, err = attnlab("check", "x", *words.split())
        assert status == 2
        assert (
            re.findall(r"(?:Possible options:|Did you mean) (-+\w+)", err)
            == [proposed][: bool(proposed)]
        )


def test_an_option_of_one_value_is_given_once(attnlab) -> None:
    """The first value would be lost without a word; switches may be repeated."""
    for words in ("-n 3 --sentences 4", "--sentences=3 -n 3", "--choose set --choose single"):
        status, out, err = attnlab("align", "nowhere", *words.split())
        assert (status, out) == (2, "")
        option = "--choose" if "choose" in words else "--sentences"
        assert err == f"Error: {option} is given 2 times, and one value counts; give it once.\n"
    *_, err = attnlab("align", "nowhere", "--quick", "--quick")
    assert "no folder 'nowhere'" in err


def test_demo_on_a_small_scale(attnlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnlab.cli.commands import demo as demo_command

    monkeypatch.setattr(demo_command, "DEMO_SETTINGS", SETTINGS)
    status, out, err = attnlab("demo", tmp_path / "demo", "--json", "--quick")
    assert status == 0, err
    summary = json.loads(out)
    assert {"role", "strength", "structure"} <= set(summary["summary"][0])
    assert "This takes one to two minutes on two processor cores" in err
    assert "Test BLEU" in err
    assert "replaced run" not in err
    page = Path(summary["report"]).read_text()
    assert page.startswith("<!doctype html>")
    assert "<h1>Attention heads of demo</h1>" in page, "its name, not its folder"
    assert {"heads.csv", "fits.csv", "matrices.safetensors", "figures", "report.html"} <= {
        path.name for path in Path(summary["report"]).parent.iterdir()
    }
    status, _, err = attnlab("demo", tmp_path / "demo")
    assert (status, "--overwrite" in err) == (2, True)
    shutil.rmtree(tmp_path / "demo")
