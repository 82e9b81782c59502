"""Where there is no browser, the end of a test run says so."""

from types import SimpleNamespace

from browser.skipped import skipped_browser_tests


def test_skipped_browser_tests_are_told_with_their_reason() -> None:
    reason = ("conftest.py", 20, "Skipped: no chromium on this machine")
    report = SimpleNamespace(nodeid="tests/browser/test_viewer.py::test_x", longrepr=reason)
    other = SimpleNamespace(nodeid="tests/test_files.py::test_y", longrepr=("", 1, "Skipped: no"))
    assert skipped_browser_tests([report, report, other]) == [
        "The report page was not tried in a browser: 2 tests skipped (no chromium on this machine)"
    ]
    assert skipped_browser_tests([other]) == []
