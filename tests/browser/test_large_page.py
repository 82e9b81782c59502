"""144 heads of 512 tokens: small enough to send, and no more work per head than tokens ask for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import until
from browser.large_page import write_large_page

Opened = Callable[..., Any]
# Counts nodes that are added or taken away and attributes that are set, while an action runs.
COUNTED = """async ([address, selector]) => {
  let count = 0;
  const size = one => one.type === 'attributes' ? 1 : one.addedNodes.length + one.removedNodes.length;
  const observer = new MutationObserver(records => {
    for (const one of records) count += size(one);
  });
  observer.observe(document.querySelector(selector), {subtree: true, childList: true, attributes: true});
  const name = address.match(/head=([^&]*)/)[1];
  location.hash = address;
  const shown = () => document.querySelector('#matrix').getAttribute('aria-label').includes(`${name},`);
  while (!shown()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  observer.disconnect();
  return count;
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("large")
    return {tokens: write_large_page(folder / f"{tokens}.html", tokens) for tokens in (96, 512)}


def first_head(open_page: Opened, path: Path) -> Any:
    # Without lines, which are as many as there are large weights.
    page = open_page("#head=encoder.0.0&sentence=0&lines=1", path)
    until(page, "document.querySelectorAll('#lines .token').length > 0")
    return page


@pytest.mark.slow
def test_all_heads_of_a_long_sentence_are_within_8_megabytes(pages: dict[int, Path]) -> None:
    assert pages[512].stat().st_size <= 8_000_000
    assert "only the largest weight of every" not in pages[512].read_text(encoding="utf-8")


@pytest.mark.slow
def test_another_head_leaves_the_tokens_and_changes_as_much_as_in_a_short_sentence(
    open_page: Opened, pages: dict[int, Path]
) -> None:
    counts = {}
    for tokens, path in pages.items():
        page = first_head(open_page, path)
        for selector in (".tokens", "body"):
            head = "encoder.0.1" if selector == "body" else "encoder.1.0"
            address = f"#head={head}&sentence=0&lines=1"
            counts[tokens, selector] = page.evaluate(COUNTED, [address, selector])
    assert counts[512, ".tokens"] == counts[96, ".tokens"] == 0
    assert 0 < counts[512, "body"] <= 1.5 * counts[96, "body"]
