"""`attnlab analyze` from the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from strict_json import read_json
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError


def run(*words: object):
    done = CliRunner().invoke(app, ["analyze", *map(str, words)], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_writes_the_folder_and_prints_a_summary(
    model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    of_model = sorted(model.iterdir())
    done = run(model, "--text", text, "--keep-matrices", 1, "--sites", "encoder")
    assert done.exit_code == 0
    assert "encoder.1.2" in done.output
    assert "cross.0" not in done.output
    for heading in ("closest role", "control", "shape", "loss"):
        assert heading in done.output
    table = done.stdout.split("closest role: ")[0]
    assert max(map(len, table.splitlines())) <= 80
    written = pd.read_csv(tmp_path / "analysis" / "summary.csv")
    assert {"role", "structure", "strength", "ablation_loss_change"} <= set(written)
    assert not written["confirmed"].any()
    assert "heads have a role that is confirmed" in " ".join(done.output.split())
    assert "nearest" not in done.output
    assert "Only 7 sentences" in done.output
    assert (tmp_path / "analysis" / "report.html").is_file()
    assert sorted(model.iterdir()) == of_model, "the folder of a model stays as it is"
    with pytest.raises(InputError, match="holds a finished analysis; add --overwrite"):
        run(model, "--text", text)
    again = run(model, "--text", text, "--keep-matrices", 0, "--overwrite", "--no-labels", "--json",
                "--sites", "encoder")  # fmt: skip
    assert len(read_json(again.stdout)["summary"]) == len(written)
    left = sorted(path.name for path in (tmp_path / "analysis" / "figures").iterdir())
    assert left == [
        f"{name}.{kind}"
        for name in ("distance_by_window", "mass_by_offset")
        for kind in ("png", "svg")
    ]


def test_writes_where_it_is_told(model: Path, text: Path, tmp_path: Path) -> None:
    done = run(model, "--text", text, "--out", tmp_path / "here", "--keep-matrices", 0,
               "--fit-sentences", 0, "--quick", "--sites", "encoder")  # fmt: skip
    assert done.exit_code == 0
    assert "leave out --quick to have them" in " ".join(done.output.split())
    labels = pd.read_csv(tmp_path / "here" / "labels.csv")
    assert set(labels["significance"]) == {"not compared"}
    assert "loss_change" not in labels
    assert (tmp_path / "here" / "report.html").is_file()


def test_help_names_the_units_and_the_files() -> None:
    done = run("--help")
    assert "heads.csv" in done.output
    assert "--keep-matrices" in done.output


def test_a_file_of_matrices(tmp_path: Path) -> None:
    np.save(tmp_path / "heads.npy", np.full((3, 5, 5), 0.2))
    done = run(tmp_path / "heads.npy", "--sites", "cross", "--out", tmp_path / "out")
    assert "cross.0.2" in done.output
    assert "special" not in done.output
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize(
    "words",
    [("--text", "a.txt"), ("--corpus", "embedded"), ("--pair", "en-it"), ("--sentences", 3)],
)
def test_a_file_of_matrices_takes_no_sentences(tmp_path: Path, words: tuple[object, ...]) -> None:
    np.save(tmp_path / "heads.npy", np.full((3, 5, 5), 0.2))
    with pytest.raises(
        InputError, match=f"holds matrices and no sentences; leave {words[0][2:]} out"
    ):
        run(tmp_path / "heads.npy", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_of_ones_own_is_left_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "heads.npy", np.full((3, 5, 5), 0.2))
    (tmp_path / "w" / "figures").mkdir(parents=True)
    (tmp_path / "w" / "figures" / "paper.txt").write_text("mine")
    (tmp_path / "w" / "figures" / "mass_by_offset.svg").write_text("mine")
    for words in ((), ("--overwrite",)):
        with pytest.raises(InputError, match=r"mass_by_offset\.svg and no result\.json of attnlab"):
            run(tmp_path / "heads.npy", "--out", tmp_path / "w", *words)
    (tmp_path / "w" / "result.json").write_text('{"result": "analysis"}')
    with pytest.raises(InputError, match="already holds .*figures/mass_by_offset.svg"):
        run(tmp_path / "heads.npy", "--out", tmp_path / "w")
    done = run(tmp_path / "heads.npy", "--out", tmp_path / "w", "--overwrite")
    assert done.exit_code == 0
    assert (tmp_path / "w" / "figures" / "paper.txt").read_text() == "mine"
