"""The viewer in the frame of a notebook, which has no address of its own."""

from collections.abc import Iterator
from typing import Any

import pytest
from browser.planted_page import planted_analysis

import attnlab
from attnlab.core.errors import InputError
from attnlab.results.result import Result


@pytest.fixture(scope="module")
def analysis() -> Result:
    return planted_analysis()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, troubles = context.new_page(), []
    page.set_default_timeout(15_000)
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    yield page
    context.close()
    assert troubles == []


@pytest.mark.slow
def test_a_frame_opens_with_its_head_and_leads_to_the_others(page: Any, analysis: Result) -> None:
    page.set_content(attnlab.show(analysis, head="encoder.0.1", sentence=1)._repr_html_())
    frame = page.frame_locator("iframe")
    name = frame.locator("#head-name")
    name.filter(has_text="encoder.0.1").wait_for()
    frame.locator("#lines .token").first.wait_for()
    assert frame.locator("#sentence").input_value() == "1"
    frame.locator("#next-head").click()
    name.filter(has_text="encoder.0.2").wait_for()
    frame.locator("#back").click()
    frame.locator("#grid a.thumb[data-head='encoder.0.0']").click()
    name.filter(has_text="encoder.0.0").wait_for()
    assert page.url == "about:blank"


def test_without_a_head_the_frame_opens_with_all(page: Any, analysis: Result) -> None:
    shown = attnlab.show(analysis)
    page.set_content(shown._repr_html_())
    page.frame_locator("iframe").locator("#grid a.thumb").first.wait_for()
    assert not page.frame_locator("iframe").locator("#head-name").is_visible()
    assert repr(shown).startswith("HeadViewer(all heads, ")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"head": "encoder.9.9"},
            "There is no head encoder.9.9; choose from encoder.0.0 to encoder.1.2.",
        ),
        ({"sentence": 77}, "The matrices of sentence 77 were not kept; choose from: 0"),
    ],
)
def test_what_is_not_there_is_named(analysis: Result, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attnlab.show(analysis, **asked)
