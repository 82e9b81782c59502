"""Tables as CSV, Markdown and LaTeX, whatever characters they hold."""

import io
import re

import pandas as pd
import pytest

from attnlab.columns import FORMATS
from attnlab.errors import InputError
from attnlab.reporting.export import declared_columns, formatted

NASTY = r"\a_b & 50% $x$ #1 {y} ~ ^ <i> | `c` *d* [e] \"f\" é ▁ g"
TABLE = pd.DataFrame(
    {"site": ["encoder", NASTY], "head": [0, 1], "nearest_relative": [0.126, float("nan")],
     "mine_x": [-1.0004, 2.0]}
)  # fmt: skip


def test_csv_reads_back_as_it_was() -> None:
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(formatted(TABLE, "csv"))), TABLE)


def test_latex_escapes_every_special_character() -> None:
    text = formatted(TABLE, "latex", declared_columns(TABLE, "summary.csv"))
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[1:4] == [r"\toprule", r"site & head & its distance & mine x \\", r"\midrule"]
    assert lines[4] == r"encoder & 0 & 0.13 & $-1.000$ \\"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    cells = re.split(r"(?<!\\) & ", lines[5].removesuffix(r" \\"))
    assert len(cells) == 4
    bare = re.sub(r"\\text\w+\{\}|\\[&%$#_{}]", "", cells[0])
    assert not set(bare) & set('\\&%$#_{}~^<>|"')
    assert cells[1:] == ["1", "", "2.000"]


def test_a_bracket_at_the_beginning_of_a_latex_row_is_text() -> None:
    text = formatted(pd.DataFrame({"token": ["[CLS]", "*", "a"]}), "latex")
    assert text.splitlines()[4:7] == [r"{}[CLS] \\", r"{}* \\", r"a \\"]


def test_a_latex_table_with_a_caption_floats() -> None:
    text = formatted(TABLE, "latex", caption="50 % of a_b")
    assert text.startswith("\\begin{table}\n\\centering\n\\caption{50 \\% of a\\_b}\n")
    assert text.endswith("\\end{tabular}\n\\end{table}\n")


def test_markdown_keeps_its_cells_apart() -> None:
    rows = formatted(TABLE, "markdown").splitlines()
    assert rows[1] == "| --- | ---: | ---: | ---: |"
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert r"\<i\>" in rows[3]
    assert r"\`c\` \*d\*" in rows[3]


def test_a_column_is_declared_once() -> None:
    named = {column.name: column for column in declared_columns(TABLE, "summary.csv")}
    assert named["nearest_relative"].digits == 2
    assert (named["mine_x"].heading, named["mine_x"].digits) == ("mine x", 3)


def test_another_form_is_refused() -> None:
    with pytest.raises(InputError, match=f"no format 'xml'; choose from: {', '.join(FORMATS)}"):
        formatted(TABLE, "xml")
