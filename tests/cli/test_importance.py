"""`attnlab importance` from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from strict_json import read_json
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError

WRITTEN = ["cumulative.csv", "figures", "importance.csv", "rank_agreement.csv", "replaced.csv"]
WRITTEN += ["report.html", "result.json", "tables.md"]


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
    done = run(small_run, "-n", 9, "--points", 3, "--calibration", 7, "--out", out)
    assert done.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == WRITTEN
    drawn = sorted(path.name for path in (out / "figures").iterdir())
    assert drawn == ["importance.png", "importance.svg", "removed.png", "removed.svg"]
    heads, replaced = (pd.read_csv(out / f"{name}.csv") for name in ("importance", "replaced"))
    assert {"gradient_importance", "loss_change", "bleu_change_significant"} <= set(heads)
    assert set(replaced["way"]) == {"zero", "mean", "uniform"}
    assert replaced["bleu_change"].notna().tolist() == (replaced["way"] == "zero").tolist()
    explained = (out / "tables.md").read_text(encoding="utf-8")
    assert "Holm" in explained
    told = {line.split("`")[1] for line in explained.splitlines() if line.startswith("- `")}
    tables = [pd.read_csv(path) for path in out.glob("*.csv")]
    assert told == {column for table in tables for column in table}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "from the test part of embedded" in page
    assert "Best validation perplexity" not in explained + page, "a translation model has none"
    assert "Only 7 sentences: there is no 95 % interval" in explained
    assert "cross.0.1" in done.stdout
    assert done.stdout.index("replaced by zero") < done.stdout.index("encoder.0.0"), (
        "the answer first"
    )
    assert "Ablating heads: 18 to do" in done.stderr.splitlines()
    assert f"Wrote {out}." in done.stderr.splitlines()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.output


@pytest.mark.usefixtures("no_page")
def test_a_file_of_training_sentences_gives_the_mean(
    model: Path, text: Path, tmp_path: Path
) -> None:
    lines = text.read_text(encoding="utf-8").splitlines(keepends=True)
    held_out, others = tmp_path / "held_out.txt", tmp_path / "others.txt"
    held_out.write_text("".join(lines[:4]), encoding="utf-8")
    others.write_text("".join(lines[4:]), encoding="utf-8")
    words = [model, "--text", held_out, "--bleu", "none", "--replacements", "mean"]
    words += ["--out", tmp_path / "out"]
    with pytest.raises(InputError, match=r"give a file of them \(--calibration-text\)"):
        run(*words)
    found = read_json(run(*words, "--calibration-text", others, "--json").stdout)
    assert {row["way"] for row in found["replaced"]} == {"mean"}
    assert all(row["loss_change"] is not None for row in found["replaced"])
    assert "loss_change" not in found["importance"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bleu", "one"), "bleu must be among zero, mean, uniform, first, or none, not 'one'"),
        (("--replacements", ","), "No replacement is named"),
        (
            ("--replacements", "zero", "--calibration-text", "none.txt"),
            "calibration_text is for the mean",
        ),
        ((), "brings no sentences"),
    ],
)
def test_bad_options_are_refused(
    words: tuple[object, ...], message: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run(model, *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_has_its_result_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "importance").mkdir()
    (tmp_path / "importance" / "cumulative.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="importance holds cumulative.csv and no result.json of"):
        run("some/model")
    shown = " ".join(run("--help").stdout.replace("│", " ").split())
    assert "(default: RUN/importance; of other sources: importance)" in shown
