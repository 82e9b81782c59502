"""Heads laid over each other, lines between the sentences of a pair, and products by dimension."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import until
from reading.test_sentence_pairs import PAIRS, pair_reader
from results.test_showing import matrices_on, vectors_on

import attnlab

Opened = Callable[..., Any]
LINES = "[...document.querySelectorAll('#lines path')]"


@pytest.fixture(scope="module")
def pair_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pair") / "page.html"
    attnlab.show(pair_reader("bert"), PAIRS[0]).write(path)
    return path


def opened_head(open_page: Opened, path: Path, address: str = "") -> Any:
    page = open_page(f"#head=encoder.1.1&sentence=0&lines=0{address}", path=path)
    until(page, f"{LINES}.length > 0")
    return page


def test_heads_of_a_layer_are_laid_over_each_other_in_colours_of_their_own(
    open_page: Opened, pair_page: Path
) -> None:
    page = opened_head(open_page, pair_page)
    colours = f"new Set({LINES}.map(line => line.style.stroke)).size"
    assert page.evaluate(colours) == 1
    page.click("#overlay button:text-is('0')")
    assert page.evaluate(colours) == 2
    assert "with=0" in page.evaluate("location.hash")
    page.click("#overlay button:text-is('all')")
    assert page.evaluate(colours) == 3
    assert page.locator("#overlay .overlaid[aria-pressed=true]").count() == 3
    page.click("#next-head")
    page.locator("#head-name", has_text="encoder.1.2").wait_for()
    assert page.evaluate(colours) == 3, "the chosen heads stay while another is looked at"
    page.click("#overlay button:text-is('one')")
    assert page.evaluate(colours) == 1


@pytest.mark.parametrize(("sides", "rows", "columns"), [("ab", "a", "b"), ("bb", "b", "b")])
def test_lines_lead_from_the_chosen_sentence_to_the_chosen_one(
    open_page: Opened, pair_page: Path, sides: str, rows: str, columns: str
) -> None:
    page = opened_head(open_page, pair_page)
    page.locator("#sides").select_option(sides)
    ends = page.evaluate(
        f"{LINES}.flatMap(line => [...line.getAttribute('d').matchAll(/M0 ([0-9.]+)L[0-9]+ ([0-9.]+)/g)]"
        ".map(found => [Math.floor(found[1] / 22), Math.floor(found[2] / 22)]))"
    )
    tokens = page.locator(".queries .token").count()
    second = page.locator(".queries .token").all_inner_texts().index("</s>") + 1
    sentence = {"a": range(second), "b": range(second, tokens)}
    weights = matrices_on(pair_page.read_text("utf-8"))["encoder.1"][1]
    expected = [(i, j) for i in sentence[rows] for j in sentence[columns] if weights[i, j] > 0]
    assert sorted(map(tuple, ends)) == expected


def test_a_clicked_entry_shows_the_products_of_its_query_and_key(
    open_page: Opened, pair_page: Path
) -> None:
    page = opened_head(open_page, pair_page)
    assert "Click an entry of the matrix" in page.locator("#neurons").inner_text()
    page = opened_head(open_page, pair_page, "&row=2&column=7")
    page.locator("#score").wait_for()
    text = pair_page.read_text("utf-8")
    query, key = (vectors_on(text, side)["encoder.1"][1] for side in ("queries", "keys"))
    product = float(query[2] @ key[7])
    score = f"= {product:.2f}; divided by √5, the score is {product / 5**0.5:.2f}"
    assert score in page.locator("#score").inner_text()
    assert page.locator("#neurons rect").count() == 3 * 5


def test_a_single_sentence_has_no_choice_of_sentences(open_page: Opened, report: Path) -> None:
    page = open_page("#head=encoder.0.1&sentence=0", path=report)
    page.locator("#overlay button").first.wait_for()
    assert not page.locator("#sides").is_visible()
