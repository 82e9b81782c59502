"""What the torture tried, told at the end of the session."""

from collections import Counter
from typing import Any

import pytest

TRIED: Counter[str] = Counter()


@pytest.fixture(scope="session")
def tried() -> Counter[str]:
    """How often each kind of harm was done, and how often something was lost."""
    return TRIED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line such as `torture: 200 kills, 40 full disks, 9 pairs of processes, 0 lost`."""
    if TRIED:
        told = ", ".join(f"{count:,} {what}" for what, count in TRIED.items() if what != "lost")
        terminalreporter.write_line(f"torture: {told}; {TRIED['lost']} lost")
