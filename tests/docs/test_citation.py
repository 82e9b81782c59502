"""The citation names the version that is cited."""

from pathlib import Path

import attnlab

ROOT = Path(__file__).resolve().parents[2]


def test_citation_names_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {attnlab.__version__}" in lines
