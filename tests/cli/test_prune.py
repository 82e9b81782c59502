"""`attnlab prune` from the command line: the folder it writes, the runs it saves, what it refuses."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json
from typer.testing import CliRunner
from zoo import random_models
from zoo.random_models import tokenizer

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.models.run import load, score_run
from attnlab.questions.prune import pruner

EXPLAINED_ENDINGS = ("_change", "_change_nats", "_low", "_high", "_p", "_left")
SELF_EXPLAINED = {"site", "layer", "head", "step", "steps", "sentences", "seed"}
QUICK = ("--steps", 25, "--sentences", 6)


def run(*words: object):
    done = CliRunner().invoke(app, ["prune", *map(str, words)], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.mark.slow
def test_writes_tables_a_figure_and_runs_that_load(small_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(small_run, "--penalty", 30, "--penalty", 0, "--save", "--out", out, *QUICK)
    names = {path.name for path in out.iterdir()}
    assert names == {
        "curve.csv", "gates.csv", "training.csv", "figures", "models", "tables.md", "result.json",
        "report.html",
    }  # fmt: skip
    assert {path.name for path in (out / "figures").iterdir()} == {"curve.svg", "curve.png"}
    explained = (out / "tables.md").read_text(encoding="utf-8")
    for name in ("curve", "gates", "training"):
        for column in pd.read_csv(out / f"{name}.csv").columns:
            known = f"`{column}`" in explained or column.endswith(EXPLAINED_ENDINGS)
            assert known or column in SELF_EXPLAINED, column
    answer, _, table = done.stdout.partition("\n\n")
    assert " are enough to stay within 0.5 BLEU of the unpruned model" in " ".join(answer.split())
    lines = [line.split() for line in table.splitlines()]
    assert lines[0] == ["heads", "encoder", "decoder", "cross"]
    assert lines[1][:6] == ["model", "penalty", "left", "left", "left", "left"]
    assert [line[0] for line in lines[3:7]] == ["unpruned", "fine-tuned", "pruned", "pruned"]
    assert lines[6][1:6] == ["30", "0", "0", "0", "0"]
    assert max(len(line.rstrip()) for line in table.splitlines()[:7]) <= 80
    written = (out, out / "models" / "penalty_0", out / "models" / "penalty_30")
    assert {f"Wrote {path}." for path in written} <= set(done.stderr.splitlines())
    told = " ".join(done.output.split())
    assert "all 6 heads are closed" in told
    assert "At penalty 30 no random heads stand beside the gates" in told
    assert "closed at random" not in (out / "report.html").read_text(encoding="utf-8")
    assert "there is no 95 % interval of fewer than 10" in told
    curve = pd.read_csv(out / "curve.csv")
    assert curve["heads_left"].tolist() == [6] * 6 + [0] * 2
    saved = out / "models" / "penalty_30"
    record = json.loads((saved / "settings.json").read_text())
    assert record["pruned"]["closed_heads"] == [
        f"{site}.0.{head}" for site in ("encoder", "decoder", "cross") for head in (0, 1)
    ]
    assert not load(saved).model.decoder.layers[0].cross.output.weight.any()
    assert score_run(load(saved), beams=1)[0]["split"] == "test"

    with pytest.raises(InputError, match="holds a finished pruning; add --overwrite"):
        run(small_run, "--penalty", 0, "--out", out, *QUICK)
    mine = out / "models" / "mine.txt"
    mine.write_text("mine")
    words = ("--penalty", 0, "--no-random", "--overwrite", "--out", out, "--json")
    found = read_json(run(small_run, *words, *QUICK).stdout)
    assert {row["kind"] for row in found["curve"]} == {"unpruned", "fine-tuned", "pruned"}
    assert set(found) == {"curve", "notes", "folder"}
    assert [path.name for path in (out / "models").iterdir()] == ["mine.txt"]
    assert set(pd.read_csv(out / "gates.csv")["penalty"]) == {0.0}


def test_quick_leaves_translations_out(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translated(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("attnlab.evaluation.evaluator.Evaluator.translations", translated)
    out = tmp_path / "out"
    done = run(small_run, "--quick", "--penalty", 30, "--no-random", "--out", out, *QUICK)
    curve = pd.read_csv(out / "curve.csv")
    assert curve["bleu"].isna().all()
    assert curve["loss"].notna().all()
    told = " ".join(done.stdout.split())
    assert "within a loss of 0.05 per token" in told
    assert "BLEU" not in told
    assert "Heads left against loss" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_page")
def test_overwrite_leaves_what_no_pruning_saved(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("")
    (tmp_path / "result.json").write_text('{"result": "pruning"}')
    other = shutil.copytree(small_run, tmp_path / "models" / "penalty_0.1")
    with pytest.raises(InputError, match=r"penalty_0.1 is no pruned run of an older pruning; move"):
        run(small_run, "--penalty", 0.1, "--save", "--overwrite", "--out", tmp_path, *QUICK)
    record = json.loads((other / "settings.json").read_text()) | {"pruned": {"run": "other"}}
    (other / "settings.json").write_text(json.dumps(record))
    (other / "analysis").mkdir()
    (other / "analysis" / "report.html").write_text("mine")
    with pytest.raises(InputError, match=r"penalty_0.1 holds results of its model \(analysis\)"):
        run(small_run, "--penalty", 0.3, "--overwrite", "--out", tmp_path, *QUICK)
    assert (other / "analysis" / "report.html").read_text() == "mine"
    assert (other / "model.safetensors").exists()


def test_ctrl_c_leaves_nothing(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pruner, "train_gates", interrupted)
    done = CliRunner().invoke(app, ["prune", str(small_run), "--steps", "2", "--sentences", "2",
                                    "--out", str(tmp_path / "out")])  # fmt: skip
    assert done.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_transformers_folder_without_sentences_is_refused(tmp_path: Path) -> None:
    random_models.marian().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match="is no run of attnlab and brings no sentences"):
        run(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_output_never_goes_into_a_run_or_a_file(small_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a run, which the pruning leaves as it is"):
        run(small_run, "--out", small_run)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; name a folder"):
        run(small_run, "--out", tmp_path / "file")
