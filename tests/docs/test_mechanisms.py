"""What `docs/attention.md` says of the forms of a mechanism is what its traits say."""

import re
from pathlib import Path

import pytest

from attnlab.attention.registry import mechanisms

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attention.md").read_text(encoding="utf-8")
# By name what the page says of a mechanism: from its name in bold to the next one.
PARTS = dict(re.findall(r"\*\*(\w+)(?:\(.*?\))?\*\*(.*?)(?=\*\*|\n## )", PAGE, flags=re.DOTALL))


@pytest.mark.parametrize("name", sorted({*mechanisms()} - {"full"}))
def test_the_page_says_which_mechanisms_have_no_causal_form_and_none_between_sentences(
    name: str,
) -> None:
    traits, said = mechanisms()[name].traits, " ".join(PARTS[name].split())
    assert ("No causal form" in said) is not traits.causal
    assert bool(re.search("[Nn]ot between two sentences", said)) is not traits.cross
