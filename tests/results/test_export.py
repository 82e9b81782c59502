"""Tables as CSV, Markdown and LaTeX, whatever characters they hold."""

import io
import re

import pandas as pd
import pytest

from attnlab.core.columns import FORMATS
from attnlab.core.errors import InputError
from attnlab.questions.analyze.question import SUMMARY
from attnlab.results.export import declared_columns, formatted

NASTY = r"\a_b & 50% $x$ #1 {y} ~ ^ <i> | `c` *d* [e] \"f\" é ▁ g"
TABLE = pd.DataFrame(
    {"site": ["encoder", NASTY], "head": [0, 1], "value": [0.126, float("nan")],
     "mine_x": [-1.0004, 2.0]}
)  # fmt: skip


def test_csv_reads_back_as_it_was() -> None:
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(formatted(TABLE, "csv"))), TABLE)


def test_latex_escapes_every_special_character() -> None:
    text = formatted(TABLE, "latex", declared_columns(TABLE, "summary.csv", [SUMMARY]))
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[1:4] == [r"\toprule", r"site & head & value & mine x \\", r"\midrule"]
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
    named = {column.name: column for column in declared_columns(TABLE, "summary.csv", [SUMMARY])}
    assert named["value"].digits == 2
    assert (named["mine_x"].heading, named["mine_x"].digits) == ("mine x", 3)


def test_another_form_is_refused() -> None:
    with pytest.raises(InputError, match=f"no format 'xml'; choose from: {', '.join(FORMATS)}"):
        formatted(TABLE, "xml")


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        ("loss $L_{12}$ of 5 % & a_b", r"loss $L_{12}$ of 5 \% \& a\_b"),
        ("from $5 to $6", r"from \$5 to \$6"),
        ("$}$ and $\\alpha$", r"\$\}\$ and $\alpha$"),
        ("$5 % off$", r"\$5 \% off\$"),
    ],
)
def test_a_caption_keeps_its_mathematics_and_nothing_else(caption: str, wanted: str) -> None:
    assert f"\\caption{{{wanted}}}\n\\label{{tab:a_b}}\n" in formatted(
        TABLE, "latex", caption=caption, label="tab:a_b"
    )


@pytest.mark.parametrize(("label", "caption"), [("a}b", "c"), ("a%", "c"), ("tab:a", "")])
def test_a_label_is_one_and_has_a_caption(label: str, caption: str) -> None:
    with pytest.raises(InputError, match=r"cannot be a label|give a caption"):
        formatted(TABLE, "latex", caption=caption, label=label)


@pytest.mark.parametrize("rows", [40, 41])
def test_a_long_latex_table_goes_on_over_pages(rows: int) -> None:
    frame = pd.DataFrame({"bits_per_row": [0.5] * rows})
    text = formatted(frame, "latex", caption="c", label="tab:l")
    lines = text.splitlines()
    opened = [re.fullmatch(r"\\begin\{(\w+)\}.*", line) for line in lines]
    closed = [re.fullmatch(r"\\end\{(\w+)\}", line) for line in lines]
    names = [found[1] for found in opened if found], [found[1] for found in closed if found]
    assert names[0] == names[1][::-1] == (["longtable"] if rows > 40 else ["table", "tabular"])
    assert text.count(r"\toprule") == (2 if rows > 40 else 1)
    if rows > 40:
        assert lines[1] == r"\caption{c}\label{tab:l} \\"
        assert (
            lines.index(r"\endfirsthead") < lines.index(r"\endhead") < lines.index(r"\endlastfoot")
        )


def test_a_latex_cell_is_written_as_on_the_page() -> None:
    frame = pd.DataFrame({"gain": ["-0.5 [-1.0, +0.2]", "a-1"], "stands": [True, False]})
    lines = formatted(frame, "latex").splitlines()
    assert lines[4:6] == [r"$-$0.5 [$-$1.0, +0.2] & yes \\", r"a-1 & no \\"]
