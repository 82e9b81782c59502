"""Cells of a study: computed once, whole or not at all, with the same rows wherever they are computed."""

import csv
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from distributed import Client
from engine_cluster import ENVIRONMENT, wait_until

from attnlab.core.errors import AttnlabError, InputError
from attnlab.core.files import write_json
from attnlab.core.installed import plugins
from attnlab.results.csv_tables import read_any_table
from attnlab.studies.computing import (
    ATTEMPTS,
    STUDIES,
    compute,
    compute_in_turn,
    studies,
    study_named,
)
from attnlab.studies.random_searches import SearchSettings, search_rows
from attnlab.studies.running import (
    AT_A_TIME,
    FINISHED,
    PLAN,
    _alone_in,
    cell_folder,
    collect,
    plan_study,
    read_plan,
    run_study,
    write_cell,
)
from attnlab.studies.study import Cell, Plan, cell_of
from attnlab.studies.study_results import write_study

# Kept as written: a change of it computes every committed cell again.
ADDRESS = "c1b2087e9c10a116eceb4bbf36531bb5716b54daf55e641cd4a96fac56a055a0"


def files_of(folder: Path) -> dict[str, bytes]:
    """The rows of each finished cell by its address; what is being written beside them is none."""
    return {path.parent.name: path.read_bytes() for path in folder.glob("cells/[!.]*/rows.csv")}


def begun(marks: Path) -> Counter[int]:
    """How often each toy cell was begun."""
    return Counter(int(path.name.split("-")[0]) for path in marks.iterdir())


def toy(
    folder: Path, *, jobs: int | None = None, cluster: str | None = None, **options: Any
) -> Any:
    return run_study("toy", folder=folder, jobs=jobs, cluster=cluster, options=options)


def toy_cell(**options: Any) -> Cell:
    known = study_named("toy")
    return cell_of(known, known.settings(number=1, **options))


def test_an_address_stays_what_it_is() -> None:
    assert toy_cell().address == ADDRESS


def test_an_address_tells_what_decides_the_rows() -> None:
    cell = toy_cell()
    assert toy_cell(scale=1).address == cell.address
    assert toy_cell(marks="elsewhere").address == cell.address
    others = [
        toy_cell(scale=2.0), replace(cell, kind="other"), replace(cell, schema=2),
        replace(cell, data="0f"),
    ]  # fmt: skip
    assert len({cell.address, *(other.address for other in others)}) == 5
    turned = replace(cell, settings=dict(reversed(cell.settings.items())))
    assert turned.address == cell.address


@pytest.mark.slow
def test_rows_are_the_same_bytes_wherever_they_are_computed(tmp_path: Path, scheduler: str) -> None:
    limits: list[str | None] = []

    def connected(client: Client) -> None:
        limits.extend(client.run(os.getenv, "MALLOC_TRIM_THRESHOLD_").values())
        assert len(client.nthreads()) == 2

    here = toy(tmp_path / "here")
    run_study("toy", folder=tmp_path / "jobs", jobs=2, connected=connected)
    # With Dask's own setting every tensor costs page faults.
    assert limits == [None, None]
    there = toy(tmp_path / "there", cluster=scheduler)
    rows = files_of(tmp_path / "here")
    assert len(rows) == 4
    assert files_of(tmp_path / "jobs") == files_of(tmp_path / "there") == rows
    assert collect(tmp_path / "jobs").text == there.text == here.text
    assert not here.cells["concurrent"].any()
    assert there.cells["concurrent"].all()


@pytest.mark.slow
def test_what_kills_its_worker_costs_no_other_cell(
    tmp_path: Path, marks: Path, scheduler: str
) -> None:
    troubles = ("1:kill once", "2:kill", "3:raise", "4:raise once")
    found = toy(tmp_path, cluster=scheduler, count=8, troubles=troubles, marks=str(marks))
    states = dict(zip(found.cells["number"], found.cells["state"], strict=True))
    assert states == {**dict.fromkeys(range(8), "done"), 2: "failed", 3: "failed"}
    times = begun(marks)
    assert times[2] == times[3] == ATTEMPTS
    # What a worker had computed is lost with it, and computed anew, while others die.
    assert min(times[1], times[4]) >= 2
    failures = {
        told["cell"]["settings"]["number"]: told
        for told in map(json.loads, (path.read_text() for path in tmp_path.glob("failed/*")))
    }
    assert failures[2]["attempts"] == failures[3]["attempts"] == ATTEMPTS
    assert "ValueError: cell 3 raises" in failures[3]["failure"]
    assert failures[3]["failure"][0].startswith("Traceback")
    assert "died" in failures[2]["failure"][0] or "worker ended" in failures[2]["failure"][0]


def test_a_cell_that_raises_is_tried_three_times_and_again_in_the_next_run(
    tmp_path: Path, marks: Path
) -> None:
    troubles = ("1:raise", "2:raise once")
    found = toy(tmp_path, troubles=troubles, marks=str(marks))
    assert begun(marks) == {0: 1, 1: ATTEMPTS, 2: 2, 3: 1}
    assert (found.missing, found.failed) == (1, 1)
    toy(tmp_path)
    assert begun(marks) == {0: 1, 1: 2 * ATTEMPTS, 2: 2, 3: 1}


def start(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """`attnlab study run toy` in a group of processes of its own."""
    command = [
        sys.executable,
        "-m",
        "attnlab",
        "study",
        "run",
        "toy",
        "--out",
        str(tmp_path),
        *words,
    ]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # Tests that run in the background of a shell are told to ignore Ctrl-C, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "jobs"), [(signal.SIGKILL, ()), (signal.SIGTERM, ()), (signal.SIGINT, ("--jobs", "2"))]
)
def test_an_interrupted_run_goes_on_without_computing_a_finished_cell_again(
    tmp_path: Path, marks: Path, how: signal.Signals, jobs: tuple[str, ...]
) -> None:
    words = ("--marks", str(marks), "--count", "8", "--trouble", "6:wait once", *jobs)
    client = start(tmp_path, *words)
    wait_until(lambda: begun(marks)[6] and len(files_of(tmp_path)) >= 3)
    # As a terminal does with Ctrl-C: the workers hear of it too.
    os.killpg(client.pid, how)
    _, errors = client.communicate(timeout=120)
    assert client.returncode == (-how if how == signal.SIGKILL else 130), errors
    if how != signal.SIGKILL:
        assert "finished cells are kept" in errors
        assert "Traceback" not in errors
        assert not list(tmp_path.glob("cells/.*"))
    finished = files_of(tmp_path)
    numbers = {
        json.loads((tmp_path / "cells" / address / "cell.json").read_text())["cell"]["settings"][
            "number"
        ]
        for address in finished
    }
    assert len(numbers) >= 3
    assert 6 not in numbers
    found = toy(tmp_path)
    assert found.missing == 0
    times = begun(marks)
    assert all(times[number] == 1 for number in numbers)
    assert times[6] == 2
    assert set(times) == set(range(8))


def damage_rows(cell: Path) -> None:
    (cell / "rows.csv").write_text((cell / "rows.csv").read_text().replace("0", "1"))


def cut_record(cell: Path) -> None:
    record = (cell / "cell.json").read_text()
    (cell / "cell.json").write_text(record[: len(record) // 2])


def lose_rows(cell: Path) -> None:
    (cell / "rows.csv").unlink()


def change_setting(cell: Path) -> None:
    record = (cell / "cell.json").read_text()
    (cell / "cell.json").write_text(record.replace('"scale": 1.0', '"scale": 2.0'))


@pytest.mark.parametrize("damage", [damage_rows, cut_record, lose_rows, change_setting])
def test_a_damaged_cell_is_computed_again_and_no_other(
    tmp_path: Path, marks: Path, damage: Any
) -> None:
    plan = toy(tmp_path, marks=str(marks)).plan
    before = files_of(tmp_path)
    damage(cell_folder(tmp_path, plan.cells[2]))
    found = collect(tmp_path)
    assert (len(found.outcomes), found.missing) == (3, 1)
    toy(tmp_path)
    assert files_of(tmp_path) == before
    assert begun(marks) == {0: 1, 1: 1, 2: 2, 3: 1}


def test_another_setting_is_another_cell_and_the_old_one_stays(tmp_path: Path, marks: Path) -> None:
    toy(tmp_path, marks=str(marks))
    other = toy(tmp_path, scale=2.0)
    assert begun(marks) == dict.fromkeys(range(4), 2)
    assert len(files_of(tmp_path)) == 8
    assert set(other.table["scale"]) == {2.0}
    back = toy(tmp_path, scale=1)
    assert begun(marks) == dict.fromkeys(range(4), 2)
    assert set(back.table["scale"]) == {1.0}


def test_what_a_killed_process_left_half_written_is_no_cell(tmp_path: Path) -> None:
    toy(tmp_path)
    half = tmp_path / "cells" / ".half"
    half.mkdir()
    (half / "rows.csv").write_text("row\n")
    assert collect(tmp_path).missing == 0
    toy(tmp_path)
    assert not half.exists()
    assert len(collect(tmp_path).outcomes) == 4


def test_collecting_keeps_every_digit_and_names_what_is_missing(tmp_path: Path) -> None:
    toy(tmp_path, count=3, troubles=("2:raise",))
    plan = plan_study("toy", tmp_path, {"count": 5})
    write_json(tmp_path / PLAN, asdict(plan))
    found = collect(tmp_path)
    assert (found.missing, found.failed) == (3, 1)
    assert list(found.cells["state"]) == ["done", "done", "failed", "missing", "missing"]
    assert list(found.table.columns[:3]) == ["number", "scale", "trouble"]
    assert list(found.table["number"]) == [0] * 3 + [1] * 3
    assert found.table["value"][3] == 1 / 3
    assert list(found.table["text"][:3]) == ["a, b", 'quoted "c"', "NA"]
    whole = files_of(tmp_path)[plan.cells[1].address].decode().splitlines()[1]
    assert whole in found.text
    found.write(tmp_path)
    written = pd.read_csv(tmp_path / "cells.csv")
    assert list(written["state"]) == list(found.cells["state"])
    assert (tmp_path / "table.csv").read_text() == found.text


def test_data_is_checked_where_a_cell_is_computed(tmp_path: Path) -> None:
    corpus = tmp_path / "pairs.tsv"
    corpus.write_text("".join(f"a cat {n}\tein Kater {n}\n" for n in range(60)))
    found = run_study("toy_corpus", folder=tmp_path / "study", options={"corpus": str(corpus)})
    (cell,) = found.plan.cells
    assert list(found.table["data_checksum"]) == [cell.data]
    moved = corpus.rename(tmp_path / "moved.tsv")
    again = plan_study("toy_corpus", tmp_path / "study", {"corpus": str(moved)})
    assert again.cells[0].address == cell.address, "where a corpus lies does not matter"
    moved.write_text(moved.read_text().replace("cat", "dog"))
    other = plan_study("toy_corpus", tmp_path / "other", {"corpus": str(moved), "corpus_limit": 20})
    refused = compute(replace(other.cells[0], data=cell.data))
    assert refused.rows is None
    assert f"has the checksum {other.cells[0].data} on" in str(refused.failure)


def test_rows_of_another_version_are_refused() -> None:
    refused = compute(replace(toy_cell(), schema=7))
    assert "The rows of toy are version 1 here and version 7 is wanted" in str(refused.failure)


def test_two_processes_do_not_compute_one_folder(tmp_path: Path) -> None:
    seen = []

    def look(plan: Plan, _: Cell) -> None:
        seen.append(collect(tmp_path, plan).running)
        with pytest.raises(AttnlabError, match="is writing to .*cells; wait until it ends"):
            toy(tmp_path)

    done = run_study("toy", folder=tmp_path, begun=look, options={"count": 2})
    assert seen == [1, 1]
    assert (done.running, collect(tmp_path).running) == (0, 0)


def test_as_many_cells_run_at_a_time_as_the_other_process_told(tmp_path: Path) -> None:
    plan = plan_study("toy", tmp_path, {"count": 5})
    with _alone_in(tmp_path) as tell:
        tell(2)
        assert collect(tmp_path, plan).running == 2
        tell(9)
        assert collect(tmp_path, plan).running == 5, "no more than there are"
    assert collect(tmp_path, plan).running == 0
    # As a process that is killed leaves it.
    write_json(tmp_path / AT_A_TIME, 2)
    assert collect(tmp_path, plan).running == 0


def test_who_looks_keeps_nobody_from_running(tmp_path: Path) -> None:
    toy(tmp_path, count=1)
    looking = os.open(tmp_path / FINISHED, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    looked = threading.Timer(0.05, os.close, [looking])
    looked.start()
    assert toy(tmp_path, count=2).missing == 0
    looked.join()


@pytest.mark.parametrize(
    "damage", [{"options": [1]}, {"cells": [{"settings": [1]}]}, {"cells": [1]}]
)
def test_a_damaged_plan_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    toy(tmp_path, count=1)
    path = tmp_path / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(InputError, match=r"study.json is damaged"):
        read_plan(tmp_path)


def test_options_that_are_not_given_are_those_of_the_last_run(tmp_path: Path) -> None:
    toy(tmp_path, count=2, scale=3.0)
    assert plan_study("toy", tmp_path, {"count": 3}).options["scale"] == 3.0
    with pytest.raises(InputError, match="holds the study 'toy'; name another folder"):
        plan_study("toy_corpus", tmp_path)


def test_a_cluster_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask

    monkeypatch.setattr("attnlab.studies.cluster.SECONDS_TO_ANSWER", 0.5)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(InputError, match=r"No Dask scheduler answers at tcp://127.0.0.1:9 "),
    ):
        toy(tmp_path, cluster="tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install distributed"):
        toy(tmp_path, jobs=2)
    with pytest.raises(InputError, match="either jobs or cluster, not both"):
        toy(tmp_path, jobs=2, cluster="tcp://127.0.0.1:9")


def test_the_table_of_studies_refuses_what_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(studies()) == [*STUDIES, "toy", "toy_corpus"]
    with pytest.raises(
        InputError,
        match="There is no study 'absent'; choose from: random_search, substitution, plan_search, toy",
    ):
        study_named("absent")
    for found, message in (
        ({"odd": 1}, "'odd', registered under attnlab.studies, must be"),
        ({"again": STUDIES["random_search"]}, "is called 'random_search', which exists already"),
    ):
        studies.cache_clear()
        monkeypatch.setattr("attnlab.core.installed.plugins", lambda _, found=found: found)
        with pytest.raises(InputError, match=message):
            studies()
    plugins.cache_clear()


def test_the_search_never_beats_the_exact_fit() -> None:
    for structure in ("diagonal", "band", "rare_columns"):
        settings = SearchSettings(structure=structure, tokens=12, attempts=1, noise=0.1, seed=0)
        row = search_rows(settings).iloc[0]
        assert 0 < row["exact_l1"] < row["search_l1"]
        assert row["draws"] == 3 * 11**3
        assert row["zero_l1"] == pytest.approx(12)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_read() -> None:
    with pytest.raises(
        InputError, match=r"Could not write to /proc/study: .*; choose another folder"
    ):
        run_study("random_search", folder="/proc/study")


def spoken_rows(_: Any) -> pd.DataFrame:
    """Rows whose texts a spreadsheet would compute, beside signed numbers."""
    return pd.DataFrame(
        {
            "word": ["=1+1", "+cmd", "-x", "@sum", "'=d", "-0.5"],
            "change": [-0.1 - 0.2, 1e-300, float("nan"), float("-inf"), 2.0, -0.5],
            "offset": [-3, -2, -1, 0, 1, 2],
        }
    )


def test_no_text_of_a_study_is_a_formula_and_each_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = study_named("toy")
    spoken = replace(known, rows=spoken_rows)
    monkeypatch.setattr("attnlab.studies.computing.study_named", lambda _: spoken)
    cell = cell_of(spoken, spoken.settings(number=1, trouble="none", marks="=2+2"))
    ((done, _),) = compute_in_turn([cell])
    write_cell(tmp_path, done)
    found = collect(tmp_path, Plan("toy", {}, (cell,)))
    write_study(found, tmp_path, question="?")
    expected = spoken_rows(spoken.settings(number=1))
    for path, settings in (
        (cell_folder(tmp_path, cell) / "rows.csv", {}),
        (tmp_path / "table.csv", {"marks": "=2+2"}),
        (tmp_path / "cells.csv", {"marks": "=2+2"}),
    ):
        with path.open(newline="") as file:
            written = list(csv.DictReader(file))
        for row in written:
            for name in {"word", "marks"} & set(row):
                assert row[name][0] not in "=+-@" or row[name] == "-0.5", (path.name, row[name])
        read = read_any_table(path, advice="make it again")
        for name, value in settings.items():
            assert set(read[name]) == {value}, path.name
        if path.name != "cells.csv":
            assert [row["change"] for row in written] == [
                "" if math.isnan(one) else repr(one) for one in expected["change"]
            ]
            assert [int(row["offset"]) for row in written] == expected["offset"].tolist()
            assert read["word"].tolist() == expected["word"].tolist()
    assert found.table["word"].tolist() == expected["word"].tolist()
    assert set(found.table["marks"]) == {"=2+2"}
