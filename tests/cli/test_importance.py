"""`attnlab importance` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.errors import InputError
from attnlab.reporting.result_folder import IMPORTANCE, refuse_taken

WRITTEN = ["cumulative.csv", "importance.csv", "importance.md", "importance.png", "importance.svg"]
WRITTEN += ["rank_agreement.csv", "report.html", "result.json"]


def run(*words: object):
    done = CliRunner().invoke(app, ["importance", *map(str, words)], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_writes_its_folder_and_says_what_it_found(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "out"
    done = run(small_run, "-n", 9, "--points", 3, "--training", 7, "--out", out)
    assert done.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == WRITTEN
    heads = pd.read_csv(out / "importance.csv")
    assert {f"{name}_loss_change_nats" for name in ("zero", "mean", "uniform")} <= set(heads)
    assert {"zero_bleu_change", "zero_bleu_significant"} <= set(heads)
    explained = (out / "importance.md").read_text(encoding="utf-8")
    assert "from the test part of embedded" in explained
    assert "Holm" in explained
    told = {line.split("`")[1] for line in explained.splitlines() if line.startswith("- `")}
    tables = [pd.read_csv(path) for path in out.glob("*.csv")]
    assert told == {column for table in tables for column in table}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Best validation perplexity" not in explained + page, "a translation model has none"
    assert "the half of the sentences that did not choose the order" in page
    assert "sentences: intervals are wide" in explained
    assert "cross.0.1" in done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.output


def test_an_older_study_is_replaced_only_when_asked(model: Path, text: Path) -> None:
    words = [model, "--text", text, "--bleu", "none", "--replacements", "zero"]
    assert run(*words).exit_code == 0
    study = model / "importance"
    before = {path: path.read_bytes() for path in study.iterdir()}
    with pytest.raises(InputError, match="holds a finished importance study; add --overwrite"):
        run(*words)
    assert before == {path: path.read_bytes() for path in study.iterdir()}
    own = study / "notes.txt"
    own.write_text("mine", encoding="utf-8")
    found = read_json(run(*words, "--overwrite", "--sites", "cross", "--json").stdout)
    assert {row["site"] for row in found["heads"]} == {"cross"}
    assert own.read_text(encoding="utf-8") == "mine"
    assert set(pd.read_csv(study / "importance.csv")["site"]) == {"cross"}


def test_files_of_the_same_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "importance.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(
        InputError, match="already holds importance.csv, which the importance study"
    ):
        refuse_taken(tmp_path, IMPORTANCE, overwrite=False)
    with pytest.raises(InputError, match="is a file; name a folder to write the importance study"):
        refuse_taken(tmp_path / "importance.csv", IMPORTANCE, overwrite=True)
    refuse_taken(tmp_path, IMPORTANCE, overwrite=True)
    refuse_taken(tmp_path / "new", IMPORTANCE, overwrite=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sites", "crss"), "There is no site 'crss'"),
        (("--bleu", "one"), "bleu must be among zero, mean, uniform, or none, not 'one'"),
        (("--replacements", ","), "No replacement is named"),
        (("--points", 0), "points must be at least 2, not 0"),
        ((), "brings no sentences"),
    ],
)
def test_bad_options_are_refused(
    words: tuple[object, ...], message: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run(model, *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
