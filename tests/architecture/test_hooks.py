"""What runs before a commit is what CI runs."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_hooks_before_a_commit_are_the_commands_of_make_lint() -> None:
    (lint,) = re.findall(
        r"^lint: install\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    commands = [line.strip().replace("$(RUN)", ".venv/bin/") for line in lint.splitlines()]
    hooks = re.findall(
        r"^ +entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE
    )
    assert hooks == commands
