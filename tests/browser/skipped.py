"""What is said of tests in a browser that were skipped."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def skipped_browser_tests(skipped: Iterable[Any]) -> list[str]:
    """A line per reason for which tests of the page were skipped.

    Args:
        skipped: reports of all skipped tests.
    """
    of_page = [one for one in skipped if "browser" in Path(one.nodeid).parts]
    reasons = Counter(str(one.longrepr[-1]).removeprefix("Skipped: ") for one in of_page)
    return [
        f"The report page was not tried in a browser: {count} tests skipped ({reason})"
        for reason, count in reasons.items()
    ]
