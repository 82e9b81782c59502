"""Tables of many columns whose rows differ fit a window of 1280 pixels."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser.planted_page import planted_analysis, remade

pytestmark = pytest.mark.slow
FIGURES = ("value", "low", "high", "threshold", "stability", "untrained_value", "shuffled_value")


def test_no_column_of_the_evidence_is_cut(open_page: Callable[..., Any], tmp_path: Path) -> None:
    found = planted_analysis()
    controls = found.controls.copy()
    count = len(controls)
    for place, name in enumerate((*FIGURES, "denominator")):
        controls[name] = [(row + place + 1) / (2 * count) for row in range(count)]
    controls["denominator"] = range(10_000, 10_000 + count)
    controls["statistic"] = ["argmax_rate", "mean_mass_on_first"] * (count // 2)
    controls["detail"] = ["nominal modifier: head to dependent", "offset -1"] * (count // 2)
    for name in ("significance", "untrained_status", "shuffled_status"):
        controls[name] = ["confirmed", "borderline", "rejected"] * (count // 3)
    page = remade(found, controls=controls).report(tmp_path)
    widths = open_page(path=page).evaluate(
        "[...document.querySelectorAll('.wide[aria-label^=\"Labels: \"]')]"
        ".map(box => [box.querySelectorAll('thead th').length, box.scrollWidth - box.clientWidth])"
    )
    assert len(widths) == 2
    for columns, beyond in widths:
        assert columns >= 13, "wide enough to say something"
        assert beyond <= 0


def test_the_statistics_of_heads_fit_the_window(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    found = planted_analysis()
    heads = found.heads.assign(empty_rows=1, rows_without_content_mass=1)
    # Fewer rows than all have such a key, so that every count is told.
    for name in heads:
        if name.startswith(("rows_seeing", "mass_on", "content_mass")):
            heads[name] = heads["rows"] - 1 if name.startswith("rows") else 0.25
    page = replace(found, tables={**found.tables, "heads": heads}).report(tmp_path)
    shown = open_page(path=page)
    widths = shown.evaluate(
        "[...document.querySelectorAll('#heads .wide:has(table)')]"
        ".map(box => [box.querySelectorAll('thead th').length, box.scrollWidth - box.clientWidth])"
    )
    assert [columns for columns, _ in widths] == [9, 7, 8]
    assert all(beyond <= 0 for _, beyond in widths)
