"""`attnlab study`: options of each study, what is there, and how far it is."""

import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main
from strict_json import read_json
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.studies.running import run_study

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "running_studies.md").read_text("utf-8")
COMMANDS = re.findall(r"^ {4}attnlab study (.+?)(?:\s+#.*)?$", GUIDE, flags=re.MULTILINE)
CELLS = ["--structure", "band", "--structure", "column", "--attempts", "1", "--tokens", "8"]


def attnlab(*words: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["study", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_run_tells_how_many_cells_it_computes_and_which_one(tmp_path: Path) -> None:
    told: list[Any] = []
    options = {"structures": ["band", "column"], "attempts": [1], "tokens": 8, "seeds": 1}
    for seeds in (1, 2):
        run_study(
            "random_search", folder=tmp_path, options=options | {"seeds": seeds},
            progress=lambda *step: told.append(step),
            begun=lambda plan, cell: told.append([plan.cells.index(cell), len(plan.cells), plan.varied]),
        )  # fmt: skip
    first, second = told[:5], told[5:]
    assert [one for one in first if isinstance(one, tuple)] == [("Cells", n, 2) for n in range(3)]
    assert first[1] == [0, 2, ["structure"]]
    assert [one for one in second if isinstance(one, tuple)] == [("Cells", n, 2) for n in range(3)]
    begun = [one for one in second if isinstance(one, list)]
    # Every structure with each of two seeds, of which the first was there.
    assert begun == [[1, 4, ["structure", "seed"]], [3, 4, ["structure", "seed"]]]
    out = ["--out", str(tmp_path)]
    assert "Cells: 2 to do" in attnlab("run", "random_search", *out, "--seeds", "3")
    assert "to do" not in attnlab("run", "random_search", *out, "--seeds", "4", "--json")
    assert "to do" not in attnlab("run", "random_search", *out, "--seeds", "5", "--quiet")


def test_a_study_from_its_plan_to_its_table(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)]
    plan = attnlab("plan", "random_search", *out, *CELLS, "--seeds", "1")
    assert f"2 cells in {tmp_path}: 0 done, 0 running, 0 failed, 2 to do." in plan
    assert "structure" in plan
    assert "tokens" not in plan, "only what varies is shown"
    assert not list(tmp_path.iterdir()), "a plan writes nothing"
    assert "2 of 2 cells finished, 0 failed; wrote 2 rows" in attnlab(
        "run", "random_search", *out, *CELLS, "--seeds", "1"
    )
    plan = attnlab("plan", "random_search", *out, "--seeds", "2")
    assert "4 cells" in plan
    assert "2 done" in plan
    assert re.search(r"Time left: about \d+ s, one at a time", plan)
    assert "2 cells" in attnlab("status", "random_search", *out)
    for words in (["status"], ["collect"], ["run", "--seeds", "1"], ["plan", "--seeds", "1"]):
        name, *options = words
        assert (
            read_json(attnlab(name, "random_search", *out, *options, "--json", "--quiet"))["cells"]
            == 2
        )
    (tmp_path / "table.csv").unlink()
    assert "wrote 2 rows" in attnlab("collect", "random_search", *out)
    assert (tmp_path / "table.csv").read_text().startswith("structure,tokens,attempts,noise,seed,")


def test_the_page_of_one_cell_calls_its_settings_settings(tmp_path: Path) -> None:
    few = ["--structure", "band", "--attempts", "1", "--tokens", "8", "--seeds", "1"]
    told = attnlab("run", "random_search", "--out", str(tmp_path), *few)
    assert "1 of 1 cell finished, 0 failed; wrote 1 row to" in told
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 of 1 cell is finished, with 1 row." in page
    assert "what it looks like" not in page, "the structure of a cell is planted"
    assert "A setting of the cell." in page
    assert "[&#39;band&#39;]" not in page
    seconds = pd.read_csv(tmp_path / "cells.csv")["seconds"][0]
    assert f">{seconds:.2f}<" in page.replace("\n", "").replace(" ", "")


def test_timings_that_were_taken_beside_others_are_told(tmp_path: Path) -> None:
    words = "run", "random_search", "--out", str(tmp_path), *CELLS, "--seeds", "1"
    assert "while others could run" not in attnlab(*words)
    records = [*tmp_path.rglob("*.json")]
    alone = [path for path in records if '"concurrent": false' in path.read_text("utf-8")]
    assert len(alone) == 2
    beside = alone[0].read_text("utf-8").replace('"concurrent": false', '"concurrent": true')
    alone[0].write_text(beside, "utf-8")
    assert "The timings of 1 cell were taken while others could run." in attnlab(*words)


def test_a_long_plan_says_how_many_cells_it_shows(tmp_path: Path) -> None:
    text = attnlab("plan", "random_search", "--out", str(tmp_path / "new"))
    assert "12 of 36 cells; --json shows all." in text


def test_studies_are_listed_with_their_questions_and_options() -> None:
    assert "How near does the thesis's random search come" in attnlab("list")
    listed = CliRunner().invoke(app, ["study", "list", "--json"], catch_exceptions=False)
    known = read_json(listed.output)["studies"]
    assert known["random_search"].startswith("How near does the thesis's random search come")
    shown = attnlab("run", "random_search", "--help")
    for word in ("--structure", "--jobs", "--cluster", "--out", "studies/NAME"):
        assert word in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "absent"], "There is no study 'absent'; choose from: random_search"),
        (["run", "random_search", "--seeds", "0"], "seeds must be at least 1"),
        (
            ["run", "random_search", "--tokens", "1000000"],
            "tokens must be at least 8 and at most 4096, not 1000000",
        ),
        (["run", "random_search", "--jobs", "2", "--cluster", "tcp://a:1"], "not both"),
        (["status", "random_search"], "does not hold the study 'random_search'; begin it with"),
        (["status", "random_search", "--out", "nowhere"], "study run random_search --out nowhere"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        attnlab(*words)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_guide_can_be_read(line: str) -> None:
    command = typer.main.get_command(app).commands["study"]
    name, *words = shlex.split(line)
    command = command.commands[name]
    if name in {"plan", "run"}:
        name, *words = words
        command = command.get_command(None, name)
    command.make_context(name, words)
