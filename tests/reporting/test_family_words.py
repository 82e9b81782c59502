"""Every family of matrices has its words and its colour wherever heads are drawn."""

from types import SimpleNamespace

import pytest

from attnlab.matrices.candidates import FAMILIES
from attnlab.reporting.drawing.palette import STRUCTURES
from attnlab.reporting.function_phrases import structure_phrase
from attnlab.reporting.page.overview import _map, _structure_cell
from attnlab.reporting.page.rendering import kind_styles
from attnlab.studies.analysis.columns import BITS


def head(family: str, runner_up: str = "diffuse", *, tie: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        site="encoder", layer=0, head=1, structure=family, structure_runner_up=runner_up,
        structure_margin_bits_per_row=0.5, structure_tie=tie,
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_cells_and_legend_of_a_family_have_its_colour(family: str) -> None:
    cell, words = _structure_cell(head(family))
    assert words == structure_phrase(head(family))
    legend = _map("", [(cell, words)], {}).kinds
    assert [name for name, *_ in legend] == [cell.kind]
    assert f".k-{cell.kind} {{" in kind_styles()
    assert f"--kind: {STRUCTURES[family].colour}" in kind_styles()


def test_families_have_names_of_their_own() -> None:
    assert structure_phrase(head("column_band")) == "column + band"
    assert structure_phrase(head("column", "column_band", tie=True)) == "tie: column, column + band"
    assert [column.name for column in BITS] == [f"bits_{family}" for family in FAMILIES]
    letters = [mark.letter for name, mark in STRUCTURES.items() if name != "kept_band"]
    assert len(set(letters)) == len(letters)
