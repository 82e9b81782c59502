"""The tables of a page of results: nothing that never varies, and no checksum."""

import re
from pathlib import Path

import pandas as pd

from attnlab.results.page.result_page import Contents, ShownTable, write_result_page
from attnlab.results.records import ResultRecord, write_record
from attnlab.results.result_files import STUDY
from attnlab.studies.study_results import means_over_seeds, study_contents


def test_what_never_varies_is_said_once_and_checksums_stay_in_the_file(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"mechanism": ["band", "bigbird"], "budget": [4, 4], "data_checksum": ["a" * 64, "b" * 64]}
    )
    table.to_csv(tmp_path / "table.csv", index=False)
    write_record(tmp_path, ResultRecord(STUDY.what, "t", {}), {"table.csv": table})
    contents = Contents([], {}, [ShownTable("table.csv", "Rows")])
    page = write_result_page(tmp_path, lambda *_: contents).read_text(encoding="utf-8")
    assert "aaaa" not in page
    assert re.search(r"<caption><span>The same in every row: [^;<]+ 4\.</span></caption>", page)
    assert page.count('<th scope="col"') == 1


def test_a_study_of_several_seeds_shows_their_means_first() -> None:
    table = pd.DataFrame({
        "epochs": [1, 1, 1, 1], "seed": [0, 1, 0, 1], "mechanism": ["band", "band", "near", "near"],
        "setting": ["band(1)", "band(2)", "near(1)", "near(1)"], "loss": [1.0, 3.0, 5.0, 9.0],
        "loss_low": [0.0, 1.0, 2.0, 3.0],
    })  # fmt: skip
    found = means_over_seeds(table, ["epochs", "seed"])
    assert found.to_dict("records") == [
        {"epochs": 1, "mechanism": "band", "loss": 2.0, "seeds": 2},
        {"epochs": 1, "mechanism": "near", "loss": 7.0, "seeds": 2},
    ]
    assert means_over_seeds(table[table["seed"] == 0], ["epochs", "seed"]).empty
    cells = pd.DataFrame({"epochs": [1, 1], "seed": [0, 1], "state": ["done", "done"]})
    record = ResultRecord(STUDY.what, "t", {"Study": "s"})
    shown = study_contents(record, {"table.csv": table, "cells.csv": cells}).tables
    assert [one.heading for one in shown][:2] == ["Means over seeds", "Rows of all cells"]


def test_a_study_begins_with_its_best_rows_over_seeds() -> None:
    rows = {
        "seed": [0, 1] * 4, "scope": ["model"] * 8, "budget": [4] * 6 + [6] * 2,
        "mechanism": ["band", "band", "near", "near", "sigma", "sigma", "near", "near"],
        "level": ["calibrated"] * 4 + ["oracle"] * 2 + ["calibrated"] * 2,
        "loss_change": [0.5, 0.7, 0.1, 0.3, 0.0, 0.0, 0.05, 0.05],
    }  # fmt: skip
    cells = pd.DataFrame({"seed": [0, 1], "state": ["done", "missing"]})
    record = ResultRecord(STUDY.what, "t", {"Study": "substitution"})
    tables = {"table.csv": pd.DataFrame(rows), "cells.csv": cells}
    first, second = study_contents(record, tables).answers
    # Half the width is 0.1 times the 97.5 % quantile of t with one degree of freedom, 12.706.
    assert first == (
        "Smallest change of loss in nats, mean over 2 seeds with its 95 % interval: scope model, budget 4: "
        "mechanism near, 0.2000 [-1.0706, 1.4706]; scope model, budget 6: mechanism near, 0.0500. "
        "Each is the best of several rows, which its interval does not account for."
    )
    assert second == "1 of 2 cells is finished, with 8 rows."
    other = ResultRecord(STUDY.what, "t", {"Study": "of another distribution"})
    assert study_contents(other, tables).answers == [second]
    once = {**tables, "table.csv": tables["table.csv"].query("seed == 0")}
    assert (
        study_contents(record, once)
        .answers[0]
        .startswith(
            "Smallest change of loss in nats, one seed: scope model, budget 4: mechanism near, 0.1000; "
        )
    )
