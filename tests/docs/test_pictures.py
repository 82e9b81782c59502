"""Pictures of the documentation are what their scripts draw."""

import runpy
from pathlib import Path

from attnlab.figures import svg

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_families_are_drawn_by_their_script() -> None:
    script = runpy.run_path(str(DOCS / "sigma_picture.py"))
    assert script["OUT"].read_text(encoding="utf-8").endswith(svg(script["draw"](), "sigma"))
