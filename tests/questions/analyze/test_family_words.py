"""Every family of matrices has its words and its colour wherever heads are drawn."""

from typing import Any

import pandas as pd
import pytest

from attnlab.core.columns import Column
from attnlab.figures.drawing import FUNCTIONS, STRUCTURES
from attnlab.labels.label_columns import NO_STRUCTURE_MEANS
from attnlab.matrices.families import CODED
from attnlab.questions.analyze.figures import draw_heads
from attnlab.questions.analyze.fits import BITS
from attnlab.questions.analyze.head_table import first_table
from attnlab.questions.analyze.overview import SHAPE_STYLES, _shape_cell
from attnlab.results.export import cell, family_words
from attnlab.results.page.head_maps import head_map
from attnlab.results.page.rendering import Cell, kind_styles


def head(family: str, runner_up: str = "diffuse", *, tie: bool = False) -> dict[str, Any]:
    return {
        "site": "encoder", "layer": 0, "head": 1, "structure": family, "structure_runner_up": runner_up,
        "structure_margin_bits_per_row": 0.5, "structure_tie": tie,
    }  # fmt: skip


@pytest.mark.parametrize("family", CODED)
def test_cells_and_legend_of_a_family_have_its_colour(family: str) -> None:
    cell = _shape_cell(head(family))
    ((kind, words, *_),) = head_map("", [(cell, family)], {}).kinds
    assert (kind, words) == (cell.kind, family_words(family))
    assert f".k-{cell.kind} {{" in kind_styles()
    assert f"--kind: {STRUCTURES[family].colour}" in kind_styles()


@pytest.mark.parametrize("value", ["role", "structure"])
def test_a_name_has_one_letter_in_figures_and_on_the_page(value: str) -> None:
    """Of labels that other distributions add too, which begin like others."""
    added = ["sequence", "kernel", "s"] if value == "role" else []
    known = FUNCTIONS if value == "role" else [name for name in STRUCTURES if name != "kept_band"]
    names = [*known, *added]
    heads = pd.DataFrame({"site": "encoder", "layer": 0, "head": range(len(names)), value: names})
    (legend,) = draw_heads(heads, value).legends
    drawn = {text.get_text() for text in legend.get_texts()}
    cells = [
        (Cell(f"encoder.0.{number}", f"kind{number}", "filled", name, "", name), name)
        for number, name in enumerate(names)
    ]
    kinds = head_map("", cells, {}).kinds
    assert {f"{letter} {words}".strip() for _, words, letter, *_ in kinds} == drawn
    letters = [letter for _, _, letter, *_ in kinds if letter]
    assert len({*letters}) == len(letters) == len(names) - 1
    assert {"K sink", "S syntactic", "Se sequence", "Ke kernel"} <= drawn or value != "role"


@pytest.mark.parametrize("tie", [True, False])
def test_a_head_that_no_family_describes_has_the_structure_none(tie: bool) -> None:
    """Rows with peaks at random keys have it too, so nothing is said of how even they are."""
    rows = head("diffuse", "column", tie=tie), head("column")
    cells = [(_shape_cell(row), row["structure"]) for row in rows]
    shown = head_map("", cells, SHAPE_STYLES)
    assert [name for _, name, *_ in shown.kinds] == ["none", "column"]
    assert dict(shown.styles)["empty"] == f"none: {NO_STRUCTURE_MEANS}"
    assert cells[1][0].meaning == "encoder.0.1: column; equal weights need 0.50 bits per row more"
    for one, _ in cells:
        assert "diffuse" not in str(one)
        assert "even" not in str(one)


@pytest.mark.parametrize("structure", CODED)
def test_tables_and_legends_say_none_of_it(structure: str) -> None:
    summary = pd.DataFrame(
        {"site": "encoder", "layer": 0, "head": [0], "structure": structure, "structure_tie": False}
    )
    table, _ = first_table(summary)
    assert table["shape"].tolist() == [family_words(structure)]
    for name in ("structure", "structure_runner_up", "family"):
        assert cell(structure, Column(name, name, "")) == family_words(structure)
    figure = draw_heads(summary, "structure")
    (legend,) = figure.legends
    assert legend.get_texts()[0].get_text().endswith(family_words(structure))


def test_families_have_names_of_their_own() -> None:
    assert family_words("column_band") == "column + band"
    assert [column.name for column in BITS] == [f"bits_{family}" for family in CODED]
