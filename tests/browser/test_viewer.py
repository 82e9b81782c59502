"""The report page in a browser: what a reader clicks, types and sees."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from browser.conftest import until
from browser.large_page import write_large_page
from browser.planted_page import IMAGE_ALERT, SCRIPT_ALERT, WORDS, planted_analysis, remade
from grids import slow

from attnlab.labels.word_tokens import Alignment, gather_units, merge_tokens
from attnlab.questions.analyze.viewer import viewer_data
from attnlab.reading.keeping import KeptMatrices
from attnlab.results.page.rendering import render_page

Opened = Callable[..., Any]
HEAD = "#head=encoder.0.1&sentence=0"


def text_of(page: Any, selector: str) -> str:
    return page.locator(selector).inner_text()


def hash_of(page: Any) -> str:
    """What the page itself says now; the driver learns of it later."""
    return page.evaluate("location.hash")


def wait_for_matrix(page: Any) -> None:
    until(page, "document.querySelectorAll('#lines .token').length > 0")


def point(page: Any, row: int, column: int, *, click: bool = False) -> None:
    """Points at an entry of the matrix: cells begin 110 pixels from the left and the top."""
    box = page.locator("#matrix").bounding_box()
    cell = (box["width"] - 118) / len(WORDS)
    at = box["x"] + 110 + (column + 0.5) * cell, box["y"] + 110 + (row + 0.5) * cell
    page.mouse.move(*at)
    if click:
        page.mouse.click(*at)


def saved(page: Any, selector: str) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        page.click(selector)
    found = waiting.value
    return found.suggested_filename, Path(found.path()).read_bytes()


def test_the_grid_shows_every_head_and_leads_to_it(open_page: Opened) -> None:
    page = open_page()
    page.locator("#grid .thumbs").first.scroll_into_view_if_needed()
    assert page.locator("#grid a.thumb").count() == 6
    until(
        page,
        """[...document.querySelectorAll('#grid canvas')].every(canvas =>
            canvas.getContext('2d').getImageData(0, 0, 84, 84).data.some(value => value))""",
    )
    page.click("#grid a[data-head='encoder.0.1']")
    wait_for_matrix(page)
    assert text_of(page, "#head-name") == "encoder.0.1"
    assert "head=encoder.0.1" in hash_of(page)
    assert not page.locator("#overview").is_visible()


def test_a_cell_of_the_map_leads_to_its_head_and_back_leads_to_the_map(open_page: Opened) -> None:
    page = open_page()
    page.locator(".map a[href='#head=encoder.1.2']").first.click()
    wait_for_matrix(page)
    assert text_of(page, "#head-name") == "encoder.1.2"
    page.go_back()
    until(page, "!document.body.classList.contains('one-head')")
    assert page.locator("#overview").is_visible()


def test_pointing_at_an_entry_says_who_looks_at_whom(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    point(page, 5, 4)
    assert text_of(page, "#readout").startswith("query “sees”, key “cat”: 82.")
    assert text_of(page, ".queries .token.lit") == "sees"
    assert text_of(page, ".tokens:not(.queries) .token.lit") == "cat"
    page.mouse.move(2, 2)
    assert page.locator(".token.lit").count() == 0


@pytest.mark.slow
def test_a_locked_token_stays_lit_and_stands_in_the_address(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    page.locator(".queries .token").nth(5).click()
    page.mouse.move(2, 2)
    assert "row=5" in hash_of(page)
    assert text_of(page, "#readout").startswith("query “sees”, largest keys “cat”")
    again = open_page(hash_of(page))
    wait_for_matrix(again)
    assert text_of(again, ".token[aria-pressed=true]") == "sees"
    again.keyboard.press("Escape")
    assert "row=" not in hash_of(again)
    assert again.locator(".token[aria-pressed=true]").count() == 0


@pytest.mark.slow
def test_a_click_on_an_entry_locks_its_row_and_column(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    point(page, 5, 4, click=True)
    assert "row=5&column=4" in hash_of(page)
    point(page, 5, 4, click=True)
    assert "row=" not in hash_of(page)


@pytest.mark.slow
def test_another_sentence_is_found_by_its_words(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    page.keyboard.press("/")
    page.keyboard.type("old dog")
    assert text_of(page, "#sentences-found") == "1 of 2 sentences"
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.queries .token').length === 7")
    assert "sentence=1" in hash_of(page)
    assert text_of(page, "#head-name") == "encoder.0.1"


@pytest.mark.slow
def test_fewer_lines_at_a_higher_threshold(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    # The first token has no token before it: its row is even.
    count = "document.querySelector('#lines svg').innerHTML.split('M0 ').length - 1"
    assert page.evaluate(count) == len(WORDS) - 1
    page.locator("#threshold").fill("0.9")
    assert page.evaluate(count) == 0
    assert "lines=0.9" in hash_of(page)


@pytest.mark.slow
def test_budget_and_outline(open_page: Opened) -> None:
    page = open_page("#head=encoder.0.2&sentence=0")
    wait_for_matrix(page)
    page.select_option("#outline", "columns")
    page.locator("#keys-per-row").fill("2")
    shares = re.findall(r"([\d.]+) % (\w+)", text_of(page, ".captured"))
    figures = {name: float(share) for share, name in shares}
    # Two columns of 0.4, and two tenths of the rest.
    assert figures["largest"] == pytest.approx(84, abs=1)
    assert figures["outlined"] == pytest.approx(84, abs=1)
    assert figures["best"] < 60
    assert "outline=columns" in hash_of(page)
    assert page.locator("#parts canvas").count() == 3
    page.select_option("#outline", "none")
    assert not page.locator("#parts").is_visible()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outline", "keys"), [("largest", 24), ("band", 24), ("columns", 2), ("rare_columns", 2)]
)
def test_no_outline_holds_a_later_key_of_a_decoder(
    open_page: Opened, causal_report: Path, outline: str, keys: int
) -> None:
    page = open_page(f"#head=decoder.0.2&sentence=0&outline={outline}&keys={keys}", causal_report)
    wait_for_matrix(page)
    count = float(re.findall(r"outlined, ([\d.]+) keys", text_of(page, ".captured"))[0])
    # Rows of 10 tokens see 5.5 keys on average; 10 of them see column 0 and 6 column 4.
    if outline == "columns":
        assert count == 1.6
    elif outline == "rare_columns":
        assert count <= 5.5
    else:
        assert count == 5.5


@pytest.mark.slow
@pytest.mark.parametrize("outline", ["largest", "columns"])
def test_no_outline_holds_a_key_that_is_left_out(open_page: Opened, outline: str) -> None:
    page = open_page(f"#head=encoder.0.0&sentence=0&sink=off&outline={outline}&keys=24")
    wait_for_matrix(page)
    assert "outlined, 8.0 keys per row" in text_of(page, ".captured")


@pytest.mark.slow
def test_a_row_of_which_nothing_is_left_says_so(open_page: Opened, causal_report: Path) -> None:
    page = open_page("#head=decoder.0.0&sentence=0&sink=off&row=0", causal_report)
    wait_for_matrix(page)
    assert text_of(page, "#readout") == "“<s>”: nothing is left of this row"


@pytest.mark.slow
def test_block_maxima_have_no_outline_and_no_mean(open_page: Opened, causal_report: Path) -> None:
    page = open_page("#head=decoder.0.2&sentence=1&outline=columns&column=2", causal_report)
    wait_for_matrix(page)
    assert "2 by 2 tokens" in text_of(page, "#said")
    assert "mean weight" not in text_of(page, "#readout")
    assert not page.locator("#parts").is_visible()
    assert page.locator("#outline").is_disabled()
    page = open_page("#head=decoder.0.2&sentence=1&outline=columns&column=2&full=on", causal_report)
    wait_for_matrix(page)
    assert "mean weight" in text_of(page, "#readout")
    assert page.locator("#parts").is_visible()
    assert page.locator("#outline").is_enabled()


@pytest.mark.slow
def test_the_fitted_diagonal_is_outlined(open_page: Opened) -> None:
    page = open_page(f"{HEAD}&outline=diagonal")
    wait_for_matrix(page)
    assert "relative distance" in text_of(page, "#parts")
    assert page.locator("#outline").input_value() == "diagonal"


@pytest.mark.slow
def test_rows_without_the_sink_are_said_to_be_divided(open_page: Opened) -> None:
    page = open_page("#head=encoder.0.0&sentence=0")
    wait_for_matrix(page)
    page.check("#sink")
    assert text_of(page, "#said").startswith("Left out as keys: <s>, </s>; each row is divided")
    point(page, 5, 4)
    # Eight keys are left, all alike.
    assert "12.5 %" in text_of(page, "#readout")
    assert "sink=off" in hash_of(page)


@pytest.mark.slow
def test_arrows_move_between_heads_and_escape_leads_back(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    for key, name in (
        ("ArrowRight", "encoder.0.2"),
        ("ArrowDown", "encoder.1.2"),
        ("ArrowLeft", "encoder.1.1"),
        ("ArrowUp", "encoder.0.1"),
    ):
        page.keyboard.press(key)
        assert text_of(page, "#head-name") == name
    page.keyboard.press("Escape")
    assert page.locator("#overview").is_visible()


@pytest.mark.slow
def test_evidence_stands_beside_the_matrix(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    text = text_of(page, "#evidence")
    for words in (
        "positional",
        "offset -1",
        "95%",
        "Bits per row",
        "Mean weight by offset",
        "Nearest other heads",
        "Sentences that show it best",
        "nats per token",
    ):
        assert words in text, words
    page.locator("#evidence a[href*='head=']").first.click()
    until(page, "document.querySelector('#head-name').textContent !== 'encoder.0.1'")


def test_tables_are_sorted_filtered_and_saved(open_page: Opened) -> None:
    page = open_page()
    table = page.locator("#heads table.results").first
    table.locator("thead button").first.click()
    names = [table.locator("tbody th").first.inner_text()]
    table.locator("thead button").first.click()
    names.append(table.locator("tbody th").first.inner_text())
    assert sorted(names) == ["encoder.0.0", "encoder.1.2"]
    page.locator("#heads .tools input").first.fill("encoder.1")
    assert table.locator("tbody tr:visible").count() == 3
    assert page.locator("#heads .tools .note").first.inner_text() == "3 of 6 rows"
    name, content = saved(page, "#heads .tools button")
    assert name.endswith(".csv")
    assert content.decode().startswith("head,")
    assert content.decode().count("\n") == 1 + 3


def test_the_view_is_saved_as_svg_png_and_csv(open_page: Opened) -> None:
    page = open_page(HEAD)
    wait_for_matrix(page)
    name, svg = saved(page, "#save-svg")
    assert name == "encoder.0.1-sentence0.svg"
    assert b"sees" in svg
    assert b"<script" not in svg
    assert saved(page, "#save-png")[1].startswith(b"\x89PNG")
    lines = saved(page, "#save-csv")[1].decode().splitlines()
    assert len(lines) == 1 + len(WORDS)
    assert float(lines[6].split(",")[-6]) == pytest.approx(0.82, abs=0.01)


@pytest.mark.slow
def test_a_dark_page_saves_a_light_svg(open_page: Opened) -> None:
    files = []
    for scheme in ("light", "dark"):
        page = open_page(HEAD, color_scheme=scheme)
        wait_for_matrix(page)
        files.append(saved(page, "#save-svg")[1])
    assert files[0] == files[1]


@pytest.mark.parametrize("address", ["", HEAD])
def test_hostile_words_are_text(open_page: Opened, address: str) -> None:
    page = open_page(address)
    page.wait_for_timeout(50)
    shown = page.evaluate("document.documentElement.textContent")
    assert SCRIPT_ALERT in shown
    assert IMAGE_ALERT in shown
    assert page.locator("img").count() == 0
    assert page.title().endswith(f"Heads of {SCRIPT_ALERT}")


def test_the_colours_are_chosen_by_a_button_and_stand_in_the_address(open_page: Opened) -> None:
    page = open_page(HEAD, color_scheme="light")
    wait_for_matrix(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for label, address in (("light", "theme=light"), ("dark", "theme=dark")):
        page.click("#theme")
        assert text_of(page, "#theme") == f"Colours: {label}"
        assert address in hash_of(page)
    dark = page.evaluate(ground)
    assert dark != light
    page.click("#next-head")
    page.locator("#head-name").filter(has_text="encoder.0.2").wait_for()
    assert "theme=dark" in hash_of(page)
    assert page.evaluate(ground) == dark
    again = open_page(hash_of(page), color_scheme="light")
    wait_for_matrix(again)
    assert again.evaluate(ground) == dark
    again.click("#theme")
    assert "theme" not in hash_of(again)
    assert again.evaluate(ground) == light


@pytest.mark.slow
def test_subwords_are_merged_as_the_labels_merge_them(open_page: Opened, tmp_path: Path) -> None:
    words = ["<s>", "▁the", "▁cat", "s", "▁un", "seen", "ly", ".", "</s>"]
    kinds = "owwwwwwpc"
    generator = torch.Generator().manual_seed(7)
    weights = torch.rand(3, 9, 9, generator=generator).softmax(-1)
    kept = KeptMatrices(
        {(0, "encoder", layer): weights for layer in range(2)},
        {(0, "encoder"): (words, words)}, frozenset(), {(0, "encoder"): (kinds, kinds)},
    )  # fmt: skip
    analysis = remade(replace(planted_analysis(), matrices=kept))
    path = tmp_path / "words.html"
    path.write_text(render_page("t", {}, [], [], viewer=viewer_data(analysis, "t")), "utf-8")
    page = open_page(f"{HEAD}&outline=largest&row=8", path)
    wait_for_matrix(page)
    page.check("#words")
    assert "level=words" in hash_of(page)
    assert "row=" not in hash_of(page)
    assert text_of(page, "#said").startswith("Words: the rows of a word's tokens are averaged")
    header, *lines = (row.split(",") for row in saved(page, "#save-csv")[1].decode().splitlines())
    assert header[1:] == ["<s>", "the", "cats", "unseenly", ".", "</s>"]
    shown = torch.tensor([[float(value) for value in row[1:]] for row in lines])
    alignment = Alignment((None, 0, 1, 1, 2, 2, 2, 3, None), (0, 1, 2, 3))
    units = gather_units([alignment], torch.ones(1, 9, dtype=torch.bool))
    merged = merge_tokens(weights[None, 1:2], units, units, special=True)[0, 0]
    # Behind the words stand the units of special tokens, the opening one first.
    order = [4, 0, 1, 2, 3, 5]
    torch.testing.assert_close(shown, merged[order][:, order], atol=2e-3, rtol=0.05)
    again = open_page(hash_of(page), path)
    wait_for_matrix(again)
    assert again.locator(".queries .token").count() == 6
    again.uncheck("#words")
    assert again.locator(".queries .token").count() == 9


def test_dark_pages_have_dark_matrices(open_page: Opened) -> None:
    corners = {}
    for scheme in ("light", "dark"):
        page = open_page(HEAD, color_scheme=scheme)
        wait_for_matrix(page)
        corners[scheme] = page.evaluate(
            """[...document.querySelector('#matrix').getContext('2d')
                .getImageData(112, 130, 1, 1).data].slice(0, 3)"""
        )
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        corners[scheme] += [int(value) for value in re.findall(r"\d+", ground)]
    assert min(corners["light"]) > 150
    assert max(corners["dark"]) < 140


def test_without_javascript_everything_can_be_read(open_page: Opened) -> None:
    page = open_page(java_script_enabled=False)
    for selector in ("#overview", "#heads table", "figure svg", "#heads_sentence0_encoder_layer0"):
        assert page.locator(selector).first.is_visible(), selector
    assert not page.locator("#viewer").is_visible()
    page.locator(".map a[href='#head=encoder.1.2']").first.click()
    assert hash_of(page).endswith("#head=encoder.1.2")


@pytest.mark.parametrize(
    "address",
    [
        "#head=encoder.9.9",
        "#head=encoder.0.1&row=99&outline=x&keys=0&lines=7",
        *slow("", HEAD, "#sentence=1", "#heads"),
    ],
)
def test_any_address_shows_a_page(open_page: Opened, address: str) -> None:
    page = open_page(address)
    assert page.locator("#viewer").is_visible()


@pytest.mark.slow
def test_twelve_heads_stand_on_one_line_and_all_are_drawn_before_they_are_scrolled_to(
    open_page: Opened, tmp_path: Path
) -> None:
    page = open_page(path=write_large_page(tmp_path / "large.html", 12))
    tops = page.evaluate("""[...document.querySelectorAll('#grid .thumbs')].map(row =>
        new Set([...row.querySelectorAll('a.thumb')].map(one => one.offsetTop)).size)""")
    assert tops == [1] * 12
    until(page, "document.querySelectorAll('#grid .thumbs:not([data-drawn])').length === 0")
    page.wait_for_timeout(200)
    pictures = page.evaluate(
        "[...document.querySelectorAll('#grid canvas')].map(one => one.toDataURL().length)"
    )
    blank = page.evaluate("""() => {
        const one = document.querySelector('#grid canvas').cloneNode();
        return one.toDataURL().length;
    }""")
    assert len(pictures) == 144
    assert min(pictures) > 1.5 * blank
    assert page.evaluate("scrollY") == 0


def test_narrow_cells_of_the_map_hold_letters_that_the_legend_names(open_page: Opened) -> None:
    page = open_page(viewport={"width": 400, "height": 800})
    cells = page.evaluate("""[...document.querySelectorAll('.map:first-child .cell[data-letters]')].map(one =>
        [one.dataset.letters, getComputedStyle(one.querySelector('b')).display])""")
    assert {letters for letters, _ in cells} == {"K", "P", "S"}
    assert {display for _, display in cells} == {"none"}
    assert page.locator(".legend .letters").first.is_visible()
    legend = text_of(page, ".legend >> nth=0")
    assert "K: 2 sink" in legend
    assert "P: 2 positional" in legend


def test_long_names_in_a_title_are_whole_in_a_narrow_window(open_page: Opened) -> None:
    page = open_page(viewport={"width": 400, "height": 800})
    lines = page.evaluate("""() => {
        const title = document.querySelector('header.whole h1').appendChild(new Text(' BertForMaskedLM'));
        const range = document.createRange();
        range.setStart(title, 1);
        range.setEnd(title, title.length);
        return range.getClientRects().length;
    }""")
    assert lines == 1


@pytest.mark.parametrize("width", [400, *slow(1280, 600, 500)])
def test_the_button_of_colours_covers_nothing_of_a_head(open_page: Opened, width: int) -> None:
    page = open_page("#head=encoder.0.0", viewport={"width": width, "height": 800})
    button = page.locator("#theme").bounding_box()
    for name in ("#back", "#head-name", "#next-head"):
        box = page.locator(name).bounding_box()
        beside = box["x"] + box["width"] <= button["x"]
        assert beside or box["y"] >= button["y"] + button["height"], name


@pytest.mark.parametrize(
    ("address", "width"), [(HEAD, 400), *slow(("", 400), (HEAD, 1280), ("", 1280))]
)
def test_nothing_is_wider_than_the_window(open_page: Opened, width: int, address: str) -> None:
    page = open_page(address, viewport={"width": width, "height": 800})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "scheme"), [("", "dark"), (HEAD, "light"), *slow(("", "light"), (HEAD, "dark"))]
)
def test_no_barrier_that_axe_knows(open_page: Opened, address: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(address, color_scheme=scheme)
    page.wait_for_timeout(100)
    # The page's own policy allows no script but its own; the driver's are outside it.
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []
