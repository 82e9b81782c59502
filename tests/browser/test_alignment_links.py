"""A head of the map shows its links in the sentence pairs, and only these."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import until
from made_alignment import NAMES, alignment

pytestmark = pytest.mark.slow

SEEN = (
    "[...document.querySelectorAll('figure svg g[id*=\"-links-\"]')]"
    ".filter(group => getComputedStyle(group).display !== 'none' && [...group.querySelectorAll('path')]"
    ".some(path => Number(getComputedStyle(path).opacity) > 0.5)).map(group => group.id)"
)


def wanted(page: Any, head: str) -> list[str]:
    every = page.evaluate(
        "[...document.querySelectorAll('figure svg g[id*=\"-links-\"]')].map(group => group.id)"
    )
    return [name for name in every if f"-links-{head}-" in name]


def wait_for(page: Any, head: str) -> None:
    """A click changes the address at once, and the page hears of it a moment later."""
    until(
        page,
        f"JSON.stringify({SEEN}) === {json.dumps(json.dumps(wanted(page, head), separators=(',', ':')))}",
    )


def test_a_click_on_a_head_shows_its_links_alone(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(path=alignment().report(tmp_path))
    assert page.evaluate(SEEN) == wanted(page, "chosen")
    for head in ("1.2", NAMES[-1]):
        page.click(f'a[*|href="#head={head}"]')
        wait_for(page, head)
        assert len(wanted(page, head)) >= 2, "in both pairs"
        assert f"Links of head {head} alone." in page.inner_text("#links-said")
    page.click("#links-said a")
    wait_for(page, "chosen")


def test_an_address_shows_the_links_of_a_head_and_an_unknown_one_those_of_the_chosen(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    path = alignment().report(tmp_path)
    page = open_page("#head=0.3&theme=dark", path=path)
    assert page.evaluate(SEEN) == wanted(page, "0.3")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page = open_page("#head=9.9", path=path)
    assert page.evaluate(SEEN) == wanted(page, "chosen")


def test_without_javascript_the_chosen_heads_are_seen(
    open_page: Callable[..., Any], browser: Any, tmp_path: Path
) -> None:
    del open_page
    path = alignment().report(tmp_path)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    page.click("#pairs summary:has(h2)")
    chosen = page.locator('g[id^="pair_1-links-chosen-"] path')
    assert chosen.count() > 0
    assert all(chosen.nth(n).is_visible() for n in range(chosen.count()))
    context.close()


def test_a_pair_that_has_no_room_for_all_heads_is_hidden_while_one_is_shown(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    found = alignment()
    second = found.details["pairs"][1]
    second["links"] = {"chosen": second["links"]["chosen"]}
    page = open_page("#head=0.1", path=found.report(tmp_path))
    assert page.is_visible("#pair_1")
    assert not page.is_visible("#pair_2")
    page.click("#links-said a")
    page.wait_for_selector("#pair_2", state="visible")
