"""The page on paper: everything is drawn and unfolded, nothing is cut, controls are left out."""

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import until

pytestmark = pytest.mark.slow
Opened = Callable[..., Any]
# The width of A4 within margins of 12 mm, in pixels.
SHEET = {"width": 703, "height": 1030}
TOO_WIDE = (
    "[...document.querySelectorAll('.wide')].filter(box => box.offsetWidth)"
    ".filter(box => box.scrollWidth > box.clientWidth)"
    ".map(box => [box.getAttribute('aria-label'), box.scrollWidth])"
)
CONTROLS = (".tools", "#theme", "nav", ".picker input", ".saves", "#back", "input", ".choices")


def printed(page: Any) -> Any:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    return page


def test_no_table_is_cut_on_paper(open_page: Opened) -> None:
    page = printed(open_page(viewport=SHEET))
    assert page.locator("table.results").count() > 3
    assert page.evaluate(TOO_WIDE) == []


def test_controls_are_left_out_on_paper_and_notes_are_unfolded(open_page: Opened) -> None:
    for address in ("", "#head=encoder.0.1"):
        page = open_page(address)
        folded = page.locator("details:not([open])").count()
        assert folded
        printed(page)
        for selector in CONTROLS:
            assert page.locator(selector).count()
            assert page.locator(f"{selector}:visible").count() == 0, selector
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details:not([open])").count() == folded


def test_what_was_not_scrolled_to_is_drawn_on_paper(open_page: Opened) -> None:
    page = open_page(viewport={"width": 1280, "height": 300})
    until(page, "document.querySelectorAll('.thumbs:not([data-drawn])').length === 0")
    printed(page)
    inked = (
        "[...document.querySelectorAll('.thumb canvas')].map(one => { "
        "const blank = document.createElement('canvas'); "
        "[blank.width, blank.height] = [one.width, one.height]; "
        "return one.toDataURL() !== blank.toDataURL(); })"
    )
    until(page, f"{inked}.length > 0 && {inked}.every(Boolean)")
    hidden = "getComputedStyle(document.querySelector('section.whole')).contentVisibility"
    assert page.evaluate(hidden) == "visible"


def test_headings_of_a_table_come_again_on_every_sheet(open_page: Opened) -> None:
    """Chromium repeats no headings that hold a button's box."""
    page = printed(open_page())
    boxes = (
        "[...document.querySelectorAll('thead .sort')].map(one => getComputedStyle(one).display)"
    )
    assert set(page.evaluate(boxes)) == {"contents"}


def test_numbers_on_light_cells_stay_dark_in_the_dark(open_page: Opened) -> None:
    """matplotlib writes no colour where it is black; the ink of the page is nearly white there."""
    page = open_page(color_scheme="dark")
    fills = page.evaluate(
        "[...document.querySelectorAll('#heads figure svg text')]"
        ".filter(text => /^\\.\\d\\d$/.test(text.textContent.trim()))"
        ".map(text => getComputedStyle(text).fill)"
    )
    assert fills
    assert set(fills) <= {"rgb(0, 0, 0)", "rgb(255, 255, 255)"}
