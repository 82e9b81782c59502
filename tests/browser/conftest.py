"""A browser for the report page: Debian's chromium, driven by Playwright, without a network."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser.planted_page import SCRIPT_ALERT, WORDS, planted_analysis

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def until(page: Any, condition: str, seconds: float = 15.0) -> None:
    """Waits until an expression is true in the page.

    `Page.wait_for_function` evaluates text inside the page, which the page's own policy refuses as soon
    as the condition is not met at once.
    """
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install -e '.[dev]'"
    )
    with playwright.sync_playwright() as started:
        # Chromium's sandbox refuses to run as root, as containers do.
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of planted matrices, with hostile words wherever words come from data."""
    folder = tmp_path_factory.mktemp("report")
    found = replace(planted_analysis(), title=f"Heads of {SCRIPT_ALERT}")
    return found.save(folder) / "report.html"


@pytest.fixture(scope="session")
def causal_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a decoder; its second sentence is shown as block maxima."""
    folder = tmp_path_factory.mktemp("causal")
    analysis = planted_analysis((WORDS, ["w"] * 260), "decoder")
    return analysis.save(folder) / "report.html"


@pytest.fixture
def open_page(browser: Any, report: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page at an address; fails at the end on any error, message or request."""
    contexts, troubles = [], []

    def opened(address: str = "", path: Path = report, **settings: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on(
            "request",
            lambda request: troubles.append(request.url) if _leaves(request.url) else None,
        )
        page.goto(path.as_uri() + address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def _leaves(address: str) -> bool:
    """Whether a request goes anywhere but to the page itself or to what it made."""
    return not address.startswith(("file:", "data:", "blob:"))
