"""Tables in CSV: what is damaged in them is named with its line and its column."""

import re
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from attnlab.cli.app import app
from attnlab.core.errors import InputError
from attnlab.core.files import inert_texts, write_table
from attnlab.results.csv_tables import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    Kind,
    read_any_table,
    read_table,
)
from attnlab.results.export import formatted
from attnlab.results.question import declared_tables
from attnlab.results.records import ResultRecord, read_record, read_tables, write_record
from attnlab.studies.substitution import TABLES

KINDS: dict[str, Kind] = {
    "site": TEXT, "layer": INTEGER, "head": INTEGER, "l1": NUMBER, "tie": BOOLEAN
}  # fmt: skip
KEYS = ("site", "layer", "head")
WHOLE = """site,layer,head,l1,tie
encoder,0,0,0.30000000000000004,True
encoder,0,1,,False
cross,0,0,-1e-05,
"""
DAMAGED = {
    "lacks a column": ("l1,tie", "l2,tie", " lacks the column 'l1'"),
    "a further column": ("l1,tie", "l1,tie,x", " has 5 cells in line 2, and 6 columns"),
    "a column twice": ("site,layer", "site,site", " has the column 'site' twice"),
    "a short row": ("0.30000000000000004,True", "0.3", " has 4 cells in line 2, and 5 columns"),
    "a long row": ("False", "False,1", " has 6 cells in line 3, and 5 columns"),
    "text for a number": ("-1e-05", "low", ", line 4: l1 must be a number, not 'low'"),
    "digits with lines": ("-1e-05", "1_0", ", line 4: l1 must be a number, not '1_0'"),
    "a fraction": ("encoder,0,1", "encoder,0,1.5", ", line 3: head must be a whole number, not '1.5'"),
    "a huge number": ("encoder,0,1", "encoder,0,1" + "0" * 20, ", line 3: head must be a whole number"),
    "thousands of digits": ("encoder,0,1", "encoder,0,1" + "0" * 5000, ", line 3: head must be a whole"),
    "a word for truth": ("False", "no", ", line 3: tie must be True or False, not 'no'"),
    "no site": ("cross", "left", ", line 4: site must be one of encoder, decoder, cross, unknown, not"),
    "a negative layer": ("cross,0", "cross,-1", ", line 4: layer must be a number from 0 to 9,999, not -1"),
    "no head": ("encoder,0,1", "encoder,0,", ", line 3: head must be a number from 0 to 9,999, not None"),
    "a head twice": ("encoder,0,1", "encoder,0,0",
        " has two rows of site 'encoder', layer 0, head 0, in lines 2 and 3"),
    "a row too few": ("encoder,0,1,,False\n", "", " has 2 rows, and 3 were written"),
    "an open quote": ("cross", '"cross', " cannot be read as a table in CSV (unexpected end of data)"),
}  # fmt: skip


def read(path: Path) -> pd.DataFrame:
    return read_table(path, KINDS, keys=KEYS, rows=3)


def test_a_whole_table_has_every_digit(tmp_path: Path) -> None:
    for text in (WHOLE, "\ufeff" + WHOLE, WHOLE.replace("\n", "\r\n")):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
        found = read(tmp_path / "t.csv")
        assert found["l1"].tolist()[::2] == [0.30000000000000004, -1e-05]
        assert found["tie"].tolist() == [True, False, None]
        assert found["layer"].dtype == "int64"
        assert found.to_csv(index=False) == WHOLE


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_table_is_refused_with_line_and_column(case: str, tmp_path: Path) -> None:
    old, new, told = DAMAGED[case]
    assert WHOLE.count(old) == 1
    (tmp_path / "t.csv").write_text(WHOLE.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=f"^{re.escape(f'{tmp_path}/t.csv{told}')}"):
        read(tmp_path / "t.csv")


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    for content, told in (
        (b"", "is empty"),
        (b"a\n\xff\n", "cannot be read"),
        (b"a,a\n1,2\n", "'a' twice"),
    ):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(InputError, match=told):
            read_any_table(tmp_path / "t.csv", advice="name another")
    with pytest.raises(InputError, match=r"absent.csv cannot be read .*; name another\.$"):
        read_any_table(tmp_path / "absent.csv", advice="name another")


def test_a_result_says_how_many_rows_its_tables_have(tmp_path: Path) -> None:
    table = pd.DataFrame({"site": ["encoder"] * 2, "layer": 0, "head": [0, 1], "sentences": 3})
    table.to_csv(tmp_path / "heads.csv", index=False)
    write_record(tmp_path, ResultRecord("analysis", "T"), {"heads.csv": table})
    record = read_record(tmp_path)
    pd.testing.assert_frame_equal(
        read_tables(tmp_path, record)["heads.csv"], table.astype({"site": object})
    )
    table.head(1).to_csv(tmp_path / "heads.csv", index=False)
    with pytest.raises(InputError, match="has 1 row, and 2 were written; make the result again"):
        read_tables(tmp_path, record)
    table.assign(head=1).to_csv(tmp_path / "heads.csv", index=False)
    with pytest.raises(InputError, match="has two rows of site 'encoder', layer 0, head 1"):
        read_tables(tmp_path, record, declared_tables())


def test_a_row_that_stands_again_far_below_is_found_at_once(tmp_path: Path) -> None:
    numbers = [*range(40_000), 39_998, 39_999]
    (tmp_path / "t.csv").write_text("a\n" + "".join(f"{number}\n" for number in numbers))
    begun = time.monotonic()
    with pytest.raises(InputError, match="two rows of a 39998, in lines 40000 and 40002"):
        read_table(tmp_path / "t.csv", {"a": INTEGER}, keys=["a"])
    assert time.monotonic() - begun < 5


def test_columns_to_show_are_named_once_at_least(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    for words, told in (
        (",", "names no column; choose from: a, b"),
        ("c", "There is no column 'c'"),
    ):
        done = CliRunner().invoke(app, ["table", str(tmp_path / "t.csv"), "--columns", words])
        assert told in str(done.exception)
    words = ["table", str(tmp_path / "t.csv"), "--columns", "b,b", "--format", "csv"]
    assert CliRunner().invoke(app, words).stdout == "b\n2\n"


def test_keys_are_columns_of_their_table() -> None:
    tables = [*declared_tables(), *TABLES]
    assert sum(bool(table.keys) for table in tables) > 12
    for table in tables:
        assert set(table.keys) <= set(table), table.file


def test_no_text_is_a_formula_in_a_spreadsheet_and_each_comes_back(tmp_path: Path) -> None:
    texts = ["=1+1", "+a", "-b", "@c", "'=d", "''-e", "'tis", "f", "\tg", "-1+1"]
    written = pd.DataFrame({"text": texts, "number": [-0.5 - number for number in range(10)]})
    write_table(tmp_path / "a.csv", written)
    cells = [line.split(",") for line in (tmp_path / "a.csv").read_text().splitlines()[1:]]
    assert not [text for text, _ in cells if text[0] in "=+-@\t"]
    assert [float(number) for _, number in cells] == written["number"].tolist()
    read = read_table(tmp_path / "a.csv", {"text": "text", "number": "number"})
    pd.testing.assert_frame_equal(read, written.astype({"text": object}), check_dtype=False)
    anyhow = read_any_table(tmp_path / "a.csv", advice="make it again")
    assert anyhow["text"].tolist() == texts
    assert "'=1+1," in formatted(written, "csv")


@pytest.mark.parametrize(
    "text", ["-0.5", "+3", "-1", "-.5", "+5.", "-1e-05", "+2.5E+10", "'-0.5", "''+3", "'", ""]
)
def test_a_text_that_is_a_signed_number_stays(text: str, tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", pd.DataFrame({"text": [text, "=1"], "n": [1, 2]}))
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == f"{text},1"
    read = read_table(tmp_path / "a.csv", {"text": "text", "n": "integer"})
    assert read["text"].tolist() == [text, "=1"]


@pytest.mark.parametrize(
    "text",
    ["-", "+", "-1-1", "+3*A1", "-1\n", "--1", "-1e", "-e5", "-.", "+1.2.3", "-1 ", "-A1", "-٣",
     "-1|calc", "'-1-1"],
)  # fmt: skip
def test_a_text_that_is_only_nearly_a_signed_number_is_a_formula(text: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"text": [text]})
    assert inert_texts(table)["text"].tolist() == [f"'{text}"]
    write_table(tmp_path / "a.csv", table)
    read = read_table(tmp_path / "a.csv", {"text": "text"})
    assert read["text"].tolist() == [text]
