"""Output of commands: JSON as its standard has it, and a study that is run once for several outputs."""

import json
from collections.abc import Callable
from typing import Any

import pytest


def read_json(text: str) -> dict[str, Any]:
    """One object; a constant that is no JSON fails the test."""
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def run_once(study: Callable[..., Any]) -> Callable[..., Any]:
    """The study, which gives what it found first whatever it is asked later."""
    kept: list[Any] = []

    def run(*source: Any, **settings: Any) -> Any:
        if not kept:
            kept.append(study(*source, **settings))
        return kept[0]

    return run
